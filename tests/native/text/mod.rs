//! Tests tokenizers and chat templates: small ones against Hugging Face's `tokenizers`, damaged ones, hostile messages, and
//! those of real files.

mod chat;
mod damaged;
mod decoding;
mod forged;
mod golden;
mod real;

use serde_json::Value;
use std::io::Cursor;
use warpweft::io::Gguf;

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

/// Returns a metadata value: the number of its type, and its bytes. Lists of numbers are `f32` if one has a fraction or
/// `is_float`.
fn value(value: &Value, is_float: bool) -> Vec<u8> {
    match value {
        Value::String(string) => [8u32.to_le_bytes().to_vec(), text(string)].concat(),
        Value::Bool(flag) => [7u32.to_le_bytes().to_vec(), vec![u8::from(*flag)]].concat(),
        Value::Number(number) => {
            let number = number.as_i64().expect("an integer");
            [11u32.to_le_bytes().to_vec(), number.to_le_bytes().to_vec()].concat()
        }
        Value::Array(all) => {
            let (kind, each): (u32, Vec<Vec<u8>>) = match all.first() {
                Some(Value::String(_)) => {
                    (8, all.iter().map(|word| text(word.as_str().expect("text"))).collect())
                }
                _ if is_float || all.iter().any(Value::is_f64) => {
                    let float = |number: &Value| number.as_f64().unwrap_or(f64::NAN) as f32;
                    (6, all.iter().map(|number| float(number).to_le_bytes().to_vec()).collect())
                }
                _ => {
                    let integer = |number: &Value| number.as_i64().expect("an integer") as i32;
                    (5, all.iter().map(|number| integer(number).to_le_bytes().to_vec()).collect())
                }
            };
            let head = [9u32.to_le_bytes(), kind.to_le_bytes()].concat();
            [head, (all.len() as u64).to_le_bytes().to_vec(), each.concat()].concat()
        }
        other => panic!("{other} has no type"),
    }
}

/// Returns the header of a GGUF file without tensors, with this metadata. Adds `tokenizer.ggml.` to names without a dot.
fn gguf(metadata: &Value) -> Gguf {
    let metadata = metadata.as_object().expect("an object");
    let mut file = [&b"GGUF"[..], &3u32.to_le_bytes(), &0u64.to_le_bytes()].concat();
    file.extend((metadata.len() as u64).to_le_bytes());
    for (name, entry) in metadata {
        let name = if name.contains('.') { name.clone() } else { format!("tokenizer.ggml.{name}") };
        file.extend(text(&name));
        file.extend(value(entry, name.ends_with("scores")));
    }
    Gguf::read(&mut Cursor::new(file)).expect("a GGUF file")
}

/// Pseudorandom numbers, the same in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, end: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % end.max(1) as u64) as usize
    }
}
