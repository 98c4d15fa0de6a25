//! Prepared kernels, which contain all decisions that do not depend on buffers.

use super::exec::inputs::Inputs;
use super::lower;
use super::lower::plan::LoopPlan;
use super::routines::attention::AttentionPlan;
use super::routines::conv::ConvPlan;
use super::routines::matmul::MatmulPlan;
use super::routines::order;
#[cfg(any(not(target_arch = "wasm32"), feature = "model"))]
use super::routines::packed::PackedPlan;
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::{Counts, Dispatch, Kernel, Order};
use std::sync::Arc;

/// The key of a prepared kernel. Equal kernels of all batches are prepared once.
#[derive(Clone, PartialEq, Eq, Hash)]
pub(super) struct Key {
    kernel: Arc<Kernel>,
    inputs: usize,
    outputs: usize,
    params: usize,
}

impl Key {
    /// Returns the key of a dispatch.
    pub fn new(dispatch: &Dispatch) -> Key {
        Key {
            kernel: dispatch.kernel.clone(),
            inputs: dispatch.inputs.len(),
            outputs: dispatch.outputs.len(),
            params: dispatch.params.len(),
        }
    }
}

/// A prepared kernel.
pub(super) enum Prepared {
    /// Loops over regions, which run one after the other.
    Loop(Vec<LoopPlan>),
    Matmul(Box<MatmulPlan>),
    Conv2d(Box<ConvPlan>),
    Attention(Box<AttentionPlan>),
    #[cfg(any(not(target_arch = "wasm32"), feature = "model"))]
    PackedMatmul(Box<PackedPlan>),
    Order(Order),
}

impl Prepared {
    /// Prepares the kernel of a dispatch.
    pub fn new(dispatch: &Dispatch) -> Result<Prepared> {
        let counts = Counts {
            inputs: dispatch.inputs.len(),
            outputs: dispatch.outputs.len(),
            params: dispatch.params.len(),
            epilogue: false,
        };
        let computed = |function: &_| lower::formula::function(function).is_some();
        Ok(match &*dispatch.kernel.inlined(&computed) {
            Kernel::Loop { space, program } => {
                Prepared::Loop(lower::kernel(space, program, counts)?)
            }
            Kernel::Shader { .. } => {
                let message = "shader: a shader is not supported on the CPU";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            Kernel::Order(order) => Prepared::Order(order.clone()),
            Kernel::Matmul(matmul) => Prepared::Matmul(Box::new(MatmulPlan::new(matmul, counts)?)),
            Kernel::Conv2d(conv) => Prepared::Conv2d(Box::new(ConvPlan::new(conv, counts)?)),
            #[cfg(all(target_arch = "wasm32", not(feature = "model")))]
            Kernel::PackedMatmul(_) => {
                let message = "packed_matmul: packed rows are not supported on the CPU of a page";
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            #[cfg(any(not(target_arch = "wasm32"), feature = "model"))]
            Kernel::PackedMatmul(packed) => {
                Prepared::PackedMatmul(Box::new(PackedPlan::new(packed, counts)?))
            }
            Kernel::Attention(attend) => {
                Prepared::Attention(Box::new(AttentionPlan::new(attend, counts)?))
            }
        })
    }

    /// Runs the kernel.
    pub fn run(&self, inputs: &Inputs<'_>, outputs: &mut [&mut [u32]]) -> Result<()> {
        match self {
            Prepared::Loop(plans) => plans.iter().try_for_each(|plan| plan.run(inputs, outputs)),
            Prepared::Matmul(plan) => plan.run(inputs, outputs),
            Prepared::Conv2d(plan) => plan.run(inputs, outputs),
            Prepared::Attention(plan) => plan.run(inputs, outputs),
            #[cfg(any(not(target_arch = "wasm32"), feature = "model"))]
            Prepared::PackedMatmul(plan) => plan.run(inputs, outputs),
            Prepared::Order(order) => order::run(order, inputs, outputs),
        }
    }
}
