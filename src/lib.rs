//! Tensor computation on any GPU: Vulkan, Metal and DX12 natively, WebGPU in browsers, and the CPU where no GPU is available.
//! This crate is async. `warpweft-native` has the same API with blocking calls.
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
//! **Recording.** A [`Tensor`] is a handle, which is cheap to clone, immutable, and freed when it is dropped. Its methods
//! record operations and check shapes and types at once, without waiting. Shapes broadcast as in NumPy, negative axes count
//! from the end, and operands can be tensors or numbers. An operation that can fail returns a [`Result`](error::Result) whose
//! [message](error::Error) names the operation and both shapes.
//!
//! **Reading** is the only step that waits: [`Tensor::read`], [`Tensor::item`], or [`Device::read`] for several tensors at
//! once. All necessary operations run as one submission. Chains of operations, reductions, and products with their
//! surroundings are one kernel each. The futures work with any executor. Errors of the device are returned here, too.
//!
//! **Batches** run several results together, and show the plan before it runs: [`Device::batch`].
//!
//! **Programs** are compiled once and run with new inputs: [`Device::compile`], and with axes of any size
//! [`Device::compile_dynamic`]. The second run plans, compiles and allocates nothing.
//!
//! **Loops** assign to a [`Variable`]. [`Tensor::backward`] and [`Tensor::grad`] return gradients, of any order.
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
//! **Devices.** [`Device::new`] opens a GPU. If none is available it opens the CPU, and
//! [`fallback`](device::Device::fallback) returns the reason. [`Device::discover`] lists all devices, with a reason for each
//! unusable one. A [`Preference`](device::Preference) chooses by kind, index, name or the environment variable
//! `WARPWEFT_DEVICE`. [`Tensor::to`] copies a tensor to any other device. [`tune`] measures the fastest kernels of a device.
//!
//! **Features.** `gpu` and `cpu` are the backends, and both are on by default. `wgpu-interop` shares a wgpu device and its
//! buffers with an app. `ndarray`, `image` and `serde` convert tensors from and to the types of those crates ([`data`]). `io`
//! reads and writes files of weights and arrays, in the formats safetensors, `.npy` and `.npz`.
//!
//! `native/examples` has programs to begin with, and `ARCHITECTURE.md` explains the implementation.
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

// Without `unstable`, nothing uses the functions that exist only for other backends and for tests.
#![cfg_attr(not(feature = "unstable"), allow(dead_code, unused_imports))]

// The order of the paragraphs below is the architecture: a module names only modules of earlier paragraphs.
// The modules behind the feature `unstable` are for other backends and for tests.

pub mod dtype;

pub mod error;

mod alloc;
pub mod debug;
#[cfg(not(feature = "unstable"))]
mod lru;
#[cfg(feature = "unstable")]
pub mod lru;
mod sorted;
mod span;

pub mod shape;

#[cfg(not(feature = "unstable"))]
mod expr;
#[cfg(feature = "unstable")]
pub mod expr;

#[cfg(not(feature = "unstable"))]
mod op;
#[cfg(feature = "unstable")]
pub mod op;

#[cfg(not(feature = "unstable"))]
mod graph;
#[cfg(feature = "unstable")]
pub mod graph;
#[cfg(not(feature = "unstable"))]
mod kernel;
#[cfg(feature = "unstable")]
pub mod kernel;

#[cfg(not(feature = "unstable"))]
mod schedule;
#[cfg(feature = "unstable")]
pub mod schedule;

#[cfg(not(feature = "unstable"))]
mod codegen;
#[cfg(feature = "unstable")]
pub mod codegen;
#[cfg(not(feature = "unstable"))]
mod expand;
#[cfg(feature = "unstable")]
pub mod expand;

#[cfg(not(feature = "unstable"))]
mod grad;
#[cfg(feature = "unstable")]
pub mod grad;
#[cfg(not(feature = "unstable"))]
mod plan;
#[cfg(feature = "unstable")]
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

#[cfg(not(feature = "distributed"))]
#[allow(dead_code)]
mod distributed;
#[cfg(feature = "distributed")]
pub mod distributed;

pub mod nn;
pub mod optim;

#[cfg(feature = "model")]
pub mod model;

pub mod train;

#[cfg(feature = "wgpu-interop")]
pub mod interop;

#[cfg(all(target_arch = "wasm32", feature = "js"))]
mod js;
