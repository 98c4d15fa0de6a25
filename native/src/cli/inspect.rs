//! `warpweft inspect`: the metadata and the tensors of a language model.

use comfy_table::{presets, CellAlignment, Table};
use serde_json::{json, Map, Value};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{ErrorKind as IoKind, Write as _};
use std::path::Path;
use warpweft_native::files;
use warpweft_native::io::{Gguf, GgufArray, GgufTensor, GgufValue};
use warpweft_native::prelude::*;

/// The characters of a text that are shown.
const WIDTH: usize = 80;

/// Prints the head of a file.
///
/// # Errors
/// As [`files::open_model`].
pub fn run(path: &Path, json: bool) -> Result<()> {
    let files = files::open_model(path)?;
    let (format, head) = (files.format(), files.head());
    let text = match json {
        true => format!("{:#}\n", figures(head)),
        false => text(&format, head),
    };
    // A closed pipe is not an error, because its reader may have read enough.
    match std::io::stdout().lock().write_all(text.as_bytes()) {
        Err(error) if error.kind() != IoKind::BrokenPipe => {
            Err(Error::state(format!("inspect: the output must be writable, got {error}")))
        }
        _ => Ok(()),
    }
}

fn text(format: &str, head: &Gguf) -> String {
    let mut notes = Table::new();
    notes.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(["metadata", "value"]);
    for (name, value) in &head.metadata {
        notes.add_row([shortened(&escaped(name)), shortened(&value.to_string())]);
    }
    let mut tensors = Table::new();
    let columns = ["tensor", "shape", "format", "bytes", "at byte"];
    tensors.load_preset(presets::UTF8_HORIZONTAL_ONLY).set_header(columns);
    for (name, GgufTensor { shape, format, bytes, .. }) in &head.tensors {
        tensors.add_row([
            shortened(&escaped(name)),
            format!("{shape:?}"),
            format.to_string(),
            (bytes.end - bytes.start).to_string(),
            bytes.start.to_string(),
        ]);
    }
    for column in [3, 4] {
        if let Some(column) = tensors.column_mut(column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut text = format!("{format}\n\n{notes}\n\n{tensors}\n\n");
    for (format, Sum { tensors, elements, bytes }) in sums(head) {
        let plural = if tensors == 1 { "" } else { "s" };
        let _ = writeln!(
            text,
            "{format}: {tensors} tensor{plural}, {elements} elements, {bytes} bytes"
        );
    }
    text
}

/// The tensors of one format.
#[derive(Default)]
struct Sum {
    tensors: u64,
    elements: u64,
    bytes: u64,
}

/// Sums tensors, elements and bytes by the names of formats.
fn sums(head: &Gguf) -> BTreeMap<&'static str, Sum> {
    let mut all: BTreeMap<&str, Sum> = BTreeMap::new();
    for tensor in head.tensors.values() {
        let sum = all.entry(tensor.format.name()).or_default();
        sum.tensors += 1;
        sum.elements += tensor.numel() as u64;
        sum.bytes += tensor.bytes.end - tensor.bytes.start;
    }
    all
}

/// Escapes a name from a file, which may have control characters of terminals.
fn escaped(name: &str) -> String {
    name.escape_debug().to_string()
}

/// Truncates a long text.
fn shortened(text: &str) -> String {
    match text.char_indices().nth(WIDTH) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_string(),
    }
}

fn figures(head: &Gguf) -> Value {
    let tensor = |(name, tensor): (&String, &GgufTensor)| {
        let GgufTensor { shape, format, bytes, .. } = tensor;
        json!({
            "name": name, "shape": shape, "format": format.name(),
            "bytes": bytes.end - bytes.start, "offset": bytes.start,
        })
    };
    let metadata: Map<String, Value> =
        head.metadata.iter().map(|(name, value)| (name.clone(), plain(value))).collect();
    let tensors: Vec<Value> = head.tensors.iter().map(tensor).collect();
    json!({ "version": head.version, "metadata": metadata, "tensors": tensors })
}

/// Converts a value to JSON. Arrays keep all elements.
fn plain(value: &GgufValue) -> Value {
    match value {
        GgufValue::Float(value) => json!(value),
        GgufValue::Bool(value) => json!(value),
        GgufValue::String(value) => json!(value),
        GgufValue::Array(all) => elements(all),
        // Integers have at most 64 bits.
        other => other.to_string().parse().unwrap_or(Value::Null),
    }
}

fn elements(all: &GgufArray) -> Value {
    match all {
        GgufArray::Bytes(all) => json!(all),
        GgufArray::I32(all) => json!(all),
        GgufArray::U32(all) => json!(all),
        GgufArray::I64(all) => json!(all),
        GgufArray::U64(all) => json!(all),
        GgufArray::F32(all) => json!(all),
        GgufArray::F64(all) => json!(all),
        GgufArray::Bool(all) => json!(all),
        GgufArray::String(all) => json!(all),
        GgufArray::Array(all) => all.iter().map(elements).collect(),
        _ => Value::Null,
    }
}
