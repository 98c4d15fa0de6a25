//! Tensor compute on whatever GPU is in front of you: Vulkan, Metal and DX12 natively, WebGPU in browsers, and a plain CPU
//! where there is none. This crate is async; `warpweft-native` has the same with blocking calls.
//!
//! ```
//! use warpweft::device::{Device, Preference};
//!
//! # async fn run() -> warpweft::error::Result<()> {
//! let device = Device::with(Preference::Cpu).await?; // `Device::new()` takes the best one there is.
//! let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
//! let w = device.uniform(&[3, 4], -1.0, 1.0, 7)?;
//! let y = x.matmul(&w)?.add(0.5)?.gelu().softmax(-1)?; // Recorded: nothing has run yet.
//! let values: Vec<f32> = y.read().await?; // Now it has, as one submission of few kernels.
//! assert!((values[..4].iter().sum::<f32>() - 1.0).abs() < 1e-6);
//! # Ok(()) }
//! # pollster::block_on(run()).unwrap();
//! ```
//!
//! **Recording.** A [`Tensor`] is a handle: cheap to clone, immutable, freed when it is dropped. Its methods record what is
//! to be computed and check shapes and types at once; nothing waits. Shapes broadcast as in NumPy, negative axes count from
//! the end, and numbers are operands as tensors are. An operation that can be refused returns a [`Result`](error::Result)
//! whose [message](error::Error) names the operation and both shapes.
//!
//! **Reading** is the only thing that waits: [`Tensor::read`], [`Tensor::item`], or [`Device::read`] for several at once. All
//! that is needed runs as one submission, and chains of operations, reductions and what surrounds products are one kernel
//! each. The futures work under any executor. What went wrong on the device arrives here, too.
//!
//! **Batches** run several results together, and tell what was planned before it runs: [`Device::batch`].
//!
//! **Programs** are compiled once and run with new inputs: [`Device::compile`], and with axes of any extent
//! [`Device::compile_dynamic`]. Nothing is planned, compiled or allocated in the second run.
//!
//! **Loops** assign to a [`Variable`]; [`Tensor::backward`] and [`Tensor::grad`] give gradients, of any order.
//!
//! ```
//! # use warpweft::{device::{Device, Preference}, tensor::Variable};
//! # async fn run() -> warpweft::error::Result<()> {
//! # let device = Device::with(Preference::Cpu).await?;
//! let x = Variable::new(&device.tensor(&[3.0f32], &[1])?);
//! for _ in 0..100 {
//!     let loss = x.value().sub(1)?.square().sum(&[])?;
//!     loss.backward(&[&x])?;
//!     let gradient = x.take_gradient().expect("backward left one");
//!     x.assign(&x.value().sub(&gradient.mul(0.1)?)?)?;
//! }
//! assert!((x.value().item::<f32>().await? - 1.0).abs() < 1e-6);
//! # Ok(()) }
//! # pollster::block_on(run()).unwrap();
//! ```
//!
//! **Devices.** [`Device::new`] takes a GPU, or else the CPU, and says so by [`fallback`](device::Device::fallback).
//! [`Device::discover`] lists what there is, with a reason beside each that is not taken, and a
//! [`Preference`](device::Preference) chooses by kind, index, name or the environment variable `WARPWEFT_DEVICE`.
//! [`Tensor::to`] brings a tensor from any device to any other. [`tune`] measures which kernels are fastest on one.
//!
//! **Features.** `gpu` and `cpu` are the backends, both on. `wgpu-interop` shares a wgpu device and its buffers with an app;
//! `ndarray`, `image` and `serde` bring tensors from and to what those crates have ([`data`]); `io` reads and writes files of
//! weights and arrays: safetensors, `.npy` and `.npz`.
//!
//! Programs to begin with are in `native/examples`, and `ARCHITECTURE.md` says how all of this works inside.
//!
//! [`Tensor`]: tensor::Tensor
//! [`Tensor::read`]: tensor::Tensor::read
//! [`Tensor::item`]: tensor::Tensor::item
//! [`Tensor::backward`]: tensor::Tensor::backward
//! [`Tensor::grad`]: tensor::Tensor::grad
//! [`Tensor::to`]: tensor::Tensor::to
//! [`Variable`]: tensor::Variable
//! [`Device::new`]: device::Device::new
//! [`Device::read`]: device::Device::read
//! [`Device::batch`]: device::Device::batch
//! [`Device::compile`]: device::Device::compile
//! [`Device::compile_dynamic`]: device::Device::compile_dynamic
//! [`Device::discover`]: device::Device::discover

// The order of the paragraphs below is the architecture: a module names only modules of earlier paragraphs.

pub mod dtype;

pub mod error;

mod alloc;
pub mod debug;
#[doc(hidden)] // For its tests.
pub mod lru;
mod sorted;
mod span;

pub mod shape;

pub mod expr;

pub mod op;

pub mod graph;
pub mod kernel;

pub mod schedule;

pub mod codegen;
pub mod expand;

pub mod grad;
pub mod plan;

pub mod backend;

pub mod profile;

pub mod device;

pub mod tensor;

pub mod data;

#[cfg(feature = "io")]
pub mod io;

#[cfg(feature = "text")]
pub mod text;

mod ceilings;
pub mod tune;

pub mod nn;
pub mod optim;

#[cfg(feature = "model")]
pub mod model;

pub mod train;

#[cfg(feature = "wgpu-interop")]
pub mod interop;

#[cfg(all(target_arch = "wasm32", feature = "js"))]
mod js;
