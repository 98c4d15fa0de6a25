//! Data sets on a device, and loaders for their batches.

use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::nn::Generator;
use crate::tensor::Tensor;

/// Examples in device memory: features and targets, with the examples along the first axis. Clones share the memory.
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
    /// Creates a data set from features and targets. They are computed now, so that batches only gather from them.
    ///
    /// # Errors
    /// `Shape` unless the first axes have one length. `InvalidArgument` if the tensors are on two devices. Also the errors of
    /// [`Tensor::run`].
    pub fn new(features: &Tensor, targets: &Tensor) -> Result<Dataset> {
        let (x, y) = (features.shape(), targets.shape());
        if x.is_empty() || x.first() != y.first() {
            return Err(Error::shapes(
                "dataset",
                "features and targets must have the same number of examples along the first axis",
                x,
                y,
            ));
        }
        if !features.device().is_same(targets.device()) {
            return Err(Error::wrong_device("dataset", "the targets"));
        }
        // Detached, so that gradients end at the batches.
        let (features, targets) = (features.detach(), targets.detach());
        features.run()?;
        targets.run()?;
        Ok(Dataset { features, targets })
    }

    /// Returns the features of all examples.
    pub fn features(&self) -> &Tensor {
        &self.features
    }

    /// Returns the targets of all examples.
    pub fn targets(&self) -> &Tensor {
        &self.targets
    }

    /// Returns the number of examples.
    pub fn len(&self) -> usize {
        self.targets.shape()[0]
    }

    /// Whether the data set has no examples.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the device of the examples.
    pub fn device(&self) -> &Device {
        self.features.device()
    }

    /// Returns the examples at these indices, in the order of the indices.
    ///
    /// # Errors
    /// Same as [`Tensor::index_select`].
    pub fn select(&self, positions: &Tensor) -> Result<Dataset> {
        Dataset::new(
            &self.features.index_select(0, positions)?,
            &self.targets.index_select(0, positions)?,
        )
    }

    /// Splits the examples into two random parts, for example for training and validation. The second part has `fraction` of
    /// the examples, rounded up, as in scikit-learn's `train_test_split`. The seed alone determines the parts, on every
    /// device.
    ///
    /// # Errors
    /// `InvalidArgument` unless both parts have an example.
    pub fn split(&self, fraction: f64, seed: u32) -> Result<(Dataset, Dataset)> {
        // A small amount is subtracted, because 0.1 of 10 is slightly above 1 in binary.
        let second = (self.len() as f64 * fraction - 1e-9).ceil();
        if !(second >= 1.0 && second < self.len() as f64) {
            let count = self.len();
            let message = format!("split: both parts must have examples, got a fraction of {fraction} of {count} examples");
            return Err(Error::argument(message));
        }
        let order = permutation(self.device(), self.len(), seed)?;
        let second = second as isize;
        Ok((self.select(&order.slice(0, second..)?)?, self.select(&order.slice(0, ..second)?)?))
    }
}

/// Returns a random permutation of the numbers below `count`, which depends on the seed alone: the order that sorts random
/// words.
fn permutation(device: &Device, count: usize, seed: u32) -> Result<Tensor> {
    let order = device.random_bits(&[count], seed)?.argsort(0, false)?.cast(DType::U32)?;
    // Computed once, not again with each batch.
    order.run()?;
    Ok(order)
}

/// A batch: features and targets.
pub type Batch = (Tensor, Tensor);

/// The batches of one epoch.
pub type BatchIter = Box<dyn Iterator<Item = Result<Batch>>>;

/// The source of each epoch's batches: a [`DataLoader`], or a function from an epoch's number to an iterator.
///
/// A function can produce any kind of data. It should return the same batches for the same epoch. If a training resumes in
/// the middle of an epoch, it skips the batches that it has already seen.
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
    /// Returns the batches of an epoch. The first epoch is 0.
    ///
    /// # Errors
    /// Any error that prevents the batches from being created.
    fn epoch(&self, epoch: u64) -> Result<BatchIter>;

    /// Returns the number of batches of an epoch, if it is known in advance.
    fn steps(&self) -> Option<usize> {
        None
    }

    /// Describes in words what determines the order of the examples. A checkpoint from the middle of an epoch stores the
    /// description.
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

/// Batches of a [`Dataset`], gathered on its device (`DataLoader` of PyTorch).
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
    /// Creates a loader that returns `batch_size` examples at a time, in order. The last batch may be smaller.
    ///
    /// # Errors
    /// `InvalidArgument` if the batch size is 0 or the data set is empty.
    pub fn new(data: &Dataset, batch_size: usize) -> Result<DataLoader> {
        if batch_size == 0 || data.is_empty() {
            let count = data.len();
            let message = format!(
                "loader: examples and batch size must be at least 1, got {count} and {batch_size}"
            );
            return Err(Error::argument(message));
        }
        Ok(DataLoader { data: data.clone(), batch_size, shuffle: None, drop_last: false })
    }

    /// Shuffles the examples in each epoch. The order depends on the seed and the epoch alone, on every device.
    #[must_use]
    pub fn shuffle(mut self, seed: u32) -> DataLoader {
        self.shuffle = Some(seed);
        self
    }

    /// Sets whether a smaller last batch is dropped. Batch norm may need it.
    #[must_use]
    pub fn drop_last(mut self, drop_last: bool) -> DataLoader {
        self.drop_last = drop_last;
        self
    }

    /// Returns the data set.
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
                // `draw` mixes the seed and the epoch, so that the orders of neighboring seeds are independent.
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

/// The iterator over one epoch of a loader.
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

    /// Skips `n` batches without gathering them.
    fn nth(&mut self, n: usize) -> Option<Result<Batch>> {
        let at = self.at.saturating_add(n);
        self.at = at.saturating_add(1).min(self.loader.count());
        (at < self.loader.count()).then(|| self.pick(at))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let left = self.loader.count() - self.at;
        (left, Some(left))
    }
}
