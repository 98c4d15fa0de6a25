//! Operators that move and create elements.

use super::super::args::{Operand, Stop};
use super::super::vectors::Kind;
use super::{numbered, one, Call, Results};
use warpweft::dtype::DType;
use warpweft::shape::Shape;
use warpweft::tensor::{PadMode, Tensor};

pub fn call(name: &str, call: &Call) -> Results {
    match name {
        "ConstantOfShape" | "EyeLike" | "Range" | "OneHot" => made(name, call),
        "Split" => split(call),
        _ => {
            let x = call.input(0)?;
            one(moved(name, call, &x.tensor)?, x.kind)
        }
    }
}

/// Returns the whole numbers of the n-th input as sizes.
fn sizes(call: &Call, n: usize) -> Result<Vec<usize>, Stop> {
    Ok(call.list(n)?.unwrap_or_default().into_iter().map(|n| n as usize).collect())
}

/// Returns the axes in the n-th input, counted from the front, or all axes if it is missing.
fn axes(call: &Call, n: usize, rank: usize) -> Result<Vec<usize>, Stop> {
    let front = |axis: i64| axis.rem_euclid(rank as i64) as usize;
    Ok(match call.list(n)? {
        Some(axes) => axes.into_iter().map(front).collect(),
        None => (0..rank).collect(),
    })
}

fn moved(name: &str, call: &Call, x: &Tensor) -> Result<Tensor, Stop> {
    let rank = x.rank();
    Ok(match name {
        "Reshape" => x.reshape(&reshaped(call, x)?)?,
        "Flatten" => {
            let axis = call.args.integer("axis", 1)?;
            let axis = if axis < 0 { axis + rank as i64 } else { axis } as usize;
            let rows: usize = x.shape()[..axis].iter().product();
            let columns: usize = x.shape()[axis..].iter().product();
            x.reshape(&[rows, columns])?
        }
        "Transpose" => {
            let reversed = || (0..rank as isize).rev().collect();
            x.permute(&call.args.maybe_list("perm")?.unwrap_or_else(reversed))?
        }
        "Squeeze" => {
            let gone = axes(call, 1, rank)?;
            let left = x.shape().iter().enumerate().filter(|(axis, _)| !gone.contains(axis));
            x.reshape(&left.map(|(_, &extent)| extent).collect::<Vec<_>>())?
        }
        "Unsqueeze" => {
            let added = call.list(1)?.unwrap_or_default();
            let mut new = axes(call, 1, rank + added.len())?;
            new.sort_unstable();
            let mut dims = x.shape().to_vec();
            new.into_iter().for_each(|axis| dims.insert(axis, 1));
            x.reshape(&dims)?
        }
        "Expand" => {
            let joint = Shape::broadcast("Expand", x.shape(), &sizes(call, 1)?)?;
            x.expand(&joint)?
        }
        "Tile" => x.tile(&sizes(call, 1)?)?,
        "Concat" => {
            let all: Vec<&Tensor> = call.inputs.iter().flatten().map(|x| &x.tensor).collect();
            Tensor::concat(&all, call.args.integer("axis", 0)? as isize)?
        }
        "Slice" => slice(call, x)?,
        "Pad" => pad(call, x)?,
        "Gather" => {
            let axis = call.axis(0, rank)?;
            let (index, extent) = (&call.input(1)?.tensor, x.shape()[axis] as i32);
            let index = index.lt(0)?.where_cond(&index.add(extent)?, index)?;
            x.index_select(axis as isize, &index)?
        }
        "Trilu" => {
            let diagonal = call.list(1)?.map_or(0, |k| k[0]) as i32;
            match call.flag("upper", true)? {
                true => x.triu(diagonal)?,
                false => x.tril(diagonal)?,
            }
        }
        "DepthToSpace" | "SpaceToDepth" => blocks(name, call, x)?,
        "CenterCropPad" => centred(call, x)?,
        "ReverseSequence" => reversed(call, x)?,
        _ => return Err(Stop::Missing(format!("{name}, of which the table says nothing"))),
    })
}

/// Returns a shape in which 0 means the extent of the operand (unless that is forbidden) and -1 the remaining extent.
fn reshaped(call: &Call, x: &Tensor) -> Result<Vec<usize>, Stop> {
    let given = call.list(1)?.unwrap_or_default();
    let literal = call.flag("allowzero", false)?;
    let mut dims = Vec::new();
    for (axis, &extent) in given.iter().enumerate() {
        dims.push(match extent {
            0 if !literal => x.shape()[axis],
            -1 => 1,
            extent => extent as usize,
        });
    }
    if let Some(axis) = given.iter().position(|&extent| extent == -1) {
        let known: usize = dims.iter().product();
        dims[axis] = x.numel() / known.max(1);
    }
    Ok(dims)
}

/// Slices as Python does: ends are clamped, and steps may be negative.
fn slice(call: &Call, x: &Tensor) -> Result<Tensor, Stop> {
    let missing = || Stop::Wrong("Slice: no range".into());
    let (starts, ends) = (call.list(1)?.ok_or_else(missing)?, call.list(2)?.ok_or_else(missing)?);
    let along = match call.maybe(3) {
        Some(_) => axes(call, 3, x.rank())?,
        None => (0..starts.len()).collect(),
    };
    let steps = call.list(4)?.unwrap_or_else(|| vec![1; starts.len()]);
    let mut result = x.clone();
    for (n, &axis) in along.iter().enumerate() {
        let extent = x.shape()[axis] as i64;
        let at = |p: i64| if p < 0 { p.saturating_add(extent) } else { p };
        let (start, end, step) = (at(starts[n]), at(ends[n]), steps[n]);
        let (from, to) = if step > 0 {
            (start.clamp(0, extent), end.clamp(0, extent))
        } else {
            // Counted from the other end.
            result = result.flip(&[axis as isize])?;
            let turned = |p: i64| (extent - 1 - p.clamp(-1, extent - 1)).clamp(0, extent);
            (turned(start), turned(end))
        };
        let (from, to) = (from as isize, to.max(from) as isize);
        result = result.slice_step(axis as isize, from..to, step.unsigned_abs() as usize)?;
    }
    Ok(result)
}

fn pad(call: &Call, x: &Tensor) -> Result<Tensor, Stop> {
    let amounts = call.list(1)?.unwrap_or_default();
    let along = axes(call, 3, x.rank())?;
    let value = call.maybe(2).map_or(Ok(0.0), |value| value.values().map(|value| value[0]))?;
    let mut pads = vec![(0, 0); x.rank()];
    for (n, &axis) in along.iter().enumerate() {
        pads[axis] = (amounts[n] as usize, amounts[n + along.len()] as usize);
    }
    Ok(match call.args.word("mode", "constant")? {
        "constant" => x.pad(&pads, value)?,
        "reflect" => x.pad_with(&pads, PadMode::Reflect)?,
        "edge" => x.pad_with(&pads, PadMode::Edge)?,
        "wrap" => x.pad_with(&pads, PadMode::Wrap)?,
        mode => return Err(Stop::Missing(format!("Pad, mode {mode}"))),
    })
}

/// Moves channels to blocks of pixels and back. The shape is `[batch, channels, height, width]`.
fn blocks(name: &str, call: &Call, x: &Tensor) -> Result<Tensor, Stop> {
    let size = call.args.integer("blocksize", 1)? as usize;
    let &[batch, channels, height, width] = x.shape() else {
        return Err(Stop::Wrong("rank".into()));
    };
    let depth_first = call.args.word("mode", "DCR")? == "DCR";
    if name == "DepthToSpace" {
        let rest = channels / (size * size);
        let (dims, order) = match depth_first {
            true => ([batch, size, size, rest, height, width], [0, 3, 4, 1, 5, 2]),
            false => ([batch, rest, size, size, height, width], [0, 1, 4, 2, 5, 3]),
        };
        let parted = x.reshape(&dims)?.permute(&order)?;
        return Ok(parted.reshape(&[batch, rest, height * size, width * size])?);
    }
    let parted = x.reshape(&[batch, channels, height / size, size, width / size, size])?;
    let order = if depth_first { [0, 3, 5, 1, 2, 4] } else { [0, 1, 3, 5, 2, 4] };
    let all = channels * size * size;
    Ok(parted.permute(&order)?.reshape(&[batch, all, height / size, width / size])?)
}

/// Crops or pads with zeros on both sides, with an odd element at the end.
fn centred(call: &Call, x: &Tensor) -> Result<Tensor, Stop> {
    let shape = sizes(call, 1)?;
    let rank = x.rank() as isize;
    let along = call.args.maybe_list("axes")?.unwrap_or_else(|| (0..rank).collect());
    let mut result = x.clone();
    for (&axis, &want) in along.iter().zip(&shape) {
        let axis = axis.rem_euclid(rank);
        let have = x.shape()[axis as usize];
        let before = have.abs_diff(want) / 2;
        if want < have {
            result = result.slice(axis, before as isize..(before + want) as isize)?;
        } else {
            let mut pads = vec![(0, 0); x.rank()];
            pads[axis as usize] = (before, want - have - before);
            result = result.pad(&pads, 0.0)?;
        }
    }
    Ok(result)
}

/// Reverses the first elements of each row of a batch. Each row has a separate count.
fn reversed(call: &Call, x: &Tensor) -> Result<Tensor, Stop> {
    let (batch, time) =
        (call.args.integer("batch_axis", 1)? as isize, call.args.integer("time_axis", 0)? as isize);
    let mut rows = Vec::new();
    for (n, length) in sizes(call, 1)?.into_iter().enumerate() {
        let (n, length) = (n as isize, length as isize);
        let row = x.slice(batch, n..n + 1)?;
        let rest = row.slice(time, length..row.shape()[time as usize] as isize)?;
        rows.push(Tensor::concat(&[&row.slice(time, ..length)?.flip(&[time])?, &rest], time)?);
    }
    Ok(Tensor::concat(&rows, batch)?)
}

fn split(call: &Call) -> Results {
    let x = call.input(0)?;
    let axis = call.axis(0, x.tensor.rank())?;
    let extent = x.tensor.shape()[axis];
    let lengths = match call.maybe(1) {
        Some(_) => sizes(call, 1)?,
        None => {
            let named = call.args.outputs() as i64;
            let count = call.args.integer("num_outputs", named)? as usize;
            let each = extent.div_ceil(count);
            (0..count).map(|n| each.min(extent.saturating_sub(n * each))).collect()
        }
    };
    let pieces = x.tensor.split(&lengths, axis as isize)?;
    Ok(pieces.into_iter().map(|tensor| Operand::new(tensor, x.kind)).collect())
}

/// Creates tensors from shapes and numbers.
fn made(name: &str, call: &Call) -> Results {
    let device = call.device;
    match name {
        "ConstantOfShape" => {
            let value = call.args.raw("value");
            let kind = match value.is_some_and(|value| value.is_i64()) {
                true => Kind::I32,
                false => Kind::F32,
            };
            one(device.full(&sizes(call, 0)?, call.args.number("value", 0.0)?, kind.held())?, kind)
        }
        "EyeLike" => {
            let x = call.input(0)?;
            let kind = match call.args.integer("dtype", -1)? {
                -1 => x.kind,
                number => numbered(number)?,
            };
            let shape = x.tensor.shape();
            let row = device.iota(shape, 0)?.add(call.args.integer("k", 0)? as i32)?;
            one(row.eq(&device.iota(shape, 1)?)?.cast(kind.held())?, kind)
        }
        "Range" => {
            let kind = call.input(0)?.kind;
            let number = |n: usize| call.input(n)?.values().map(|values| values[0]);
            let (start, end, step) = (number(0)?, number(1)?, number(2)?);
            one(device.arange_step(start, end, step)?.cast(kind.held())?, kind)
        }
        _ => one_hot(call),
    }
}

/// Returns one value where the position along a new axis equals the index, and another value elsewhere. Negative indices count
/// from the end.
fn one_hot(call: &Call) -> Results {
    let index = call.input(0)?;
    let (depth, values) = (call.input(1)?.values()?[0] as usize, call.input(2)?);
    let rank = index.tensor.rank() as i64 + 1;
    let axis = call.args.integer("axis", -1)?.rem_euclid(rank) as isize;
    let index = index.tensor.cast(DType::I32)?;
    let index = index.lt(0)?.where_cond(&index.add(depth as i32)?, &index)?.unsqueeze(axis)?;
    let mut shape = vec![1; rank as usize];
    shape[axis as usize] = depth;
    let here = index.eq(&call.device.iota(&[depth], 0)?.reshape(&shape)?)?;
    let value = |n: isize| values.tensor.slice(0, n..n + 1)?.reshape(());
    one(here.where_cond(&value(1)?, &value(0)?)?, values.kind)
}
