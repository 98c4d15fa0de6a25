//! The [`Tensor`]: a handle to an array that is made from data or by an operation, and computed when it is read.
//!
//! Methods of the [`Device`] create tensors, for example [`tensor`](Device::tensor), [`zeros`](Device::zeros),
//! [`arange`](Device::arange), [`uniform`](Device::uniform) and [`eye`](Device::eye). Operations are methods of the
//! [`Tensor`] with the names of NumPy and PyTorch. They are in `ops`, one file for each group:
//!
//! - element by element: [`add`](Tensor::add), [`mul`](Tensor::mul), [`exp`](Tensor::exp), [`relu`](Tensor::relu),
//!   [`where_cond`](Tensor::where_cond) and all rows of [the table](crate::op::pointwise); also `&x + 1.0`;
//! - over axes: [`sum`](Tensor::sum), [`mean`](Tensor::mean), [`max`](Tensor::max), [`argmax`](Tensor::argmax),
//!   [`cumsum`](Tensor::cumsum), [`softmax`](Tensor::softmax), [`layer_norm`](Tensor::layer_norm), [`sort`](Tensor::sort),
//!   [`topk`](Tensor::topk);
//! - moving: [`reshape`](Tensor::reshape), [`permute`](Tensor::permute), [`slice`](Tensor::slice),
//!   [`concat`](Tensor::concat), [`pad`](Tensor::pad), [`gather`](Tensor::gather), [`scatter`](Tensor::scatter);
//! - products: [`matmul`](Tensor::matmul), [`conv2d`](Tensor::conv2d), [`attention`](Tensor::attention).
//!
//! Negative axes count from the end. [`Axes`], [`Operand`] and [`Integers`] list the types that convert to arguments.

mod anomaly;
mod args;
mod batch;
mod compiled;
mod drawing;
mod grad;
mod helpers;
mod operand;
mod ops;
mod program;
mod read;
#[cfg_attr(not(feature = "distributed"), allow(dead_code))]
mod summed;
mod variable;

pub use crate::dtype::DType;
pub use crate::op::{PackedArithmetic, PackedFormat, Pointwise, Reduction};
pub use anomaly::{FiniteOperand, NonFinite};
pub use args::{Amounts, Axes, Extents, Integers, Scan, Sections, TensorSpec};
pub use batch::Batch;
pub use drawing::ComputationGraph;
pub use operand::Operand;
pub use ops::{
    pointwise, AttentionOptions, Conv2dOptions, ConvOptions, ConvTransposeOptions,
    DequantizeOptions, ElementFunction, FftNorm, FftOptions, Filter, GridSampleOptions, MatrixNorm,
    NormOptions, PackedBuilder, PackedTensor, PadMode, Padding, PoolOptions, Resize,
    RmsNormOptions, SampleMode, SamplePadding, Sampling, ScatterNdOptions, ScatterReduction,
    Shader,
};
pub use program::{Dim, Program};
use variable::capture;
pub(crate) use variable::capture::{stand_for, SeedSource};
pub use variable::Variable;
pub(crate) use variable::{Assignment, WeakTensor};

use crate::debug::{shows, Debug};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::graph::NodeId;
use crate::op::Op;
use crate::shape::Shape;
pub(crate) use helpers::with_op_name;
use helpers::{check_output_count, keepdim};
use operand::{number_bits, operand_bits};
use smallvec::{smallvec, SmallVec};
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

/// An immutable n-dimensional array on a [`Device`]. Clones share the array.
///
/// Operations only record what to compute, and [`Tensor::read`] runs them. An operation returns a `Result` if its shapes,
/// axes or second operand can be wrong. Other operations return a `Tensor`. If the type of the input is not supported,
/// the returned tensor carries an error. The next operation on that tensor, or a read, returns the error.
// A tensor is one pointer wide, because most of the code of operations passes tensors and errors on.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

#[cfg_attr(feature = "js", warpweft_macros::js(only(device, rank, numel, dtype, run)))]
impl Tensor {
    /// Wraps a node whose reference the graph has already counted for the caller.
    pub(crate) fn adopt(device: &Device, node: NodeId) -> Tensor {
        let (shape, dtype) = device.describe(node);
        if shows(Debug::Memory) {
            device.note_place(node);
        }
        Tensor(Arc::new(Inner { device: device.clone(), state: State::Node(node), shape, dtype }))
    }

    fn failed(like: &Tensor, error: Error) -> Tensor {
        let (device, state) = (like.device.clone(), State::Failed(error));
        Tensor(Arc::new(Inner { device, state, shape: like.shape, dtype: like.dtype }))
    }

    /// The device that the tensor is on.
    #[cfg_attr(feature = "js", js(getter))]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The sizes of the axes, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of axes.
    #[cfg_attr(feature = "js", js(getter))]
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// The number of elements.
    #[cfg_attr(feature = "js", js(getter, name = "size"))]
    pub fn numel(&self) -> usize {
        self.shape.numel()
    }

    /// The type of the elements.
    #[cfg_attr(feature = "js", js(getter, returns = "D"))]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The error that the tensor carries, if an operation that returns no `Result` did not support its input.
    pub fn error(&self) -> Option<&Error> {
        match &self.state {
            State::Node(_) => None,
            State::Failed(error) => Some(error),
        }
    }

    /// Submits the operations that this tensor needs, without waiting for them.
    ///
    /// # Errors
    /// `Limit`, `Memory`.
    pub fn run(&self) -> Result<()> {
        self.device.run(&[self.node()?])
    }

    /// Copies the values to another device of any kind, for example from a GPU to the CPU or to another GPU.
    ///
    /// The values are computed and read on this device, and written on the other one. Operations on the result run on the
    /// other device. The result has no history, so gradients do not pass it.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let (here, there) = (Device::with(Preference::Cpu).await?, Device::with(Preference::Cpu).await?);
    /// let x = here.tensor(&[1.0f32, 2.0], &[2])?.mul(3)?.to(&there).await?;
    /// let y = x.add(&there.ones(&[2])?)?;
    /// assert_eq!(y.read::<f32>().await?, [4.0, 7.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// The errors of [`Tensor::read`]; `Unsupported` if the other device lacks the type.
    pub fn to(&self, device: &Device) -> impl Future<Output = Result<Tensor>> + 'static + use<> {
        let (shape, dtype, device) = (self.shape, self.dtype, device.clone());
        let bytes = self.read_bytes();
        async move {
            let node = device.upload(shape, dtype, &bytes.await?)?;
            Ok(Tensor::adopt(&device, node))
        }
    }

    pub(crate) fn node(&self) -> Result<NodeId> {
        match &self.state {
            State::Node(node) => Ok(*node),
            State::Failed(error) => Err(error.clone()),
        }
    }

    /// Records an operation on this tensor and others. All must be on one device.
    fn apply(&self, op: Op, others: &[&Tensor]) -> Result<Tensor> {
        let mut nodes: SmallVec<[NodeId; 3]> = smallvec![self.node()?];
        for other in others {
            if !self.device.is_same(&other.device) {
                let (here, there) = (self.device.info(), other.device.info());
                let message = format!(
                    "{}: the operands must be on one device, got {} ({}) and {} ({}); move one with `to`",
                    op.name(),
                    here.name,
                    here.backend,
                    there.name,
                    there.backend
                );
                return Err(Error::argument(message));
            }
            nodes.push(other.node()?);
        }
        Ok(Tensor::adopt(&self.device, self.device.record(op, &nodes)?))
    }
}

/// The data that all clones of a tensor share.
pub struct Inner {
    device: Device,
    state: State,
    shape: Shape,
    dtype: DType,
}

/// The recorded node of a tensor, or the error that took its place.
pub enum State {
    /// A recorded node, which is released when the last clone is dropped.
    Node(NodeId),
    /// The reason that the operation could not be recorded.
    Failed(Error),
}

impl Drop for Inner {
    fn drop(&mut self) {
        if let State::Node(node) = self.state {
            self.device.release(node);
        }
    }
}

impl Deref for Tensor {
    type Target = Inner;
    fn deref(&self) -> &Inner {
        &self.0
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Tensor({} {} on {})", self.dtype, self.shape, self.device.info().backend)?;
        self.error().map_or(Ok(()), |error| write!(f, ": {error}"))
    }
}
