//! Gradients of a tensor.

use super::objects;
use super::references;
use crate::error::{Error, Result};

/// The gradients of a tensor, by all but the first of the others; that is a seed to weight with, unless it is 0.
pub fn gradients(of: u32, others: &[u32], answer: &mut Vec<f64>) -> Result<()> {
    let missing = || Error::data("grad: an operand is missing");
    let (&seed, rest) = others.split_first().ok_or_else(missing)?;
    let (of, wrt) = (objects::tensor(of)?, objects::tensors(rest)?);
    let gradients = match seed {
        0 => of.grad(&references(&wrt))?,
        seed => of.vjp(&objects::tensor(seed)?, &references(&wrt))?,
    };
    objects::keep_tensors(&gradients, answer)
}
