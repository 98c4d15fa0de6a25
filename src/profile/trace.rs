//! Profiles as traces in the Chrome trace event format, which Perfetto, `chrome://tracing` and speedscope open.

use super::json::Json;
use super::{Phase, Profile, Submission};
use crate::backend::{Clock, Times};

/// The rows of the trace: threads of one process.
#[derive(Clone, Copy)]
enum Row {
    Waits = 1,
    Host = 2,
    Submissions = 3,
    Kernels = 4,
}

impl Profile {
    /// Formats the time line, with the phases of the host, each submission and each kernel, in the Chrome trace event format.
    /// Save the text as a `.json` file and open it at <https://ui.perfetto.dev>.
    ///
    /// The device's clock is aligned with the host's, so that no kernel begins before its submission.
    pub fn to_chrome_trace(&self) -> String {
        let mut json = Json::default();
        json.object(|json| {
            json.key("displayTimeUnit").string("ns");
            json.key("otherData").object(|json| {
                json.key("device").string(&self.info.name);
                json.key("clock").string(self.clock.name());
                json.key("resolution_ns").number(self.resolution);
            });
            json.key("traceEvents").list(|json| self.events(json));
        });
        json.text
    }

    fn events(&self, json: &mut Json) {
        let process = format!("warpweft on {} ({})", self.info.name, self.info.backend);
        name(json, "process_name", 0, &process);
        let kernels = match self.clock {
            Clock::Timestamps => "device: kernels, each in a pass of its own",
            Clock::Host => "kernels",
            Clock::Submissions | Clock::None => {
                "device: whole submissions, of kernels no times are known"
            }
        };
        let rows = [
            (Row::Waits, "host: waiting"),
            (Row::Host, "host"),
            (Row::Submissions, "device: submissions"),
            (Row::Kernels, kernels),
        ];
        for (row, title) in rows {
            name(json, "thread_name", row as u32, title);
        }
        for span in &self.spans {
            let row = if span.phase == Phase::Wait { Row::Waits } else { Row::Host };
            event(
                json,
                row,
                span.phase.name(),
                (&span.label, span.phase.name()),
                span.times,
                |_| {},
            );
        }
        for (number, submission) in self.submissions.iter().enumerate() {
            self.submission(json, number, submission);
        }
    }

    fn submission(&self, json: &mut Json, number: usize, submission: &Submission) {
        let Submission { batch, host, kernels, .. } = submission;
        let title = match &batch.dispatches[..] {
            [] => "nothing".to_string(),
            [only] => only.label.clone(),
            [first, rest @ ..] => format!("{} and {} more", first.label, rest.len()),
        };
        let counts = |json: &mut Json| {
            json.key("submission").number(number as f64);
            json.key("kernels").number(batch.dispatches.len() as f64);
            json.key("operations").number(batch.operations as f64);
        };
        event(json, Row::Host, "submitting", (&title, "submitting"), *host, counts);
        if let Some(device) = submission.device() {
            event(json, Row::Submissions, "submission", (&title, "submission"), device, counts);
        }
        for (dispatch, times) in batch.dispatches.iter().zip(kernels) {
            let &Some(times) = times else { continue };
            let kind = dispatch.kernel.kind();
            event(json, Row::Kernels, "kernel", (&dispatch.label, kind), times, |json| {
                let work = dispatch.work(&batch.slots);
                json.key("kind").string(kind);
                json.key("submission").number(number as f64);
                json.key(if work.exact { "bytes" } else { "bytes at most" })
                    .number(work.bytes() as f64);
                json.key("flops").number(work.flops as f64);
            });
        }
    }
}

/// Writes the name of the process or of one of its threads.
fn name(json: &mut Json, what: &str, row: u32, title: &str) {
    json.object(|json| {
        json.key("name").string(what);
        json.key("ph").string("M");
        json.key("pid").number(1.0);
        json.key("tid").number(f64::from(row));
        json.key("args").object(|json| {
            json.key("name").string(title);
        });
    });
}

/// Writes an event with begin and end in microseconds. An event without a label is called `otherwise`.
fn event(
    json: &mut Json,
    row: Row,
    category: &str,
    (label, otherwise): (&str, &str),
    (begin, end): Times,
    arguments: impl FnOnce(&mut Json),
) {
    json.object(|json| {
        json.key("name").string(if label.is_empty() { otherwise } else { label });
        json.key("cat").string(category);
        json.key("ph").string("X");
        json.key("ts").number(begin as f64 / 1e3);
        json.key("dur").number((end - begin) as f64 / 1e3);
        json.key("pid").number(1.0);
        json.key("tid").number(f64::from(row as u32));
        json.key("args").object(arguments);
    });
}
