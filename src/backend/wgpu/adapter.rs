//! What is known of a GPU before it is opened.

use super::platform::Handle;
use crate::backend::Info;
use crate::kernel::Limits;

/// A GPU that can be opened; in a browser once.
#[derive(Clone, Debug)]
pub struct Adapter {
    /// What it is.
    pub info: Info,
    /// What it can do once it is open.
    pub limits: Limits,
    /// Bytes of the memory that buffers lie in, where the platform tells.
    pub memory: Option<u64>,
    pub(super) handle: Handle,
}
