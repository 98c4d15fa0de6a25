//! Tests data-parallel training. The ranks are threads here; `native/tests/mpi` has the tests with processes.

mod faults;
mod programs;
mod resume;
mod sync_batch_norm;
pub mod threads;
mod world;

use crate::suite::{absent, Place};
use crate::train::noise;
use pollster::block_on;
use std::time::Duration;
use threads::run;
use warpweft::device::Device;
use warpweft::distributed::World;
use warpweft::dtype::DType;
use warpweft::error::{Error, Result};
use warpweft::nn::{CrossEntropyOptions, Dropout, Generator, Layer, Linear, Module, Sequential};
use warpweft::optim::{Adam, LossScale, Optimizer, PlateauOptions, ReduceLrOnPlateau, Sgd};
use warpweft::tensor::Tensor;
use warpweft::train::metrics::{Accuracy, Average, F1};
use warpweft::train::{DataLoader, DataParallelOptions, Dataset, EarlyStopping, Epoch, Trainer};

/// The trainers of these tests.
type Classifier = Trainer<Sequential>;

/// How a test trains.
#[derive(Clone, Copy)]
struct Task {
    examples: usize,
    /// The batch size of all ranks together.
    batch: usize,
    dropout: f64,
    shuffle: bool,
    /// The size of a bucket in bytes.
    bucket: usize,
    optimizer: fn(&Sequential) -> Result<Optimizer>,
}

impl Default for Task {
    fn default() -> Task {
        Task { examples: 96, batch: 16, dropout: 0.0, shuffle: true, bucket: 200, optimizer: adam }
    }
}

fn adam(model: &Sequential) -> Result<Optimizer> {
    Optimizer::new(Adam::new(0.01), &model.parameters())
}

fn sgd(model: &Sequential) -> Result<Optimizer> {
    let rule = Sgd { momentum: 0.9, weight_decay: 1e-3, ..Sgd::new(0.05) };
    Ok(Optimizer::new(rule, &model.parameters())?.clip_norm(0.5))
}

fn open(place: Place) -> Result<Device> {
    place.open().map_err(Error::state)
}

fn loader(device: &Device, task: Task) -> Result<DataLoader> {
    let x = device.tensor(&noise(task.examples * 6, 3), &[task.examples, 6])?;
    let data = Dataset::new(&x, &x.slice(1, ..3)?.argmax(1)?)?;
    let loader = DataLoader::new(&data, task.batch)?;
    Ok(if task.shuffle { loader.shuffle(5) } else { loader })
}

/// Creates the trainer of one of `ranks` ranks. The initial weights depend on `seed`.
fn trainer(device: &Device, task: Task, ranks: usize, seed: u32) -> Result<Classifier> {
    let loader = loader(device, Task { batch: task.batch / ranks, ..task })?;
    let (x, y) = (loader.data().features(), loader.data().targets());
    let count = task.examples.min(50) as isize;
    let validation = Dataset::new(&x.slice(0, ..count)?, &y.slice(0, ..count)?)?;
    let generator = Generator::new(device, seed);
    let model = Sequential::new()
        .push(Linear::new(&generator, 6, 16)?)
        .push(|x: &Tensor| Ok(x.tanh()))
        .push(Dropout::new(&generator, task.dropout)?)
        .push(Linear::new(&generator, 16, 8)?)
        .push(|x: &Tensor| Ok(x.gelu()))
        .push(Linear::new(&generator, 8, 3)?);
    let optimizer = (task.optimizer)(&model)?;
    Ok(Trainer::new(model, optimizer, loader, |model, x, y| {
        let scores = model.forward(x)?;
        Ok((scores.cross_entropy(y, CrossEntropyOptions::default())?, scores))
    })?
    .validate_on(DataLoader::new(&validation, 7)?)
    .metric(Accuracy::new())
    .metric(F1::new(3, Average::Macro)))
}

fn joined(device: &Device, task: Task, world: &World, seed: u32) -> Result<Classifier> {
    let options = DataParallelOptions { bucket_bytes: task.bucket };
    trainer(device, task, world.size(), seed)?.data_parallel_with(world, options)
}

/// The weights of a model, and the epochs so far.
#[derive(Clone, Debug)]
struct Trained {
    weights: Vec<f32>,
    epochs: Vec<Epoch>,
}

fn weights(model: &impl Module) -> Result<Vec<f32>> {
    let mut all = Vec::new();
    for value in model.state_dict().values() {
        all.extend(block_on(value.read::<f32>())?);
    }
    Ok(all)
}

fn finished(trainer: &Classifier) -> Result<Trained> {
    Ok(Trained { weights: weights(&trainer.model)?, epochs: trainer.history().to_vec() })
}

/// Trains for some steps on `ranks` ranks. The ranks have different initial weights, and those of rank 0 count.
fn train(place: Place, task: Task, ranks: usize, steps: usize) -> Vec<Trained> {
    let work = |world: World| {
        let device = open(place)?;
        let mut trainer = joined(&device, task, &world, world.rank() as u32)?.epochs(1000);
        for _ in 0..steps {
            block_on(trainer.next_step())?;
        }
        finished(&trainer)
    };
    let all: Result<Vec<Trained>> = run(ranks, Duration::ZERO, work).into_iter().collect();
    all.unwrap_or_else(|error| panic!("{} with {ranks} ranks: {error}", place.name()))
}

/// Trains for some steps on the batches of all ranks, in one process.
fn alone(place: Place, task: Task, steps: usize) -> Result<Trained> {
    let mut trainer = trainer(&open(place)?, task, 1, 0)?.epochs(1000);
    for _ in 0..steps {
        block_on(trainer.next_step())?;
    }
    finished(&trainer)
}

/// Returns the distance of two vectors, relative to the length of the second.
fn distance(a: &[f32], b: &[f32]) -> f64 {
    let square = |x: f64| x * x;
    let apart: f64 = a.iter().zip(b).map(|(a, b)| square(f64::from(a - b))).sum();
    let length: f64 = b.iter().map(|b| square(f64::from(*b))).sum();
    (apart / length).sqrt()
}

/// Runs on the CPU and on a GPU, if there is one.
fn everywhere(what: &str, work: impl Fn(Place)) {
    for place in [Place::Cpu, Place::Wgpu] {
        match place.open() {
            Ok(_) => work(place),
            Err(error) => absent(place, what, &error),
        }
    }
}

fn assert_near(what: &str, got: &Trained, want: &Trained) {
    let apart = distance(&got.weights, &want.weights);
    assert!(apart < 1e-5, "{what}: the weights are {apart:e} apart");
    assert_eq!(got.epochs.len(), want.epochs.len(), "{what}");
    for (got, want) in got.epochs.iter().zip(&want.epochs) {
        assert_eq!((got.epoch, got.steps), (want.epoch, want.steps), "{what}");
        assert!((got.loss - want.loss).abs() < 1e-5, "{what}: {got:?} {want:?}");
        let (got, want) = (got.validation.as_ref(), want.validation.as_ref());
        let (got, want) = (got.expect("validated"), want.expect("validated"));
        assert!((got.loss - want.loss).abs() < 1e-5, "{what}: {got:?} {want:?}");
        for ((name, got), (_, want)) in got.metrics.iter().zip(&want.metrics) {
            assert!((got - want).abs() < 1e-6, "{what}: {name} {got} {want}");
        }
    }
}

/// Ranks on their shares train as one process on the joined batches: weights, losses, validation and metrics.
#[test]
fn trains_as_one_process_on_the_joined_batch() {
    everywhere("data parallel", |place| {
        for (name, optimizer) in [("adam", adam as fn(&_) -> _), ("sgd", sgd)] {
            let task = Task { optimizer, ..Task::default() };
            let want = alone(place, task, 100).expect("trained");
            assert!(want.epochs[15].loss < 0.6 * want.epochs[0].loss, "{:?}", want.epochs);
            for ranks in [1, 2, 4] {
                let got = train(place, task, ranks, 100);
                let what = format!("{name}, {}, {ranks} ranks", place.name());
                assert_near(&what, &got[0], &want);
                for other in &got[1..] {
                    assert_eq!(other.weights, got[0].weights, "{what}");
                    assert_eq!(other.epochs, got[0].epochs, "{what}");
                }
            }
        }
    });
}

/// Two runs with equal ranks give equal bits.
#[test]
fn the_same_ranks_give_the_same_bits() {
    everywhere("data parallel", |place| {
        let task = Task { dropout: 0.2, ..Task::default() };
        let [first, second] = [(); 2].map(|()| train(place, task, 3, 20).remove(0));
        assert_eq!(first.weights, second.weights);
    });
}

/// The last batches of an epoch are smaller, or missing on some ranks. They count by their examples.
#[test]
fn uneven_batches_count_by_their_examples() {
    for examples in [96, 97, 92, 83, 81, 16, 5, 3] {
        let task = Task { examples, optimizer: sgd, ..Task::default() };
        let want = alone(Place::Cpu, Task { examples, ..task }, 30);
        let Ok(want) = want else { panic!("{examples}: {want:?}") };
        for ranks in [2, 4] {
            let got = train(Place::Cpu, task, ranks, 30);
            assert_near(&format!("{examples} examples, {ranks} ranks"), &got[0], &want);
        }
    }
}

/// Buckets of any size give the same sums.
#[test]
fn the_size_of_buckets_does_not_matter() {
    let with = |bucket| train(Place::Cpu, Task { bucket, ..Task::default() }, 2, 10).remove(0);
    let want = with(1 << 20).weights;
    for bucket in [4, 100, 1000] {
        assert_eq!(with(bucket).weights, want, "{bucket}");
    }
}

/// Ranks draw different dropout masks, and rank 0 those of a single process.
#[test]
fn dropout_differs_by_rank() {
    let draws = run(2, Duration::ZERO, |world| {
        let device = open(Place::Cpu)?;
        let task = Task { dropout: 0.5, shuffle: false, ..Task::default() };
        let trainer = joined(&device, task, &world, 0)?;
        block_on(trainer.model.forward(&device.ones(&[1, 6])?)?.read::<f32>())
    });
    let single = || {
        let device = open(Place::Cpu)?;
        let trainer = trainer(&device, Task { dropout: 0.5, ..Task::default() }, 1, 0)?;
        block_on(trainer.model.forward(&device.ones(&[1, 6])?)?.read::<f32>())
    };
    let single = single().expect("a forward pass");
    assert_eq!(draws[0].as_ref().expect("a forward pass"), &single);
    assert_ne!(draws[1].as_ref().expect("a forward pass"), &single);
}

/// If the gradients of one rank are not finite, all ranks skip the step, and halve the scale.
#[test]
fn all_ranks_skip_a_step_together() {
    let results = run(2, Duration::ZERO, |world| {
        let device = open(Place::Cpu)?;
        let optimizer = |model: &Sequential| {
            let rule = LossScale { init_scale: 1024.0, ..LossScale::default() };
            adam(model)?.mixed_precision(rule)
        };
        let task = Task { optimizer, ..Task::default() };
        let mut trainer = joined(&device, task, &world, 0)?;
        let before = weights(&trainer.model)?;
        let value = if world.rank() == 1 { f64::INFINITY } else { 1.0 };
        let (x, y) = (device.full(&[4, 6], value, DType::F32)?, device.zeros((&[4], DType::I32))?);
        block_on(trainer.step(&x, &y))?;
        let skipped = weights(&trainer.model)? == before;
        let scale = trainer.optimizer.loss_scale().expect("a scale");
        let x = device.ones(&[4, 6])?;
        block_on(trainer.step(&x, &y))?;
        let taken = weights(&trainer.model)? != before;
        Ok((skipped, block_on(scale.item::<f32>())?, taken))
    });
    for result in results {
        assert_eq!(result.expect("two steps"), (true, 512.0, true));
    }
}

/// Early stopping and the plateau schedule decide alike.
#[test]
fn ranks_stop_together() {
    let ended = run(3, Duration::ZERO, |world| {
        let device = open(Place::Cpu)?;
        let task = Task { batch: 24, ..Task::default() };
        let plateau =
            ReduceLrOnPlateau::new(0.05, PlateauOptions { patience: 1, ..Default::default() })?;
        let mut trainer = joined(&device, task, &world, 0)?
            .epochs(200)
            .early_stopping(EarlyStopping { patience: 3, ..EarlyStopping::default() })
            .reduce_on_plateau(plateau);
        let epochs = block_on(trainer.fit())?.to_vec();
        Ok((epochs, weights(&trainer.model)?))
    });
    let ended: Vec<_> = ended.into_iter().map(|one| one.expect("trained")).collect();
    assert!(
        ended[0].0.len() < 200 && ended[0].0.last().expect("epochs").lr < 0.05,
        "{:?}",
        ended[0].0.len()
    );
    assert_eq!(ended[0], ended[1]);
    assert_eq!(ended[0], ended[2]);
}

/// While a bucket is summed over a slow network, the device computes the next one.
#[test]
fn sums_overlap_the_backward_pass() {
    let results = run(2, Duration::from_millis(2), |world| {
        let device = open(Place::Cpu)?;
        let mut trainer = joined(&device, Task { bucket: 100, ..Task::default() }, &world, 0)?;
        for _ in 0..3 {
            block_on(trainer.next_step())?;
        }
        Ok(device.stats().submits)
    });
    let submits = results.into_iter().map(|one| one.expect("steps")).collect::<Vec<_>>();
    // Each bucket is a separate submission, so that it can be read while the next one is computed.
    assert!(submits[0] > 3 * 8, "{submits:?}");
}
