//! Examples on a device, and batches of them.

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::nn::Generator;
use crate::tensor::Tensor;

/// Examples in the memory of a device: features and targets, whose first axes count the examples. Clones share the memory.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, train::Dataset};
/// # let device = Device::with(Preference::Cpu).await?;
/// let x = device.tensor(&[0.0f32, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0], &[5, 2])?;
/// let y = device.tensor(&[0i32, 1, 0, 1, 0], &[5])?;
/// let data = Dataset::new(&x, &y)?;
/// let (train, validation) = data.split(0.2, 7)?;
/// assert_eq!((train.len(), validation.len()), (4, 1));
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Dataset {
    features: Tensor,
    targets: Tensor,
}

impl Dataset {
    /// The examples of these features and targets. They are computed now, so that batches only pick from them.
    ///
    /// # Errors
    /// `Shape` unless both have a first axis of one length; `Data` if they live on two devices; as [`Tensor::run`].
    pub fn new(features: &Tensor, targets: &Tensor) -> Result<Dataset> {
        let (x, y) = (features.shape(), targets.shape());
        if x.is_empty() || x.first() != y.first() {
            return Err(Error::shapes(
                "dataset",
                "the first axes must be equal (the examples)",
                x,
                y,
            ));
        }
        if !features.device().is_same(targets.device()) {
            return Err(Error::wrong_device("dataset", "the targets"));
        }
        // Batches have no past: gradients end at them.
        let (features, targets) = (features.detach(), targets.detach());
        features.run()?;
        targets.run()?;
        Ok(Dataset { features, targets })
    }

    /// The features of all examples.
    pub fn features(&self) -> &Tensor {
        &self.features
    }

    /// The targets of all examples.
    pub fn targets(&self) -> &Tensor {
        &self.targets
    }

    /// How many examples there are.
    pub fn len(&self) -> usize {
        self.targets.shape()[0]
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The device that has them.
    pub fn device(&self) -> &Device {
        self.features.device()
    }

    /// The examples at these positions, in their order.
    ///
    /// # Errors
    /// As [`Tensor::index_select`].
    pub fn select(&self, positions: &Tensor) -> Result<Dataset> {
        Dataset::new(
            &self.features.index_select(0, positions)?,
            &self.targets.index_select(0, positions)?,
        )
    }

    /// Two parts: the second has `fraction` of the examples, rounded up (as scikit-learn's `train_test_split`), which the
    /// seed picks: the same on every device. It is for validation.
    ///
    /// # Errors
    /// `Data` unless both parts have an example.
    pub fn split(&self, fraction: f64, seed: u32) -> Result<(Dataset, Dataset)> {
        // A little less, so that 0.1 of 10, which is above 1 in binary, is one.
        let second = (self.len() as f64 * fraction - 1e-9).ceil();
        if !(second >= 1.0 && second < self.len() as f64) {
            let count = self.len();
            let message = format!("split: both parts must have examples, got a fraction of {fraction} of {count} examples");
            return Err(Error::data(message));
        }
        let order = permutation(self.device(), self.len(), seed)?;
        let second = second as isize;
        Ok((self.select(&order.slice(0, second..)?)?, self.select(&order.slice(0, ..second)?)?))
    }
}

/// The numbers below `count` in an order that follows from the seed alone: those of random words when these are sorted.
fn permutation(device: &Device, count: usize, seed: u32) -> Result<Tensor> {
    let order = device.random_bits(&[count], seed)?.argsort(0, false)?.cast(DType::U32)?;
    // Once, and not again with each batch.
    order.run()?;
    Ok(order)
}

/// A batch: features and targets.
pub type Batch = (Tensor, Tensor);

/// The batches of one epoch.
pub type BatchIter = Box<dyn Iterator<Item = Result<Batch>>>;

/// Where the batches of each epoch come from: a [`DataLoader`], or a function of the epoch's number that returns an iterator.
///
/// A function gives data of any kind. It should give the same batches for the same epoch: a training that goes on from a
/// checkpoint in the middle of an epoch passes over those that it has seen.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, error::Result, train::Batches};
/// # let device = Device::with(Preference::Cpu).await?;
/// let noise = move |epoch: u64| {
///     let device = device.clone();
///     (0..10u32).map(move |n| {
///         let x = device.uniform(&[32, 1], -1.0, 1.0, epoch as u32 * 10 + n)?;
///         let y = x.sin();
///         Ok((x, y))
///     })
/// };
/// assert_eq!(noise.epoch(0)?.count(), 10);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub trait Batches {
    /// The batches of an epoch; the first is 0.
    ///
    /// # Errors
    /// Whatever keeps it from giving any.
    fn epoch(&self, epoch: u64) -> Result<BatchIter>;

    /// How many batches an epoch has, if that is known before.
    fn steps(&self) -> Option<usize> {
        None
    }

    /// What decides which examples come when, in words: a checkpoint of the middle of an epoch notes it.
    fn order(&self) -> String {
        String::new()
    }
}

impl<F, I> Batches for F
where
    F: Fn(u64) -> I,
    I: IntoIterator<Item = Result<Batch>>,
    I::IntoIter: 'static,
{
    fn epoch(&self, epoch: u64) -> Result<BatchIter> {
        Ok(Box::new(self(epoch).into_iter()))
    }
}

/// Batches of a [`Dataset`], picked on its device. (`DataLoader` of PyTorch.)
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, train::{Batches, DataLoader, Dataset}};
/// # let device = Device::with(Preference::Cpu).await?;
/// let data = Dataset::new(&device.zeros(&[100, 3])?, &device.zeros(&[100])?)?;
/// let loader = DataLoader::new(&data, 32)?.shuffle(1);
/// let sizes: Vec<usize> = loader.epoch(0)?.map(|batch| Ok(batch?.0.shape()[0])).collect::<Result<_, _>>()?;
/// assert_eq!(sizes, [32, 32, 32, 4]);
/// assert_eq!(loader.drop_last(true).steps(), Some(3));
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct DataLoader {
    data: Dataset,
    batch_size: usize,
    shuffle: Option<u32>,
    drop_last: bool,
}

impl DataLoader {
    /// The examples in their order, so many at a time; the last batch has what is left.
    ///
    /// # Errors
    /// `Data` if a batch or the data have no examples.
    pub fn new(data: &Dataset, batch_size: usize) -> Result<DataLoader> {
        if batch_size == 0 || data.is_empty() {
            let count = data.len();
            let message = format!(
                "loader: examples and batch size must be at least 1, got {count} and {batch_size}"
            );
            return Err(Error::data(message));
        }
        Ok(DataLoader { data: data.clone(), batch_size, shuffle: None, drop_last: false })
    }

    /// In another order in each epoch, which follows from the seed and the epoch alone: the same on every device.
    #[must_use]
    pub fn shuffle(mut self, seed: u32) -> DataLoader {
        self.shuffle = Some(seed);
        self
    }

    /// Whether a last batch of fewer examples is left out. Batch norm may need that.
    #[must_use]
    pub fn drop_last(mut self, drop_last: bool) -> DataLoader {
        self.drop_last = drop_last;
        self
    }

    /// The examples.
    pub fn data(&self) -> &Dataset {
        &self.data
    }

    fn count(&self) -> usize {
        match self.drop_last {
            true => self.data.len() / self.batch_size,
            false => self.data.len().div_ceil(self.batch_size),
        }
    }
}

impl Batches for DataLoader {
    fn epoch(&self, epoch: u64) -> Result<BatchIter> {
        let order = match self.shuffle {
            Some(seed) => {
                // The draw mixes both, so that a seed and the next have nothing in common.
                let draws = Generator::new(self.data.device(), seed);
                draws.set_drawn(epoch as u32);
                Some(permutation(self.data.device(), self.data.len(), draws.draw())?)
            }
            None => None,
        };
        Ok(Box::new(Picked { loader: self.clone(), order, at: 0 }))
    }

    fn steps(&self) -> Option<usize> {
        Some(self.count())
    }

    fn order(&self) -> String {
        let (count, size) = (self.data.len(), self.batch_size);
        let shuffled = self.shuffle.map_or("in order".into(), |seed| format!("by seed {seed}"));
        format!("{count} examples in batches of {size}, {shuffled}")
    }
}

/// The batches of an epoch of a loader.
struct Picked {
    loader: DataLoader,
    order: Option<Tensor>,
    at: usize,
}

impl Picked {
    fn pick(&self, n: usize) -> Result<Batch> {
        let DataLoader { data, batch_size, .. } = &self.loader;
        let start = n * batch_size;
        let end = (start + batch_size).min(data.len());
        let range = start as isize..end as isize;
        let part = |x: &Tensor| match &self.order {
            Some(order) => x.index_select(0, &order.slice(0, range.clone())?),
            None => x.slice(0, range.clone()),
        };
        Ok((part(&data.features)?, part(&data.targets)?))
    }
}

impl Iterator for Picked {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Result<Batch>> {
        self.nth(0)
    }

    /// Batches that are passed over are not picked.
    fn nth(&mut self, n: usize) -> Option<Result<Batch>> {
        let at = self.at.saturating_add(n);
        self.at = (at + 1).min(self.loader.count());
        (at < self.loader.count()).then(|| self.pick(at))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.loader.count() - self.at;
        (left, Some(left))
    }
}
