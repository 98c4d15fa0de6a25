//! Helpers that several operations share.

use super::{Axes, Pointwise, Tensor};
use crate::dtype::{DType, FLOATS};
use crate::error::{Error, ErrorKind, Result};
use crate::op::{Op, Reduction};

/// The most tensors one call may return.
const MAX_OUTPUTS_PER_CALL: usize = 1 << 16;

/// Rejects a call that would return too many tensors, before it creates the first one.
///
/// # Errors
/// `Limit`.
pub(super) fn check_output_count(name: &str, count: usize) -> Result<()> {
    if count <= MAX_OUTPUTS_PER_CALL {
        return Ok(());
    }
    let message =
        format!("{name}: a call must return at most {MAX_OUTPUTS_PER_CALL} tensors, got {count}");
    Err(Error::new(ErrorKind::Limit, message))
}

/// Runs an operation that is composed of others. Their errors then name the operation `name`.
// Inlined, so that `rename_error` is compiled once for each result type and not once for each call.
#[inline(always)]
pub(crate) fn with_op_name<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    rename_error(name, work())
}

#[inline(never)]
fn rename_error<T>(name: &str, result: Result<T>) -> Result<T> {
    result.map_err(|error| error.within(name))
}

/// Returns the axes with `keepdim` set, so that a reduction keeps them with extent 1.
pub(super) fn keepdim(axes: impl Into<Axes>) -> Axes {
    axes.into().keepdim(true)
}

/// Returns the result of a reduction over no elements.
pub(super) fn identity_element(op: Reduction, dtype: DType) -> f64 {
    dtype.number(op.identity(dtype))
}

/// Returns the elementwise operation that combines two elements like the reduction.
pub(super) fn combining_op(op: Reduction) -> Pointwise {
    match op {
        Reduction::Sum => Pointwise::add,
        Reduction::Prod => Pointwise::mul,
        Reduction::Max => Pointwise::maximum,
        Reduction::Min => Pointwise::minimum,
        Reduction::Any => Pointwise::logical_or,
        Reduction::All => Pointwise::logical_and,
    }
}

impl Tensor {
    /// Rejects types other than floats.
    pub(super) fn check_float(&self, name: &str) -> Result<()> {
        if self.dtype.is_float() {
            return Ok(());
        }
        Err(Error::wrong_dtype(name, FLOATS, self.dtype))
    }

    /// Rejects `others` of another type than this tensor.
    pub(super) fn check_same_dtype(&self, name: &str, others: &[&Tensor]) -> Result<()> {
        match others.iter().find(|other| other.dtype != self.dtype) {
            None => Ok(()),
            Some(other) => {
                let (own, other) = (self.dtype, other.dtype);
                Err(Error::mixed_dtypes(name, own, other))
            }
        }
    }

    /// Detaches this tensor in place, so that gradients do not pass it. Only for results that nothing else holds.
    pub(crate) fn into_detached(self) -> Result<Tensor> {
        self.device.detach(self.node()?);
        Ok(self)
    }

    /// Copies the elements into memory. Without the copy, each kernel that reads the tensor may compute it again.
    pub(super) fn materialize(&self) -> Result<Tensor> {
        self.apply(Op::Concat { axis: 0 }, &[])
    }

    /// Calls `compute` with this tensor as `f32`, and rounds the result once to the type of this tensor.
    pub(super) fn compute_in_f32(
        &self,
        compute: impl FnOnce(&Tensor) -> Result<Tensor>,
    ) -> Result<Tensor> {
        compute(&self.cast(self.dtype.compute())?)?.cast(self.dtype)
    }

    /// Returns the square root, with gradient 0 instead of infinity at 0.
    pub(super) fn safe_sqrt(&self) -> Result<Tensor> {
        let none = self.eq(0.0)?;
        none.where_cond(0.0, &none.where_cond(1.0, self)?.sqrt())
    }

    /// Reshapes a tensor of rank 0 to a vector of one element, if `axis` is 0 or -1. These are valid axes of a single
    /// number, as in PyTorch.
    pub(super) fn scalar_as_vector(&self, axis: isize) -> Result<Option<Tensor>> {
        match (self.rank(), axis) {
            (0, 0 | -1) => self.reshape(&[1]).map(Some),
            _ => Ok(None),
        }
    }

    /// Moves an axis to the end and flattens the others: `[rows, extent]`.
    pub(super) fn axis_to_rows(&self, axis: usize) -> Result<Tensor> {
        let mut order: Vec<usize> = (0..self.rank()).collect();
        order.remove(axis);
        order.push(axis);
        let rows = order[..self.rank() - 1].iter().map(|&axis| self.shape[axis]).product();
        self.apply(Op::Permute(order), &[])?.reshape(&[rows, self.shape[axis]])
    }

    /// The inverse of [`axis_to_rows`](Self::axis_to_rows). The result has the shape `like`, except that the extent of the
    /// axis is the length of these rows.
    pub(super) fn rows_to_axis(&self, like: &[usize], axis: usize) -> Result<Tensor> {
        let mut dims = like.to_vec();
        dims.remove(axis);
        dims.push(self.shape[1]);
        let mut order: Vec<usize> = (0..like.len() - 1).collect();
        order.insert(axis, like.len() - 1);
        self.reshape(&dims)?.apply(Op::Permute(order), &[])
    }
}
