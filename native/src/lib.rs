//! [`warpweft`] with a blocking API: one crate for a Rust program that has no executor.
//!
//! Everything of `warpweft` is here under its own name. What is async there has a twin that ends in `_sync`, from the
//! traits [`DeviceSync`], [`TensorSync`], [`ProgramSync`] and [`TrainerSync`]; [`prelude`] has them together with the types one
//! needs first.
//!
//! ```
//! use warpweft_native::prelude::*;
//!
//! let device = Device::with_sync(Preference::Cpu)?;
//! let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
//! let y: Vec<f32> = x.matmul(&x)?.read_sync()?;
//! assert_eq!(y, [7.0, 10.0, 15.0, 22.0]);
//! # Ok::<(), Error>(())
//! ```
//!
//! The calls block the thread they are made on. Under an async executor, await the originals instead.

pub use warpweft::*;

#[cfg(feature = "cli")]
pub mod bench;
#[cfg(feature = "io")]
pub mod files;
#[cfg(feature = "model")]
mod generation;
#[cfg(feature = "model")]
mod lora;
mod trainer;
pub mod tuned;

#[cfg(feature = "model")]
pub use generation::GenerationSync;
#[cfg(feature = "model")]
pub use lora::LoraAdapterSync;
pub use trainer::TrainerSync;

use device::{Device, Found, Preference};
use dtype::Element;
use error::Result;
use pollster::block_on;
use profile::{Ceilings, Profile};
use std::time::Instant;
use tensor::{ComputationGraph, ElementFunction, NonFinite, Program, Shader, Tensor};
use tune::Tuned;

/// What most programs need: `use warpweft_native::prelude::*;`.
pub mod prelude {
    pub use crate::device::{Device, Preference};
    pub use crate::dtype::DType;
    pub use crate::error::{Error, ErrorKind, Result};
    pub use crate::tensor::{
        Amounts, AttentionOptions, Axes, Batch, Conv2dOptions, ConvOptions, ConvTransposeOptions,
        Dim, ElementFunction, Extents, FftNorm, Filter, Integers, MatrixNorm, Operand, PadMode,
        Padding, PoolOptions, Program, Reduction, Resize, SampleMode, SamplePadding, Sampling,
        Scan, ScatterReduction, Sections, Shader, Tensor, TensorSpec, Variable,
    };
    pub use crate::{ComputationGraphSync, DeviceSync, ProgramSync, TensorSync, TrainerSync};
    #[cfg(feature = "model")]
    pub use crate::{GenerationSync, LoraAdapterSync};
}

/// The blocking calls of a [`Device`].
///
/// ```
/// use warpweft_native::prelude::*;
///
/// let device = Device::with_sync(Preference::Cpu)?;
/// device.ones(&[3])?.run()?;
/// device.wait()?;
/// assert_eq!(device.stats().submits, 1);
/// assert!(Device::discover_sync().iter().any(|found| found.info.backend == "cpu"));
/// # Ok::<(), Error>(())
/// ```
pub trait DeviceSync: Sized {
    /// [`Device::new`], blocking.
    ///
    /// # Errors
    /// As there.
    fn new_sync() -> Result<Self>;

    /// [`Device::with`], blocking.
    ///
    /// # Errors
    /// As there.
    fn with_sync(preference: Preference) -> Result<Self>;

    /// [`Device::discover`], blocking.
    fn discover_sync() -> Vec<Found>;

    /// Has the device run the kernels that were measured to be fastest on it: as [`tuned::Store`] has them on disk, or else,
    /// and if `again`, by measuring ([`tune`](crate::tune::tune)) and storing them, which takes seconds. Devices that are
    /// opened by [`new_sync`](DeviceSync::new_sync) or [`with_sync`](DeviceSync::with_sync) later have them at once.
    ///
    /// ```
    /// use warpweft_native::prelude::*;
    ///
    /// let device = Device::with_sync(Preference::Cpu)?;
    /// let tuned = device.tune_sync(false)?;
    /// println!("{}", tuned.config);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// Those of measuring. That nothing can be stored is none.
    fn tune_sync(&self, again: bool) -> Result<Tuned>;

    /// [`Device::read`], blocking.
    ///
    /// ```
    /// use warpweft_native::prelude::*;
    ///
    /// let device = Device::with_sync(Preference::Cpu)?;
    /// let x = device.tensor(&[3.0f32, 4.0], &[2])?;
    /// let all = device.read_sync::<f32>(&[&x, &x.sum(&[])?])?;
    /// assert_eq!(all, [vec![3.0, 4.0], vec![7.0]]);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As there.
    fn read_sync<T: Element>(&self, tensors: &[&Tensor]) -> Result<Vec<Vec<T>>>;

    /// [`Device::profile`], blocking: what `work` records is computed, and what that took is said.
    ///
    /// ```
    /// use warpweft_native::prelude::*;
    ///
    /// let device = Device::with_sync(Preference::Cpu)?;
    /// let x = device.ones(&[64, 64])?;
    /// let (y, profile) = device.profile_sync(|| x.matmul(&x))?;
    /// println!("{profile}");
    /// assert_eq!(y.read_sync::<f32>()?[0], 64.0);
    /// # Ok::<(), Error>(())
    /// ```
    ///
    /// # Errors
    /// As there.
    fn profile_sync<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Profile)>;

    /// [`Device::measure_ceilings`], blocking.
    ///
    /// # Errors
    /// As there.
    fn measure_ceilings_sync(&self) -> Result<Ceilings>;

    /// [`Device::sync`], blocking: returns when all work submitted so far is done.
    ///
    /// # Errors
    /// As there.
    fn wait(&self) -> Result<()>;
    /// [`Device::element_function`], blocking.
    ///
    /// # Errors
    /// As there.
    fn element_function_sync(&self, source: &str) -> Result<ElementFunction>;
    /// [`Device::shader`], blocking.
    ///
    /// # Errors
    /// As there.
    fn shader_sync(&self, source: &str) -> Result<Shader>;
}

impl DeviceSync for Device {
    fn new_sync() -> Result<Device> {
        block_on(Device::new()).map(tuned::remember)
    }

    fn with_sync(preference: Preference) -> Result<Device> {
        block_on(Device::with(preference)).map(tuned::remember)
    }

    fn discover_sync() -> Vec<Found> {
        block_on(Device::discover())
    }

    fn tune_sync(&self, again: bool) -> Result<Tuned> {
        let store = tuned::Store::usual();
        let known = store.as_ref().filter(|_| !again).and_then(|store| store.load(self.info()));
        if let Some(config) = known {
            self.set_kernel_config(config)?;
            return Ok(Tuned { config, figures: Vec::new() });
        }
        let start = Instant::now();
        let tuned = block_on(tune::tune(self, || start.elapsed().as_secs_f64() * 1e3))?;
        if let Some(store) = store.filter(|_| !tuned.figures.is_empty()) {
            // Where that fails it is measured again the next time.
            let _ = store.store(self.info(), tuned.config);
        }
        Ok(tuned)
    }

    fn read_sync<T: Element>(&self, tensors: &[&Tensor]) -> Result<Vec<Vec<T>>> {
        block_on(self.read(tensors))
    }

    fn profile_sync<T>(&self, work: impl FnOnce() -> Result<T>) -> Result<(T, Profile)> {
        block_on(self.profile(async { work() }))
    }

    fn measure_ceilings_sync(&self) -> Result<Ceilings> {
        block_on(self.measure_ceilings())
    }

    fn wait(&self) -> Result<()> {
        block_on(self.sync())
    }

    fn element_function_sync(&self, source: &str) -> Result<ElementFunction> {
        block_on(self.element_function(source))
    }

    fn shader_sync(&self, source: &str) -> Result<Shader> {
        block_on(self.shader(source))
    }
}

/// The blocking calls of a [`Tensor`].
///
/// ```
/// use warpweft_native::prelude::*;
///
/// let device = Device::with_sync(Preference::Cpu)?;
/// let x = device.tensor(&[3.0f32, 4.0], &[2])?;
/// assert_eq!(x.norm_l2(&[])?.item_sync::<f32>()?, 5.0);
/// assert_eq!(x.read_range_sync::<f32>(1, 1)?, [4.0]);
///
/// let other = Device::with_sync(Preference::Cpu)?;
/// assert_eq!(x.to_sync(&other)?.read_sync::<f32>()?, [3.0, 4.0]);
/// # Ok::<(), Error>(())
/// ```
pub trait TensorSync: Sized {
    /// [`Tensor::read`], blocking.
    ///
    /// # Errors
    /// As there.
    fn read_sync<T: Element>(&self) -> Result<Vec<T>>;

    /// [`Tensor::read_range`], blocking.
    ///
    /// # Errors
    /// As there.
    fn read_range_sync<T: Element>(&self, start: usize, len: usize) -> Result<Vec<T>>;

    /// [`Tensor::read_bytes`], blocking.
    ///
    /// # Errors
    /// As there.
    fn read_bytes_sync(&self) -> Result<Vec<u8>>;

    /// [`Tensor::item`], blocking.
    ///
    /// # Errors
    /// As there.
    fn item_sync<T: Element>(&self) -> Result<T>;

    /// [`Tensor::masked_select`], blocking.
    ///
    /// # Errors
    /// As there.
    fn masked_select_sync(&self, mask: &Self) -> Result<Self>;

    /// [`Tensor::find_non_finite`], blocking.
    ///
    /// # Errors
    /// As there.
    fn find_non_finite_sync(&self) -> Result<Option<NonFinite>>;

    /// [`Tensor::to`], blocking.
    ///
    /// # Errors
    /// As there.
    fn to_sync(&self, device: &Device) -> Result<Self>;
}

/// The blocking calls of a [`Program`].
///
/// ```
/// use warpweft_native::prelude::*;
///
/// let device = Device::with_sync(Preference::Cpu)?;
/// let program = device.compile(&[(&[2], DType::F32)], |x| Ok(vec![x[0].exp()]))?;
/// program.ready_sync()?;
/// # Ok::<(), Error>(())
/// ```
pub trait ProgramSync {
    /// [`Program::ready`], blocking.
    ///
    /// # Errors
    /// As there.
    fn ready_sync(&self) -> Result<()>;
}

/// The blocking calls of a [`ComputationGraph`].
///
/// ```
/// use warpweft_native::prelude::*;
///
/// let device = Device::with_sync(Preference::Cpu)?;
/// let x = Variable::new(&device.tensor(&[3.0f32], &[])?);
/// let y = &x * &x;
/// let svg = y.graph(&[("x", &x.value()), ("y", &y)])?.with_values_sync()?.svg();
/// assert!(svg.contains("gradient 6"));
/// # Ok::<(), Error>(())
/// ```
pub trait ComputationGraphSync: Sized {
    /// [`ComputationGraph::with_values`], blocking.
    ///
    /// # Errors
    /// As there.
    fn with_values_sync(self) -> Result<Self>;
}

impl ComputationGraphSync for ComputationGraph {
    fn with_values_sync(self) -> Result<ComputationGraph> {
        block_on(self.with_values())
    }
}

impl ProgramSync for Program {
    fn ready_sync(&self) -> Result<()> {
        block_on(self.ready())
    }
}

impl TensorSync for Tensor {
    fn read_sync<T: Element>(&self) -> Result<Vec<T>> {
        block_on(self.read())
    }

    fn read_range_sync<T: Element>(&self, start: usize, len: usize) -> Result<Vec<T>> {
        block_on(self.read_range(start, len))
    }

    fn read_bytes_sync(&self) -> Result<Vec<u8>> {
        block_on(self.read_bytes())
    }

    fn item_sync<T: Element>(&self) -> Result<T> {
        block_on(self.item())
    }

    fn masked_select_sync(&self, mask: &Tensor) -> Result<Tensor> {
        block_on(self.masked_select(mask))
    }

    fn find_non_finite_sync(&self) -> Result<Option<NonFinite>> {
        block_on(self.find_non_finite())
    }

    fn to_sync(&self, device: &Device) -> Result<Tensor> {
        block_on(self.to(device))
    }
}
