//! Profiles as JSON, for programs and for trace viewers. The writer is part of this crate, because every page loads it and
//! `serde_json` would be larger than the whole file.

use super::{KernelProfile, Phase, Profile};
use std::fmt::Write;

/// Converts nanoseconds to milliseconds.
fn milliseconds(nanoseconds: f64) -> f64 {
    nanoseconds / 1e6
}

/// A writer of JSON.
#[derive(Default)]
pub struct Json {
    pub text: String,
}

impl Json {
    /// Writes a comma if one is needed.
    fn next(&mut self) {
        if !matches!(self.text.as_bytes().last(), None | Some(b'[' | b'{' | b':')) {
            self.text.push(',');
        }
    }

    /// Writes the name of a field.
    pub fn key(&mut self, name: &str) -> &mut Json {
        self.string(name);
        self.text.push(':');
        self
    }

    /// Writes a text.
    pub fn string(&mut self, text: &str) -> &mut Json {
        self.next();
        self.text.push('"');
        for c in text.chars() {
            match c {
                '"' | '\\' => self.text.extend(['\\', c]),
                c if c < ' ' => {
                    let _ = write!(self.text, "\\u{:04x}", c as u32);
                }
                c => self.text.push(c),
            }
        }
        self.text.push('"');
        self
    }

    /// Writes a number. Infinities and NaN become `null`.
    pub fn number(&mut self, number: f64) -> &mut Json {
        self.next();
        let _ = match number.is_finite() {
            true => write!(self.text, "{number}"),
            false => write!(self.text, "null"),
        };
        self
    }

    /// Writes a boolean.
    pub fn flag(&mut self, flag: bool) -> &mut Json {
        self.next();
        self.text.push_str(if flag { "true" } else { "false" });
        self
    }

    /// An object with the fields that `fields` writes.
    pub fn object(&mut self, fields: impl FnOnce(&mut Json)) -> &mut Json {
        self.next();
        self.text.push('{');
        fields(self);
        self.text.push('}');
        self
    }

    /// Writes a list with the items that `items` writes.
    pub fn list(&mut self, items: impl FnOnce(&mut Json)) -> &mut Json {
        self.next();
        self.text.push('[');
        items(self);
        self.text.push(']');
        self
    }
}

impl Profile {
    /// Formats everything except the time line as JSON, with times in milliseconds. `copyShare` and `productShare` are
    /// fractions of the ceilings, from 0 to 1, if the ceilings were measured.
    pub fn to_json(&self) -> String {
        let mut json = Json::default();
        json.object(|json| {
            json.key("device").object(|json| {
                let info = &self.info;
                let words =
                    [info.backend, &info.name, &info.vendor, info.kind.name(), &info.driver];
                let names = ["backend", "name", "vendor", "kind", "driver"];
                for (name, word) in names.into_iter().zip(words) {
                    json.key(name).string(word);
                }
            });
            json.key("clock").string(self.clock.name());
            json.key("resolution").number(milliseconds(self.resolution));
            json.key("total").number(milliseconds(self.total as f64));
            json.key("deviceTime").number(self.device_time().as_secs_f64() * 1e3);
            json.key("host").object(|json| {
                for phase in Phase::ALL {
                    json.key(phase.name()).number(milliseconds(self.host[phase as usize] as f64));
                }
            });
            json.key("operations").number(self.operations as f64);
            json.key("submissions").number(self.submissions.len() as f64);
            json.key("untimed").number(self.untimed() as f64);
            if let Some(ceilings) = self.ceilings {
                json.key("ceilings").object(|json| {
                    json.key("bytesPerSecond").number(ceilings.bytes_per_second);
                    json.key("flopsPerSecond").number(ceilings.flops_per_second);
                });
            }
            json.key("kernels").list(|json| {
                self.kernels.iter().for_each(|kernel| self.kernel(kernel, json));
            });
        });
        json.text
    }

    fn kernel(&self, kernel: &KernelProfile, json: &mut Json) {
        json.object(|json| {
            json.key("kind").string(kernel.kind);
            json.key("label").string(&kernel.label);
            json.key("runs").number(kernel.runs as f64);
            json.key("timed").number(kernel.timed as f64);
            json.key("time").number(kernel.time.as_secs_f64() * 1e3);
            json.key("mean").number(kernel.mean().as_secs_f64() * 1e3);
            json.key("bytesRead").number(kernel.work.read as f64);
            json.key("bytesWritten").number(kernel.work.written as f64);
            json.key("exactBytes").flag(kernel.work.exact);
            json.key("flops").number(kernel.work.flops as f64);
            let (bytes, flops) = (kernel.bytes_per_second(), kernel.flops_per_second());
            let most = self.ceilings;
            let shares = [
                ("bytesPerSecond", bytes),
                ("flopsPerSecond", flops),
                ("copyShare", bytes.zip(most).map(|(rate, most)| rate / most.bytes_per_second)),
                ("productShare", flops.zip(most).map(|(rate, most)| rate / most.flops_per_second)),
            ];
            for (name, value) in shares {
                if let Some(value) = value {
                    json.key(name).number(value);
                }
            }
        });
    }
}
