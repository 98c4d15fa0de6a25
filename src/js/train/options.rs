//! The options of a trainer.

use super::core::{Counted, Inner};
use crate::error::{Error, Result};
use crate::js::convert::object;
use crate::js::host::host;
use crate::js::nn::{self, models::Schedule};
use crate::js::objects::Object;
use crate::js::options::camel;
use crate::js::{At, FromJs, FromOptions, Known, Options};
use crate::nn::Generator;
use crate::optim;
use crate::tensor::Tensor;
use crate::train::metrics::{
    Accuracy, Average, MeanAbsoluteError, MeanSquaredError, Metric, Precision, Recall,
    TopKAccuracy, F1, R2,
};
use crate::train::{DataLoader, Dataset, EarlyStopping};
use std::sync::Arc;
use wasm_bindgen::prelude::*;

const OP: &str = "train";
/// The default number of examples in a batch.
pub const BATCH: usize = 32;

/// The names of metrics. Metrics from the fifth on take numbers.
const METRICS: [&str; 9] = [
    "accuracy",
    "meanAbsoluteError",
    "meanSquaredError",
    "r2Score",
    "topKAccuracy",
    "precision",
    "recall",
    "f1",
    "confusionMatrix",
];

/// The parsed options object.
pub struct ParsedOptions {
    options: Options,
    metrics: Vec<Box<dyn Metric>>,
    pub confusion: Option<Counted>,
    /// The names of the losses and of the metrics.
    names: Vec<String>,
}

/// Returns a field of the options, if it was given.
fn field<T: FromJs>(options: &Options, n: usize, argument: &'static str) -> Result<Option<T>> {
    let at = At { op: options.op(), argument };
    Option::from_js(&options.get(n), at)
}

impl ParsedOptions {
    /// Reads the options that were passed.
    ///
    /// # Errors
    /// `InvalidArgument` for unknown or invalid options.
    pub fn open(given: &JsValue) -> Result<ParsedOptions> {
        const KNOWN: Known = &[
            "batchSize shuffle dropLast epochs reportEvery metrics schedule scheduleByEpoch",
            "reduceOnPlateau earlyStopping generators validation detectAnomaly",
        ];
        let options = Options::open(given, KNOWN, OP)?;
        let mut parsed =
            ParsedOptions { options, metrics: Vec::new(), confusion: None, names: Vec::new() };
        let list = parsed.options.get(5);
        if !list.is_undefined() {
            let at = At { op: OP, argument: "metrics" };
            let items = host(|host| host.items(&list));
            for item in items.ok_or_else(|| at.refuse_list(&list, "a list of metrics"))? {
                parsed.metric(&item)?;
            }
        }
        parsed.names = ["loss", "validation_loss"].map(str::to_string).to_vec();
        parsed.names.extend(parsed.metrics.iter().map(|metric| metric.name()));
        Ok(parsed)
    }

    fn metric(&mut self, given: &JsValue) -> Result<()> {
        const KNOWN: Known = &["metric classes average k"];
        let at = At { op: OP, argument: "a metric" };
        let (word, options) = match given.as_string() {
            Some(_) => (given.clone(), Options::none(OP)),
            None => {
                let options = Options::open(given, KNOWN, OP)?;
                (options.get(0), options)
            }
        };
        let which = METRICS[crate::js::word(&word, &METRICS, at)?];
        let number = |n: usize, argument: &'static str| -> Result<usize> {
            field(&options, n, argument)?.ok_or_else(|| {
                let remedy = format!("{{ metric: \"{which}\", {argument} }}");
                Error::argument(format!(
                    "{OP}: the metric {which} must have {argument}, got none; write {remedy}"
                ))
            })
        };
        let average = field::<Average>(&options, 2, "average")?.unwrap_or_default();
        let taken = |n: usize| !options.get(n).is_undefined();
        let (of_classes, of_average, of_k) = match which {
            "precision" | "recall" | "f1" => (true, true, false),
            "confusionMatrix" => (true, false, false),
            "topKAccuracy" => (false, false, true),
            _ => (false, false, false),
        };
        for (n, argument, fits) in
            [(1, "classes", of_classes), (2, "average", of_average), (3, "k", of_k)]
        {
            if taken(n) && !fits {
                return Err(Error::argument(format!(
                    "{OP}: the metric {which} must not have {argument}, got it"
                )));
            }
        }
        let metric: Box<dyn Metric> = match which {
            "accuracy" => Box::new(Accuracy::new()),
            "meanAbsoluteError" => Box::new(MeanAbsoluteError::new()),
            "meanSquaredError" => Box::new(MeanSquaredError::new()),
            "r2Score" => Box::new(R2::new()),
            "topKAccuracy" => Box::new(TopKAccuracy::new(number(3, "k")?)),
            "precision" => Box::new(Precision::new(number(1, "classes")?, average)),
            "recall" => Box::new(Recall::new(number(1, "classes")?, average)),
            "f1" => Box::new(F1::new(number(1, "classes")?, average)),
            _ => {
                let counted = Counted::new(number(1, "classes")?);
                Box::new(self.confusion.insert(counted).clone())
            }
        };
        if self.metrics.iter().any(|known| known.name() == metric.name()) {
            return Err(Error::argument(format!(
                "{OP}: metrics must be distinct, got {which} twice"
            )));
        }
        self.metrics.push(metric);
        Ok(())
    }

    /// Returns the validation data, if any: two tensors, or an empty list for batches that are provided later.
    ///
    /// # Errors
    /// `InvalidArgument` if the value is not a list.
    pub fn validation(&self) -> Result<Option<Vec<JsValue>>> {
        let given = self.options.get(11);
        if given.is_undefined() {
            return Ok(None);
        }
        let at = At { op: OP, argument: "validation" };
        let items = host(|host| host.items(&given));
        items.map(Some).ok_or_else(|| at.refuse_list(&given, "[x, y] or batches"))
    }

    /// Checks the options for data that are batches.
    ///
    /// # Errors
    /// `InvalidArgument` for options that only apply to tensors of all examples.
    pub fn check_batches(&self) -> Result<()> {
        let shuffle = field::<u32>(&self.options, 1, "shuffle")?.is_some();
        let drop_last = field::<bool>(&self.options, 2, "dropLast")?.unwrap_or(false);
        for (is_set, argument) in [(shuffle, "shuffle"), (drop_last, "dropLast")] {
            if is_set {
                return Err(Error::argument(format!(
                    "{OP}: the data must be [x, y] for the option {argument}, got batches"
                )));
            }
        }
        Ok(())
    }

    /// Makes a loader of batches of features and targets.
    ///
    /// # Errors
    /// Errors of [`Dataset::new`] and [`DataLoader::new`].
    pub fn loader(&self, x: &Tensor, y: &Tensor, is_training: bool) -> Result<DataLoader> {
        let size = field(&self.options, 0, "batchSize")?.unwrap_or(BATCH);
        let loader = DataLoader::new(&Dataset::new(x, y)?, size)?;
        if !is_training {
            return Ok(loader);
        }
        let drop_last = field(&self.options, 2, "dropLast")?.unwrap_or(false);
        let loader = loader.drop_last(drop_last);
        Ok(match field(&self.options, 1, "shuffle")? {
            Some(seed) => loader.shuffle(seed),
            None => loader,
        })
    }

    /// Applies the options to a trainer.
    ///
    /// # Errors
    /// `InvalidArgument`, `Shape` for invalid options.
    pub fn apply(self, mut trainer: Inner) -> Result<Inner> {
        let options = &self.options;
        trainer = trainer.epochs(field(options, 3, "epochs")?.unwrap_or(1));
        trainer = trainer.report_every(field(options, 4, "reportEvery")?.unwrap_or(0));
        let looks = field(options, 12, "detectAnomaly")?.unwrap_or(false);
        trainer = trainer.detect_anomaly(looks);
        for metric in self.metrics {
            trainer = trainer.metric(metric);
        }
        let rates = [6, 7, 8].map(|n| !options.get(n).is_undefined());
        if rates.into_iter().filter(|is_there| *is_there).count() > 1 {
            let must = "at most one of schedule, scheduleByEpoch and reduceOnPlateau must be given, got more";
            return Err(Error::argument(format!("{OP}: {must}")));
        }
        let by_steps = |n, argument| {
            Ok(match field::<Schedule>(options, n, argument)? {
                None => None,
                Some(Schedule::Steps(schedule)) => Some(Lent(schedule)),
                Some(Schedule::Plateau(_)) => {
                    let must = "must be a schedule of steps, got reduceOnPlateau";
                    return Err(Error::argument(format!("{OP}: {argument} {must}")));
                }
            })
        };
        if let Some(schedule) = by_steps(6, "schedule")? {
            trainer = trainer.schedule(schedule);
        }
        if let Some(schedule) = by_steps(7, "scheduleByEpoch")? {
            trainer = trainer.schedule_by_epoch(schedule);
        }
        match field::<Schedule>(options, 8, "reduceOnPlateau")? {
            None => {}
            Some(Schedule::Plateau(plateau)) => {
                trainer = trainer.reduce_on_plateau(plateau.borrow().clone());
            }
            Some(Schedule::Steps(_)) => {
                let must = "must be made by Schedule.reduceOnPlateau, got another schedule";
                return Err(Error::argument(format!("{OP}: reduceOnPlateau {must}")));
            }
        }
        let stopping = options.get(9);
        if !stopping.is_undefined() {
            const KNOWN: Known = &[EarlyStopping::KNOWN];
            let given = Options::open(&stopping, KNOWN, OP)?;
            let mut rule = EarlyStopping::from_options(given.after(0))?;
            let known = self.names.iter().find(|name| camel(name) == camel(&rule.monitor));
            rule.monitor = known.cloned().ok_or_else(|| {
                let names: Vec<String> = self.names.iter().map(|name| camel(name)).collect();
                let (monitor, names) = (&rule.monitor, names.join(", "));
                Error::argument(format!(
                    "{OP}: monitor of earlyStopping must be one of {names}, got `{monitor}`"
                ))
            })?;
            if rule.monitor != "loss" && options.get(11).is_undefined() {
                let (monitor, remedy) =
                    (camel(&rule.monitor), "set `validation`, or monitor `loss`");
                return Err(Error::argument(format!(
                    "{OP}: `{monitor}` of earlyStopping must have a validation, got none; {remedy}"
                )));
            }
            trainer = trainer.early_stopping(rule);
        }
        let generators = options.get(10);
        if !generators.is_undefined() {
            let at = At { op: OP, argument: "generators" };
            let items = host(|host| host.items(&generators));
            for item in items.ok_or_else(|| at.refuse_list(&generators, "a list of generators"))? {
                trainer = trainer.generator(&Generator::from_js(&item, at)?);
            }
        }
        Ok(trainer)
    }
}

/// A schedule that is shared with JavaScript.
#[derive(Debug)]
struct Lent(Arc<dyn optim::Schedule>);

impl optim::Schedule for Lent {
    fn lr(&self, step: u64) -> f64 {
        self.0.lr(step)
    }
}

impl FromJs for Schedule {
    fn from_js(value: &JsValue, at: At) -> Result<Schedule> {
        match object(value, at, "a schedule")? {
            Some(Object::Nn(nn::Object::Schedule(schedule))) => Ok(schedule),
            _ => Err(at.refuse(value, "a schedule")),
        }
    }
}
