//! Worlds of several processes, the ranks, that train one model together ([`World`]).

mod launch;
#[cfg(feature = "mpi")]
mod mpi;
#[cfg(feature = "cuda")]
mod nccl;

pub use launch::{WorldInit, WorldOptions};
#[cfg(feature = "cuda")]
pub use nccl::{nccl, nccl_with_timeout};
pub use warpweft::distributed::{Collective, World};
