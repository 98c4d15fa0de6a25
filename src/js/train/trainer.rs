//! The core's part of the trainer's class. The JavaScript part is in `www/src/train.ts`.

use super::core::{Inner, Model, Shared, Trainer};
use super::options::{ParsedOptions, BATCH};
use super::results;
use crate::error::{Error, Result};
use crate::js::host::host;
use crate::js::nn::members::Walked;
use crate::js::nn::models::Optimizer;
use crate::js::nn::Object;
use crate::js::objects::{keep, keep_all};
use crate::js::reading::{copied, room};
use crate::js::returns::{to_promise, Made};
use crate::js::states::pairs;
use crate::js::{Answer, At, FromJs, JsTensor, JsTrainer, Shell, Thrown, Value};
use crate::nn::Module;
use crate::sorted;
use crate::tensor::Tensor;
use crate::train::{self, Batch, DataLoader, Dataset, ForwardOutput};
use js_sys::{Array, Promise, Uint8Array};
use std::collections::BTreeMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

const OP: &str = "train";

/// Converts a pair of tensors. An empty list gives nothing.
fn pair(values: &[JsValue], argument: &'static str) -> Result<Option<Batch>> {
    let at = At { op: OP, argument };
    match values {
        [] => Ok(None),
        [x, y] => Ok(Some((Tensor::from_js(x, at)?, Tensor::from_js(y, at)?))),
        _ => Err(Error::argument(format!(
            "{OP}: {argument} must be two tensors, got {}",
            values.len()
        ))),
    }
}

/// Calls the user's function with a batch. The caller's scope disposes of intermediate tensors.
fn called(shared: &Shared, x: &Tensor, y: &Tensor) -> Answer<ForwardOutput> {
    let build = shared.forward.borrow().clone();
    let inputs = keep_all(&[x.clone(), y.clone()])?;
    let made = host(|host| host.build(&build, inputs))?;
    let at = |argument| At { op: OP, argument };
    let loss = made.first().cloned().unwrap_or(JsValue::UNDEFINED);
    let loss = Tensor::from_js(&loss, at("the loss"))?;
    let prediction = made.get(1).map(|made| Tensor::from_js(made, at("the prediction")));
    Ok(ForwardOutput { loss, prediction: prediction.transpose()? })
}

/// Calls the user's function for the Rust trainer. A thrown value is stored, and the caller of the trainer receives it.
fn forward(shared: &Shared, x: &Tensor, y: &Tensor) -> Result<ForwardOutput> {
    // The model's switch between training and evaluation has thrown, and that value is reported.
    if let Some(thrown) = shared.thrown.take() {
        shared.thrown.set(Some(thrown));
        return Err(Error::argument("train: the model must not throw, got an error"));
    }
    host(|host| host.open_scope());
    let made = called(shared, x, y);
    host(|host| host.close_scope());
    made.map_err(|thrown| {
        shared.thrown.set(Some(thrown.into()));
        Error::argument("train: the function must not throw, got an error")
    })
}

impl Trainer {
    fn new(
        model: Walked,
        optimizer: &Optimizer,
        data: &[JsValue],
        parsed: ParsedOptions,
    ) -> Result<Trainer> {
        let first = model.parameters().into_iter().next();
        let first = first
            .ok_or_else(|| Error::argument("train: the model must have parameters, got none"))?;
        let device = first.value().device().clone();
        let shared = Rc::new(Shared::new(parsed.confusion.clone()));
        let weak = Rc::downgrade(&shared);
        let model = Model { module: Box::new(model), shared: weak.clone() };
        let forward = move |_: &Model, x: &Tensor, y: &Tensor| match weak.upgrade() {
            Some(shared) => forward(&shared, x, y),
            None => Err(Error::state("train: the trainer must not be disposed, got one that was")),
        };
        let optimizer = optimizer.inner.clone();
        let mut inner: Inner = match pair(data, "the data")? {
            Some((x, y)) => {
                train::Trainer::new(model, optimizer, parsed.loader(&x, &y, true)?, forward)?
            }
            None => {
                parsed.check_batches()?;
                train::Trainer::new(model, optimizer, shared.queue.clone(), forward)?
            }
        };
        if let Some(validation) = parsed.validation()? {
            inner = match pair(&validation, "the validation")? {
                Some((x, y)) => inner.validate_on(parsed.loader(&x, &y, false)?),
                None => inner.validate_on(shared.validation.clone()),
            };
        }
        shared.put(parsed.apply(inner)?);
        Ok(Trainer { device, shared })
    }

    /// Runs `work`, which may call `forward`, with the Rust trainer.
    fn work(&self, op: &'static str, forward: &JsValue, work: Work) -> Answer<Promise> {
        let shared = self.shared.clone();
        let mut inner = shared.take(op)?;
        shared.forward.replace(forward.clone());
        Ok(to_promise(Box::pin(async move {
            let done = work(&mut inner).await;
            shared.put(inner);
            shared.forward.replace(JsValue::UNDEFINED);
            match (done, shared.thrown.take()) {
                (_, Some(thrown)) => Err(Thrown::from(thrown)),
                (done, None) => {
                    let done = done?;
                    Ok(Box::new(move || Ok(done)) as Made)
                }
            }
        })))
    }
}

/// The work of the Rust trainer in a call. Boxed, so that the code around it exists only once.
type Work =
    Box<dyn for<'a> FnOnce(&'a mut Inner) -> Pin<Box<dyn Future<Output = Result<JsValue>> + 'a>>>;

#[wasm_bindgen(js_class = "Trainer")]
impl JsTrainer {
    /// Makes a trainer of a model whose parameters belong to the optimizer. `forward` returns the loss of a batch as a single
    /// number, or the loss and the predictions, which metrics need. Its arguments and all other tensors that it makes are
    /// disposed of, as by {@link Device.scope}.
    ///
    /// The data are either two tensors of all examples, `[x, y]`, with the examples along the first axes, or batches. Batches
    /// are an iterable, or a function from the epoch to an iterable, which should give the same batches for the same epoch.
    /// The iterable and the function may be asynchronous. Two batches are requested ahead. A generator may dispose of its
    /// tensors after the `yield`.
    ///
    /// @throws `InvalidArgument` for unknown or invalid options, or a model without parameters; `Shape` for data whose first
    /// axes differ.
    ///
    /// @example
    /// ```ts
    /// const trainer = new Trainer(
    ///   model,
    ///   Optimizer.adam(model),
    ///   [x, y],
    ///   (x, y) => {
    ///     const scores = model.forward(x);
    ///     return [scores.crossEntropy(y), scores];
    ///   },
    ///   { validation: [xTest, yTest], metrics: ["accuracy"], earlyStopping: { patience: 3 }, epochs: 50 },
    /// );
    /// ```
    #[wasm_bindgen(constructor)]
    pub fn new(
        #[wasm_bindgen(unchecked_param_type = "Module")] model: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "Optimizer")] optimizer: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "TrainingData")] data: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "Forward")] forward: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "TrainerOptions")] options: &JsValue,
    ) -> Answer<JsTrainer> {
        let at = |argument| At { op: OP, argument };
        let optimizer = Optimizer::from_js(optimizer, at("the optimizer"))?;
        if !forward.is_function() {
            return Err(at("forward").refuse(forward, "a function").into());
        }
        // The JavaScript side passes paths and parts of the model. Empty data means batches that it provides later.
        let list = |value: &JsValue| host(|host| host.items(value)).unwrap_or_default();
        let found = list(model);
        let paths = list(found.first().unwrap_or(model));
        let paths = paths.iter().filter_map(JsValue::as_string).collect();
        let model = Walked::new(paths, &list(found.get(1).unwrap_or(model)))?;
        let trainer = Trainer::new(model, &optimizer, &list(data), ParsedOptions::open(options)?)?;
        Ok(JsTrainer(Object::Trainer(trainer).into_slot()))
    }

    /// Splits data into two random parts.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn parted(data: Vec<JsValue>, fraction: &JsValue, seed: &JsValue) -> Answer<Vec<JsTensor>> {
        let op = "split";
        let fraction = f64::from_js(fraction, At { op, argument: "fraction" })?;
        let seed = u32::from_js(seed, At { op, argument: "seed" })?;
        let (x, y) = pair(&data, "the data")?
            .ok_or_else(|| Error::argument("split: the data must be [x, y], got none"))?;
        let (first, second) = Dataset::new(&x, &y)?.split(fraction, seed)?;
        let all = [first.features(), first.targets(), second.features(), second.targets()];
        Ok(all.into_iter().map(|part| keep(part.clone())).collect::<Result<_>>()?)
    }

    /// The number of steps taken.
    #[wasm_bindgen(getter)]
    pub fn steps(&self) -> Answer<f64> {
        Ok(self.core("steps")?.shared.known.borrow().steps as f64)
    }

    /// The total number of epochs, including those of a checkpoint. Set a larger number to continue a training. If early
    /// stopping ended the training, its patience starts again.
    #[wasm_bindgen(getter)]
    pub fn epochs(&self) -> Answer<f64> {
        Ok(self.core("epochs")?.shared.known.borrow().epochs as f64)
    }

    /// Sets the total number of epochs.
    #[wasm_bindgen(setter)]
    pub fn set_epochs(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] epochs: &JsValue,
    ) -> Answer<()> {
        let op = "epochs";
        let shared = self.core(op)?.shared;
        let epochs = u64::from_js(epochs, At { op, argument: "epochs" })?;
        let inner = shared.take(op)?;
        shared.put(inner.epochs(epochs));
        Ok(())
    }

    /// Whether all steps are done.
    #[wasm_bindgen(getter, js_name = isOver)]
    pub fn is_over(&self) -> Answer<bool> {
        Ok(self.core("isOver")?.shared.known.borrow().is_over)
    }

    /// The results of all epochs. The list is the same object until another epoch ends. The next list contains the same
    /// objects.
    #[wasm_bindgen(getter, unchecked_return_type = "readonly Epoch[]")]
    pub fn history(&self) -> Answer<JsValue> {
        let shared = self.core("history")?.shared;
        let list = results::history(&mut shared.known.borrow_mut());
        Ok(list)
    }

    /// Returns the counts of examples by true class (row) and predicted class (column), in the last validation or evaluation.
    /// It is an `i32` tensor of shape `[classes, classes]`. Requires the metric `confusionMatrix`.
    ///
    /// @example
    /// ```ts
    /// await trainer.evaluate([xTest, yTest]);
    /// console.log(await trainer.confusionMatrix().text());
    /// ```
    ///
    /// @throws `InvalidState` if the metric was not requested, or nothing was evaluated.
    #[wasm_bindgen(js_name = confusionMatrix, unchecked_return_type = "Tensor<\"i32\">")]
    pub fn confusion_matrix(&self) -> Answer<JsTensor> {
        let op = "confusionMatrix";
        let shared = self.core(op)?.shared;
        let none =
            || Error::state(format!("{op}: the metrics must have `confusionMatrix`, got others"));
        let counted = shared.confusion.as_ref().ok_or_else(none)?;
        Ok(keep(counted.matrix().map_err(|error| error.within(op))?)?)
    }

    /// Returns the training's position: the epoch, the batches of it that were taken, the batches in the queue, and whether a
    /// step is not reported yet.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn place(&self) -> Answer<Vec<f64>> {
        let shared = self.core(OP)?.shared;
        let known = shared.known.borrow();
        let has_unreported_step = f64::from(u8::from(known.has_unreported_step));
        Ok(vec![
            known.epoch as f64,
            known.position as f64,
            shared.queue.len() as f64,
            has_unreported_step,
        ])
    }

    /// Adds a batch of the epoch (0), of the validation (1) or of an evaluation (2). An empty list clears the batches.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn bring(&self, queue: u32, batch: Vec<JsValue>) -> Answer<()> {
        let shared = self.core(OP)?.shared;
        let list = if queue == 1 { &shared.validation } else { &shared.evaluated };
        match (pair(&batch, "a batch")?, queue) {
            (Some(batch), 0) => shared.queue.push(batch),
            (None, 0) => shared.reopen(),
            (Some(batch), _) => list.push(batch),
            (None, _) => list.clear(),
        }
        Ok(())
    }

    /// Takes the next step. Resolves to its result, or undefined at the end.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn advance(&self, forward: &JsValue) -> Answer<Promise> {
        let op = "nextStep";
        self.core(op)?.work(
            op,
            forward,
            Box::new(move |trainer| {
                Box::pin(async move {
                    trainer.next_step().await?.map_or(Ok(JsValue::UNDEFINED), results::step)
                })
            }),
        )
    }

    /// Takes a step on a batch.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn learn(&self, forward: &JsValue, batch: Vec<JsValue>) -> Answer<Promise> {
        let op = "step";
        let core = self.core(op)?;
        let (x, y) = pair(&batch, "a batch")?
            .ok_or_else(|| Error::argument("step: the batch must be [x, y], got none"))?;
        core.work(
            op,
            forward,
            Box::new(move |trainer| {
                Box::pin(async move { results::step(trainer.step(&x, &y).await?) })
            }),
        )
    }

    /// Ends an epoch, and resolves to its result.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn close(&self, forward: &JsValue) -> Answer<Promise> {
        let op = "endEpoch";
        let end: Work = Box::new(|trainer| {
            Box::pin(async move { Ok(results::epoch(&trainer.end_epoch().await?)) })
        });
        self.core(op)?.work(op, forward, end)
    }

    /// Computes the scores of these data: two tensors of all examples, in batches of `size`, or an empty list for batches that
    /// were provided.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn score(&self, forward: &JsValue, data: Vec<JsValue>, size: &JsValue) -> Answer<Promise> {
        let op = "evaluate";
        let core = self.core(op)?;
        let data: Box<dyn train::Batches> = match pair(&data, "the data")? {
            Some((x, y)) => {
                let size =
                    Option::from_js(size, At { op, argument: "batchSize" })?.unwrap_or(BATCH);
                Box::new(DataLoader::new(&Dataset::new(&x, &y)?, size)?)
            }
            None => Box::new(core.shared.evaluated.clone()),
        };
        core.work(
            op,
            forward,
            Box::new(move |trainer| {
                Box::pin(async move { Ok(results::scores(&trainer.evaluate(&*data).await?)) })
            }),
        )
    }

    /// Writes a checkpoint with notes.
    #[wasm_bindgen(js_name = toFile, skip_typescript, skip_jsdoc)]
    pub fn to_file(&self, notes: Vec<String>, texts: Vec<JsValue>) -> Answer<Promise> {
        let op = "save";
        let text = |note: &JsValue| String::from_js(note, At { op, argument: "a note" });
        let texts: Vec<String> = texts.iter().map(text).collect::<Result<_>>()?;
        let notes: BTreeMap<String, String> = sorted::map(notes.into_iter().zip(texts));
        self.core(op)?.work(
            op,
            &JsValue::UNDEFINED,
            Box::new(move |trainer| {
                Box::pin(async move {
                    let bytes = trainer.save(&notes).await.map_err(|error| error.within(op))?;
                    let all = room(bytes.len() as u64)?;
                    all.copy_from(&bytes);
                    Ok(all.into())
                })
            }),
        )
    }

    /// Continues from a checkpoint, and resolves to its notes.
    #[wasm_bindgen(js_name = resume, skip_typescript, skip_jsdoc)]
    pub fn resume(&self, bytes: &Uint8Array) -> Answer<Promise> {
        let op = "load";
        let core = self.core(op)?;
        let bytes = copied(op, bytes)?;
        let shared = core.shared.clone();
        core.work(
            op,
            &JsValue::UNDEFINED,
            Box::new(move |trainer| {
                Box::pin(async move {
                    let notes = trainer.load(&bytes).await.map_err(|error| error.within(op))?;
                    shared.known.borrow_mut().clear_history();
                    let (names, notes): (Vec<_>, Vec<_>) = notes.into_iter().unzip();
                    let notes = notes.iter().map(|note: &String| note.value());
                    Ok(pairs(&names, Array::from_iter(notes)))
                })
            }),
        )
    }
}
