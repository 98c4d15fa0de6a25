//! Averages of weights.

use super::Optimizer;
use crate::error::{Error, Result};
use crate::tensor::{Assignment, Tensor, Variable};

/// An exponential moving average of the parameters that an optimiser has when it is made (not of groups that are added later):
/// often better than what the last step gave (Polyak and
/// Juditsky 1992). It is one kernel a step, with the next batch that is submitted.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, tensor::Variable};
/// # use warpweft::optim::{Optimizer, Sgd, WeightAverage};
/// # let device = Device::with(Preference::Cpu).await?;
/// let w = Variable::new(&device.zeros(&[2])?);
/// let mut optimizer = Optimizer::new(Sgd::new(1.0), &[w.clone()])?;
/// let average = WeightAverage::new(&optimizer, 0.5)?;
/// optimizer.minimize(&w.value().sum(())?)?; // w is -1
/// average.update()?;
/// average.swap()?; // to evaluate with; a second time to go on training
/// assert_eq!(w.value().read::<f32>().await?, [-0.5, -0.5]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub struct WeightAverage {
    decay: f64,
    pairs: Vec<(Variable, Variable)>,
}

impl WeightAverage {
    /// An average that begins with the values of now, of which `decay` stays each time.
    ///
    /// # Errors
    /// `Data` unless `decay` lies in `[0, 1]`; `Memory`.
    pub fn new(optimizer: &Optimizer, decay: f64) -> Result<WeightAverage> {
        if !(0.0..=1.0).contains(&decay) {
            return Err(Error::data(format!("average: a decay of {decay}")));
        }
        let copy = |flat: &Variable| Ok(Variable::new(&flat.value().mul(1)?.detach()));
        let flats = optimizer.shards().map(|shard| &shard.flat);
        let pairs = flats.map(|flat| Ok((flat.clone(), copy(flat)?))).collect::<Result<_>>()?;
        Ok(WeightAverage { decay, pairs })
    }

    /// Takes the values of now in.
    ///
    /// # Errors
    /// `Limit`, `Memory`.
    pub fn update(&self) -> Result<()> {
        let mut all = Vec::with_capacity(self.pairs.len());
        for (flat, average) in &self.pairs {
            let (now, mean) = (flat.value(), average.value());
            let next = now.add(&mean.sub(&now)?.mul(self.decay)?)?;
            all.push((average.clone(), next.detach()));
        }
        self.assign(all)
    }

    /// Exchanges the average and the parameters.
    ///
    /// # Errors
    /// `Limit`, `Memory`.
    pub fn swap(&self) -> Result<()> {
        let mut all = Vec::with_capacity(2 * self.pairs.len());
        for (flat, average) in &self.pairs {
            let (now, mean) = (flat.value(), average.value());
            all.push((flat.clone(), mean.detach()));
            all.push((average.clone(), now.detach()));
        }
        self.assign(all)
    }

    /// Assigns all of these, or none.
    fn assign(&self, all: Vec<(Variable, Tensor)>) -> Result<()> {
        drop(Assignment::new(all)?.commit());
        self.pairs.first().map_or(Ok(()), |(flat, _)| flat.device().flush_if_long())
    }
}
