//! WebNN's operators as `Tensor` calls, one row each. <https://www.w3.org/TR/webnn/>

mod moves;
pub mod networks;
mod recurrent;
mod windows;

use super::args::{Args, Environment, Operand, Stop};
use super::vectors::{Kind, Operator};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result as Computed;
use warpweft::op::Reduction;
use warpweft::tensor::{Axes, Tensor};

/// The outputs of an operator, in order.
type Results = Result<Vec<Operand>, Stop>;

/// Calls an operator and stores its results by name. Returns its limit in units in the last place by the rules of
/// web-platform-tests, for vectors without a limit.
pub fn apply(
    device: &Device,
    operator: &Operator,
    environment: &mut Environment,
) -> Result<Option<f64>, Stop> {
    let args = Args::new(operator, environment);
    let results = call(device, operator.name.as_str(), &args)?;
    args.ignored()?;
    let limit = networks::limit(operator.name.as_str(), &args)?;
    if results.len() != operator.outputs.len() {
        let (have, want) = (results.len(), operator.outputs.len());
        return Err(Stop::Wrong(format!("{}: {have} results instead of {want}", operator.name)));
    }
    for (name, result) in operator.outputs.iter().zip(results) {
        environment.insert(name.clone(), result);
    }
    Ok(limit)
}

/// Maps the name of an operator to its call.
fn call(device: &Device, name: &str, args: &Args) -> Results {
    match name {
        "abs" => unary(args, |x| Ok(x.abs())),
        "ceil" => unary(args, |x| Ok(x.ceil())),
        "cos" => unary(args, |x| Ok(x.cos())),
        "erf" => unary(args, |x| Ok(x.erf())),
        "exp" => unary(args, |x| Ok(x.exp())),
        "floor" => unary(args, |x| Ok(x.floor())),
        "gelu" => unary(args, |x| Ok(x.gelu())),
        "hardSwish" => unary(args, |x| Ok(x.hard_swish())),
        "identity" => unary(args, |x| Ok(x.clone())),
        "log" => unary(args, |x| Ok(x.log())),
        "neg" => unary(args, |x| Ok(x.neg())),
        "reciprocal" => unary(args, |x| Ok(x.reciprocal())),
        "relu" => unary(args, relu),
        "sigmoid" => unary(args, |x| Ok(x.sigmoid())),
        "sign" => unary(args, |x| Ok(x.sign())),
        "sin" => unary(args, |x| Ok(x.sin())),
        "softplus" => unary(args, |x| Ok(x.softplus())),
        "softsign" => unary(args, |x| Ok(x.softsign())),
        "sqrt" => unary(args, |x| Ok(x.sqrt())),
        "tan" => unary(args, |x| Ok(x.tan())),
        "tanh" => unary(args, |x| Ok(x.tanh())),
        "elu" | "leakyRelu" | "hardSigmoid" | "linear" | "clamp" => parametric(name, args),

        "add" => binary(args, |a, b| a.add(b)),
        "sub" => binary(args, |a, b| a.sub(b)),
        "mul" => binary(args, |a, b| a.mul(b)),
        // Integer division truncates.
        "div" => binary(args, |a, b| match a.dtype().is_float() {
            true => a.div(b),
            false => a.sub(&a.fmod(b)?)?.floor_divide(b),
        }),
        "max" => binary(args, |a, b| a.maximum(b)),
        "min" => binary(args, |a, b| a.minimum(b)),
        "pow" => binary(args, |a, b| a.pow(b)),
        "equal" => compare(args, |a, b| a.eq(b)),
        "notEqual" => compare(args, |a, b| a.ne(b)),
        "greater" => compare(args, |a, b| a.gt(b)),
        "greaterOrEqual" => compare(args, |a, b| a.ge(b)),
        "lesser" => compare(args, |a, b| a.lt(b)),
        "lesserOrEqual" => compare(args, |a, b| a.le(b)),
        "logicalAnd" => logical(args, |a, b| a.logical_and(b)),
        "logicalOr" => logical(args, |a, b| a.logical_or(b)),
        "logicalXor" => logical(args, |a, b| a.logical_xor(b)),
        "logicalNot" => {
            one(args.get("a").or_else(|_| args.get("input"))?.condition()?.logical_not(), Kind::U8)
        }
        "where" => choose(args),
        "prelu" => {
            let (x, slope) = (args.get("input")?, args.tensor("slope")?);
            one(x.tensor.gt(0.0)?.where_cond(&x.tensor, &x.tensor.mul(&slope)?)?, x.kind)
        }
        "cast" => cast(args),

        "argMax" => position(args, |x, axis| x.argmax(axis)),
        "argMin" => position(args, |x, axis| x.argmin(axis)),
        _ if name.starts_with("reduce") => reduce(name, args),

        "cumulativeSum" | "gatherElements" | "gatherND" | "scatterElements" | "scatterND" => {
            moves::call(name, args)
        }
        "concat" | "expand" | "gather" | "pad" | "reshape" | "reverse" | "slice" | "split" => {
            moves::call(name, args)
        }
        "tile" | "transpose" | "triangular" => moves::call(name, args),

        "averagePool2d" | "l2Pool2d" | "maxPool2d" | "conv2d" | "convTranspose2d"
        | "resample2d" => windows::call(name, args),
        "batchNormalization" | "instanceNormalization" | "layerNormalization" => {
            networks::call(name, args)
        }
        "gemm" | "matmul" | "softmax" => networks::call(name, args),
        "quantizeLinear" | "dequantizeLinear" => networks::call(name, args),
        "gru" | "gruCell" | "lstm" | "lstmCell" => recurrent::call(device, name, args),
        _ => Err(Stop::Missing(format!("{name}, of which the table says nothing"))),
    }
}

/// Returns a single result.
fn one(tensor: Tensor, kind: Kind) -> Results {
    Ok(vec![Operand::new(tensor, kind)])
}

fn unary(args: &Args, work: impl FnOnce(&Tensor) -> Computed<Tensor>) -> Results {
    let x = args.get("input")?;
    one(work(&x.numbers()?)?, x.kind)
}

fn binary(args: &Args, work: impl FnOnce(&Tensor, &Tensor) -> Computed<Tensor>) -> Results {
    let (a, b) = (args.get("a")?, args.get("b")?);
    one(work(&a.numbers()?, &b.numbers()?)?, a.kind)
}

fn compare(args: &Args, work: impl FnOnce(&Tensor, &Tensor) -> Computed<Tensor>) -> Results {
    let (a, b) = (args.get("a")?, args.get("b")?);
    one(work(&a.numbers()?, &b.numbers()?)?, Kind::U8)
}

fn logical(args: &Args, work: impl FnOnce(&Tensor, &Tensor) -> Computed<Tensor>) -> Results {
    one(work(&args.get("a")?.condition()?, &args.get("b")?.condition()?)?, Kind::U8)
}

/// Computes relu. The library's `relu` only takes floats.
fn relu(x: &Tensor) -> Computed<Tensor> {
    if x.dtype().is_float() {
        Ok(x.relu())
    } else {
        x.maximum(0.0)
    }
}

/// Calls operators with one operand and parameters.
fn parametric(name: &str, args: &Args) -> Results {
    let x = args.get("input")?;
    let t = &x.tensor;
    let result = match name {
        "elu" => t.elu(args.number("alpha", 1.0)?),
        "leakyRelu" => t.leaky_relu(args.number("alpha", 0.01)?),
        "hardSigmoid" => {
            let (alpha, beta) = (args.number("alpha", 0.2)?, args.number("beta", 0.5)?);
            t.mul(alpha)?.add(beta)?.clamp(0.0, 1.0)?
        }
        "linear" => t.mul(args.number("alpha", 1.0)?)?.add(args.number("beta", 0.0)?)?,
        _ => {
            let (low, high) = (args.maybe_number("minValue")?, args.maybe_number("maxValue")?);
            let raised = low.map_or_else(|| Ok(t.clone()), |low| t.maximum(low))?;
            high.map_or_else(|| Ok(raised.clone()), |high| raised.minimum(high))?
        }
    };
    one(result, x.kind)
}

fn choose(args: &Args) -> Results {
    let condition = args.get("condition")?.condition()?;
    let (yes, no) = (args.get("trueValue")?, args.tensor("falseValue")?);
    one(condition.where_cond(&yes.tensor, &no)?, yes.kind)
}

fn cast(args: &Args) -> Results {
    let x = args.get("input")?;
    let word = args.word("type", "")?;
    let kind = Kind::named(word).ok_or_else(|| Stop::Wrong(format!("cast: to {word}")))?;
    one(x.tensor.cast(kind.held())?, kind)
}

fn position(args: &Args, work: impl FnOnce(&Tensor, isize) -> Computed<Tensor>) -> Results {
    let x = args.tensor("input")?;
    let axis = args.integer("axis", 0)? as isize;
    let kind = Kind::named(args.word("outputDataType", "int32")?).unwrap_or(Kind::I32);
    let found = work(&x, axis)?;
    one(if args.flag("keepDimensions", false)? { found.unsqueeze(axis)? } else { found }, kind)
}

/// Reduces. WebNN reduces over all axes if none are given. An empty list means no axes, so a new last axis of extent 1 is
/// reduced.
fn reduce(name: &str, args: &Args) -> Results {
    let x = args.get("input")?;
    let keep = args.flag("keepDimensions", false)?;
    match args.maybe_list("axes")? {
        None => one(reduced(name, &x.tensor, &[], keep)?, x.kind),
        Some(axes) if axes.is_empty() => {
            one(reduced(name, &x.tensor.unsqueeze(-1)?, &[-1], false)?, x.kind)
        }
        Some(axes) => one(reduced(name, &x.tensor, &axes, keep)?, x.kind),
    }
}

fn reduced(name: &str, x: &Tensor, axes: &[isize], keep: bool) -> Result<Tensor, Stop> {
    let rank = x.rank() as isize;
    let over = |x: &Tensor, op: Reduction| x.reduce(op, Axes::from(axes).keepdim(keep));
    let kept = |result: Tensor| -> Computed<Tensor> {
        let mut result = result;
        let all: Vec<isize> = (0..rank).collect();
        let mut removed: Vec<isize> = if axes.is_empty() { all } else { axes.to_vec() };
        removed.sort_unstable();
        for &axis in removed.iter().filter(|_| keep) {
            result = result.unsqueeze(axis)?;
        }
        Ok(result)
    };
    let float = x.dtype().is_float();
    Ok(match name {
        "reduceSum" => over(x, Reduction::Sum)?,
        "reduceProduct" => over(x, Reduction::Prod)?,
        "reduceMax" => over(x, Reduction::Max)?,
        "reduceMin" => over(x, Reduction::Min)?,
        "reduceMean" if keep => x.mean(Axes::from(axes).keepdim(true))?,
        "reduceMean" => x.mean(axes)?,
        "reduceL1" if float => kept(x.norm_l1(axes)?)?,
        "reduceL1" if x.dtype() == DType::U32 => over(x, Reduction::Sum)?,
        "reduceL1" => over(&x.abs(), Reduction::Sum)?,
        "reduceL2" => kept(x.norm_l2(axes)?)?,
        "reduceLogSum" => over(x, Reduction::Sum)?.log(),
        "reduceLogSumExp" => kept(x.logsumexp(axes)?)?,
        "reduceSumSquare" => over(&x.square(), Reduction::Sum)?,
        _ => return Err(Stop::Missing(name.into())),
    })
}
