//! Runs a program with the library and the model, and compares them.
//!
//! Both perform every action. A finding is a value, an error or a panic of the library that the model does not allow. Its kind
//! stays the same while a program is shrunk.

use super::actions::Action;
use super::machine::{Equipment, Machine, Read};
use super::model::{Model, Outcome, Output, Plan, Setting};
use super::reference::number::Number;
use std::cell::{Cell, RefCell};
use std::panic::{catch_unwind, set_hook, take_hook, AssertUnwindSafe};
use std::sync::{Arc, Once};
use warpweft::error::{Error, ErrorKind};

/// A fault of the library, or of the reference.
#[derive(Clone, Debug, PartialEq)]
pub struct Finding {
    /// A kind that is the same for faults that are probably the same.
    pub kind: String,
    /// The description for people.
    pub what: String,
    /// The number of the action.
    pub at: usize,
}

/// The number of comparisons.
#[derive(Clone, Copy, Debug, Default)]
pub struct Count {
    pub actions: u64,
    pub skipped: u64,
    pub numbers: u64,
    /// Numbers whose error bound is too wide for a comparison.
    pub unknown: u64,
    pub errors: u64,
}

impl Count {
    /// Adds the numbers of another run.
    pub fn add(&mut self, other: Count) {
        self.actions += other.actions;
        self.skipped += other.skipped;
        self.numbers += other.numbers;
        self.unknown += other.unknown;
        self.errors += other.errors;
    }
}

thread_local! {
    static QUIET: Cell<bool> = const { Cell::new(false) };
    static PANIC: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Stores the text of a panic in this thread, instead of printing it.
fn keep_panics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = take_hook();
        set_hook(Box::new(move |info| match QUIET.get() {
            true => PANIC.with(|panic| *panic.borrow_mut() = info.to_string()),
            false => before(info),
        }));
    });
}

/// Returns the result of `work`, or the text of its panic.
fn caught<T>(work: impl FnOnce() -> T) -> Result<T, String> {
    keep_panics();
    QUIET.set(true);
    let result = catch_unwind(AssertUnwindSafe(work));
    QUIET.set(false);
    result.map_err(|_| PANIC.with(|panic| panic.borrow().clone()))
}

/// Removes the numbers from a text.
fn normalized(text: &str) -> String {
    let mut short = String::new();
    for c in text.chars().take(160) {
        match c {
            c if c.is_ascii_digit() && short.ends_with('#') => {}
            c if c.is_ascii_digit() => short.push('#'),
            '\n' => short.push(' '),
            c => short.push(c),
        }
    }
    short
}

/// Returns the message of an error without the parts that differ between programs: numbers and operations.
fn alike(error: &Error) -> String {
    let text = normalized(error.message());
    let last = text.rsplit(": ").next().unwrap_or(&text);
    match last.split_once(" must be held, got one that was dropped after it was computed") {
        Some(_) => "a result was dropped after it was computed".to_string(),
        None => last.to_string(),
    }
}

/// Runs a program. Returns the first finding.
pub fn run(
    equipment: &Arc<Equipment>,
    setting: Setting,
    program: &[Action],
    count: &mut Count,
) -> Option<Finding> {
    let (mut model, mut machine) = (Model::new(setting), Machine::new(equipment));
    let first_batch = equipment.device.stats().submits;
    let mut was_starved = false;
    for (at, action) in program.iter().enumerate() {
        let mut next = model.clone();
        let plan = next.apply(action);
        if plan.outcome == Outcome::Skip {
            count.skipped += 1;
            continue;
        }
        count.actions += 1;
        let done = match caught(|| machine.perform(action)) {
            Ok(done) => done,
            Err(panic) => {
                machine.abandon();
                // The remaining objects of the library may panic again when they are dropped.
                std::mem::forget(machine);
                let kind = format!("panic: {}", normalized(&panic));
                return Some(Finding { kind, what: format!("panic: {panic}"), at });
            }
        };
        let name = action.name();
        was_starved |= matches!(action, Action::Starved(_));
        let is_old = equipment.device.stats().submits - first_batch > KEPT_BATCHES;
        match judged(&name, &plan, done, was_starved || is_old, count) {
            Ok(true) => model = next,
            Ok(false) => {
                count.errors += 1;
                if setting.others > 0 && action.is_of_trainer() {
                    model.drop_trainer();
                    (machine.trainer, machine.world) = (None, None);
                }
            }
            Err((kind, what)) => {
                machine.abandon();
                return Some(Finding { kind, what, at });
            }
        }
        if let Some((kind, what)) = differs(&name, &model, &machine) {
            machine.abandon();
            return Some(Finding { kind, what, at });
        }
    }
    if let Err(panic) = caught(|| drop(machine)) {
        let kind = format!("panic at the end: {}", normalized(&panic));
        return Some(Finding { kind, what: format!("panic: {panic}"), at: program.len() });
    }
    let stats = equipment.device.stats();
    if stats.nodes > 0 || stats.used_bytes > 0 {
        let what = format!("{} nodes and {} bytes are left", stats.nodes, stats.used_bytes);
        return Some(Finding { kind: "left".into(), what, at: program.len() });
    }
    None
}

/// The number of batches for which gradients pass a tensor that was dropped.
const KEPT_BATCHES: u64 = 64;

/// A part of the message of an error that another rank has caused.
pub const OTHER_RANK: &str = "all ranks must answer, but rank";

/// Checks that an action succeeded or rightly failed. Otherwise returns the kind and the text of a finding. `forgets` is
/// whether the device may have dropped the history of tensors that were dropped.
fn judged(
    name: &str,
    plan: &Plan,
    done: Result<Read, Error>,
    forgets: bool,
    count: &mut Count,
) -> Result<bool, (String, String)> {
    let error = match done {
        Ok(read) => {
            if let Outcome::Fails(names) = &plan.outcome {
                let about = if names.is_empty() { "" } else { " with a name" };
                let what = format!("{name} must be an error{about}, and works");
                return Err((format!("no error{about} of {name}"), what));
            }
            return compared(name, &plan.output, &read, count).map(|()| true);
        }
        Err(error) => error,
    };
    let own = error.message().starts_with("fuzz");
    // An error is right in these cases, although the model has a value. Zeros are never right.
    let is_forgotten = error.message().contains("was dropped after it was computed");
    let lost = ["was dropped after an assignment", "must not be used up"];
    let is_of_other_rank = error.message().contains(OTHER_RANK);
    let may_fail = is_forgotten && forgets
        || lost.iter().any(|what| error.message().contains(what))
        || plan.or_is_gone && error.kind() == ErrorKind::InvalidState && !own && !is_forgotten
        || plan.or_lacks_memory && (error.kind() == ErrorKind::Memory || is_of_other_rank);
    let allowed = match &plan.outcome {
        _ if may_fail => true,
        Outcome::Fails(names) => {
            let says = |place: &usize| {
                let is_named = |word: &&str| error.message().contains(&format!("{word} {place}"));
                ["variable", "parameter"].iter().any(is_named)
            };
            if !names.is_empty() && !is_of_other_rank && !names.iter().any(says) {
                let kind = format!("nameless error of {name}: {}", alike(&error));
                let what = format!(
                    "{name} must name one of the variables or parameters {names:?}, and says: {error}"
                );
                return Err((kind, what));
            }
            error.kind() != ErrorKind::DeviceLost
        }
        Outcome::Works | Outcome::Skip => false,
    };
    if allowed {
        return Ok(false);
    }
    let kind = format!("error of {name}: {}", alike(&error));
    Err((kind, format!("{name} must work, and fails: {error} ({:?})", error.kind())))
}

/// Compares the values that were read with the expected ones.
fn compared(
    name: &str,
    want: &Output,
    got: &Read,
    count: &mut Count,
) -> Result<(), (String, String)> {
    let kind = |what: &str| format!("{what} of {name}");
    if want.len() != got.len() {
        let what = format!("{} values instead of {}", got.len(), want.len());
        return Err((kind("count"), format!("{name}: {what}")));
    }
    for ((label, want), (own, got)) in want.iter().zip(got) {
        if label != own || want.data.len() != got.len() {
            let what = format!("`{own}` of {} instead of `{label}` of", got.len());
            return Err((kind("size"), format!("{name}: {what} {}", want.data.len())));
        }
        count.numbers += got.len() as u64;
        count.unknown += want.data.iter().filter(|x| !x.is_known()).count() as u64;
        let near = want.data.iter().zip(got).all(|(want, got)| want.is_near(*got));
        if !near {
            let values: Vec<f64> = want.data.iter().map(|x: &Number| x.value).collect();
            let zeros = got.iter().all(|x| *x == 0.0);
            let kind = kind(if zeros { "zeros instead of the value" } else { "value" });
            return Err((kind, format!("{name}: {label} is {got:?} instead of {values:?}")));
        }
    }
    Ok(())
}

/// Compares all state that is visible without computing anything.
fn differs(name: &str, model: &Model, machine: &Machine) -> Option<(String, String)> {
    let (want, got) = (model.summary(), machine.summary());
    let differs = want
        .iter()
        .zip(&got)
        .find(|(want, got)| want.0 != got.0 || (want.1 - got.1).abs() > 1e-9 * want.1.abs());
    let (want, got) = match differs {
        Some((want, got)) => (format!("{want:?}"), format!("{got:?}")),
        None if want.len() != got.len() => (format!("{want:?}"), format!("{got:?}")),
        None => return None,
    };
    let kind = format!("after {name}: {}", normalized(&got));
    Some((kind, format!("after {name}: {got} instead of {want}")))
}
