//! Finds the operation that produced the first value that is not finite.

use super::Tensor;
use crate::dtype::DType;
use crate::error::Result;
use crate::graph::Recorded;
use rustc_hash::FxHashSet;
use std::fmt;

/// The first operation whose result is not finite though all that it was made of is ([`Tensor::find_non_finite`]).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NonFinite {
    /// The operation; `data` if the value was given.
    pub op: &'static str,
    /// The extents of its result.
    pub shape: Vec<usize>,
    /// The type of its result.
    pub dtype: DType,
    /// Whether there is a NaN among its elements; else there are infinities alone.
    pub nan: bool,
    /// What it was made of.
    pub operands: Vec<FiniteOperand>,
}

/// An operand of the operation that was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FiniteOperand {
    /// The operation that it is the result of; `data` or `number` if it was given.
    pub op: &'static str,
    /// Its extents.
    pub shape: Vec<usize>,
    /// The type of its elements.
    pub dtype: DType,
}

impl Tensor {
    /// The first operation, in the order in which they were recorded, that made a value of this tensor NaN or infinite out of
    /// values that are finite; nothing if this tensor is finite. (`detect_anomaly` of PyTorch, `debug_nans` of JAX.) An
    /// infinity that does not get to this tensor, as that of a mask before a softmax, is passed over.
    ///
    /// All operations that are known of are computed again for it, and looked at: it is for looking for what is wrong. A
    /// gradient is a tensor like others: its operations are those of the loss, and what was recorded for the gradient.
    ///
    /// # Errors
    /// As [`Tensor::read`].
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
        // Looking changes nothing: what is computed for it keeps its history.
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
        // Users' shaders have no value of their own: they hand on what they were given.
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
    /// All that it was made of and that may not be finite. While these are held, gradients get to each of them, whatever is
    /// computed in between.
    pub(crate) fn past(&self) -> Result<Vec<Tensor>> {
        Ok(self.history()?.into_iter().filter_map(|(_, x)| x).collect())
    }

    /// All that it was made of, with the tensors that may not be finite.
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

/// The one recorded first of those that are not finite and made the last node so; if that is.
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
