//! Shaders compiled, once per text.

use super::errors::{Fate, Gate};
use crate::codegen::Source;
use crate::error::{Error, ErrorKind};
use crate::kernel::Limits;
use std::borrow::Cow;
use std::collections::HashMap;
use std::sync::Arc;

/// The bindings of all kernels with as many inputs and outputs.
pub(super) struct Layout {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) bindings: wgpu::BindGroupLayout,
    pipelines: wgpu::PipelineLayout,
}

/// A compiled kernel, or the reason why there is none.
pub(super) struct Pipeline {
    pub(super) layout: Arc<Layout>,
    /// None where it was not even tried.
    pub(super) compiled: Option<wgpu::ComputePipeline>,
    pub(super) fate: Fate,
}

/// The kernels with as many inputs and outputs, by text.
struct Family {
    layout: Arc<Layout>,
    pipelines: HashMap<String, Arc<Pipeline>>,
}

/// All pipelines of a device.
#[derive(Default)]
pub(super) struct Pipelines {
    families: HashMap<(usize, usize), Family>,
    /// How many were ever compiled.
    pub(super) made: u64,
}

impl Pipelines {
    /// The pipeline of a text. `kind` and `label` say in errors what it is.
    pub(super) fn get(
        &mut self,
        gate: &Gate,
        limits: &Limits,
        source: &Source,
        (inputs, outputs): (usize, usize),
        (kind, label): (&str, &str),
    ) -> Arc<Pipeline> {
        let family = self.families.entry((inputs, outputs)).or_insert_with(|| Family {
            layout: Arc::new(layout(&gate.device, inputs, outputs)),
            pipelines: HashMap::new(),
        });
        if let Some(found) = family.pipelines.get(&source.text) {
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
            let (pipeline, _) = gate
                .watch(&what, Some(&fate), || compile(&gate.device, &family.layout, source, kind));
            self.made += 1;
            compiled = Some(pipeline);
        }
        let made = Arc::new(Pipeline { layout: family.layout.clone(), compiled, fate });
        family.pipelines.insert(source.text.clone(), made.clone());
        made
    }
}

fn compile(
    device: &wgpu::Device,
    layout: &Layout,
    source: &Source,
    kind: &str,
) -> wgpu::ComputePipeline {
    let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
        label: Some(kind),
        source: wgpu::ShaderSource::Wgsl(Cow::Borrowed(&source.text)),
    });
    device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
        label: Some(kind),
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
