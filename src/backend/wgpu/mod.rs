//! GPUs through wgpu: Vulkan, Metal and DX12.

mod adapters;
mod errors;
mod groups;
mod matrices;
mod staging;
mod transfer;
mod waiting;

pub use super::gpu::{fold, Choice, Power};
pub use adapters::{adapters, is_available, open, Adapter};

use super::gpu::{lock, Fate, GpuBackend, Ledger, Machine, Run, Step, Usage};
use super::Pending;
use crate::error::Result;
use errors::Gate;
use groups::Groups;
use std::borrow::Cow;
use std::collections::HashMap;
use std::future::poll_fn;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use transfer::Transfer;
use waiting::Ticket;

/// An open GPU.
pub type WgpuBackend = GpuBackend<Wgpu>;

/// wgpu's side of an open GPU.
pub struct Wgpu {
    gate: Arc<Gate>,
    queue: wgpu::Queue,
    transfer: Transfer,
    groups: Mutex<Groups>,
    /// By the numbers of inputs and outputs.
    layouts: Mutex<HashMap<(usize, usize), Arc<Layout>>>,
}

/// A buffer with its number.
#[derive(Clone)]
pub struct Numbered {
    number: u64,
    buffer: wgpu::Buffer,
}

/// The bindings of all kernels with as many inputs and outputs.
struct Layout {
    inputs: usize,
    outputs: usize,
    bindings: wgpu::BindGroupLayout,
    pipelines: wgpu::PipelineLayout,
}

/// A compiled kernel.
pub struct Compiled {
    layout: Arc<Layout>,
    pipeline: wgpu::ComputePipeline,
}

impl Wgpu {
    fn new(gate: Gate, queue: wgpu::Queue) -> Result<Wgpu> {
        let gate = Arc::new(gate);
        waiting::start(gate.clone(), queue.clone())?;
        let (transfer, groups, layouts) = Default::default();
        Ok(Wgpu { gate, queue, transfer, groups, layouts })
    }

    /// Records all kernels into one compute pass.
    fn commands(&self, run: &Run<'_, Wgpu>) -> wgpu::CommandBuffer {
        let mut groups = lock(&self.groups);
        let mut encoder = self.gate.device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_compute_pass(&Default::default());
            for step in run.recorded {
                let (Some((x, y)), Some(compiled)) = (step.grid, &step.pipeline.compiled) else {
                    continue;
                };
                let slots = step.slots.iter().map(|&(slot, bytes)| (run.slots[slot], bytes));
                let bound = std::iter::once((run.uniform, step.block)).chain(slots);
                let group = groups.get(&self.gate, &compiled.layout, bound);
                pass.set_pipeline(&compiled.pipeline);
                pass.set_bind_group(0, &group, &[step.offset]);
                pass.dispatch_workgroups(x, y, 1);
            }
        }
        groups.tick();
        encoder.finish()
    }
}

impl Machine for Wgpu {
    type Buffer = Numbered;
    type Pipeline = Compiled;
    type Recorded = Vec<Step<Compiled>>;

    fn ledger(&self) -> &Ledger {
        &self.gate.ledger
    }

    fn create(&self, number: u64, usage: Usage, bytes: u64, fate: &Fate) -> Result<Numbered> {
        use wgpu::BufferUsages as Uses;
        let (operation, uses) = match usage {
            Usage::Storage => ("allocate", Uses::STORAGE | Uses::COPY_SRC | Uses::COPY_DST),
            Usage::Uniform => ("run", Uses::UNIFORM | Uses::COPY_DST),
        };
        let buffer = create(&self.gate, operation, (bytes, uses), false, Some(fate))?;
        Ok(Numbered { number, buffer })
    }

    fn discard(&self, buffer: &Numbered) {
        // Dropping it is enough, and `destroy` would wait for the thread that polls.
        lock(&self.groups).forget(buffer.number);
    }

    fn compile(
        &self,
        text: &str,
        (inputs, outputs): (usize, usize),
        label: &str,
        what: String,
        fate: &Fate,
    ) -> Compiled {
        let device = &self.gate.device;
        let layout = {
            let mut layouts = lock(&self.layouts);
            let found = layouts.entry((inputs, outputs));
            found.or_insert_with(|| Arc::new(layout(device, inputs, outputs))).clone()
        };
        let (pipeline, _) = self.gate.watch(&what, Some(fate), || {
            let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some(label),
                source: wgpu::ShaderSource::Wgsl(Cow::Borrowed(text)),
            });
            device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(label),
                layout: Some(&layout.pipelines),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    // Kernels write workgroup memory before they read it.
                    zero_initialize_workgroup_memory: false,
                    ..Default::default()
                },
                cache: None,
            })
        });
        Compiled { layout, pipeline }
    }

    fn record(&self, steps: Vec<Step<Compiled>>) -> Vec<Step<Compiled>> {
        steps
    }

    fn forget(&self, _: &Vec<Step<Compiled>>) {}

    fn submit(&self, run: Run<'_, Wgpu>) {
        if !run.params.is_empty() {
            self.queue.write_buffer(&run.uniform.buffer, 0, run.params);
        }
        self.gate.watch_for_read("run", run.fate, || self.queue.submit([self.commands(&run)]));
        self.transfer.submitted();
    }

    fn write(&self, buffer: &Numbered, offset: u64, data: &[u8]) -> Result<()> {
        self.transfer.upload(&self.gate, &self.queue, &buffer.buffer, offset, data)
    }

    fn read(&self, buffer: &Numbered, range: Range<u64>) -> Result<Pending<Option<Vec<u8>>>> {
        self.transfer.read(&self.gate, &self.queue, &buffer.buffer, range)
    }

    fn done(&self) -> Pending<()> {
        let ticket = Ticket::new(None);
        let done = ticket.clone();
        self.queue.on_submitted_work_done(move || done.settle(true));
        self.transfer.submitted();
        self.gate.tickets.open(&ticket);
        Box::pin(async move {
            poll_fn(|context| ticket.poll(context)).await;
        })
    }

    fn bind_groups(&self) -> u64 {
        lock(&self.groups).made
    }

    fn destroy(&self) {
        self.gate.device.destroy();
        self.gate.tickets.lose();
    }

    fn close(&self) {
        self.gate.tickets.close();
    }
}

fn layout(device: &wgpu::Device, inputs: usize, outputs: usize) -> Layout {
    let entry = |binding: usize, ty, has_dynamic_offset| wgpu::BindGroupLayoutEntry {
        binding: binding as u32,
        visibility: wgpu::ShaderStages::COMPUTE,
        ty: wgpu::BindingType::Buffer { ty, has_dynamic_offset, min_binding_size: None },
        count: None,
    };
    let mut entries = vec![entry(0, wgpu::BufferBindingType::Uniform, true)];
    for i in 0..inputs + outputs {
        let read_only = i < inputs;
        entries.push(entry(i + 1, wgpu::BufferBindingType::Storage { read_only }, false));
    }
    let bindings = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
        label: None,
        entries: &entries,
    });
    let pipelines = device.create_pipeline_layout(&wgpu::PipelineLayoutDescriptor {
        label: None,
        bind_group_layouts: &[Some(&bindings)],
        immediate_size: 0,
    });
    Layout { inputs, outputs, bindings, pipelines }
}

/// Makes a buffer.
fn create(
    gate: &Gate,
    operation: &str,
    (size, usage): (u64, wgpu::BufferUsages),
    mapped_at_creation: bool,
    fate: Option<&Fate>,
) -> Result<wgpu::Buffer> {
    let (buffer, error) = gate.watch(&format!("{operation}: {size} bytes"), fate, || {
        gate.device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size,
            usage,
            mapped_at_creation,
        })
    });
    match error {
        Some(error) => Err(error),
        None => Ok(buffer),
    }
}
