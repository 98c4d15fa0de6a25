//! Runs prepared loop kernels. Blocks of values pass through registers, and tasks are distributed over threads.

use super::inputs::Inputs;
use super::memory::zeroed;
use super::output::{copy_to_output, too_short, Outputs, Part, Piece};
use super::parallel;
use super::reduce::{Accumulators, Rectangle};
use super::worker::{Block, Worker};
use crate::backend::cpu::lower::plan::{Body, LoopPlan, Register, Stage, Step};
use crate::backend::cpu::lower::tiling::cut;
use crate::backend::cpu::lower::walk::Walk;
use crate::error::Result;
use crate::schedule::Traversal;
use std::sync::Mutex;

impl LoopPlan {
    /// Runs the kernel. Each output is borrowed by the store that writes it.
    pub fn run(&self, inputs: &Inputs<'_>, buffers: &mut [&mut [u32]]) -> Result<()> {
        self.run_placed(inputs, &mut self.placed(inputs, buffers)?)
    }

    /// Returns the outputs, each from its origin on.
    pub fn placed<'b>(
        &self,
        inputs: &Inputs<'_>,
        buffers: &'b mut [&mut [u32]],
    ) -> Result<Vec<&'b mut [u32]>> {
        let mut placed: Vec<&mut [u32]> = buffers.iter_mut().map(|buffer| &mut **buffer).collect();
        for origin in &self.origins {
            let start = usize::try_from(inputs.moved(&origin.moves));
            let whole = std::mem::take(&mut placed[origin.output]);
            let rest = start.ok().and_then(|start| whole.get_mut(start..));
            placed[origin.output] = rest.ok_or_else(too_short)?;
        }
        Ok(placed)
    }

    /// Runs the kernel on [`placed`](LoopPlan::placed) outputs.
    pub fn run_placed(&self, inputs: &Inputs<'_>, buffers: &mut [&mut [u32]]) -> Result<()> {
        let tiling = &self.tiling;
        let mut aside = Vec::new();
        for target in self.targets.iter().filter(|target| target.output.is_none()) {
            aside.push(zeroed(target.walks.iter().map(Walk::count).sum())?);
        }
        if tiling.rows > 0 {
            let mut places = buffers.iter_mut().map(|b| Some(&mut **b)).collect::<Vec<_>>();
            let mut outputs = Outputs::new(&self.targets, &mut places, &mut aside)?;
            let pool = WorkerPool::new(self, inputs);
            match (&self.body, tiling.by_columns) {
                (Body::Staged { first, stages, last }, true) => {
                    pool.by_columns(&mut outputs, first, stages, last);
                }
                _ => pool.by_rows(&mut outputs),
            }
        }
        let number = |target: usize| {
            self.targets[..target].iter().filter(|target| target.output.is_none()).count()
        };
        for after in &self.afters {
            let positions = after.positions.map(|target| &aside[number(target)][..]);
            let values = &aside[number(after.values)];
            copy_to_output(after, buffers[after.output], values, positions)?;
        }
        Ok(())
    }
}

/// The workers of a run. A worker that has finished a task waits here for the next one.
pub struct WorkerPool<'r> {
    plan: &'r LoopPlan,
    inputs: &'r Inputs<'r>,
    uniforms: Vec<(Register, u32)>,
    idle: Mutex<Vec<Worker<'r>>>,
}

impl<'r> WorkerPool<'r> {
    /// Creates the workers of a run with these inputs.
    pub fn new(plan: &'r LoopPlan, inputs: &'r Inputs<'r>) -> WorkerPool<'r> {
        let mut uniforms = Vec::new();
        if !plan.uniforms.is_empty() {
            let mut worker = Worker::new(plan, inputs, 1);
            let shape = Rectangle { layout: Traversal::RowMajor, rows: 1, columns: 1 };
            let block = Block { row: 0, element: 0, elements: 1, shape };
            worker.steps(&plan.uniform, &block, &mut []);
            uniforms.extend(plan.uniforms.iter().map(|&r| (r, worker.get(r, 1)[0])));
        }
        WorkerPool { plan, inputs, uniforms, idle: Mutex::new(Vec::new()) }
    }

    /// Computes values of a map that writes values in order, from `first` on, until `out` is full.
    pub fn part(&self, first: usize, out: &mut [u32]) {
        let count = out.len();
        let mut pieces = [Piece::words(out, first)];
        self.with(|worker| {
            for (from, past) in cut(count, self.plan.tiling.row_block) {
                worker.rows((first + from, first + past), &mut pieces);
            }
        });
    }

    fn with<T>(&self, work: impl FnOnce(&mut Worker<'r>) -> T) -> T {
        let idle = || self.idle.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
        let waiting = idle().pop();
        let mut worker = waiting.unwrap_or_else(|| {
            let mut worker = Worker::new(self.plan, self.inputs, self.plan.width);
            for &(register, word) in &self.uniforms {
                worker.fill(register, self.plan.width, |out| out.fill(word));
            }
            worker
        });
        let result = work(&mut worker);
        idle().push(worker);
        result
    }

    /// Runs tasks with separate rows.
    fn by_rows(&self, outputs: &mut Outputs<'_, '_>) {
        let tiling = &self.plan.tiling;
        let ranges = cut(tiling.rows, tiling.task);
        let part = |&rows: &(usize, usize)| Part {
            rows,
            elements: tiling.span(rows, (0, tiling.columns)),
        };
        let parts: Vec<Part> = ranges.iter().map(part).collect();
        let tasks = ranges.into_iter().zip(outputs.divide(&parts)).collect();
        parallel::for_each(tasks, |(rows, mut pieces): ((usize, usize), Vec<Piece<'_>>)| {
            self.with(|worker| {
                for (first, past) in cut(rows.1 - rows.0, tiling.row_block) {
                    worker.rows((rows.0 + first, rows.0 + past), &mut pieces);
                }
            });
        });
    }

    /// Runs one block of rows after the other. Tasks have separate columns.
    fn by_columns(
        &self,
        outputs: &mut Outputs<'_, '_>,
        first: &[Step],
        stages: &[Stage],
        last: &[Step],
    ) {
        let tiling = &self.plan.tiling;
        let tasks = cut(tiling.columns, tiling.task);
        for rows in cut(tiling.rows, tiling.row_block) {
            let part = |&columns: &(usize, usize)| Part {
                rows: (0, 0),
                elements: tiling.span(rows, columns),
            };
            let parts: Vec<Part> = tasks.iter().map(part).collect();
            let block = Block::new(tiling, rows, (0, 0));
            let shared = self.with(|leader| {
                let whole = Part { rows, elements: (0, 0) };
                let mut pieces = outputs.divide(&[whole]).pop().unwrap_or_default();
                leader.steps(first, &block, &mut pieces);
                for stage in stages {
                    let sums = self.sums(stage, &leader.share(), rows, &tasks);
                    leader.finish(&stage.combines, &sums, &block);
                    leader.steps(&stage.rows, &block, &mut pieces);
                }
                leader.share()
            });
            if last.is_empty() {
                continue;
            }
            let jobs = tasks.iter().copied().zip(outputs.divide(&parts)).collect();
            parallel::for_each(jobs, |(columns, mut pieces): ((usize, usize), Vec<Piece<'_>>)| {
                self.with(|worker| {
                    worker.adopt(&shared);
                    worker.columns(last, rows, columns, &mut pieces);
                });
            });
        }
    }

    /// Computes a stage's reductions for a block of rows. The results of the tasks' columns are merged in order.
    fn sums(
        &self,
        stage: &Stage,
        shared: &[(Register, Vec<u32>)],
        rows: (usize, usize),
        tasks: &[(usize, usize)],
    ) -> Vec<Accumulators> {
        let partial = parallel::map(tasks.to_vec(), |columns| {
            self.with(|worker| {
                worker.adopt(shared);
                worker.combine(stage, rows, columns)
            })
        });
        let mut partial = partial.into_iter();
        let mut all = partial.next().unwrap_or_default();
        for later in partial {
            for (sum, later) in all.iter_mut().zip(&later) {
                sum.merge(later);
            }
        }
        all
    }
}
