//! Worlds: several processes, the ranks, that train one model together. This module has the interface to an engine that
//! connects them, and the queue of calls to it. The engines are in `warpweft-native`: MPI, and NCCL between NVIDIA GPUs.
//!
//! [`Trainer::data_parallel`](crate::train::Trainer::data_parallel) trains a model on all ranks of a world.

mod once;
mod world;

pub use world::World;

use crate::error::Result;

/// An engine that connects the ranks of a world.
///
/// All calls but [`fail`](Collective::fail) come from one thread, one after the other. They block until they are done. Every
/// rank makes the same calls in the same order, with arguments of the same lengths.
///
/// If a rank ends, fails, or does not answer within a timeout, the calls of all other ranks return an error that names the rank
/// and the reason. After an error, a world is not used again.
pub trait Collective: Send + Sync {
    /// Returns the name of the engine, such as `mpi`.
    fn name(&self) -> &'static str;

    /// Returns the number of this process among the ranks, from 0.
    fn rank(&self) -> usize;

    /// Returns the number of ranks.
    fn size(&self) -> usize;

    /// Replaces the values by their sums over all ranks. Every rank gets the same bits, and the same ranks with the same
    /// values get the same bits again.
    ///
    /// # Errors
    /// `InvalidState` if a rank failed or did not answer.
    fn all_reduce(&self, values: &mut [f32]) -> Result<()>;

    /// Replaces the bytes by those of the rank `root`.
    ///
    /// # Errors
    /// `InvalidState` if a rank failed or did not answer.
    fn broadcast(&self, root: usize, bytes: &mut [u8]) -> Result<()>;

    /// Writes the bytes of all ranks, in the order of the ranks. `all` is [`size`](Collective::size) times as long as `own`.
    ///
    /// # Errors
    /// `InvalidState` if a rank failed or did not answer.
    fn all_gather(&self, own: &[u8], all: &mut [u8]) -> Result<()>;

    /// Sums the values over all ranks, and writes this rank's part of the sums. `values` is [`size`](Collective::size) times as
    /// long as `own`.
    ///
    /// # Errors
    /// `InvalidState` if a rank failed or did not answer.
    fn reduce_scatter(&self, values: &[f32], own: &mut [f32]) -> Result<()>;

    /// Waits until every rank has called it.
    ///
    /// # Errors
    /// `InvalidState` if a rank failed or did not answer.
    fn barrier(&self) -> Result<()>;

    /// Announces that this rank has failed. Calls of all ranks, also the one in progress, then return an error with the rank
    /// and the reason. Any thread may call it. Returns at once.
    fn fail(&self, reason: &str);
}
