//! Tests checkpoints of random trainings. The steps after a load must have the same bits as the steps after the save, for a new
//! trainer and for the saved one, which has run ahead.

use super::{bits, classifier, everywhere, noise};
use pollster::block_on;
use std::collections::BTreeMap;
use warpweft::device::Device;
use warpweft::error::{Error, Result};
use warpweft::nn::*;
use warpweft::optim::*;
use warpweft::tensor::{Tensor, Variable};
use warpweft::train::metrics::Accuracy;
use warpweft::train::*;

/// The number of trainings on each device.
const TRAININGS: u32 = 20;
/// The most actions before the checkpoint, and the number after it.
const BEFORE: u32 = 24;
const AFTER: u32 = 24;

/// Returns a number below `end` that depends on the other two.
fn pick(training: u32, what: u32, end: u32) -> u32 {
    let mut x = training.wrapping_mul(0x9e37_79b9) ^ what.wrapping_mul(0x85eb_ca6b) ^ 0x1234_5678;
    for _ in 0..3 {
        x = (x ^ (x >> 15)).wrapping_mul(0x2c1b_3c6d);
    }
    (x ^ (x >> 16)) % end
}

fn examples(device: &Device, count: usize, seed: u32) -> Result<Batch> {
    let x = noise(count * 3, seed);
    let y: Vec<i32> = x.chunks(3).map(|row| i32::from(row[0] * row[1] > 0.0)).collect();
    Ok((device.tensor(&x, &[count, 3])?, device.tensor(&y, &[count])?))
}

fn dataset(device: &Device, count: usize, seed: u32) -> Result<Dataset> {
    let (x, y) = examples(device, count, seed)?;
    Dataset::new(&x, &y)
}

/// A trainer, and the objects that its program uses with it.
struct Training {
    number: u32,
    device: Device,
    trainer: Option<Trainer<Sequential>>,
    averages: Vec<WeightAverage>,
    /// Adds noise to each batch. The generator is not part of the model.
    noise: Generator,
}

/// The number of epochs of a new training.
const EPOCHS: u64 = 3;

impl Training {
    /// Creates a training. The number determines all choices.
    fn new(device: &Device, number: u32) -> Result<Training> {
        let chance = |what: u32, end: u32| pick(number, 1000 + what, end);
        let model = classifier(device, 1)?;
        let parameters = model.parameters();
        let (first, rest) = parameters.split_at(chance(0, 3) as usize * 2);
        let mut optimizer = match chance(1, 3) {
            0 => Optimizer::new(AdamW::new(0.05), rest)?,
            1 => Optimizer::new(Sgd { momentum: 0.9, ..Sgd::new(0.1) }, rest)?,
            _ => Optimizer::new(Sgd::new(0.1), rest)?,
        };
        if chance(2, 3) == 0 {
            optimizer = optimizer.clip_norm(0.5);
        }
        if chance(3, 3) == 0 && device.limits().f16 {
            // The first steps overflow and are skipped.
            let rule = LossScale { init_scale: 1e38, growth_interval: 3, ..LossScale::default() };
            optimizer = optimizer.mixed_precision(rule)?;
        }
        let mut averages = Vec::new();
        for decay in [0.5, 0.9].iter().take(chance(4, 3) as usize) {
            averages.push(WeightAverage::new(&optimizer, *decay)?);
        }
        if !first.is_empty() {
            optimizer.add_group(Adam::new(0.01), first)?;
        }
        let noise = Generator::new(device, 77);
        let (drawn, on) = (noise.clone(), device.clone());
        let forward = move |model: &Sequential, x: &Tensor, y: &Tensor| {
            let scores =
                model.forward(&x.add(&on.uniform(x.shape(), -0.1, 0.1, drawn.draw())?)?)?;
            Ok((scores.cross_entropy(y, CrossEntropyOptions::default())?, scores))
        };
        let mut trainer = if chance(5, 3) == 0 {
            let on = device.clone();
            let batches = move |epoch: u64| {
                let on = on.clone();
                (0..4).map(move |n| examples(&on, 5, epoch as u32 * 10 + n))
            };
            Trainer::new(model, optimizer, batches, forward)?
        } else {
            let loader = DataLoader::new(&dataset(device, 22, 3)?, 5)?;
            let loader = if chance(6, 3) > 0 { loader.shuffle(chance(7, 9)) } else { loader };
            Trainer::new(model, optimizer, loader.drop_last(chance(8, 2) == 0), forward)?
        };
        trainer = trainer.generator(&noise).epochs(EPOCHS).report_every(chance(9, 3).into());
        trainer = match chance(10, 4) {
            0 => trainer.schedule(ExponentialLr::new(0.1, 0.9)?),
            1 => trainer.schedule_by_epoch(ExponentialLr::new(0.1, 0.5)?),
            2 => {
                let options = PlateauOptions {
                    factor: 0.5,
                    patience: 0,
                    threshold: 0.1,
                    cooldown: chance(11, 2).into(),
                    ..PlateauOptions::default()
                };
                trainer.reduce_on_plateau(ReduceLrOnPlateau::new(0.1, options)?)
            }
            _ => trainer,
        };
        let validates = chance(12, 2) == 0;
        if validates {
            let loader = DataLoader::new(&dataset(device, 8, 4)?, 4)?;
            trainer = trainer.validate_on(loader).metric(Accuracy::new());
        }
        if chance(13, 2) == 0 {
            let monitor = if validates { "validation_loss" } else { "loss" };
            let min_delta = 0.05;
            let rule = EarlyStopping {
                monitor: monitor.into(),
                patience: 2,
                min_delta,
                ..EarlyStopping::default()
            };
            trainer = trainer.early_stopping(rule);
        }
        Ok(Training { number, device: device.clone(), trainer: Some(trainer), averages, noise })
    }

    fn trainer(&mut self) -> &mut Trainer<Sequential> {
        self.trainer.as_mut().expect("it is only taken for a moment")
    }

    fn set_epochs(&mut self, epochs: u64) {
        self.trainer = self.trainer.take().map(|trainer| trainer.epochs(epochs));
    }

    /// Returns a loss for a manual step.
    fn loss(&mut self, seed: u32) -> Result<Tensor> {
        let (x, y) = examples(&self.device, 4, 100 + seed)?;
        let x = x.add(&self.device.uniform(x.shape(), -0.1, 0.1, self.noise.draw())?)?;
        let scores = self.trainer().model.forward(&x)?;
        scores.cross_entropy(&y, CrossEntropyOptions::default())
    }

    /// Performs the action with this number. Returns all values that it read.
    fn act(&mut self, number: u32) -> Result<Vec<f64>> {
        let what = pick(self.number, number, 24);
        let mut values_read = vec![f64::from(what)];
        let values_of = |step: &Step| -> Result<Vec<f64>> {
            let loss = f64::from(block_on(step.loss.item::<f32>())?);
            let ended = step.ended.as_ref().map_or(-1.0, |epoch| epoch.loss);
            let mean = step.mean_loss.unwrap_or(-1.0);
            Ok(vec![
                step.step as f64,
                step.epoch as f64,
                step.batch as f64,
                step.lr,
                loss,
                mean,
                ended,
            ])
        };
        match what {
            0..=11 => match block_on(self.trainer().next_step())? {
                Some(step) => values_read.extend(values_of(&step)?),
                // The training is over, and the program continues it.
                None => {
                    let epochs = self.trainer().epoch().max(self.trainer().planned_epochs()) + 1;
                    self.set_epochs(epochs);
                }
            },
            12..=14 => {
                let (x, y) = examples(&self.device, 4, number)?;
                values_read.extend(values_of(&block_on(self.trainer().step(&x, &y))?)?);
            }
            15 => {
                let loader = DataLoader::new(&dataset(&self.device, 8, number)?, 4)?;
                values_read.push(block_on(self.trainer().evaluate(&loader))?.loss);
            }
            16 | 17 => {
                let loss = self.loss(number)?;
                self.trainer().optimizer.accumulate(&loss)?;
            }
            18 => {
                let loss = self.loss(number)?;
                let scaled = self.trainer().optimizer.scale_loss(&loss)?;
                let parameters = self.trainer().model.parameters();
                let some: Vec<&Variable> = parameters.iter().step_by(2).collect();
                scaled.backward(&some)?;
            }
            19 | 20 => self.averages.iter().try_for_each(WeightAverage::update)?,
            21 => self.averages.iter().take(1).try_for_each(WeightAverage::swap)?,
            22 => {
                if self.trainer().batch() > 0 {
                    values_read.push(block_on(self.trainer().end_epoch())?.loss);
                }
            }
            _ => self.trainer().optimizer.set_lr(0.02 + f64::from(number) / 1000.0),
        }
        Ok(values_read)
    }

    /// Performs these actions. Returns the values that they read, and the whole state after them.
    fn run(&mut self, numbers: std::ops::Range<u32>) -> Result<Outcome> {
        let mut values_read = Vec::new();
        for number in numbers {
            let all = self.act(number)?;
            values_read.push(all.into_iter().map(f64::to_bits).collect());
        }
        let trainer = self.trainer();
        let state = trainer.optimizer.state_dict()?;
        let memory = |(name, x): (String, Tensor)| Ok((name, block_on(x.read_bytes())?));
        let memory = state.into_iter().map(memory).collect::<Result<_>>()?;
        let history = trainer.history().iter();
        let history = history.map(|epoch| Epoch { seconds: 0.0, ..epoch.clone() }).collect();
        let counts = [trainer.steps(), trainer.epoch(), trainer.batch()];
        Ok(Outcome { values_read, weights: bits(&trainer.model), memory, history, counts })
    }
}

/// The values that actions read, and the state after them.
#[derive(Debug, PartialEq)]
struct Outcome {
    values_read: Vec<Vec<u64>>,
    weights: Vec<(String, Vec<u32>)>,
    memory: Vec<(String, Vec<u8>)>,
    history: Vec<Epoch>,
    counts: [u64; 3],
}

/// Reports which parts of two outcomes differ.
fn compare(got: &Outcome, want: &Outcome, what: &str) -> Result<()> {
    let at = got.values_read.iter().zip(&want.values_read).position(|(got, want)| got != want);
    let names =
        |all: &[(String, Vec<u8>)]| all.iter().map(|(name, _)| name.clone()).collect::<Vec<_>>();
    let differ = [
        ("values read", got.values_read != want.values_read),
        ("weights", got.weights != want.weights),
        ("names of memory", names(&got.memory) != names(&want.memory)),
        ("memory", got.memory != want.memory),
        ("history", got.history != want.history),
        ("counts", got.counts != want.counts),
    ];
    let differ: Vec<&str> =
        differ.iter().filter(|(_, differ)| *differ).map(|(what, _)| *what).collect();
    match differ.is_empty() {
        true => Ok(()),
        false => Err(Error::state(format!("{what}: {differ:?} differ, from action {at:?} on"))),
    }
}

#[test]
fn what_follows_a_load_is_what_followed_the_save() {
    everywhere("checkpoints of random trainings", |device| {
        for number in 0..TRAININGS {
            let before = pick(number, 999, BEFORE);
            let mut whole = Training::new(device, number)?;
            whole.run(0..before)?;
            let file = block_on(whole.trainer().save(&BTreeMap::new()))?;
            let epochs = whole.trainer().planned_epochs();
            let want = whole.run(before..before + AFTER)?;

            let mut again = Training::new(device, number)?;
            again.set_epochs(epochs);
            block_on(again.trainer().load(&file))?;
            let got = again.run(before..before + AFTER)?;
            compare(&got, &want, &format!("training {number}, made again"))?;

            whole.set_epochs(epochs);
            block_on(whole.trainer().load(&file))?;
            let got = whole.run(before..before + AFTER)?;
            compare(&got, &want, &format!("training {number}, the same trainer"))?;
        }
        Ok(())
    });
}
