//! [`warpweft`] with a blocking API, for Rust programs without an async executor.
//!
//! This crate exports the modules of `warpweft` under the same names. Each async function has a blocking variant that ends in
//! `_blocking`, in the traits [`DeviceBlocking`], [`TensorBlocking`], [`ProgramBlocking`] and [`TrainerBlocking`]. [`prelude`]
//! contains these traits and the most important types.
//!
//! ```
//! use warpweft_native::prelude::*;
//!
//! let device = Device::with_blocking(Preference::Cpu)?;
//! let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//! let y: Vec<f32> = x.matmul(&x)?.read_blocking()?;
//! assert_eq!(y, [7.0, 10.0, 15.0, 22.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! The calls block their thread. With an async executor, await the async functions instead.

#[cfg(feature = "wgpu-interop")]
pub use warpweft::interop;
#[cfg(feature = "io")]
pub use warpweft::io;
#[cfg(feature = "model")]
pub use warpweft::model;
#[cfg(feature = "text")]
pub use warpweft::text;
pub use warpweft::{
    backend, data, debug, device, dtype, error, nn, optim, profile, shape, tensor, train, tune,
};
#[cfg(feature = "unstable")]
pub use warpweft::{codegen, expand, expr, grad, graph, kernel, lru, op, plan, schedule};

#[cfg(feature = "cli")]
pub mod bench;
mod cache_folder;
#[cfg(feature = "cuda")]
pub mod cuda;
pub mod distributed;
#[cfg(feature = "io")]
pub mod files;
#[cfg(feature = "model")]
mod generation;
#[cfg(feature = "model")]
mod lora;
mod trainer;
pub mod tuned;

#[cfg(feature = "model")]
pub use generation::GenerationBlocking;
#[cfg(feature = "model")]
pub use lora::LoraAdapterBlocking;
pub use trainer::TrainerBlocking;

use device::{Device, Found, Preference};
use dtype::Element;
use error::Result;
use pollster::block_on;
use profile::{Ceilings, Profile};
use std::time::Instant;
use tensor::{ComputationGraph, ElementFunction, NonFinite, Program, Shader, Tensor};
use tune::Tuned;

/// The types and traits that most programs need: `use warpweft_native::prelude::*;`.
pub mod prelude {
    pub use crate::device::{Device, Preference};
    pub use crate::distributed::{World, WorldInit};
    pub use crate::dtype::DType;
    pub use crate::error::{Error, ErrorKind, Result};
    pub use crate::tensor::{
        Amounts, AttentionOptions, Axes, Batch, Conv2dOptions, ConvOptions, ConvTransposeOptions,
        DequantizeOptions, Dim, ElementFunction, Extents, FftNorm, FftOptions, Filter,
        GridSampleOptions, Integers, MatrixNorm, NormOptions, Operand, PadMode, Padding,
        PoolOptions, Program, Reduction, Resize, RmsNormOptions, SampleMode, SamplePadding,
        Sampling, Scan, ScatterNdOptions, ScatterReduction, Sections, Shader, Tensor, TensorSpec,
        Variable,
    };
    pub use crate::{
        ComputationGraphBlocking, DeviceBlocking, ProgramBlocking, TensorBlocking, TrainerBlocking,
    };
    #[cfg(feature = "model")]
    pub use crate::{GenerationBlocking, LoraAdapterBlocking};
}

/// The blocking calls of a [`Device`].
///
/// ```
/// use warpweft_native::prelude::*;
///
/// let device = Device::with_blocking(Preference::Cpu)?;
/// device.ones(&[3])?.run()?;
/// device.synchronize_blocking()?;
/// assert_eq!(device.stats().submits, 1);
/// assert!(Device::discover_blocking().iter().any(|found| found.info.backend == "cpu"));
/// # Ok::<(), Error>(())
/// ```
pub trait DeviceBlocking: Sized {
    /// Opens a device as [`Device::new`] does, blocking.
    ///
    /// # Errors
    /// As [`Device::new`].
    fn new_blocking() -> Result<Self>;

    /// Opens a device as [`Device::with`] does, blocking.
    ///
    /// # Errors
    /// As [`Device::with`].
    fn with_blocking(preference: Preference) -> Result<Self>;

    /// Lists devices as [`Device::discover`] does, blocking.
    fn discover_blocking() -> Vec<Found>;

    /// Selects the kernels that were measured to be fastest on the device. They are read from disk ([`tuned::Store`]). If
    /// they are missing, or if `again`, they are measured ([`tune`](crate::tune::tune)) and stored, which takes seconds.
    /// Devices that are later opened by [`new_blocking`](DeviceBlocking::new_blocking) or
    /// [`with_blocking`](DeviceBlocking::with_blocking) use them at once.
    ///
    /// ```
    /// use warpweft_native::prelude::*;
    ///
    /// let device = Device::with_blocking(Preference::Cpu)?;
    /// let tuned = device.tune_blocking(false)?;
    /// println!("{}", tuned.config);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// The errors of measuring. A failure to store the result is not an error.
    fn tune_blocking(&self, again: bool) -> Result<Tuned>;

    /// Reads tensors as [`Device::read`] does, blocking.
    ///
    /// ```
    /// use warpweft_native::prelude::*;
    ///
    /// let device = Device::with_blocking(Preference::Cpu)?;
    /// let x = device.tensor(&[3.0f32, 4.0], &[2])?;
    /// let all = device.read_blocking::<f32>(&[&x, &x.sum(&[])?])?;
    /// assert_eq!(all, [vec![3.0, 4.0], vec![7.0]]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Device::read`].
    fn read_blocking<T: Element>(&self, tensors: &[&Tensor]) -> Result<Vec<Vec<T>>>;

    /// Profiles as [`Device::profile`] does, blocking. Computes everything that `work` records, and returns its profile.
    ///
    /// ```
    /// use warpweft_native::prelude::*;
    ///
    /// let device = Device::with_blocking(Preference::Cpu)?;
    /// let x = device.ones(&[64, 64])?;
    /// let (y, profile) = device.profile_blocking(|| x.matmul(&x))?;
    /// println!("{profile}");
    /// assert_eq!(y.read_blocking::<f32>()?[0], 64.0);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`Device::profile`].
    fn profile_blocking<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Profile)>;

    /// Measures ceilings as [`Device::measure_ceilings`] does, blocking.
    ///
    /// # Errors
    /// As [`Device::measure_ceilings`].
    fn measure_ceilings_blocking(&self) -> Result<Ceilings>;

    /// Waits until all submitted work is done, as [`Device::synchronize`] does, blocking.
    ///
    /// # Errors
    /// As [`Device::synchronize`].
    fn synchronize_blocking(&self) -> Result<()>;
    /// Creates an elementwise function as [`Device::element_function`] does, blocking.
    ///
    /// # Errors
    /// As [`Device::element_function`].
    fn element_function_blocking(&self, source: &str) -> Result<ElementFunction>;
    /// Creates a shader as [`Device::shader`] does, blocking.
    ///
    /// # Errors
    /// As [`Device::shader`].
    fn shader_blocking(&self, source: &str) -> Result<Shader>;
}

impl DeviceBlocking for Device {
    fn new_blocking() -> Result<Device> {
        Device::with_blocking(Preference::from_environment()?)
    }

    fn with_blocking(preference: Preference) -> Result<Device> {
        #[cfg(feature = "cuda")]
        cuda::register();
        block_on(Device::with(preference)).map(tuned::remember)
    }

    fn discover_blocking() -> Vec<Found> {
        #[cfg(feature = "cuda")]
        cuda::register();
        block_on(Device::discover())
    }

    fn tune_blocking(&self, again: bool) -> Result<Tuned> {
        let store = tuned::Store::usual();
        let known = store.as_ref().filter(|_| !again).and_then(|store| store.load(self.info()));
        if let Some(config) = known {
            self.set_kernel_config(config)?;
            return Ok(Tuned { config, figures: Vec::new() });
        }
        let start = Instant::now();
        let tuned = block_on(tune::tune(self, || start.elapsed().as_secs_f64() * 1e3))?;
        if let Some(store) = store.filter(|_| !tuned.figures.is_empty()) {
            // If storing fails, the next call measures again.
            let _ = store.store(self.info(), tuned.config);
        }
        Ok(tuned)
    }

    fn read_blocking<T: Element>(&self, tensors: &[&Tensor]) -> Result<Vec<Vec<T>>> {
        block_on(self.read(tensors))
    }

    fn profile_blocking<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Profile)> {
        block_on(self.profile(async { work() }))
    }

    fn measure_ceilings_blocking(&self) -> Result<Ceilings> {
        block_on(self.measure_ceilings())
    }

    fn synchronize_blocking(&self) -> Result<()> {
        block_on(self.synchronize())
    }

    fn element_function_blocking(&self, source: &str) -> Result<ElementFunction> {
        block_on(self.element_function(source))
    }

    fn shader_blocking(&self, source: &str) -> Result<Shader> {
        block_on(self.shader(source))
    }
}

/// The blocking calls of a [`Tensor`].
///
/// ```
/// use warpweft_native::prelude::*;
///
/// let device = Device::with_blocking(Preference::Cpu)?;
/// let x = device.tensor(&[3.0f32, 4.0], &[2])?;
/// assert_eq!(x.norm_l2(&[])?.item_blocking::<f32>()?, 5.0);
/// assert_eq!(x.read_range_blocking::<f32>(1, 1)?, [4.0]);
///
/// let other = Device::with_blocking(Preference::Cpu)?;
/// assert_eq!(x.to_blocking(&other)?.read_blocking::<f32>()?, [3.0, 4.0]);
/// # Ok::<(), Error>(())
/// ```
pub trait TensorBlocking: Sized {
    /// Reads values as [`Tensor::read`] does, blocking.
    ///
    /// # Errors
    /// As [`Tensor::read`].
    fn read_blocking<T: Element>(&self) -> Result<Vec<T>>;

    /// Reads a range of values as [`Tensor::read_range`] does, blocking.
    ///
    /// # Errors
    /// As [`Tensor::read_range`].
    fn read_range_blocking<T: Element>(&self, start: usize, len: usize) -> Result<Vec<T>>;

    /// Reads bytes as [`Tensor::read_bytes`] does, blocking.
    ///
    /// # Errors
    /// As [`Tensor::read_bytes`].
    fn read_bytes_blocking(&self) -> Result<Vec<u8>>;

    /// Reads a single value as [`Tensor::item`] does, blocking.
    ///
    /// # Errors
    /// As [`Tensor::item`].
    fn item_blocking<T: Element>(&self) -> Result<T>;

    /// Selects elements as [`Tensor::masked_select`] does, blocking.
    ///
    /// # Errors
    /// As [`Tensor::masked_select`].
    fn masked_select_blocking(&self, mask: &Self) -> Result<Self>;

    /// Finds NaN and infinities as [`Tensor::find_non_finite`] does, blocking.
    ///
    /// # Errors
    /// As [`Tensor::find_non_finite`].
    fn find_non_finite_blocking(&self) -> Result<Option<NonFinite>>;

    /// Copies a tensor to a device as [`Tensor::to`] does, blocking.
    ///
    /// # Errors
    /// As [`Tensor::to`].
    fn to_blocking(&self, device: &Device) -> Result<Self>;
}

/// The blocking calls of a [`Program`].
///
/// ```
/// use warpweft_native::prelude::*;
///
/// let device = Device::with_blocking(Preference::Cpu)?;
/// let program = device.compile(&[(&[2], DType::F32)], |x| Ok(vec![x[0].exp()]))?;
/// program.ready_blocking()?;
/// # Ok::<(), Error>(())
/// ```
pub trait ProgramBlocking {
    /// Prepares a program as [`Program::ready`] does, blocking.
    ///
    /// # Errors
    /// As [`Program::ready`].
    fn ready_blocking(&self) -> Result<()>;
}

/// The blocking calls of a [`ComputationGraph`].
///
/// ```
/// use warpweft_native::prelude::*;
///
/// let device = Device::with_blocking(Preference::Cpu)?;
/// let x = Variable::new(&device.tensor(&[3.0f32], &[])?);
/// let y = &x * &x;
/// let svg = y.graph(&[("x", &x.value()), ("y", &y)])?.with_values_blocking()?.svg();
/// assert!(svg.contains("gradient 6"));
/// # Ok::<(), Error>(())
/// ```
pub trait ComputationGraphBlocking: Sized {
    /// Reads values as [`ComputationGraph::with_values`] does, blocking.
    ///
    /// # Errors
    /// As [`ComputationGraph::with_values`].
    fn with_values_blocking(self) -> Result<Self>;
}

impl ComputationGraphBlocking for ComputationGraph {
    fn with_values_blocking(self) -> Result<ComputationGraph> {
        block_on(self.with_values())
    }
}

impl ProgramBlocking for Program {
    fn ready_blocking(&self) -> Result<()> {
        block_on(self.ready())
    }
}

impl TensorBlocking for Tensor {
    fn read_blocking<T: Element>(&self) -> Result<Vec<T>> {
        block_on(self.read())
    }

    fn read_range_blocking<T: Element>(&self, start: usize, len: usize) -> Result<Vec<T>> {
        block_on(self.read_range(start, len))
    }

    fn read_bytes_blocking(&self) -> Result<Vec<u8>> {
        block_on(self.read_bytes())
    }

    fn item_blocking<T: Element>(&self) -> Result<T> {
        block_on(self.item())
    }

    fn masked_select_blocking(&self, mask: &Tensor) -> Result<Tensor> {
        block_on(self.masked_select(mask))
    }

    fn find_non_finite_blocking(&self) -> Result<Option<NonFinite>> {
        block_on(self.find_non_finite())
    }

    fn to_blocking(&self, device: &Device) -> Result<Tensor> {
        block_on(self.to(device))
    }
}
