//! `WeightAverage`: moving averages of parameters.

use super::Optimizer;
use crate::error::{Error, Result};
use crate::tensor::{Assignment, Tensor, Variable};
use std::cell::RefCell;
use std::sync::{Arc, Weak};

/// An exponential moving average of parameters. It is often better than the values of the last step (Polyak and Juditsky
/// 1992). An update is one kernel, and is submitted with the next batch.
///
/// The average has the parameters that the optimizer has when the average is created. Groups that are added later are not
/// averaged. Until the average is dropped, [`Optimizer::state_dict`] contains its values, and so do checkpoints of a trainer
/// with that optimizer.
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
    /// The parameters that each flat variable consists of.
    parameters: Vec<Vec<Variable>>,
}

/// Flat parameters, each with its average.
pub(super) type Pairs = Vec<(Variable, Variable)>;

impl WeightAverage {
    /// Creates an average with the current values. Each update multiplies the average by `decay`, and the new values by `1 -
    /// decay`.
    ///
    /// # Errors
    /// `InvalidArgument` unless `decay` is in `[0, 1]`. `Memory`.
    pub fn new(optimizer: &Optimizer, decay: f64) -> Result<WeightAverage> {
        if !(0.0..=1.0).contains(&decay) {
            let message = format!("average: decay must be in [0, 1], got {decay}");
            return Err(Error::argument(message));
        }
        let flats = optimizer.shards().map(|shard| &shard.flat);
        let pair = |flat: &Variable| Ok((flat.clone(), Variable::new(&copy(flat)?)));
        let pairs = Arc::new(flats.map(pair).collect::<Result<Pairs>>()?);
        optimizer.averages.add(&pairs);
        let parameters = optimizer.shards().map(|shard| shard.parameters.clone()).collect();
        Ok(WeightAverage { decay, pairs, parameters })
    }

    /// Rejects parameters that belong to another optimizer since, because the flat variables no longer have their values.
    fn check(&self, op: &str) -> Result<()> {
        for ((flat, _), parameters) in self.pairs.iter().zip(&self.parameters) {
            if parameters.iter().any(|one| one.start_in(flat).is_none()) {
                return Err(Error::state(format!(
                    "{op}: the parameters must belong to the optimizer of the average, got one that another optimizer took; \
                     create an average for that optimizer"
                )));
            }
        }
        Ok(())
    }

    /// Updates the average with the current values.
    ///
    /// # Errors
    /// `InvalidState` if a newer optimizer was created with one of the parameters. `Limit`, `Memory`. After an error, nothing
    /// has changed.
    pub fn update(&self) -> Result<()> {
        self.check("average.update")?;
        let mut all = Vec::with_capacity(self.pairs.len());
        for (flat, average) in &*self.pairs {
            let dtype = flat.dtype();
            let (now, mean) =
                (flat.value().cast(dtype.compute())?, average.value().cast(dtype.compute())?);
            let next = now.add(&mean.sub(&now)?.mul(self.decay)?)?.cast(dtype)?;
            all.push((average.clone(), next.detach()));
        }
        Assignment::new(all)?.run(&self.pairs[0].0.device())
    }

    /// Swaps the average with the parameters.
    ///
    /// # Errors
    /// The errors of [`WeightAverage::update`]. After an error, nothing has changed.
    pub fn swap(&self) -> Result<()> {
        self.check("average.swap")?;
        let mut all = Vec::with_capacity(2 * self.pairs.len());
        for (flat, average) in &*self.pairs {
            let (now, mean) = (flat.value(), average.value());
            all.push((flat.clone(), mean.detach()));
            all.push((average.clone(), now.detach()));
        }
        Assignment::new(all)?.run(&self.pairs[0].0.device())
    }
}

/// Copies the current values.
pub(super) fn copy(flat: &Variable) -> Result<Tensor> {
    Ok(flat.value().mul(1)?.detach())
}

/// Weak references to the averages of an optimizer's parameters, in the order of their creation.
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

    /// Moves the averages of another optimizer into this one.
    #[cfg(feature = "js-nn")]
    pub fn take(&self, other: &Averages) {
        self.0.borrow_mut().append(&mut other.0.borrow_mut());
    }
}
