//! Converts the index conventions of ONNX and WebNN.

use super::args::Stop;
use warpweft::dtype::DType;
use warpweft::op::Reduction;
use warpweft::tensor::Tensor;

/// Converts positions along an axis. Negative ones count from the end. Positions out of range are unchanged, or moved to the
/// nearest valid one with `clamp`.
pub fn along(index: &Tensor, extent: usize, clamp: bool) -> Result<Tensor, Stop> {
    let last = index.device().tensor(&[extent as i32 - 1], &[])?;
    counted(index, &last, clamp)
}

/// Converts coordinates along the last axis in the same way, in a tensor of this shape.
pub fn coordinates(index: &Tensor, shape: &[usize], clamp: bool) -> Result<Tensor, Stop> {
    let count = index.shape().last().copied().unwrap_or(0).min(shape.len());
    let last: Vec<i32> = shape[..count].iter().map(|&extent| extent as i32 - 1).collect();
    counted(index, &index.device().tensor(&last, &[count])?, clamp)
}

fn counted(index: &Tensor, last: &Tensor, clamp: bool) -> Result<Tensor, Stop> {
    // Values beyond `i32` are out of range in any case.
    let index = match index.dtype() {
        DType::U32 => index.minimum(f64::from(i32::MAX))?.cast(DType::I32)?,
        _ => index.cast(DType::I32)?,
    };
    let index = index.lt(0)?.where_cond(&index.add(last)?.add(1)?, &index)?;
    Ok(if clamp { index.maximum(0)?.minimum(last)? } else { index })
}

/// Returns ONNX's reduction of elements with the same index, or `None` if the last one wins.
pub fn reduction(word: &str) -> Result<Option<Reduction>, Stop> {
    Ok(match word {
        "none" => None,
        "add" => Some(Reduction::Sum),
        "mul" => Some(Reduction::Prod),
        "max" => Some(Reduction::Max),
        "min" => Some(Reduction::Min),
        other => return Err(Stop::Wrong(format!("reduction {other}"))),
    })
}
