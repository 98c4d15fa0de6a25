//! Shaders compiled, once per text.

use super::doubts::Fate;
use super::platform::Gpu;
use super::shapes::Shapes;
use crate::codegen::Source;
use crate::error::{Error, ErrorKind};
use crate::kernel::Limits;
use crate::lru::Lru;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::sync::Arc;

/// A compiled kernel, or the reason why there is none.
pub(super) struct Pipeline {
    /// None where it was not even tried.
    pub(super) compiled: Option<Compiled>,
    pub(super) fate: Fate,
}

pub(super) struct Compiled {
    pub(super) layout: Arc<Layout>,
    pub(super) pipeline: wgpu::ComputePipeline,
}

/// The bindings of all kernels with as many inputs and outputs.
pub(super) struct Layout {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) bindings: wgpu::BindGroupLayout,
    pipelines: wgpu::PipelineLayout,
}

/// What a pipeline is known by: its text, and the numbers of inputs and outputs.
type Key = (Arc<str>, (usize, usize));

/// All pipelines of a device.
#[derive(Default)]
pub(super) struct Pipelines {
    pub(super) all: Lru<Key, Arc<Pipeline>>,
    /// By the numbers of inputs and outputs.
    layouts: FxHashMap<(usize, usize), Arc<Layout>>,
    /// The sizes of what was compiled.
    pub(super) shapes: Shapes,
    /// How many were ever compiled.
    pub(super) made: u64,
}

impl Pipelines {
    /// The pipeline of a text with these numbers of inputs and outputs. `kind` and `label` say in
    /// errors what it is.
    pub(super) fn get(
        &mut self,
        gpu: &Gpu,
        limits: &Limits,
        source: &Source,
        arity: (usize, usize),
        (kind, label): (&str, &str),
    ) -> Arc<Pipeline> {
        let key: Key = (source.text.as_str().into(), arity);
        if let Some(found) = self.all.get(&key) {
            return found.clone();
        }
        let fate = Fate::default();
        let mut compiled = None;
        if source.f16 && !limits.f16 {
            let message =
                format!("{kind}: the kernel `{label}` needs f16, which this device lacks");
            fate.settle(Some(Error::new(ErrorKind::Unsupported, message)));
        } else {
            let what = format!("{kind}: the device refuses the kernel `{label}`");
            compiled = Some(self.compile(gpu, &source.text, arity, kind, what, &fate));
            self.made += 1;
        }
        let made = Arc::new(Pipeline { compiled, fate });
        self.all.insert(key, made.clone(), 0);
        made
    }

    fn compile(
        &mut self,
        gpu: &Gpu,
        text: &str,
        arity: (usize, usize),
        label: &str,
        what: String,
        fate: &Fate,
    ) -> Compiled {
        let device = &gpu.device;
        let layout = self.layouts.entry(arity);
        let layout = layout.or_insert_with(|| Arc::new(Layout::new(device, arity))).clone();
        let (pipeline, _) = gpu.watch(what, Some(fate), || {
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
}

impl Layout {
    fn new(device: &wgpu::Device, (inputs, outputs): (usize, usize)) -> Layout {
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
}

/// A number of workgroups as two dimensions of at most `limit` each, with less than one row too
/// many. None where two do not suffice.
pub fn fold(workgroups: u64, limit: u32) -> Option<(u32, u32)> {
    let limit = u64::from(limit.max(1));
    let rows = workgroups.div_ceil(limit).max(1);
    if rows > limit {
        return None;
    }
    Some((workgroups.div_ceil(rows) as u32, rows as u32))
}
