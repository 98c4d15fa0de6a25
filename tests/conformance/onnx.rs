//! ONNX's operators as `Tensor` calls, one row each. <https://onnx.ai/onnx/operators/>

mod attention;
mod indices;
mod losses;
mod moves;
mod networks;
mod resize;
mod windows;

use super::args::{Args, Environment, Operand, Stop};
use super::vectors::{Kind, Operator};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result as Computed;
use warpweft::op::Reduction;
use warpweft::tensor::{Axes, Tensor};

/// The outputs of an operator, in order. Unnamed outputs at the end may be missing.
type Results = Result<Vec<Operand>, Stop>;

/// A call: its arguments, and its inputs, some of which may be missing.
struct Call<'a> {
    device: &'a Device,
    args: &'a Args<'a>,
    inputs: Vec<Option<Operand>>,
}

impl Call<'_> {
    /// Returns the n-th input, if it exists.
    fn maybe(&self, n: usize) -> Option<&Operand> {
        self.inputs.get(n).and_then(Option::as_ref)
    }

    /// Returns the n-th input.
    fn input(&self, n: usize) -> Result<&Operand, Stop> {
        self.maybe(n).ok_or_else(|| Stop::Wrong(format!("input {n} is not there")))
    }

    /// Returns the whole numbers that are the values of the n-th input.
    fn list(&self, n: usize) -> Result<Option<Vec<i64>>, Stop> {
        let Some(operand) = self.maybe(n) else { return Ok(None) };
        Ok(Some(operand.values()?.iter().map(|&value| value as i64).collect()))
    }

    /// Returns an attribute that is 0 or 1.
    fn flag(&self, name: &str, usual: bool) -> Result<bool, Stop> {
        Ok(self.args.integer(name, i64::from(usual))? != 0)
    }

    /// Returns an axis counted from the front.
    fn axis(&self, usual: i64, rank: usize) -> Result<usize, Stop> {
        let axis = self.args.integer("axis", usual)?;
        Ok(axis.rem_euclid(rank.max(1) as i64) as usize)
    }
}

/// Calls an operator and stores its results by name. ONNX gives every case a limit.
pub fn apply(
    device: &Device,
    operator: &Operator,
    environment: &mut Environment,
) -> Result<Option<f64>, Stop> {
    let args = Args::new(operator, environment);
    let call = Call { device, args: &args, inputs: args.operands("inputs")? };
    let results = table(operator.name.as_str(), &call)?;
    args.ignored()?;
    if results.len() < operator.outputs.len() {
        let (have, want) = (results.len(), operator.outputs.len());
        return Err(Stop::Wrong(format!("{}: {have} results instead of {want}", operator.name)));
    }
    for (name, result) in operator.outputs.iter().zip(results) {
        environment.insert(name.clone(), result);
    }
    Ok(None)
}

fn table(name: &str, call: &Call) -> Results {
    if let Some(result) = unary(name, call)? {
        return one(result, call.input(0)?.kind);
    }
    match name {
        "Add" | "Sub" | "Mul" | "Div" | "Mod" | "Pow" | "PRelu" => arithmetic(name, call),
        "BitShift" | "BitwiseAnd" | "BitwiseOr" | "BitwiseXor" | "BitwiseNot" => bits(name, call),
        "Max" | "Min" | "Sum" | "Mean" => several(name, call),
        "Equal" | "Greater" | "GreaterOrEqual" | "Less" | "LessOrEqual" => compare(name, call),
        "And" | "Or" | "Xor" | "Not" | "IsInf" | "IsNaN" => truth(name, call),
        "Clip" => clip(call),
        "Where" => {
            let (yes, no) = (call.input(1)?, call.input(2)?);
            one(call.input(0)?.tensor.where_cond(&yes.tensor, &no.tensor)?, yes.kind)
        }
        "Cast" => cast(call),
        "ArgMax" | "ArgMin" => position(name, call),
        _ if name.starts_with("Reduce") => reduce(name, call),
        "MatMul" | "Gemm" | "GlobalAveragePool" | "GlobalMaxPool" | "LRN" => {
            networks::call(name, call)
        }
        "Conv" | "ConvTranspose" | "AveragePool" | "LpPool" | "MaxPool" => {
            windows::call(name, call)
        }
        "Resize" => one(resize::call(call)?, call.input(0)?.kind),
        "CumSum" | "CumProd" | "TopK" | "GatherElements" | "GatherND" | "ScatterElements"
        | "ScatterND" => indices::call(name, call),
        "Softmax" | "LogSoftmax" | "Hardmax" => networks::call(name, call),
        "QuantizeLinear" | "DequantizeLinear" => networks::call(name, call),
        _ if name.ends_with("Normalization") => networks::call(name, call),
        "SoftmaxCrossEntropyLoss" | "NegativeLogLikelihoodLoss" => losses::call(name, call),
        "Attention" | "RotaryEmbedding" => attention::call(name, call),
        _ => moves::call(name, call),
    }
}

/// Returns a single result.
fn one(tensor: Tensor, kind: Kind) -> Results {
    Ok(vec![Operand::new(tensor, kind)])
}

/// Calls operators with one operand. Returns `None` for other operators.
fn unary(name: &str, call: &Call) -> Result<Option<Tensor>, Stop> {
    let Some(Operand { tensor: x, .. }) = call.maybe(0) else { return Ok(None) };
    let number = |name: &str, usual: f64| call.args.number(name, usual);
    Ok(Some(match name {
        "Abs" => x.abs(),
        "Acos" => x.acos(),
        "Acosh" => x.acosh(),
        "Asin" => x.asin(),
        "Asinh" => x.asinh(),
        "Atan" => x.atan(),
        "Atanh" => x.atanh(),
        "Ceil" => x.ceil(),
        "Celu" => x.celu(number("alpha", 1.0)?),
        "Cos" => x.cos(),
        "Cosh" => x.cosh(),
        "Elu" => x.elu(number("alpha", 1.0)?),
        "Erf" => x.erf(),
        "Exp" => x.exp(),
        "Floor" => x.floor(),
        "Gelu" if call.args.word("approximate", "none")? == "tanh" => x.gelu_tanh(),
        "Gelu" => x.gelu(),
        "HardSigmoid" => {
            let line = x.mul(number("alpha", 0.2)?)?.add(number("beta", 0.5)?)?;
            line.clamp(0.0, 1.0)?
        }
        "HardSwish" => x.hard_swish(),
        "Identity" => x.clone(),
        "LeakyRelu" => x.leaky_relu(number("alpha", 0.01)?),
        "Log" => x.log(),
        "Mish" => x.mish(),
        "Neg" => x.neg(),
        "Reciprocal" => x.reciprocal(),
        "Relu" => x.relu(),
        "Round" => x.round(),
        "Selu" => match (call.args.maybe_number("alpha")?, call.args.maybe_number("gamma")?) {
            (None, None) => x.selu(),
            (alpha, gamma) => x.elu(alpha.unwrap_or(1.673_263)).mul(gamma.unwrap_or(1.050_701))?,
        },
        "Shrink" => {
            let (bias, edge) = (number("bias", 0.0)?, number("lambd", 0.5)?);
            let upper = x.gt(edge)?.where_cond(&x.sub(bias)?, &x.mul(0.0)?)?;
            x.lt(-edge)?.where_cond(&x.add(bias)?, &upper)?
        }
        "Sigmoid" => x.sigmoid(),
        "Sign" => x.sign(),
        "Sin" => x.sin(),
        "Sinh" => x.sinh(),
        "Softplus" => x.softplus(),
        "Softsign" => x.softsign(),
        "Sqrt" => x.sqrt(),
        "Swish" => x.mul(&x.mul(number("alpha", 1.0)?)?.sigmoid())?,
        "Tan" => x.tan(),
        "Tanh" => x.tanh(),
        "ThresholdedRelu" => x.gt(number("alpha", 1.0)?)?.where_cond(x, 0.0)?,
        _ => return Ok(None),
    }))
}

/// Returns an 8-bit result that was computed in 32 bits.
fn wrapped(x: &Tensor, kind: Kind) -> Computed<Tensor> {
    match kind {
        Kind::U8 => x.bitwise_and(255),
        Kind::I8 => x.bitwise_left_shift(24)?.bitwise_right_shift(24),
        _ => Ok(x.clone()),
    }
}

fn arithmetic(name: &str, call: &Call) -> Results {
    let (x, y) = (call.input(0)?, call.input(1)?);
    let (a, b) = (&x.tensor, &y.tensor);
    let result = match name {
        "Add" => a.add(b)?,
        "Sub" => a.sub(b)?,
        "Mul" => a.mul(b)?,
        // Integer division truncates.
        "Div" if !a.dtype().is_float() => a.sub(&a.fmod(b)?)?.floor_divide(b)?,
        "Div" => a.div(b)?,
        "Mod" if call.flag("fmod", false)? => a.fmod(b)?,
        "Mod" => a.remainder(b)?,
        "PRelu" => a.ge(0.0)?.where_cond(a, &a.mul(b)?)?,
        // Integer powers are computed in floats. The rounded result is exact.
        _ => {
            let (base, exponent) = (a.cast(DType::F32)?, b.cast(DType::F32)?);
            let power = base.pow(&exponent)?;
            match x.kind.held() {
                DType::F32 => power,
                whole => power.round().cast(whole)?,
            }
        }
    };
    one(wrapped(&result, x.kind)?, x.kind)
}

fn bits(name: &str, call: &Call) -> Results {
    let x = call.input(0)?;
    if name == "BitwiseNot" {
        return one(wrapped(&x.tensor.bitwise_not(), x.kind)?, x.kind);
    }
    let y = &call.input(1)?.tensor;
    let result = match name {
        "BitwiseAnd" => x.tensor.bitwise_and(y)?,
        "BitwiseOr" => x.tensor.bitwise_or(y)?,
        "BitwiseXor" => x.tensor.bitwise_xor(y)?,
        _ if call.args.word("direction", "")? == "LEFT" => x.tensor.bitwise_left_shift(y)?,
        _ => x.tensor.bitwise_right_shift(y)?,
    };
    one(wrapped(&result, x.kind)?, x.kind)
}

/// Calls operators with any number of operands.
fn several(name: &str, call: &Call) -> Results {
    let first = call.input(0)?;
    let mut result = first.tensor.clone();
    for n in 1..call.inputs.len() {
        let next = &call.input(n)?.tensor;
        result = match name {
            "Max" => result.maximum(next)?,
            "Min" => result.minimum(next)?,
            _ => result.add(next)?,
        };
    }
    if name == "Mean" {
        result = result.div(call.inputs.len() as f64)?;
    }
    one(result, first.kind)
}

fn compare(name: &str, call: &Call) -> Results {
    let (a, b) = (&call.input(0)?.tensor, &call.input(1)?.tensor);
    let result = match name {
        "Equal" => a.eq(b)?,
        "Greater" => a.gt(b)?,
        "GreaterOrEqual" => a.ge(b)?,
        "Less" => a.lt(b)?,
        _ => a.le(b)?,
    };
    one(result, Kind::Bool)
}

fn truth(name: &str, call: &Call) -> Results {
    let x = &call.input(0)?.tensor;
    let result = match name {
        "Not" => x.logical_not(),
        "IsNaN" => x.is_nan(),
        "IsInf" => {
            let infinite = x.is_inf();
            let (above, below) =
                (call.flag("detect_positive", true)?, call.flag("detect_negative", true)?);
            let sides = match (above, below) {
                (true, true) => infinite.clone(),
                (true, false) => x.gt(0.0)?,
                (false, true) => x.lt(0.0)?,
                (false, false) => infinite.logical_not(),
            };
            infinite.logical_and(&sides)?
        }
        _ => {
            let y = &call.input(1)?.tensor;
            match name {
                "And" => x.logical_and(y)?,
                "Or" => x.logical_or(y)?,
                _ => x.logical_xor(y)?,
            }
        }
    };
    one(result, Kind::Bool)
}

fn clip(call: &Call) -> Results {
    let x = call.input(0)?;
    let mut result = x.tensor.clone();
    if let Some(low) = call.maybe(1) {
        result = result.maximum(&low.tensor)?;
    }
    if let Some(high) = call.maybe(2) {
        result = result.minimum(&high.tensor)?;
    }
    one(result, x.kind)
}

/// Returns the kind of an ONNX type number.
fn numbered(number: i64) -> Result<Kind, Stop> {
    let kind = match number {
        1 => Kind::F32,
        2 => Kind::U8,
        3 => Kind::I8,
        6 => Kind::I32,
        7 => Kind::I64,
        9 => Kind::Bool,
        10 => Kind::F16,
        12 => Kind::U32,
        other => return Err(Stop::Foreign(format!("ONNX's type {other}"))),
    };
    Ok(kind)
}

fn cast(call: &Call) -> Results {
    // The attribute only affects types with a smaller range, which the library does not have.
    call.flag("saturate", true)?;
    let kind = numbered(call.args.integer("to", 0)?)?;
    one(call.input(0)?.tensor.cast(kind.held())?, kind)
}

fn position(name: &str, call: &Call) -> Results {
    let x = &call.input(0)?.tensor;
    let axis = call.axis(0, x.rank())? as isize;
    let last = call.flag("select_last_index", false)?;
    let seen = if last { x.flip(&[axis])? } else { x.clone() };
    let mut found = if name == "ArgMax" { seen.argmax(axis)? } else { seen.argmin(axis)? };
    if last {
        found = found.mul(-1)?.add(x.shape()[axis as usize] as i32 - 1)?;
    }
    one(if call.flag("keepdims", true)? { found.unsqueeze(axis)? } else { found }, Kind::I64)
}

/// Reduces over all axes if none are given, unless an attribute says that this means no axes.
fn reduce(name: &str, call: &Call) -> Results {
    let x = call.input(0)?;
    let keep = call.flag("keepdims", true)?;
    let noop = call.flag("noop_with_empty_axes", false)?;
    let axes: Vec<isize> = match call.args.maybe_list("axes")? {
        Some(axes) => axes,
        None => call.list(1)?.unwrap_or_default().into_iter().map(|n| n as isize).collect(),
    };
    if axes.is_empty() && noop {
        return one(reduced(name, &x.tensor.unsqueeze(-1)?, &[-1])?.squeeze(-1)?, x.kind);
    }
    let kept = reduced(name, &x.tensor, &axes)?;
    if keep {
        return one(kept, x.kind);
    }
    let rank = x.tensor.rank() as isize;
    let gone = |axis: isize| axes.is_empty() || axes.iter().any(|a| a.rem_euclid(rank) == axis);
    let left: Vec<usize> =
        (0..rank).filter(|&a| !gone(a)).map(|a| x.tensor.shape()[a as usize]).collect();
    one(kept.reshape(&left)?, x.kind)
}

/// Reduces and keeps the axes with extent 1.
fn reduced(name: &str, x: &Tensor, axes: &[isize]) -> Result<Tensor, Stop> {
    let over = |x: &Tensor, op: Reduction| x.reduce(op, Axes::from(axes).keepdim(true));
    let truth = x.dtype() == DType::Bool;
    let spread = |result: Tensor| -> Computed<Tensor> {
        let shape: Vec<usize> = over(x, Reduction::Sum)?.shape().to_vec();
        result.reshape(&shape)
    };
    Ok(match name {
        "ReduceSum" => over(x, Reduction::Sum)?,
        "ReduceProd" => over(x, Reduction::Prod)?,
        "ReduceMax" => over(x, if truth { Reduction::Any } else { Reduction::Max })?,
        "ReduceMin" => over(x, if truth { Reduction::All } else { Reduction::Min })?,
        "ReduceMean" => x.mean(Axes::from(axes).keepdim(true))?,
        "ReduceL1" => spread(x.norm_l1(axes)?)?,
        "ReduceL2" => spread(x.norm_l2(axes)?)?,
        "ReduceLogSum" => over(x, Reduction::Sum)?.log(),
        "ReduceLogSumExp" => spread(x.logsumexp(axes)?)?,
        "ReduceSumSquare" => over(&x.square(), Reduction::Sum)?,
        _ => return Err(Stop::Missing(name.into())),
    })
}
