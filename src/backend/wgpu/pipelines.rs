//! Shaders compiled, once per text.

use super::deferred::DeferredResult;
use super::platform::Gpu;
use super::shapes::Shapes;
use crate::backend::{Compiling, Listener};
use crate::codegen::Source;
use crate::error::{Error, ErrorKind};
use crate::kernel::Limits;
use crate::lru::Lru;
use crate::span::span;
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// A compiled kernel, or the reason why there is none.
pub(super) struct Pipeline {
    /// None where it was not even tried.
    pub(super) compiled: Option<Compiled>,
    pub(super) deferred: DeferredResult,
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
    /// Hears of those that are.
    pub(super) listener: Option<Listener>,
}

/// What a pipeline is made of.
pub(super) struct Recipe<'a> {
    pub(super) source: Cow<'a, Source>,
    /// The numbers of inputs and outputs.
    pub(super) arity: (usize, usize),
    /// What it is, for errors.
    pub(super) labels: (&'a str, &'a str),
}

impl Pipelines {
    /// The pipelines of these. Those that are missing are compiled side by side where the platform can, each once.
    pub(super) fn get_all(
        &mut self,
        gpu: &Arc<Gpu>,
        limits: &Limits,
        recipes: &[Recipe<'_>],
    ) -> Vec<Arc<Pipeline>> {
        let key =
            |recipe: &Recipe<'_>| -> Key { (recipe.source.text.as_str().into(), recipe.arity) };
        let keys: Vec<Key> = recipes.iter().map(key).collect();
        let mut first = FxHashSet::default();
        let mut missing: Vec<usize> = (0..keys.len()).collect();
        missing.retain(|&n| !self.all.contains(&keys[n]) && first.insert(&keys[n]));
        for &n in &missing {
            let layout = self.layouts.entry(keys[n].1);
            layout.or_insert_with(|| Arc::new(Layout::new(&gpu.device, keys[n].1)));
        }
        let (layouts, total) = (&self.layouts, missing.len());
        let listener = self.listener.clone();
        let progress = listener.map(|listener| Progress { listener, done: Arc::default(), total });
        let made = gpu.side_by_side(total, |n| {
            let recipe = &recipes[missing[n]];
            let made = recipe.compile(gpu, limits, &layouts[&recipe.arity]);
            if let Some(progress) = progress.clone() {
                gpu.when_heard(move || progress.one_more());
            }
            Arc::new(made)
        });
        for (n, pipeline) in missing.into_iter().zip(made) {
            self.made += u64::from(pipeline.compiled.is_some());
            self.all.insert(keys[n].clone(), pipeline, 0);
        }
        let found = keys.iter().map(|key| match self.all.get(key) {
            Some(found) => found.clone(),
            None => unreachable!("it was compiled"),
        });
        found.collect()
    }
}

impl Recipe<'_> {
    fn compile(&self, gpu: &Gpu, limits: &Limits, layout: &Arc<Layout>) -> Pipeline {
        let ((kind, label), deferred) = (self.labels, DeferredResult::default());
        span!("compile", kernel = label);
        if let Some(missing) = self.source.features.missing(limits) {
            let message =
                format!("{kind}: the kernel `{label}` needs {missing}, which this device lacks");
            deferred.settle(Some(Error::new(ErrorKind::Unsupported, message)));
            return Pipeline { compiled: None, deferred };
        }
        let device = &gpu.device;
        let what = format!("{kind}: the device refuses the kernel `{label}`");
        let (pipeline, _) = gpu.watch(what, Some(&deferred), || {
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
                    // Kernels write workgroup memory before they read it; users' need not.
                    zero_initialize_workgroup_memory: !self.source.head,
                    ..Default::default()
                },
                cache: None,
            })
        });
        Pipeline { compiled: Some(Compiled { layout: layout.clone(), pipeline }), deferred }
    }
}

/// Tells a listener how many of a batch's kernels are compiled.
#[derive(Clone)]
struct Progress {
    listener: Listener,
    done: Arc<AtomicUsize>,
    total: usize,
}

impl Progress {
    fn one_more(&self) {
        let done = self.done.fetch_add(1, Ordering::Relaxed) + 1;
        (self.listener)(Compiling { done, total: self.total });
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
