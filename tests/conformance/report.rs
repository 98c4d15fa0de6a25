//! The results of the cases on a device: counts per operation, failures, and the reasons why cases did not run.

use super::exceptions::Exception;
use super::vectors::Case;
use serde_json::{json, Value};
use std::collections::BTreeMap;

/// The result of one case.
#[derive(Clone, Debug, PartialEq)]
pub enum Outcome {
    Passed,
    /// The case failed with this message.
    Failed(String),
    /// The library does not have this operation yet.
    Missing(String),
    /// The library or the device does not support this feature, by design.
    NotApplicable(String),
}

/// The numbers of results of an operation.
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

/// The results of all cases in one place.
pub struct Report {
    pub place: String,
    /// Counts by suite and operation.
    pub rows: BTreeMap<(String, String), Counts>,
    /// Failures of the test: unlisted cases that fail, and listed cases that pass.
    pub failures: Vec<String>,
    /// The suite, case and reason of listed cases that fail.
    pub excepted: Vec<[String; 3]>,
    /// The reasons why cases do not apply, and missing operations, by suite.
    pub notes: BTreeMap<(String, String), usize>,
    /// Whether listed cases may pass. The list is for software GPUs, and this device may be more exact.
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

    /// Finds exceptions that name no case of an existing suite.
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

    /// Returns the sum over all operations.
    pub fn total(&self) -> Counts {
        let mut total = Counts::default();
        self.rows.values().for_each(|row| total.join(row));
        total
    }

    /// Returns the sums as text.
    pub fn summary(&self) -> String {
        let Counts { passed, excepted, failed, missing, not_applicable } = self.total();
        format!(
            "conformance: {passed} passed, {excepted} excepted, {failed} wrong, {missing} missing, {not_applicable} not \
             applicable on {}",
            self.place
        )
    }

    /// Returns everything as JSON, for the tool that writes `CONFORMANCE.md`.
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
