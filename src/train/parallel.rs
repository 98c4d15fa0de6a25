//! Data-parallel training: each rank computes the gradients of its share of the data. All ranks take the same step, with the
//! weighted mean of the gradients (Li et al. 2020, PyTorch Distributed).

use super::loss_mean::LossMean;
use super::record::Epoch;
use super::{OptimizerHandle, Trainer};
use crate::backend::Pending;
use crate::device::{Device, ReadRequest};
use crate::distributed::World;
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::nn::{Member, Module};
use crate::optim::{Bucket, BucketedGradients, Gradient, Optimizer};
use crate::tensor::{Tensor, Variable};
use rustc_hash::FxHasher;
use std::collections::BTreeMap;
use std::fmt::Write;
use std::future::Future;
use std::hash::{Hash, Hasher};
use std::sync::{Arc, Mutex, PoisonError};

/// Options of [`Trainer::data_parallel_with`].
#[cfg(feature = "distributed")]
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataParallelOptions {
    /// The size of a bucket of gradients in bytes. A bucket is summed over the ranks while the device computes the next one.
    /// The default is 25 MB.
    pub bucket_bytes: usize,
}

#[cfg(feature = "distributed")]
impl Default for DataParallelOptions {
    fn default() -> DataParallelOptions {
        DataParallelOptions { bucket_bytes: 25_000_000 }
    }
}

/// The ranks with which a trainer trains.
#[derive(Clone)]
pub(super) struct Parallel {
    world: World,
    bucket_elements: usize,
    /// Without the feature no value exists, so the compiler removes what uses it.
    #[cfg(not(feature = "distributed"))]
    #[allow(dead_code)]
    never: std::convert::Infallible,
}

/// The sums of a step's gradients over all ranks.
pub(super) struct Reduced {
    has: Vec<Vec<bool>>,
    sums: Vec<(Bucket, Vec<f32>)>,
    /// The number of examples of all ranks.
    weight: f64,
}

impl Reduced {
    /// Returns the gradients for a step of the optimizer.
    pub fn gradients(self, optimizer: &Optimizer) -> Result<Vec<Option<Gradient>>> {
        optimizer.joined_buckets(self.has, &self.sums, self.weight)
    }
}

impl<M: Module, O: OptimizerHandle> Trainer<M, O> {
    /// Trains together with the other ranks of a world. Every rank makes the same trainer, and then calls the same methods in
    /// the same order. With one rank nothing changes.
    ///
    /// The model and the optimizer get the values of rank 0. The ranks take batches in turn: of `n` ranks, rank `r` takes the
    /// batches `r`, `r + n`, `r + 2n` and so on. A step takes the mean of the gradients, weighted by the examples of each rank,
    /// and is the same on all ranks. So `n` ranks with batches of `b` examples train as one process with batches of `n * b`, if
    /// the loss is a mean over the examples.
    ///
    /// Dropout and other draws of the trainer's generators differ by rank. The losses of an epoch, the
    /// validation and the metrics are those of all ranks, and schedules, early stopping and loss scaling decide alike.
    ///
    /// The running statistics of batch norm are those of rank 0 at the end of an epoch. [`Step::loss`](super::Step::loss) is
    /// this rank's loss.
    ///
    /// If a call of one rank fails or is dropped, all ranks return an error, and cannot train on. A checkpoint continues on any
    /// number of ranks. This call blocks until all ranks have made it.
    ///
    /// ```
    /// # use warpweft::device::{Device, Preference};
    /// # use warpweft::distributed::World;
    /// # use warpweft::nn::{Generator, Layer, Linear, LossReduction, Module};
    /// # use warpweft::optim::{Optimizer, Sgd};
    /// # use warpweft::train::{DataLoader, Dataset, Trainer};
    /// # pollster::block_on(async {
    /// # let device = Device::with(Preference::Cpu).await?;
    /// # let x = device.uniform(&[64, 1], -1.0, 1.0, 1)?;
    /// # let data = Dataset::new(&x, &x.mul(3)?)?;
    /// # let model = Linear::new(&Generator::new(&device, 0), 1, 1)?;
    /// # let optimizer = Optimizer::new(Sgd::new(0.1), &model.parameters())?;
    /// # let forward = |model: &Linear, x: &_, y: &_| model.forward(x)?.mse_loss(y, LossReduction::Mean);
    /// let world = World::single(); // `World::init` of `warpweft-native` joins the ranks that `mpirun` started.
    /// let mut trainer = Trainer::new(model, optimizer, DataLoader::new(&data, 16)?, forward)?
    ///     .data_parallel(&world)?;
    /// trainer.fit().await?;
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `InvalidState` if the ranks differ in their version, in the parameters, in the optimizer's state and rates, or in the
    /// order and size of the data, with both values. `InvalidState` also if a rank failed.
    #[cfg(feature = "distributed")]
    pub fn data_parallel(self, world: &World) -> Result<Trainer<M, O>> {
        self.data_parallel_with(world, DataParallelOptions::default())
    }

    /// Same as [`Trainer::data_parallel`], with options.
    ///
    /// # Errors
    /// Same as [`Trainer::data_parallel`]. `InvalidArgument` if the size of a bucket is 0.
    #[cfg(feature = "distributed")]
    pub fn data_parallel_with(
        mut self,
        world: &World,
        options: DataParallelOptions,
    ) -> Result<Trainer<M, O>> {
        let bucket_elements = options.bucket_bytes / size_of::<f32>();
        let joined = match options.bucket_bytes {
            bytes @ 0..4 => {
                let message = format!("data_parallel: a bucket must have 4 bytes, got {bytes}");
                Err(Error::argument(message))
            }
            _ if world.size() == 1 => return Ok(self),
            _ => pollster::block_on(self.join(world)),
        };
        joined.inspect_err(|error| world.fail(&error.to_string()))?;
        for generator in &self.generators {
            generator.set_rank(world.rank() as u32);
        }
        if world.rank() > 0 {
            // The losses of a checkpoint that was loaded before are those of all ranks.
            self.loss_mean = LossMean::new(&self.device)?;
        }
        self.left = None;
        self.parallel = Some(Parallel { world: world.clone(), bucket_elements });
        Ok(self)
    }

    /// Checks that all ranks have the same training, and takes the values and the optimizer's state of rank 0.
    #[cfg(feature = "distributed")]
    async fn join(&mut self, world: &World) -> Result<()> {
        world.agree("data_parallel", self.describe()?).await?;
        let values = self.values()?;
        let state = self.optimizer.with(Optimizer::state_dict)?;
        let tensors: Vec<&Tensor> = values.values().chain(state.values()).collect();
        let own = self.device.read_bytes(&tensors).await?;
        let all = world.broadcast(0, own.concat()).await?;
        if world.rank() == 0 {
            return Ok(());
        }
        let mut rest = &all[..];
        let mut first = [BTreeMap::new(), BTreeMap::new()];
        let names = values.iter().map(|one| (0, one)).chain(state.iter().map(|one| (1, one)));
        for ((which, (name, value)), own) in names.zip(&own) {
            let (bytes, after) = rest.split_at(own.len());
            rest = after;
            let tensor = self.device.tensor_from_bytes(bytes, value.shape(), value.dtype())?;
            first[which].insert(name.clone(), tensor);
        }
        let [values, state] = first;
        self.set_values(&values)?;
        let steps = Optimizer::saved_steps(&state).await?;
        self.optimizer.with_mut(|own| own.restore(&state, &steps))
    }

    /// Describes what all ranks must have in common, in lines.
    #[cfg(feature = "distributed")]
    fn describe(&self) -> Result<String> {
        let mut text = format!("version {}\n", env!("CARGO_PKG_VERSION"));
        for (name, value) in self.values()? {
            let (dtype, shape) = (value.dtype(), value.shape());
            writeln!(text, "`{name}`: {dtype} {shape:?}").ok();
        }
        for (name, value) in self.optimizer.with(Optimizer::state_dict)? {
            let (dtype, shape) = (value.dtype(), value.shape());
            writeln!(text, "state `{name}` of the optimizer: {dtype} {shape:?}").ok();
        }
        let (count, rates) =
            self.optimizer.with(|own| Ok((own.parameters().count(), own.rates())))?;
        writeln!(text, "{count} parameters to train\nlearning rates {rates:?}").ok();
        writeln!(text, "data: {}, {:?} batches", self.data.order(), self.data.steps()).ok();
        writeln!(text, "{} generators", self.generators.len()).ok();
        writeln!(text, "step {}", self.steps).ok();
        Ok(text)
    }

    /// Describes the validation, for which all ranks call each other.
    pub(super) fn describe_validation(&self) -> String {
        let data = self.validation.as_ref().map(|data| (data.order(), data.steps()));
        let metrics: Vec<String> = self.metrics.iter().map(|metric| metric.name()).collect();
        format!("validation on {data:?}\nmetrics {metrics:?}")
    }

    /// Tells the other ranks that this one cannot train on. Their calls then return an error with the reason. With one rank,
    /// it does nothing.
    #[cfg(feature = "distributed")]
    pub fn fail(&self, reason: &str) {
        if let Some(parallel) = &self.parallel {
            parallel.world.fail(reason);
        }
    }

    /// Returns the number of this process among the ranks that train together, from 0.
    pub fn rank(&self) -> usize {
        self.parallel.as_ref().map_or(0, |parallel| parallel.world.rank())
    }

    /// Returns the number of ranks that train together. It is 1 without [`Trainer::data_parallel`].
    pub fn ranks(&self) -> usize {
        self.parallel.as_ref().map_or(1, |parallel| parallel.world.size())
    }

    /// Sums the gradients of a step over all ranks, or returns `None` with one rank. `examples` is the number of examples of
    /// this rank.
    pub(super) async fn reduce(&self, loss: &Tensor, examples: u64) -> Result<Option<Reduced>> {
        let Some(parallel) = &self.parallel else { return Ok(None) };
        let most = parallel.bucket_elements;
        // Discards the sums of earlier gradients that no step took.
        drop(self.device.take_pending_sums());
        let gradients =
            self.optimizer.with(|own| own.bucketed_gradients(loss, examples as f64, most))?;
        let lr = self.optimizer.with(|own| Ok(own.rates()))?;
        let BucketedGradients { buckets, has } = gradients;
        let mut text =
            format!("step {} of epoch {}\nlearning rates {lr:?}", self.steps, self.epoch);
        write!(text, "\nreports every {} steps", self.report_every).ok();
        for (n, _) in has.iter().flatten().enumerate().filter(|(_, has)| !**has) {
            write!(text, "\nno gradient of parameter {n}").ok();
        }
        let agreed = parallel.world.agree("train", text);
        parallel.provide_sums(&self.device, examples as f32).await?;
        let (sums, weight) = parallel.sum(&self.device, buckets, examples).await?;
        agreed.await?;
        if weight == 0.0 {
            return Err(Error::state("train: the ranks must have an example, got none"));
        }
        Ok(Some(Reduced { has, sums, weight }))
    }

    /// Returns what tells the other ranks if a call of this one fails.
    pub(super) fn announcer(&self) -> Announcer {
        Announcer(self.parallel.clone())
    }

    /// Sets whether the batch of this rank does not count.
    pub(super) fn set_idle(&self, is_idle: bool) {
        if let Some(parallel) = &self.parallel {
            parallel.world.set_idle(is_idle);
        }
    }

    /// Sums the gradients that an additional backward pass needs from all ranks.
    pub(super) async fn provide_sums(&self, examples: u64) -> Result<()> {
        match &self.parallel {
            Some(parallel) => parallel.provide_sums(&self.device, examples as f32).await,
            None => Ok(()),
        }
    }

    /// Checks that all ranks are at the same point.
    pub(super) async fn meet(&self, what: impl FnOnce() -> String) -> Result<()> {
        match &self.parallel {
            Some(parallel) => parallel.world.agree("train", what()).await,
            None => Ok(()),
        }
    }

    /// Checks that all ranks load the same checkpoint.
    #[cfg(feature = "io")]
    pub(super) async fn meet_for_loading(&self, file: &[u8]) -> Result<()> {
        let hash = || {
            let mut hasher = FxHasher::default();
            file.hash(&mut hasher);
            hasher.finish()
        };
        self.meet(|| format!("a checkpoint of {} bytes with hash {:016x}", file.len(), hash()))
            .await
    }

    /// Returns the mean loss of all ranks for a checkpoint.
    #[cfg(feature = "io")]
    pub(super) async fn combined_loss_mean(&self) -> Result<LossMean> {
        let Some(parallel) = &self.parallel else { return Ok(self.loss_mean.clone()) };
        self.meet(|| format!("saving a checkpoint after step {}", self.steps)).await?;
        let (mean, bad) = self.loss_mean.read().await?;
        let own = (mean, self.loss_mean.examples, bad);
        let (mean, examples, bad) = parallel.combine_means(own).await?;
        let bad = bad.map_or(-1, |bad| i32::try_from(bad).unwrap_or(i32::MAX));
        Ok(LossMean {
            mean: self.device.tensor(&[mean as f32], &[1])?,
            first_non_finite: self.device.tensor(&[bad], &[1])?,
            examples,
        })
    }

    /// Takes the running statistics and other buffers of rank 0.
    pub(super) async fn share_buffers(&self) -> Result<()> {
        let Some(Parallel { world, .. }) = &self.parallel else { return Ok(()) };
        let mut buffers: Vec<Variable> = Vec::new();
        self.model.visit(&mut |_, member| {
            if let Member::Buffer(variable) = member {
                if !buffers.iter().any(|known| known.is_same(variable)) {
                    buffers.push(variable.clone());
                }
            }
        });
        if buffers.is_empty() {
            return Ok(());
        }
        let values: Vec<Tensor> = buffers.iter().map(Variable::value).collect();
        let own = self.device.read_bytes(&values.iter().collect::<Vec<_>>()).await?;
        let all = world.broadcast(0, own.concat()).await?;
        let mut rest = &all[..];
        for ((variable, value), own) in buffers.iter().zip(&values).zip(&own) {
            let (bytes, after) = rest.split_at(own.len());
            rest = after;
            let (shape, dtype) = (value.shape(), value.dtype());
            variable.assign(&self.device.tensor_from_bytes(bytes, shape, dtype)?)?;
        }
        Ok(())
    }
}

impl Parallel {
    /// Returns the number of this rank, and of all ranks.
    pub fn place(&self) -> (usize, usize) {
        (self.world.rank(), self.world.size())
    }

    /// Computes the buckets, and sums each over all ranks while the next one is computed. Returns the sums, and the number of
    /// examples of all ranks.
    async fn sum(
        &self,
        device: &Device,
        buckets: Vec<(Bucket, Tensor)>,
        examples: u64,
    ) -> Result<(Vec<(Bucket, Vec<f32>)>, f64)> {
        let queue = Arc::new(Mutex::new(Queue {
            world: self.world.clone(),
            next: 0,
            waiting: BTreeMap::new(),
            sums: Vec::new(),
        }));
        let mut wanted: Vec<ReadRequest> = Vec::new();
        for (n, (_, values)) in buckets.iter().enumerate() {
            let queue = queue.clone();
            // The first bucket also sums the examples.
            let extra = (n == 0).then_some(examples as f32);
            let take = move |bytes: &[u8]| {
                let mut floats: Vec<f32> = bytemuck::pod_collect_to_vec(bytes);
                floats.extend(extra);
                queue.lock().unwrap_or_else(PoisonError::into_inner).push(n, floats);
                Ok(())
            };
            wanted.push(values.wanted(0, values.numel(), Box::new(take))?);
        }
        for read in device.read_in_stages(wanted)? {
            read.await?;
        }
        let sums = std::mem::take(&mut queue.lock().unwrap_or_else(PoisonError::into_inner).sums);
        let mut all = Vec::with_capacity(buckets.len());
        let mut weight = 0.0;
        for ((bucket, _), sum) in buckets.into_iter().zip(sums) {
            let mut sum = sum.await?;
            if all.is_empty() {
                weight = f64::from(sum.pop().unwrap_or(0.0));
            }
            all.push((bucket, sum));
        }
        Ok((all, weight))
    }

    /// Sums the gradients that the backward pass needs from all ranks. Each rank's gradient counts by its examples.
    async fn provide_sums(&self, device: &Device, examples: f32) -> Result<()> {
        for pending in device.take_pending_sums() {
            let own = if examples > 0.0 {
                let own: Vec<f32> = pending.gradient.read().await?;
                own.iter().map(|x| x * examples).collect()
            } else {
                vec![0.0; pending.gradient.numel()]
            };
            let sums = self.world.all_reduce(own).await?;
            // A step multiplies each rank's gradients by its examples later.
            let scale = if examples > 0.0 { 1.0 / examples } else { 0.0 };
            pending.provide(&sums.iter().map(|sum| sum * scale).collect::<Vec<_>>())?;
        }
        Ok(())
    }

    /// Combines the means of all ranks. Each is a mean, its number of examples, and the index of the first loss that is not
    /// finite.
    pub async fn combine_means(
        &self,
        (mean, examples, bad): (f64, u64, Option<u64>),
    ) -> Result<(f64, u64, Option<u64>)> {
        let words = [mean.to_bits(), examples, bad.unwrap_or(u64::MAX)];
        let own = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let (mut sum, mut count, mut first) = (0.0, 0, u64::MAX);
        for bytes in self.world.all_gather(own).await? {
            let word = |n: usize| {
                let bytes = bytes.get(n * 8..n * 8 + 8).and_then(|bytes| bytes.try_into().ok());
                u64::from_le_bytes(bytes.unwrap_or_default())
            };
            let (mean, examples, bad) = (f64::from_bits(word(0)), word(1), word(2));
            if examples > 0 {
                sum += mean * examples as f64;
            }
            count += examples;
            first = first.min(bad);
        }
        Ok((sum / count.max(1) as f64, count, (first != u64::MAX).then_some(first)))
    }

    /// Returns the predictions and targets of all ranks, in their order. A rank may have none.
    pub async fn gather_pairs(
        &self,
        device: &Device,
        own: Option<(Tensor, Tensor)>,
    ) -> Result<Vec<(Tensor, Tensor)>> {
        let mut message = Vec::new();
        if let Some((prediction, target)) = own {
            let read = device.read_bytes(&[&prediction, &target]).await?;
            for (tensor, bytes) in [prediction, target].iter().zip(read) {
                pack(tensor, &bytes, &mut message);
            }
        }
        let mut pairs = Vec::new();
        for bytes in self.world.all_gather(message).await? {
            if bytes.is_empty() {
                continue;
            }
            let mut rest = &bytes[..];
            pairs.push((unpack(device, &mut rest)?, unpack(device, &mut rest)?));
        }
        Ok(pairs)
    }

    /// Replaces an epoch's numbers by those of rank 0, so that all ranks decide alike even if their devices round differently.
    pub async fn agree_on(&self, epoch: &mut Epoch) -> Result<()> {
        let mut numbers = vec![&mut epoch.loss, &mut epoch.lr, &mut epoch.seconds];
        if let Some(scores) = &mut epoch.validation {
            numbers.push(&mut scores.loss);
            numbers.extend(scores.metrics.iter_mut().map(|(_, value)| value));
        }
        let own = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
        let first = self.world.broadcast(0, own).await?;
        for (number, bytes) in numbers.into_iter().zip(first.chunks_exact(8)) {
            *number = f64::from_le_bytes(bytes.try_into().unwrap_or_default());
        }
        Ok(())
    }
}

/// Tells the other ranks if a call of this rank fails, or if its future is dropped, because they wait for it.
pub(super) struct Announcer(Option<Parallel>);

impl Announcer {
    /// Awaits a call.
    pub async fn watch<T>(mut self, call: impl Future<Output = Result<T>>) -> Result<T> {
        let result = call.await;
        if let (Some(parallel), Err(error)) = (self.0.take(), &result) {
            parallel.world.fail(&error.to_string());
        }
        result
    }
}

impl Drop for Announcer {
    fn drop(&mut self) {
        if let Some(parallel) = &self.0 {
            parallel.world.fail(match std::thread::panicking() {
                true => "it panicked",
                false => "a call of its trainer was dropped before it was complete",
            });
        }
    }
}

/// The buckets that the device has computed. They are passed to the world in their order.
struct Queue {
    world: World,
    next: usize,
    waiting: BTreeMap<usize, Vec<f32>>,
    sums: Vec<Pending<Result<Vec<f32>>>>,
}

impl Queue {
    fn push(&mut self, n: usize, values: Vec<f32>) {
        self.waiting.insert(n, values);
        while let Some(values) = self.waiting.remove(&self.next) {
            self.sums.push(self.world.all_reduce(values));
            self.next += 1;
        }
    }
}

/// Appends a tensor's dtype, shape and bytes.
fn pack(tensor: &Tensor, bytes: &[u8], into: &mut Vec<u8>) {
    let dtype = DType::ALL.iter().position(|dtype| *dtype == tensor.dtype()).unwrap_or(0);
    into.push(dtype as u8);
    into.push(tensor.rank() as u8);
    for &size in tensor.shape() {
        into.extend((size as u64).to_le_bytes());
    }
    into.extend((bytes.len() as u64).to_le_bytes());
    into.extend(bytes);
}

/// Reads a tensor that [`pack`] wrote.
fn unpack(device: &Device, rest: &mut &[u8]) -> Result<Tensor> {
    let short =
        || Error::state("evaluate: a rank must send a prediction and a target, got fewer bytes");
    let mut take = |count: usize| -> Result<&[u8]> {
        let (head, tail) = rest.split_at_checked(count).ok_or_else(short)?;
        *rest = tail;
        Ok(head)
    };
    let (dtype, rank) = match take(2)? {
        &[dtype, rank] => (DType::ALL.get(dtype as usize).copied().ok_or_else(short)?, rank),
        _ => return Err(short()),
    };
    let mut number = || Ok(u64::from_le_bytes(take(8)?.try_into().unwrap_or_default()) as usize);
    let shape = (0..rank).map(|_| number()).collect::<Result<Vec<usize>>>()?;
    let bytes = number()?;
    device.tensor_from_bytes(take(bytes)?, &shape, dtype)
}
