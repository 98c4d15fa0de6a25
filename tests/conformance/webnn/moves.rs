//! Operators that move elements.

use super::super::args::{Args, Operand, Stop};
use super::super::indices::{along, coordinates};
use super::{one, Results};
use warpweft::tensor::{PadMode, Scan, ScatterNdOptions, Tensor};

pub fn call(name: &str, args: &Args) -> Results {
    match name {
        "concat" => concat(args),
        "gather" => gather(args),
        "gatherElements" | "gatherND" | "scatterElements" | "scatterND" => picked(name, args),
        "split" => split(args),
        _ => {
            let x = args.get("input")?;
            one(moved(name, &x.tensor, args)?, x.kind)
        }
    }
}

fn moved(name: &str, x: &Tensor, args: &Args) -> Result<Tensor, Stop> {
    Ok(match name {
        "expand" => x.expand(&args.sizes("newShape")?)?,
        "reshape" => x.reshape(&args.sizes("newShape")?)?,
        "tile" => x.tile(&args.sizes("repetitions")?)?,
        "transpose" => {
            let reversed = || (0..x.rank() as isize).rev().collect();
            x.permute(&args.maybe_list("permutation")?.unwrap_or_else(reversed))?
        }
        "triangular" => {
            let diagonal = args.integer("diagonal", 0)? as i32;
            match args.flag("upper", true)? {
                true => x.triu(diagonal)?,
                false => x.tril(diagonal)?,
            }
        }
        "reverse" => {
            let all = || (0..x.rank() as isize).collect();
            x.flip(&args.maybe_list("axes")?.unwrap_or_else(all))?
        }
        "pad" => pad(x, args)?,
        "cumulativeSum" => {
            let axis = args.integer("axis", 0)? as isize;
            x.cumsum(
                Scan::from(axis)
                    .exclusive(args.flag("exclusive", false)?)
                    .reverse(args.flag("reversed", false)?),
            )?
        }
        _ => slice(x, args)?,
    })
}

fn pad(x: &Tensor, args: &Args) -> Result<Tensor, Stop> {
    let (before, after) = (args.sizes("beginningPadding")?, args.sizes("endingPadding")?);
    let value = args.number("value", 0.0)?;
    let amounts: Vec<(usize, usize)> = before.into_iter().zip(after).collect();
    Ok(match args.word("mode", "constant")? {
        "constant" => x.pad(&amounts, value)?,
        "edge" => x.pad_with(&amounts, PadMode::Edge)?,
        "reflection" => x.pad_with(&amounts, PadMode::Reflect)?,
        "symmetric" => x.pad_with(&amounts, PadMode::Symmetric)?,
        mode => return Err(Stop::Missing(format!("pad, mode {mode}"))),
    })
}

/// Slices. The sizes are those of the windows, and strides skip elements within a window.
fn slice(x: &Tensor, args: &Args) -> Result<Tensor, Stop> {
    let (starts, sizes) = (args.sizes("starts")?, args.sizes("sizes")?);
    let strides = args.maybe_sizes("strides")?.unwrap_or_else(|| vec![1; starts.len()]);
    let mut sliced = x.clone();
    for (axis, &start) in starts.iter().enumerate() {
        let (from, to) = (start as isize, (start + sizes[axis]) as isize);
        sliced = sliced.slice_step(axis as isize, from..to, strides[axis])?;
    }
    Ok(sliced)
}

fn split(args: &Args) -> Results {
    let x = args.get("input")?;
    let axis = args.integer("axis", 0)? as isize;
    let splits = args.raw("splits").and_then(serde_json::Value::as_u64);
    let lengths = match splits {
        Some(count) => {
            let extent = x.tensor.shape()[axis as usize];
            vec![extent / count as usize; count as usize]
        }
        None => args.sizes("splits")?,
    };
    let pieces = x.tensor.split(&lengths, axis)?;
    Ok(pieces.into_iter().map(|tensor| Operand::new(tensor, x.kind)).collect())
}

fn concat(args: &Args) -> Results {
    let inputs = args.operands("inputs")?;
    let inputs: Vec<Operand> = inputs.into_iter().flatten().collect();
    let Some(first) = inputs.first() else {
        return Err(Stop::Wrong("concat: of nothing".into()));
    };
    let all: Vec<&Tensor> = inputs.iter().map(|operand| &operand.tensor).collect();
    one(Tensor::concat(&all, args.integer("axis", 0)? as isize)?, first.kind)
}

/// Gathers. WebNN counts negative positions from the end, and clamps positions out of range.
fn gather(args: &Args) -> Results {
    let x = args.get("input")?;
    let axis = args.integer("axis", 0)? as isize;
    let index = position(args, &x.tensor, axis)?;
    one(x.tensor.index_select(axis, &index)?, x.kind)
}

/// Returns the positions along an axis.
fn position(args: &Args, x: &Tensor, axis: isize) -> Result<Tensor, Stop> {
    along(&args.get("indices")?.numbers()?, x.shape()[axis as usize], true)
}

/// Selects one element for each position, or for each row of coordinates.
fn picked(name: &str, args: &Args) -> Results {
    let x = args.get("input")?;
    let t = &x.tensor;
    let result = match name {
        "gatherElements" | "scatterElements" => {
            let axis = args.integer("axis", 0)? as isize;
            let index = position(args, t, axis)?;
            match name {
                "gatherElements" => t.gather(axis, &index)?,
                _ => t.scatter(axis, &index, &args.tensor("updates")?)?,
            }
        }
        _ => {
            let index = coordinates(&args.tensor("indices")?, t.shape(), true)?;
            match name {
                "gatherND" => t.gather_nd(&index)?,
                _ => t.scatter_nd(&index, &args.tensor("updates")?, ScatterNdOptions::default())?,
            }
        }
    };
    one(result, x.kind)
}
