//! Losses of classes, in ordinary operations.

use super::super::args::{Operand, Stop};
use super::{Call, Results};
use warpweft::dtype::DType;
use warpweft::tensor::Tensor;

/// Returns the loss, and the log-probabilities that it was computed from.
pub fn call(name: &str, call: &Call) -> Results {
    let x = call.input(0)?;
    let logs = match name {
        "SoftmaxCrossEntropyLoss" => x.tensor.log_softmax(1)?,
        _ => x.tensor.clone(),
    };
    let loss = likelihood(call, &logs)?;
    Ok(vec![Operand::new(loss, x.kind), Operand::new(logs, x.kind)])
}

/// Returns `- weight[target] * logs[target]`: the weighted mean, the sum or unreduced. Ignored targets have weight 0.
fn likelihood(call: &Call, logs: &Tensor) -> Result<Tensor, Stop> {
    let target = &call.input(1)?.tensor;
    let classes = logs.shape()[1];
    let mut shape = vec![1; logs.rank()];
    shape[1] = classes;
    let class = call.device.iota(&[classes], 0)?.reshape(&shape)?;
    let mut chosen = target.unsqueeze(1)?.eq(&class)?;
    if call.args.raw("ignore_index").is_some() {
        let ignored = call.args.integer("ignore_index", 0)? as i32;
        chosen = chosen.logical_and(&target.ne(ignored)?.unsqueeze(1)?)?;
    }
    let weight = match call.maybe(2) {
        Some(weight) => weight.tensor.reshape(&shape)?,
        None => call.device.full(&shape, 1.0, DType::F32)?,
    };
    let weighed = chosen.where_cond(&weight.expand(logs.shape())?, 0.0)?.sum(&[1])?;
    let losses = chosen.where_cond(&logs.mul(&weight)?, 0.0)?.sum(&[1])?.neg();
    Ok(match call.args.word("reduction", "mean")? {
        "none" => losses,
        "sum" => losses.sum(&[])?,
        _ => losses.sum(&[])?.div(&weighed.sum(&[])?)?,
    })
}
