//! What became of the cases on a device: counts per operation, failures, and why others did not run.

use super::exceptions::Exception;
use super::vectors::Case;
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// What became of one case.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Passed,
    /// What is wrong.
    Failed(String),
    /// The operation that the library has not yet.
    Missing(String),
    /// What the library or the device does not have, and is not meant to.
    NotApplicable(String),
}

/// How many cases of an operation ended how.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Counts {
    pub passed: usize,
    pub excepted: usize,
    pub failed: usize,
    pub missing: usize,
    pub not_applicable: usize,
}

impl Counts {
    fn join(&mut self, other: &Counts) {
        self.passed += other.passed;
        self.excepted += other.excepted;
        self.failed += other.failed;
        self.missing += other.missing;
        self.not_applicable += other.not_applicable;
    }
}

/// What became of all cases in one place.
pub struct Report {
    pub place: String,
    /// By suite and operation.
    pub rows: BTreeMap<(String, String), Counts>,
    /// What fails the test: cases that fail and are not listed, listed ones that do not fail.
    pub failures: Vec<String>,
    /// Suite, case and reason of those that are listed and do fail.
    pub excepted: Vec<[String; 3]>,
    /// Why cases do not apply, by suite; what is missing.
    pub notes: BTreeMap<(String, String), usize>,
    /// Listed cases may pass: the list is for software GPUs, and this is a better one.
    pub lenient: bool,
}

impl Report {
    pub fn new(place: &str) -> Report {
        Report {
            place: place.into(),
            rows: BTreeMap::new(),
            failures: Vec::new(),
            excepted: Vec::new(),
            notes: BTreeMap::new(),
            lenient: false,
        }
    }

    /// Counts a case.
    pub fn add(&mut self, case: &Case, outcome: Outcome, exceptions: &[Exception]) {
        let row = self.rows.entry((case.suite.to_string(), case.op.clone())).or_default();
        let listed = exceptions.iter().find(|exception| exception.names(case, &self.place));
        let name = format!("{}: {}", case.suite, case.name);
        match (outcome, listed) {
            (Outcome::Failed(_), Some(exception)) => {
                row.excepted += 1;
                let texts = [&*case.suite, &case.name, exception.why];
                self.excepted.push(texts.map(str::to_string));
            }
            (Outcome::Passed, Some(_)) if !self.lenient => {
                row.failed += 1;
                self.failures
                    .push(format!("{name}: is listed as an exception and passes: remove it"));
            }
            (Outcome::Passed, _) => row.passed += 1,
            (Outcome::Failed(what), None) => {
                row.failed += 1;
                self.failures.push(format!("{name}: {what}"));
            }
            (Outcome::Missing(what), listed) => {
                row.missing += 1;
                self.note(case, format!("missing: {what}"), name, listed.is_some());
            }
            (Outcome::NotApplicable(why), listed) => {
                row.not_applicable += 1;
                self.note(case, why, name, listed.is_some());
            }
        }
    }

    fn note(&mut self, case: &Case, why: String, name: String, listed: bool) {
        if listed {
            self.failures
                .push(format!("{name}: is listed as an exception and does not run: {why}"));
        }
        *self.notes.entry((case.suite.to_string(), why)).or_default() += 1;
    }

    /// Finds exceptions that name no case of a suite that is here.
    pub fn check(&mut self, cases: &[Case], exceptions: &[Exception]) {
        for exception in exceptions.iter().filter(|e| e.places.contains(&self.place.as_str())) {
            let here = || cases.iter().filter(|case| *case.suite == *exception.suite);
            for name in exception.cases.iter().filter(|_| here().next().is_some()) {
                if !here().any(|case| case.name == *name) {
                    let suite = exception.suite;
                    let why = "is listed as an exception and is no case";
                    self.failures.push(format!("{suite}: {name}: {why}"));
                }
            }
        }
    }

    /// The sum over all operations.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.rows.values().for_each(|row| total.join(row));
        total
    }

    /// The sums in words.
    pub fn summary(&self) -> String {
        let Counts { passed, excepted, failed, missing, not_applicable } = self.total();
        format!(
            "conformance: {passed} passed, {excepted} excepted, {failed} wrong, {missing} missing, {not_applicable} not \
             applicable on {}",
            self.place
        )
    }

    /// Everything, for the tool that writes `CONFORMANCE.md`.
    pub fn to_json(&self, device: &str) -> Value {
        let row = |((suite, op), counts): (&(String, String), &Counts)| {
            json!({
                "suite": suite, "op": op, "backend": self.place,
                "passed": counts.passed, "excepted": counts.excepted, "failed": counts.failed,
                "missing": counts.missing, "not_applicable": counts.not_applicable,
            })
        };
        let note = |((suite, why), count): (&(String, String), &usize)| json!({ "suite": suite, "why": why, "count": count });
        json!({
            "backend": self.place, "device": device,
            "rows": self.rows.iter().map(row).collect::<Vec<_>>(),
            "notes": self.notes.iter().map(note).collect::<Vec<_>>(),
            "excepted": self.excepted,
            "failures": self.failures,
        })
    }
}
