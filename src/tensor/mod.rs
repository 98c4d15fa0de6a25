//! The user's handle: a tensor, made from data or by an operation on others, computed when it is read.

mod args;
mod batch;
mod composed;
pub(crate) mod conv;
mod create;
mod deprecated;
mod grad;
mod inner;
mod join;
mod linalg;
mod movement;
mod norm;
mod operand;
mod packed;
mod pad;
mod pointwise;
pub(crate) mod pool;
mod random;
mod reduce;
mod resize;
mod routine;
mod scan;
mod scatter;
mod scatter_reduce;
mod slices;
mod sort;
mod variable;

pub use crate::dtype::DType;
pub use crate::op::{Pointwise, Reduction};
pub use args::{Amounts, Axes, Extents, Integers, Scan, Sections, TensorSpec};
pub use batch::{Batch, Program};
pub use conv::{Conv2dOptions, ConvOptions, ConvTransposeOptions, Padding};
#[allow(deprecated)]
pub use deprecated::Value;
pub use operand::Operand;
pub use pad::PadMode;
pub use pointwise::pointwise;
pub use pool::PoolOptions;
pub use resize::{Filter, Resize, Sampling};
pub use routine::AttentionOptions;
pub use scatter_reduce::ScatterReduction;
pub use variable::Variable;

use crate::device::Device;
use crate::dtype::Element;
use crate::error::{Error, Result};
use crate::graph::NodeId;
use crate::op::Op;
use args::kept;
use inner::{Inner, State};
use pointwise::number_bits;
use std::fmt;
use std::future::Future;
use std::ops::Deref;
use std::sync::Arc;

/// An n-dimensional array on a [`Device`]. Immutable; cloning shares it.
///
/// Operations only record what is to be done; [`Tensor::read`] runs it. An operation that can fail for its shapes, axes
/// or a second operand returns `Result`; one that cannot returns a `Tensor`. If such a tensor is of a type the
/// operation does not take, it carries the error to whatever is done with it next.
// One word: operations hand tensors and errors on at every step, and that is most of their code.
#[derive(Clone)]
pub struct Tensor(Arc<Inner>);

#[cfg_attr(feature = "js", warpweft_macros::js(only(device, rank, numel, dtype, run)))]
impl Tensor {
    /// Takes over the handle that the graph gave to the caller.
    pub(crate) fn adopt(device: &Device, node: NodeId) -> Tensor {
        let (shape, dtype) = device.describe(node);
        Tensor(Arc::new(Inner { device: device.clone(), state: State::Node(node), shape, dtype }))
    }

    fn failed(like: &Tensor, error: Error) -> Tensor {
        let (device, state) = (like.device.clone(), State::Failed(error));
        Tensor(Arc::new(Inner { device, state, shape: like.shape, dtype: like.dtype }))
    }

    /// The device it lives on.
    #[cfg_attr(feature = "js", js(getter))]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Its extents, outermost first.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The number of its axes.
    #[cfg_attr(feature = "js", js(getter))]
    pub fn rank(&self) -> usize {
        self.shape.rank()
    }

    /// The number of its elements.
    #[cfg_attr(feature = "js", js(getter, name = "size"))]
    pub fn numel(&self) -> usize {
        self.shape.numel()
    }

    /// The type of its elements.
    #[cfg_attr(feature = "js", js(getter, returns = "D"))]
    pub fn dtype(&self) -> DType {
        self.dtype
    }

    /// The error it carries, if an operation that cannot refuse was given what it does not take.
    pub fn error(&self) -> Option<&Error> {
        match &self.state {
            State::Node(_) => None,
            State::Failed(error) => Some(error),
        }
    }

    /// All elements, row-major. Everything it needs is submitted before this returns, as one batch; the future waits.
    ///
    /// # Errors
    /// `DType` if `T` is not the tensor's type (`f16` reads as `f32`); whatever went wrong on the device.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, -2.0], &[2])?;
    /// let y: Vec<f32> = x.relu().read().await?;
    /// assert_eq!(y, [1.0, 0.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn read<T: Element>(&self) -> impl Future<Output = Result<Vec<T>>> + 'static {
        self.read_range(0, self.numel())
    }

    /// The `len` elements from the `start`-th on, row-major.
    ///
    /// # Errors
    /// `Shape` where they lie outside; as [`Tensor::read`].
    pub fn read_range<T: Element>(
        &self,
        start: usize,
        len: usize,
    ) -> impl Future<Output = Result<Vec<T>>> + 'static {
        let dtype = self.dtype;
        let bytes = self.read_bytes_range(start, len);
        async move {
            let read = T::from_bytes(dtype, &bytes.await?);
            read.ok_or_else(|| Error::dtype(format!("read: a tensor of {dtype} as {}", T::DTYPE)))
        }
    }

    /// The only element of a tensor that has one.
    ///
    /// # Errors
    /// `Shape` if it has more or none; as [`Tensor::read`].
    pub fn item<T: Element>(&self) -> impl Future<Output = Result<T>> + 'static {
        let shape = self.shape;
        let read = self.read::<T>();
        async move {
            match read.await?.as_slice() {
                [one] => Ok(*one),
                _ => Err(Error::shape(format!("item: shape {shape} does not have one element"))),
            }
        }
    }

    /// The elements as the device stores them: little-endian, `bool` as 32-bit 0 or 1.
    ///
    /// # Errors
    /// As [`Tensor::read`].
    pub fn read_bytes(&self) -> impl Future<Output = Result<Vec<u8>>> + 'static {
        self.read_bytes_range(0, self.numel())
    }

    /// The `len` elements from the `start`-th on, as the device stores them.
    ///
    /// # Errors
    /// As [`Tensor::read_range`].
    pub fn read_bytes_range(
        &self,
        start: usize,
        len: usize,
    ) -> impl Future<Output = Result<Vec<u8>>> + 'static {
        let end = start.checked_add(len);
        let pending = if end.is_none_or(|end| end > self.numel()) {
            let message = format!("read: {len} elements from {start} of shape {}", self.shape);
            Err(Error::shape(message))
        } else {
            self.node().and_then(|node| self.device.read(node, start, len))
        };
        async move { pending?.await }
    }

    /// Submits what it needs, without waiting.
    ///
    /// # Errors
    /// `Limit`, `Memory`.
    pub fn run(&self) -> Result<()> {
        self.device.run(&[self.node()?])
    }

    /// The same values on another device: read from this one, and written to that.
    ///
    /// # Errors
    /// As [`Tensor::read`]; `Unsupported` where that device lacks the type.
    pub fn to(&self, device: &Device) -> impl Future<Output = Result<Tensor>> + 'static {
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

    /// Records an operation on this tensor and others of the same device.
    fn apply(&self, op: Op, others: &[&Tensor]) -> Result<Tensor> {
        let mut nodes = vec![self.node()?];
        for other in others {
            if !self.device.is_same(&other.device) {
                let (here, there) = (self.device.info(), other.device.info());
                let message = format!(
                    "{}: operands on two devices, {} ({}) and {} ({}); move one with `to`",
                    op.name(),
                    here.name,
                    here.backend,
                    there.name,
                    there.backend
                );
                return Err(Error::data(message));
            }
            nodes.push(other.node()?);
        }
        Ok(Tensor::adopt(&self.device, self.device.record(op, &nodes)?))
    }
}

/// What an operation that is made of others returns: their errors as its own.
fn within<T>(name: &str, work: impl FnOnce() -> Result<T>) -> Result<T> {
    work().map_err(|error| error.within(name))
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
