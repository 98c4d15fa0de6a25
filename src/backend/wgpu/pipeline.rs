//! Pipelines: compiled shaders, their bindings, and their inputs.

use super::deferred::DeferredResult;
use super::platform::Gpu;
use crate::codegen::Source;
use crate::error::{Error, ErrorKind};
use crate::kernel::Limits;
use crate::span::span;
use std::borrow::Cow;
use std::sync::Arc;

/// A compiled kernel, or the reason why there is none.
pub(super) struct Pipeline {
    /// `None` if compilation was not attempted.
    pub(super) compiled: Option<Compiled>,
    pub(super) deferred: DeferredResult,
}

pub(super) struct Compiled {
    pub(super) layout: Arc<Layout>,
    pub(super) pipeline: wgpu::ComputePipeline,
}

/// The bind group layout of all kernels with these numbers of inputs and outputs.
pub(super) struct Layout {
    pub(super) inputs: usize,
    pub(super) outputs: usize,
    pub(super) bindings: wgpu::BindGroupLayout,
    pipelines: wgpu::PipelineLayout,
}

/// The input for compiling a pipeline.
pub(super) struct Recipe<'a> {
    pub(super) source: Cow<'a, Source>,
    /// The numbers of inputs and outputs.
    pub(super) arity: (usize, usize),
    /// The kind and the label of the kernel, for errors.
    pub(super) labels: (&'a str, &'a str),
}

impl Recipe<'_> {
    pub(super) fn compile(&self, gpu: &Gpu, limits: &Limits, layout: &Arc<Layout>) -> Pipeline {
        let ((kind, label), deferred) = (self.labels, DeferredResult::default());
        span!("compile", kernel = label);
        if let Some(missing) = self.source.features.missing(limits) {
            let message =
                format!("{kind}: the device must have {missing} for `{label}`, got one without it");
            deferred.resolve(Some(Error::new(ErrorKind::Unsupported, message)));
            return Pipeline { compiled: None, deferred };
        }
        let device = &gpu.device;
        let context = format!("{kind}: the device rejects the kernel `{label}`");
        let (pipeline, _) = gpu.watch(context, Some(&deferred), || {
            let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
                label: Some(kind),
                source: wgpu::ShaderSource::Wgsl(Cow::Borrowed(&self.source.text)),
            });
            device.create_compute_pipeline(&wgpu::ComputePipelineDescriptor {
                label: Some(kind),
                layout: Some(&layout.pipelines),
                module: &module,
                entry_point: Some("main"),
                compilation_options: wgpu::PipelineCompilationOptions {
                    // Generated kernels write workgroup memory before they read it, but custom shaders may not.
                    zero_initialize_workgroup_memory: !self.source.head,
                    ..Default::default()
                },
                cache: None,
            })
        });
        Pipeline { compiled: Some(Compiled { layout: layout.clone(), pipeline }), deferred }
    }
}

impl Layout {
    pub(super) fn new(device: &wgpu::Device, (inputs, outputs): (usize, usize)) -> Layout {
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
