//! Finds the operation that produced the first value that is not finite.

use super::Tensor;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Recorded;
use rustc_hash::FxHashSet;
use std::fmt;

/// The first operation whose result is not finite although its operands are ([`Tensor::find_non_finite`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonFinite {
    /// The name of the operation, or `data` for a given value.
    pub op: &'static str,
    /// The shape of the result.
    pub shape: Vec<usize>,
    /// The type of the result.
    pub dtype: DType,
    /// Whether the result contains a NaN. Otherwise it contains only infinities.
    pub nan: bool,
    /// The operands of the operation.
    pub operands: Vec<FiniteOperand>,
}

/// An operand of the operation that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiniteOperand {
    /// The name of the operation that produced the operand; `data` or `number` for a given value.
    pub op: &'static str,
    /// The shape of the operand.
    pub shape: Vec<usize>,
    /// The type of the elements.
    pub dtype: DType,
}

impl Tensor {
    /// Finds the first recorded operation that produced a NaN or an infinity in this tensor from finite values. Returns
    /// `None` if this tensor is finite. (`detect_anomaly` in PyTorch, `debug_nans` in JAX.)
    ///
    /// An infinity that does not reach this tensor is ignored, for example that of a mask before a softmax. A gradient is
    /// a tensor like any other. Its operations are those of the loss and those recorded for the gradient.
    ///
    /// For debugging only, because all operations in the history are computed again and checked.
    ///
    /// # Errors
    /// The errors of [`Tensor::read`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[2.0f32, 1.0], &[2])?;
    /// let loss = x.sub(1)?.log().square().sum(())?;
    /// let found = loss.find_non_finite().await?.expect("the logarithm of 0");
    /// assert_eq!((found.op, &found.shape[..], found.nan), ("log", &[2][..], false));
    /// assert_eq!(found.to_string(), "log gave an infinity, f32 [2], for sub f32 [2]");
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub async fn find_non_finite(&self) -> Result<Option<NonFinite>> {
        let device = self.device.clone();
        let (history, tensors): (Vec<Recorded>, Vec<Option<Tensor>>) =
            self.history()?.into_iter().unzip();
        // The search must not change the program, so nodes that it computes keep their history.
        let open = device.open(tensors.iter().flatten().filter_map(|x| x.node().ok()));
        let mut flags: Vec<(usize, Tensor)> = Vec::new();
        for (n, x) in tensors.iter().enumerate() {
            if let Some(x) = x {
                flags.push((n, x.is_finite().all(())?));
            }
        }
        let read = device.read::<bool>(&flags.iter().map(|(_, flag)| flag).collect::<Vec<_>>());
        device.keep_open(&open);
        let read = read.await?;
        // Custom shaders have no value themselves. They count as not finite if an input does.
        let mut bad: Vec<Option<bool>> = vec![None; history.len()];
        for ((n, _), finite) in flags.iter().zip(read) {
            bad[*n] = Some(finite.first() == Some(&false));
        }
        let mut flags: Vec<bool> = Vec::with_capacity(history.len());
        for (recorded, bad) in history.iter().zip(bad) {
            let through = !recorded.has_value && recorded.inputs.iter().any(|&input| flags[input]);
            flags.push(bad.unwrap_or(through));
        }
        let Some(first) = origin(&history, &flags) else { return Ok(None) };
        let found = &history[first];
        let nan = match &tensors[first] {
            Some(x) => {
                let nan = x.is_nan().any(())?.item::<bool>();
                device.keep_open(&open);
                nan.await?
            }
            None => false,
        };
        let operand = |&input: &usize| {
            let Recorded { name, shape, dtype, .. } = &history[input];
            FiniteOperand { op: name, shape: shape.to_vec(), dtype: *dtype }
        };
        Ok(Some(NonFinite {
            op: found.name,
            shape: found.shape.to_vec(),
            dtype: found.dtype,
            nan,
            operands: found.inputs.iter().map(operand).collect(),
        }))
    }
}

impl Tensor {
    /// Returns the tensors in the history that may have values that are not finite. While these are held, gradients reach
    /// each of them, whatever is computed in between.
    pub(crate) fn past(&self) -> Result<Vec<Tensor>> {
        Ok(self.history()?.into_iter().filter_map(|(_, x)| x).collect())
    }

    /// Returns the history, with the tensors that may have values that are not finite.
    fn history(&self) -> Result<Vec<(Recorded, Option<Tensor>)>> {
        let (none, of) = (FxHashSet::default(), self.node()?);
        let all = self.device.history(of, usize::MAX, &none, may_be_bad).unwrap_or_default();
        let adopt = |node| Tensor::adopt(&self.device, node);
        Ok(all.into_iter().map(|(recorded, held)| (recorded, held.map(adopt))).collect())
    }
}

/// Whether a node may have values that are not finite.
fn may_be_bad(recorded: &Recorded) -> bool {
    recorded.has_value && recorded.dtype.is_float() && recorded.shape.numel() > 0
}

/// Returns the node recorded first among those that made the last node not finite, or `None` if the last node is finite.
fn origin(history: &[Recorded], bad: &[bool]) -> Option<usize> {
    let last = history.len().checked_sub(1).filter(|&last| bad[last])?;
    let (mut first, mut seen, mut stack) = (last, FxHashSet::default(), vec![last]);
    while let Some(n) = stack.pop() {
        if seen.insert(n) {
            if history[n].id.seq < history[first].id.seq {
                first = n;
            }
            stack.extend(history[n].inputs.iter().filter(|&&input| bad[input]));
        }
    }
    Some(first)
}

impl fmt::Display for NonFinite {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = if self.nan { "a NaN" } else { "an infinity" };
        write!(f, "{} gave {what}, {} {:?}", self.op, self.dtype, self.shape)?;
        for (i, FiniteOperand { op, shape, dtype }) in self.operands.iter().enumerate() {
            write!(f, "{} {op} {dtype} {shape:?}", if i == 0 { ", for" } else { "," })?;
        }
        Ok(())
    }
}
