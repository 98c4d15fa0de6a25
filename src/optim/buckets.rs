//! Buckets: parts of all gradients of a step, which ranks sum while the device computes the next bucket.

use super::{Gradient, Optimizer, Shard};
use crate::dtype::DType;
use crate::error::Result;
use crate::tensor::Tensor;
use std::ops::Range;

/// Some parameters of a shard whose gradients are summed together.
#[derive(Clone, Debug)]
pub(crate) struct Bucket {
    shard: usize,
    /// The elements in the shard's flat gradient.
    elements: Range<usize>,
}

/// The gradients of a step in buckets, before they are summed over the ranks.
pub(crate) struct BucketedGradients {
    /// The buckets in the order in which the backward pass computes them: the last parameters first. `f32`, one axis each.
    pub buckets: Vec<(Bucket, Tensor)>,
    /// For each shard, whether each parameter has a gradient.
    pub has: Vec<Vec<bool>>,
}

/// Divides sizes into runs of at most `most` elements in sum, or of one size that is larger.
fn buckets(sizes: &[usize], most: usize) -> Vec<Range<usize>> {
    let (mut runs, mut begin, mut filled) = (Vec::new(), 0, 0);
    for (n, &size) in sizes.iter().enumerate() {
        if n > begin && filled + size > most {
            runs.push(begin..n);
            (begin, filled) = (n, 0);
        }
        filled += size;
    }
    if begin < sizes.len() {
        runs.push(begin..sizes.len());
    }
    runs
}

impl Optimizer {
    /// Computes the gradients of a step in buckets of at most `most` elements: those of the loss and the stored ones, times
    /// `weight`.
    ///
    /// # Errors
    /// Same as [`Optimizer::minimize`].
    pub(crate) fn bucketed_gradients(
        &self,
        loss: &Tensor,
        weight: f64,
        most: usize,
    ) -> Result<BucketedGradients> {
        self.check("minimize")?;
        let mut all = self.gradients_by_parameter("minimize", loss)?.into_iter();
        let mut gradients = BucketedGradients { buckets: Vec::new(), has: Vec::new() };
        for (n, shard) in self.shards().enumerate() {
            let now: Vec<Option<Tensor>> = all.by_ref().take(shard.parameters.len()).collect();
            let totals = shard.totals(now)?;
            gradients.has.push(totals.iter().map(Option::is_some).collect());
            let sizes: Vec<usize> =
                shard.shapes.iter().map(|shape| shape.iter().product()).collect();
            let mut start = 0;
            for parameters in buckets(&sizes, most) {
                let count: usize = sizes[parameters.clone()].iter().sum();
                let elements = start..start + count;
                start += count;
                // A gradient that does not count may be NaN.
                let part = match weight {
                    0.0 => self.device().zeros(&[count])?,
                    _ => shard.line_of(&totals, parameters)?.mul(weight)?,
                };
                gradients.buckets.push((Bucket { shard: n, elements }, part));
            }
        }
        gradients.buckets.reverse();
        Ok(gradients)
    }

    /// Returns the gradients for a step from the sums of the buckets, which are divided by `weight`.
    pub(crate) fn joined_buckets(
        &self,
        has: Vec<Vec<bool>>,
        sums: &[(Bucket, Vec<f32>)],
        weight: f64,
    ) -> Result<Vec<Option<Gradient>>> {
        let mut gradients = Vec::new();
        for (n, (shard, has)) in self.shards().zip(has).enumerate() {
            if !has.contains(&true) {
                gradients.push(None);
                continue;
            }
            let mut flat = vec![0.0; shard.flat.shape().iter().product()];
            for (bucket, sum) in sums.iter().filter(|(bucket, _)| bucket.shard == n) {
                flat[bucket.elements.clone()].copy_from_slice(sum);
            }
            let flat = self.device().tensor(&flat, &[flat.len()])?.div(weight)?;
            gradients.push(Some(Gradient { flat, has }));
        }
        Ok(gradients)
    }
}

impl Shard {
    /// Returns the sum of all gradients of each parameter: `now`, those of `backward`, and the accumulated ones.
    fn totals(&self, mut now: Vec<Option<Tensor>>) -> Result<Vec<Option<Tensor>>> {
        let left = self.parameters.iter().map(|parameter| parameter.gradient());
        let others = left.enumerate().filter_map(|(n, gradient)| Some((n, gradient?)));
        for (n, other) in others.chain(self.accumulated()?) {
            now[n] = Some(match now[n].take() {
                Some(before) => before.add(&other)?,
                None => other,
            });
        }
        Ok(now)
    }

    /// Returns the gradients of some parameters as one `f32` axis, with zeros for parameters without a gradient.
    fn line_of(&self, gradients: &[Option<Tensor>], parameters: Range<usize>) -> Result<Tensor> {
        let mut lines = Vec::new();
        for n in parameters {
            let count = self.shapes[n].iter().product::<usize>();
            lines.push(match &gradients[n] {
                Some(gradient) => gradient.reshape(&[-1])?.cast(DType::F32)?,
                None => self.flat.device().zeros(&[count])?,
            });
        }
        Tensor::concat(&lines, 0)
    }
}
