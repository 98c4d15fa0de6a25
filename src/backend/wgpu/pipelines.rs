//! The pipeline cache. Each shader text is compiled once.

use super::dynamic_shapes::Shapes;
use super::pipeline::{Layout, Pipeline, Recipe};
use super::platform::Gpu;
use crate::backend::{Compiling, Listener};
use crate::kernel::Limits;
use crate::lru::Lru;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::Arc;

/// The key of a pipeline: its text, and the numbers of inputs and outputs.
type Key = (Arc<str>, (usize, usize));

/// The pipelines of a device.
#[derive(Default)]
pub(super) struct Pipelines {
    pub(super) all: Lru<Key, Arc<Pipeline>>,
    /// The bind group layouts, by the numbers of inputs and outputs.
    layouts: FxHashMap<(usize, usize), Arc<Layout>>,
    /// Statistics of the sizes of compiled batches.
    pub(super) shapes: Shapes,
    /// The number of pipelines compiled so far.
    pub(super) made: u64,
    /// The listener for compiled kernels.
    pub(super) listener: Option<Listener>,
}

impl Pipelines {
    /// Returns the pipelines for these recipes. Missing ones are compiled once each, and in parallel if the platform can.
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
                gpu.on_outcomes_known(move || progress.one_more());
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

/// Reports to a listener how many kernels of a batch are compiled.
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
