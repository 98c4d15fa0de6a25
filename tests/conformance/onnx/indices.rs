//! Operators with positions, or along an axis: scans, largest elements, gather and scatter.

use super::super::args::{Operand, Stop};
use super::super::indices::{along, coordinates, reduction};
use super::super::vectors::Kind;
use super::{one, Call, Results};
use warpweft::tensor::{Scan, ScatterNdOptions, Tensor};

pub fn call(name: &str, call: &Call) -> Results {
    let x = call.input(0)?;
    let result = match name {
        "CumSum" | "CumProd" => scan(name, call, &x.tensor)?,
        "GatherElements" => {
            let axis = call.axis(0, x.tensor.rank())?;
            let index = along(&call.input(1)?.tensor, x.tensor.shape()[axis], false)?;
            x.tensor.gather(axis as isize, &index)?
        }
        "GatherND" => gather(call, &x.tensor)?,
        "ScatterElements" => {
            let axis = call.axis(0, x.tensor.rank())?;
            let index = along(&call.input(1)?.tensor, x.tensor.shape()[axis], false)?;
            let (axis, source) = (axis as isize, &call.input(2)?.tensor);
            match reduction(call.args.word("reduction", "none")?)? {
                None => x.tensor.scatter(axis, &index, source)?,
                Some(op) => x.tensor.scatter_reduce(axis, &index, source, op)?,
            }
        }
        "ScatterND" => {
            let index = coordinates(&call.input(1)?.tensor, x.tensor.shape(), false)?;
            let op = reduction(call.args.word("reduction", "none")?)?;
            x.tensor.scatter_nd(
                &index,
                &call.input(2)?.tensor,
                ScatterNdOptions { reduction: op },
            )?
        }
        _ => return largest(call),
    };
    one(result, x.kind)
}

fn scan(name: &str, call: &Call, x: &Tensor) -> Result<Tensor, Stop> {
    let axis = call.input(1)?.values()?[0] as isize;
    let (exclusive, reverse) = (call.flag("exclusive", false)?, call.flag("reverse", false)?);
    Ok(match name {
        "CumSum" => x.cumsum(Scan::from(axis).exclusive(exclusive).reverse(reverse))?,
        _ => x.cumprod(Scan::from(axis).exclusive(exclusive).reverse(reverse))?,
    })
}

/// Gathers by coordinates. The common batch axes become additional coordinates before the others.
fn gather(call: &Call, x: &Tensor) -> Result<Tensor, Stop> {
    let batch = call.args.integer("batch_dims", 0)? as usize;
    let index = coordinates(&call.input(1)?.tensor, &x.shape()[batch..], false)?;
    let mut shape = index.shape().to_vec();
    let last = shape.len() as isize - 1;
    shape[last as usize] = 1;
    let mut all = index;
    for axis in (0..batch as isize).rev() {
        all = Tensor::concat(&[&call.device.iota(&shape, axis)?, &all], last)?;
    }
    Ok(x.gather_nd(&all)?)
}

/// Returns the largest or smallest elements and their positions, always in order.
fn largest(call: &Call) -> Results {
    let x = call.input(0)?;
    let axis = call.axis(-1, x.tensor.rank())? as isize;
    let count = call.input(1)?.values()?[0] as usize;
    call.flag("sorted", true)?;
    let (values, indices) = x.tensor.topk(count, axis, call.flag("largest", true)?)?;
    Ok(vec![Operand::new(values, x.kind), Operand::new(indices, Kind::I64)])
}
