//! Bounds checks of indices, to find errors in a program.

use super::read::ReadRequest;
use super::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::NodeId;

/// A pending bounds check of an index along an axis of `extent` elements. The index is one computed number that is not read
/// yet.
pub(super) struct Check {
    op: String,
    extent: usize,
    index: NodeId,
    dtype: DType,
}

impl Check {
    /// Returns a read request that rejects the index if it is out of range.
    fn wanted(&self) -> ReadRequest {
        let Check { op, extent, index, dtype } = self;
        let (op, extent, dtype) = (op.clone(), *extent, *dtype);
        let take = move |bytes: &[u8]| {
            let bytes = bytes
                .try_into()
                .map_err(|_| Error::state("read: the device must return an index, got none"))?;
            let (index, least) = match dtype {
                DType::U32 => (i64::from(u32::from_le_bytes(bytes)), 0),
                _ => (i64::from(i32::from_le_bytes(bytes)), -(extent as i64)),
            };
            if (least..extent as i64).contains(&index) {
                return Ok(());
            }
            Err(Error::argument(format!(
                "read: an index of {op} must be in [-{extent}, {extent}), got {index}"
            )))
        };
        ReadRequest { node: *index, start: 0, len: 1, take: Box::new(take) }
    }
}

#[cfg_attr(feature = "js", warpweft_macros::js(only(check_indices)))]
impl Device {
    /// Sets whether reads reject indices that are out of range. The `InvalidArgument` error names the operation and the
    /// index. Without this check such an index reads 0, and a write to it is ignored. Use it to debug a program. Each operation
    /// then also computes the minimum and the maximum of its indices. Operations inside a compiled program are not checked.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0], &[3])?;
    /// let index = device.tensor(&[2, 7], &[2])?;
    /// assert_eq!(x.index_select(0, &index)?.read::<f32>().await?, [3.0, 0.0]);
    /// device.check_indices(true);
    /// let error = x.index_select(0, &index)?.read::<f32>().await.unwrap_err();
    /// assert!(error.message().contains("an index of index_select must be in [-3, 3), got 7"));
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn check_indices(&self, whether: bool) {
        self.state().check_indices = whether;
    }

    pub(crate) fn checks_indices(&self) -> bool {
        self.state().check_indices
    }

    /// Queues a bounds check of `index`, which is one number, for the next read.
    pub(crate) fn check_index(&self, op: &str, index: NodeId, extent: usize) {
        let mut state = self.state();
        let dtype = state.graph.dtype(index);
        state.graph.retain(index);
        state.reclaim(&*self.inner.backend);
        state.checks.push(Check { op: op.into(), extent, index, dtype });
    }

    /// Calls `read` with the requests and all queued checks, and releases the checked indices afterwards.
    pub(super) fn with_checks<T>(
        &self,
        mut wanted: Vec<ReadRequest>,
        read: impl FnOnce(Vec<ReadRequest>) -> Result<T>,
    ) -> Result<T> {
        let checks = std::mem::take(&mut self.state().checks);
        for check in &checks {
            // Indices recorded while a program was compiled have no data.
            if self.state().has_data(&[check.index]) {
                wanted.push(check.wanted());
            }
        }
        let read = read(wanted);
        for check in checks {
            self.release(check.index);
        }
        read
    }
}
