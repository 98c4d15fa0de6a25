//! The filter `tojson`, which writes JSON as Python's `json.dumps` does. Models were trained with tools in this format.

use minijinja::value::Kwargs;
use minijinja::{Error, ErrorKind};
use serde_json::Value;

/// The most spaces of an indent.
const MAX_INDENT: usize = 16;

/// The format of JSON.
struct Form {
    indent: Option<usize>,
    between: String,
    after_key: String,
    is_ascii: bool,
}

/// Formats a value as JSON. The options are `indent`, `separators`, `ensure_ascii` and `sort_keys`.
pub(super) fn filter(value: &minijinja::Value, options: &Kwargs) -> Result<String, Error> {
    let wrong = |why: String| Error::new(ErrorKind::InvalidOperation, why);
    let value = serde_json::to_value(value)
        .map_err(|error| wrong(format!("tojson: the value must be JSON, got {error}")))?;
    let indent = options.get::<Option<usize>>("indent")?.map(|indent| indent.min(MAX_INDENT));
    let separators = options.get::<Option<Vec<String>>>("separators")?;
    let mut form = Form {
        indent,
        between: if indent.is_some() { "," } else { ", " }.into(),
        after_key: ": ".into(),
        is_ascii: options.get::<Option<bool>>("ensure_ascii")?.unwrap_or(false),
    };
    if let Some([between, after_key]) = separators.as_deref() {
        (form.between, form.after_key) = (between.clone(), after_key.clone());
    }
    // Keys keep the order of the map, because Python sorts keys only on request.
    options.get::<Option<bool>>("sort_keys")?;
    options.assert_all_used()?;
    let mut out = String::new();
    form.write(&value, 0, &mut out);
    Ok(out)
}

impl Form {
    fn write(&self, value: &Value, depth: usize, out: &mut String) {
        match value {
            Value::Array(all) if !all.is_empty() => {
                out.push('[');
                for (n, value) in all.iter().enumerate() {
                    self.separate(n, depth + 1, out);
                    self.write(value, depth + 1, out);
                }
                self.line(depth, out);
                out.push(']');
            }
            Value::Object(all) if !all.is_empty() => {
                out.push('{');
                for (n, (key, value)) in all.iter().enumerate() {
                    self.separate(n, depth + 1, out);
                    self.text(key, out);
                    out.push_str(&self.after_key);
                    self.write(value, depth + 1, out);
                }
                self.line(depth, out);
                out.push('}');
            }
            Value::String(text) => self.text(text, out),
            other => out.push_str(&other.to_string()),
        }
    }

    fn separate(&self, n: usize, depth: usize, out: &mut String) {
        if n > 0 {
            out.push_str(&self.between);
        }
        self.line(depth, out);
    }

    fn line(&self, depth: usize, out: &mut String) {
        if let Some(indent) = self.indent {
            out.push('\n');
            out.extend(std::iter::repeat_n(' ', indent * depth));
        }
    }

    fn text(&self, text: &str, out: &mut String) {
        let written = Value::String(text.into()).to_string();
        if !self.is_ascii {
            out.push_str(&written);
            return;
        }
        for c in written.chars() {
            match c.is_ascii() {
                true => out.push(c),
                false => {
                    let mut units = [0; 2];
                    for unit in c.encode_utf16(&mut units) {
                        out.push_str(&format!("\\u{unit:04x}"));
                    }
                }
            }
        }
    }
}
