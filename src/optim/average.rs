//! Averages of weights.

use super::Optimizer;
use crate::error::{Error, Result};
use crate::tensor::{Assignment, Tensor, Variable};
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// An exponential moving average of the parameters that an optimizer has when it is made (not of groups that are added later):
/// often better than what the last step gave (Polyak and Juditsky 1992). It is one kernel a step, with the next batch that is
/// submitted.
///
/// While it is there, [`Optimizer::state_dict`] holds its values, and so do checkpoints of a trainer of that optimizer.
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
    pairs: Arc<Pairs>,
}

/// Flat parameters, each with its average.
pub(super) type Pairs = Vec<(Variable, Variable)>;

impl WeightAverage {
    /// An average that begins with the values of now, of which `decay` stays each time.
    ///
    /// # Errors
    /// `Data` unless `decay` lies in `[0, 1]`; `Memory`.
    pub fn new(optimizer: &Optimizer, decay: f64) -> Result<WeightAverage> {
        if !(0.0..=1.0).contains(&decay) {
            let message = format!("average: decay must be in [0, 1], got {decay}");
            return Err(Error::data(message));
        }
        let flats = optimizer.shards().map(|shard| &shard.flat);
        let pair = |flat: &Variable| Ok((flat.clone(), Variable::new(&copy(flat)?)));
        let pairs = Arc::new(flats.map(pair).collect::<Result<Pairs>>()?);
        optimizer.averages.add(&pairs);
        Ok(WeightAverage { decay, pairs })
    }

    /// Takes the values of now in.
    ///
    /// # Errors
    /// `Limit`, `Memory`. Nothing was changed then.
    pub fn update(&self) -> Result<()> {
        let mut all = Vec::with_capacity(self.pairs.len());
        for (flat, average) in &*self.pairs {
            let (now, mean) = (flat.value(), average.value());
            let next = now.add(&mean.sub(&now)?.mul(self.decay)?)?;
            all.push((average.clone(), next.detach()));
        }
        self.assign(all)
    }

    /// Exchanges the average and the parameters.
    ///
    /// # Errors
    /// `Limit`, `Memory`. Nothing was changed then.
    pub fn swap(&self) -> Result<()> {
        let mut all = Vec::with_capacity(2 * self.pairs.len());
        for (flat, average) in &*self.pairs {
            let (now, mean) = (flat.value(), average.value());
            all.push((flat.clone(), mean.detach()));
            all.push((average.clone(), now.detach()));
        }
        self.assign(all)
    }

    /// Assigns all of these, or none.
    fn assign(&self, all: Vec<(Variable, Tensor)>) -> Result<()> {
        let assignment = Assignment::new(all)?;
        let device = self.pairs[0].0.device();
        device.freeze_history(true);
        let undo = assignment.commit();
        let submitted = device.flush_if_long();
        if submitted.is_err() {
            undo.roll_back();
        }
        device.freeze_history(false);
        submitted
    }
}

/// The values of now, in memory of their own.
pub(super) fn copy(flat: &Variable) -> Result<Tensor> {
    Ok(flat.value().mul(1)?.detach())
}

/// The averages that were made of an optimizer's parameters, in that order. It does not keep them.
#[derive(Default)]
pub(super) struct Averages(RefCell<Vec<Weak<Pairs>>>);

impl Averages {
    fn add(&self, pairs: &Arc<Pairs>) {
        self.0.borrow_mut().push(Arc::downgrade(pairs));
    }

    /// The averages that have not been dropped, oldest first.
    pub fn all(&self) -> Vec<Arc<Pairs>> {
        self.0.borrow_mut().retain(|one| one.strong_count() > 0);
        self.0.borrow().iter().filter_map(Weak::upgrade).collect()
    }

    /// Takes those of another optimizer over.
    #[cfg(feature = "js-nn")]
    pub fn take(&self, other: &Averages) {
        self.0.borrow_mut().append(&mut other.0.borrow_mut());
    }
}
