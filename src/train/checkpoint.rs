//! Checkpoints: a training's complete state in one safetensors file, so that the training resumes with the same bits.

use super::fit::watched;
use super::in_flight::InFlight;
use super::loss_mean::LossMean;
use super::record::{Epoch, Scores};
use super::stopping::Patience;
use super::values::OTHER;
use super::{OptimizerHandle, Trainer};
use crate::error::{Error, Result};
use crate::io;
use crate::nn::Module;
use crate::optim::{Optimizer, ReduceLrOnPlateau};
use crate::sorted;
use crate::tensor::Tensor;
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// The prefix of all tensor names that are not the model's.
const OWN: &str = "trainer/";
/// The metadata key of everything that is not a tensor.
const STATE: &str = "trainer";
const OPTIMIZER: &str = "trainer/optimizer/";
const BEST: &str = "trainer/best/";
const GRADIENT: &str = "trainer/gradient/";
const MEAN: &str = "trainer/mean";
const BAD: &str = "trainer/bad";
/// The largest counter in a file. It is the largest integer that all readers of JSON represent exactly, and no training that
/// continues from it reaches the end of 64 bits.
const MAX_COUNTER: u64 = (1 << 53) - 1;

impl<M: Module, O: OptimizerHandle> Trainer<M, O> {
    /// Saves the current state of the training as a safetensors file, with the caller's notes as metadata.
    ///
    /// The model's values have the names of [`Module::state_dict`], so other safetensors readers find them. All other names
    /// begin with `trainer/`. They include the optimizer's parameters that are not the model's, its
    /// [`Optimizer::state_dict`] with accumulated gradients and averages, the gradients of `backward`, the best weights, and
    /// the losses of the epoch. The metadata entry `trainer` has counters,
    /// learning rates, positions of generators, early stopping and the history, as JSON.
    ///
    /// With several ranks, every rank calls it. The file of rank 0 continues the training on any number of ranks.
    ///
    /// # Errors
    /// `InvalidArgument` if a parameter or a note has a name that is reserved for the trainer. Also the errors of
    /// [`Tensor::read`].
    pub async fn save(&self, notes: &BTreeMap<String, String>) -> Result<Vec<u8>> {
        self.announcer().watch(self.write(notes)).await
    }

    /// Implements [`Trainer::save`].
    async fn write(&self, notes: &BTreeMap<String, String>) -> Result<Vec<u8>> {
        let own = |name: &&String| name.starts_with(OWN) || *name == STATE;
        if let Some(name) = self.model.state_dict().keys().chain(notes.keys()).find(own) {
            return Err(Error::argument(format!(
                "save: names of parameters and notes must not be reserved for the trainer, got `{name}`"
            )));
        }
        let loss_mean = self.combined_loss_mean().await?;
        let mut tensors = self.values()?;
        for (name, x) in self.optimizer.with(Optimizer::state_dict)? {
            tensors.insert(OPTIMIZER.to_string() + &name, x);
        }
        for (name, x) in self.best.iter().flatten() {
            tensors.insert(BEST.to_string() + name, x.clone());
        }
        for (name, parameter) in self.trained()? {
            // The next step uses the gradients of `backward`.
            if let Some(gradient) = parameter.gradient() {
                tensors.insert(GRADIENT.to_string() + &name, gradient);
            }
        }
        tensors.insert(MEAN.into(), loss_mean.mean);
        tensors.insert(BAD.into(), loss_mean.first_non_finite);
        let text = |rates: [f64; 2]| rates.map(|rate| rate.to_string());
        let rates = self.optimizer.with(|own| Ok(own.rates()))?;
        let patience = self.stopping.as_ref().map(|rule| {
            let Patience { best, worse } = self.patience;
            let best = best.map(|best| best.to_string());
            json!({ "monitor": rule.monitor, "best": best, "worse": worse })
        });
        let plateau = self.plateau.as_ref().map(|[_, now]| {
            let (lr, best, bad_steps, cooldown) = now.state();
            let (lr, best) = (lr.to_string(), best.to_string());
            json!({ "lr": lr, "best": best, "bad_steps": bad_steps, "cooldown": cooldown })
        });
        let state = json!({
            "version": 2,
            "steps": self.steps,
            "epoch": self.epoch,
            "batch": self.batch,
            "position": self.position,
            "examples": loss_mean.examples,
            "order": self.data.order(),
            "rates": rates.into_iter().map(text).collect::<Vec<_>>(),
            "draws": self.generators.iter().map(|one| one.drawn()).collect::<Vec<_>>(),
            "patience": patience,
            "plateau": plateau,
            "restored": self.restored,
            "history": self.history.iter().map(written).collect::<Vec<_>>(),
        });
        let mut metadata = notes.clone();
        metadata.insert(STATE.into(), state.to_string());
        io::save_safetensors(&tensors, &metadata).await
    }

    /// Loads a file from [`Trainer::save`], and continues with the same bits as if the training had not been interrupted. The
    /// trainer's earlier state is replaced. Create the model, optimizer, averages, data and settings as before. With several
    /// ranks, every rank loads the same file. Returns the notes.
    ///
    /// A step may have been taken before the file was saved without being returned, because [`Trainer::next_step`] was
    /// dropped. Such a step is not returned again.
    ///
    /// # Errors
    /// `Format` if the file is damaged or is not a checkpoint. `Format` also if it is of another model, optimizer or number of
    /// generators, or from the middle of an epoch of other batches. `Shape` if a parameter has another shape. After an error,
    /// nothing has changed.
    pub async fn load(&mut self, file: &[u8]) -> Result<BTreeMap<String, String>> {
        self.announcer().watch(self.read(file)).await
    }

    /// Implements [`Trainer::load`].
    async fn read(&mut self, file: &[u8]) -> Result<BTreeMap<String, String>> {
        self.meet_for_loading(file).await?;
        let io::Safetensors { mut tensors, mut metadata, skipped } =
            io::load_safetensors(&self.device, file)?;
        if let Some((name, skipped)) = skipped.first_key_value() {
            let dtype = &skipped.dtype;
            return Err(wrong(&format!("whose tensor {name:?} has dtype {dtype:?}")));
        }
        let note = metadata.remove(STATE).ok_or_else(|| wrong("without the note `trainer`"))?;
        let state: Value =
            serde_json::from_str(&note).map_err(|_| wrong("whose note is not JSON"))?;
        let state = State::read(&state)?;
        let order = self.data.order();
        if state.position > 0 && state.order != order {
            let (saved, batch) = (state.order, state.position);
            let message =
                format!("from batch {batch} of other data ({saved}); this training has {order}");
            return Err(wrong(&message));
        }
        if state.draws.len() != self.generators.len() {
            let (saved, here) = (state.draws.len(), self.generators.len());
            return Err(wrong(&format!("of {saved} generators; this training has {here}")));
        }
        let groups = self.optimizer.with(|own| Ok(own.rates().len()))?;
        if state.rates.len() != groups {
            let saved = state.rates.len();
            return Err(wrong(&format!(
                "of {saved} groups of parameters; this training has {groups}"
            )));
        }
        let (patience, plateau) = (self.patience_of(&state)?, self.plateau_of(&state));
        let loss_mean = LossMean {
            mean: taken(&mut tensors, MEAN, &self.loss_mean.mean)?,
            first_non_finite: taken(&mut tensors, BAD, &self.loss_mean.first_non_finite)?,
            examples: state.examples,
        };
        let best = part(&mut tensors, BEST);
        let optimizer = part(&mut tensors, OPTIMIZER);
        let mut gradients = part(&mut tensors, GRADIENT);
        let trained = self.trained()?;
        for (name, parameter) in &trained {
            let fits =
                |x: &Tensor| x.shape() == parameter.shape() && x.dtype() == parameter.dtype();
            if !gradients.get(name).is_none_or(fits) {
                return Err(wrong(&format!(
                    "whose gradient of `{name}` has another shape or dtype"
                )));
            }
        }
        let made = Optimizer::saved_steps(&optimizer).await?;
        let saved = tensors.keys().filter(|name| name.starts_with(OTHER)).count();
        let here = self.other_parameters()?.len();
        if saved != here {
            return Err(wrong(&format!(
                "with {saved} parameters that are not the model's; this optimizer has {here}"
            )));
        }
        // A state that does not fit is rejected before anything is assigned, because a value that was assigned and restored
        // counts as assigned.
        let checked = self.optimizer.with(|own| own.check_state(&optimizer, &made))?;
        let before = self.values()?;
        self.set_values(&tensors)?;
        let applied = self.optimizer.with_mut(|own| {
            own.apply_state(checked)?;
            own.set_rates(&state.rates);
            Ok(())
        });
        if let Err(error) = applied {
            self.set_values(&before)?;
            return Err(error);
        }
        for (name, parameter) in trained {
            parameter.set_gradient(gradients.remove(&name));
        }
        for (generator, drawn) in self.generators.iter().zip(&state.draws) {
            generator.set_drawn(*drawn);
        }
        (self.steps, self.epoch, self.batch) = (state.steps, state.epoch, state.batch);
        self.position = state.position;
        // The losses of all ranks are in the file.
        self.loss_mean = if self.rank() == 0 { loss_mean } else { LossMean::new(&self.device)? };
        self.best = (!best.is_empty()).then_some(best);
        (self.left, self.last, self.begun) = (None, None, None);
        self.in_flight = InFlight::default();
        self.restored = state.restored;
        self.patience = patience;
        if let (Some([_, now]), Some(plateau)) = (&mut self.plateau, plateau) {
            *now = plateau;
        }
        self.history = state.history;
        Ok(metadata)
    }

    /// Returns the state of early stopping. It is recomputed from the history if the file has version 1, or if early stopping
    /// monitored another number.
    fn patience_of(&self, state: &State) -> Result<Patience> {
        let mut patience = Patience::default();
        let Some(rule) = &self.stopping else { return Ok(patience) };
        if let Some((monitor, saved)) = &state.patience {
            if *monitor == rule.monitor {
                return Ok(*saved);
            }
        }
        for epoch in &state.history {
            let none = |_| wrong(&format!("whose epochs have no `{}`", rule.monitor));
            patience.take(rule, epoch).map_err(none)?;
        }
        Ok(patience)
    }

    /// Returns the plateau schedule with its saved state, or recomputes the state from the history.
    fn plateau_of(&self, state: &State) -> Option<ReduceLrOnPlateau> {
        let [first, _] = self.plateau.as_ref()?;
        let mut plateau = first.clone();
        match state.plateau {
            Some(saved) => plateau.set_state(saved),
            None => {
                for epoch in &state.history {
                    plateau.step(watched(epoch));
                }
            }
        }
        Some(plateau)
    }
}

fn wrong(why: &str) -> Error {
    Error::format(format!("load: the file must be a checkpoint of this training, got one {why}"))
}

/// Takes the tensor of this name, with the shape and dtype of `like`.
fn taken(tensors: &mut BTreeMap<String, Tensor>, name: &str, like: &Tensor) -> Result<Tensor> {
    let found = tensors.remove(name);
    let fits = |x: &Tensor| x.shape() == like.shape() && x.dtype() == like.dtype();
    found
        .filter(fits)
        .ok_or_else(|| wrong(&format!("without `{name}` of the right shape and dtype")))
}

/// Takes the tensors whose names have this prefix, and removes the prefix.
fn part(tensors: &mut BTreeMap<String, Tensor>, begin: &str) -> BTreeMap<String, Tensor> {
    let names: Vec<String> =
        tensors.keys().filter(|name| name.starts_with(begin)).cloned().collect();
    let taken = |name: &String| Some((name[begin.len()..].to_string(), tensors.remove(name)?));
    sorted::map(names.iter().filter_map(taken))
}

/// The contents of the metadata entry.
struct State {
    steps: u64,
    epoch: u64,
    batch: u64,
    position: u64,
    examples: u64,
    order: String,
    rates: Vec<[f64; 2]>,
    draws: Vec<u32>,
    /// The monitored number of early stopping, and its patience.
    patience: Option<(String, Patience)>,
    /// [`ReduceLrOnPlateau::state`].
    plateau: Option<(f64, f64, u64, u64)>,
    restored: bool,
    history: Vec<Epoch>,
}

impl State {
    fn read(note: &Value) -> Result<State> {
        let version = note["version"].as_u64();
        if !matches!(version, Some(1 | 2)) {
            return Err(wrong(&format!("of version {}", note["version"])));
        }
        // Files of version 1 have one number for both.
        let position = if version == Some(1) { "batch" } else { "position" };
        let list = |key: &str| note[key].as_array().ok_or_else(|| missing(key));
        let draw = |value: &Value| value.as_u64().and_then(|draw| u32::try_from(draw).ok());
        let draws = list("draws")?.iter().map(|value| draw(value).ok_or_else(|| missing("draws")));
        let state = State {
            steps: counter(note, "steps")?,
            epoch: counter(note, "epoch")?,
            batch: counter(note, "batch")?,
            position: counter(note, position)?,
            examples: counter(note, "examples")?,
            order: note["order"].as_str().ok_or_else(|| missing("order"))?.into(),
            rates: list("rates")?.iter().map(rates).collect::<Result<_>>()?,
            draws: draws.collect::<Result<_>>()?,
            patience: known(&note["patience"]).map(patience).transpose()?,
            plateau: known(&note["plateau"]).map(plateau).transpose()?,
            restored: note["restored"].as_bool().unwrap_or(false),
            history: list("history")?.iter().map(epoch).collect::<Result<_>>()?,
        };
        match () {
            _ if state.batch > state.steps => Err(wrong("with more steps in an epoch than in all")),
            // Several ranks take several batches in a step.
            _ if state.position > 0 && state.batch == 0 => {
                Err(wrong("with batches and no steps in an epoch"))
            }
            _ => Ok(state),
        }
    }
}

fn missing(key: &str) -> Error {
    wrong(&format!("whose note has no usable `{key}`"))
}

fn count(note: &Value, key: &str) -> Result<u64> {
    note[key].as_u64().ok_or_else(|| missing(key))
}

/// Returns a counter that grows when the training continues. Larger ones are rejected, so that it cannot overflow then.
fn counter(note: &Value, key: &str) -> Result<u64> {
    let counter = count(note, key)?;
    match counter <= MAX_COUNTER {
        true => Ok(counter),
        false => Err(wrong(&format!("whose `{key}` is {counter}, above {MAX_COUNTER}"))),
    }
}

/// Numbers are stored as text, because JSON has neither NaN nor infinity and readers may round.
fn number(note: &Value, key: &str) -> Result<f64> {
    parsed(&note[key]).ok_or_else(|| missing(key))
}

fn parsed(text: &Value) -> Option<f64> {
    text.as_str()?.parse().ok()
}

/// Returns an entry that is missing in files of version 1 and in some trainings.
fn known(note: &Value) -> Option<&Value> {
    Some(note).filter(|note| !note.is_null())
}

fn patience(note: &Value) -> Result<(String, Patience)> {
    let monitor = note["monitor"].as_str().ok_or_else(|| missing("monitor"))?;
    let best = known(&note["best"]).map(|_| number(note, "best")).transpose()?;
    Ok((monitor.into(), Patience { best, worse: count(note, "worse")? }))
}

fn plateau(note: &Value) -> Result<(f64, f64, u64, u64)> {
    let lr = Some(number(note, "lr")?).filter(|lr| *lr >= 0.0).ok_or_else(|| missing("lr"))?;
    Ok((lr, number(note, "best")?, count(note, "bad_steps")?, count(note, "cooldown")?))
}

fn rates(group: &Value) -> Result<[f64; 2]> {
    let rate = |n: usize| parsed(&group[n]).filter(|rate| *rate >= 0.0);
    Ok([rate(0).ok_or_else(|| missing("rates"))?, rate(1).ok_or_else(|| missing("rates"))?])
}

fn written(epoch: &Epoch) -> Value {
    let text = |x: f64| x.to_string();
    let validation = epoch.validation.as_ref().map(|scores| {
        let metric = |(name, value): &(String, f64)| json!({ "name": name, "value": text(*value) });
        let metrics: Vec<Value> = scores.metrics.iter().map(metric).collect();
        json!({ "loss": text(scores.loss), "metrics": metrics })
    });
    json!({
        "epoch": epoch.epoch,
        "steps": epoch.steps,
        "loss": text(epoch.loss),
        "validation": validation,
        "lr": text(epoch.lr),
        "seconds": text(epoch.seconds),
    })
}

fn epoch(note: &Value) -> Result<Epoch> {
    let metric = |one: &Value| {
        let name = one["name"].as_str().ok_or_else(|| missing("metrics"))?;
        Ok((name.to_string(), number(one, "value")?))
    };
    let validation = match &note["validation"] {
        Value::Null => None,
        scores => {
            let metrics = scores["metrics"].as_array().ok_or_else(|| missing("metrics"))?;
            let metrics = metrics.iter().map(metric).collect::<Result<_>>()?;
            Some(Scores { loss: number(scores, "loss")?, metrics })
        }
    };
    Ok(Epoch {
        epoch: count(note, "epoch")?,
        steps: count(note, "steps")?,
        loss: number(note, "loss")?,
        validation,
        lr: number(note, "lr")?,
        seconds: number(note, "seconds")?,
    })
}
