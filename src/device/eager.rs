//! Eager mode: each operation runs as soon as it is recorded, for debugging.

use super::state::State;
use super::Device;
use crate::error::Result;
use crate::graph::NodeId;
use std::sync::MutexGuard;

impl Device {
    /// Sets whether each operation runs separately as soon as it is recorded. Eager mode helps to find errors in a program.
    /// Values and gradients are the same as without it. But results of operations stay in memory, and every operation has
    /// separate kernels and a separate submission. Operations on the inputs of a program that is being compiled are still only
    /// recorded.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// device.run_eagerly(true);
    /// let x = device.tensor(&[1.0f32, -2.0], &[2])?;
    /// let y = x.relu().add(1.0)?;
    /// assert_eq!(device.stats().submits, 2);
    /// assert_eq!(y.read::<f32>().await?, [2.0, 1.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn run_eagerly(&self, whether: bool) {
        self.state().eager = whether;
    }

    /// Calls `work` without running what it records. A program is compiled from recorded operations, not from their values.
    pub(crate) fn lazily<R>(&self, work: impl FnOnce() -> R) -> R {
        struct Restore<'a>(&'a Device, bool);
        impl Drop for Restore<'_> {
            fn drop(&mut self) {
                self.0.run_eagerly(self.1);
            }
        }
        let before = std::mem::replace(&mut self.state().eager, false);
        let _restore = Restore(self, before);
        work()
    }

    /// Runs each node separately if the device runs eagerly. If that fails, `made` are released.
    pub(super) fn run_early(
        &self,
        state: MutexGuard<'_, State>,
        nodes: &[NodeId],
        made: &[NodeId],
    ) -> Result<()> {
        if !state.eager {
            return Ok(());
        }
        drop(state);
        let guard = self.run_guard();
        for node in nodes {
            let mut state = self.state();
            // Another thread may have computed and dropped the user of this node.
            if state.graph.is_freed(*node) || !state.has_data(&[*node]) {
                continue;
            }
            let ran = self.evaluate(&guard, state, &[*node]);
            state = self.state();
            if let Err(error) = ran {
                for &node in made {
                    state.graph.release(node);
                    state.reclaim(&*self.inner.backend);
                }
                return Err(error);
            }
            if !state.graph.is_freed(*node) {
                state.graph.mark_eager(*node);
            }
        }
        Ok(())
    }

    /// Marks requested nodes that were computed eagerly as ordinary computed nodes.
    pub(super) fn ask(&self, state: &mut State, nodes: &[NodeId]) {
        for &node in nodes {
            if state.graph.is_eager(node) {
                state.graph.mark_materialized(node);
                state.reclaim(&*self.inner.backend);
            }
        }
    }
}
