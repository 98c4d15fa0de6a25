//! The header of a safetensors file. It is JSON with the type, the shape and the byte range of each tensor.

use super::elements::{bytes_of, Stored};
use crate::dtype::Numbers;
use crate::error::{Error, Result};
use crate::sorted;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;

/// The operation in error messages.
pub(super) const LOAD: &str = "load_safetensors";
/// The key of the notes, which is not a tensor.
pub(super) const METADATA: &str = "__metadata__";

/// Returns the beginning of an error about the tensor `name`.
pub(super) fn named(name: &str) -> String {
    format!("{LOAD}: tensor {name:?}")
}

/// The type, the shape and the byte range of a tensor. The range counts from the end of the header.
pub(super) struct Place {
    /// The type of the elements, or `None` if no tensor type can represent it.
    pub stored: Option<Stored>,
    pub shape: Vec<usize>,
    pub start: u64,
    pub end: u64,
}

/// The header of a file: its tensors and notes.
#[derive(Default)]
pub(super) struct Header {
    pub tensors: BTreeMap<String, Written>,
    pub metadata: BTreeMap<String, String>,
}

impl Header {
    /// Parses the text of a header.
    pub fn parse(text: &[u8]) -> Result<Header> {
        let text = std::str::from_utf8(text).map_err(|error| {
            let at = 8 + error.valid_up_to();
            Error::format(format!(
                "{LOAD}: the header must be UTF-8, got other bytes at offset {at}"
            ))
        })?;
        if !text.starts_with('{') {
            let message = format!(
                "{LOAD}: the header must begin with an object at offset 8, got something else"
            );
            return Err(Error::format(message));
        }
        let wrong = |error| Error::format(format!("{LOAD}: the header must be valid, got {error}"));
        serde_json::from_str(text).map_err(wrong)
    }

    /// Returns the tensors in the order of their bytes. They must fill the `held` bytes after the header, and fit their
    /// shapes.
    pub fn checked(&self, held: u64) -> Result<Vec<(&str, Place)>> {
        let mut order = Vec::with_capacity(self.tensors.len());
        for (name, written) in &self.tensors {
            order.push((name.as_str(), written.place(name, held)?));
        }
        sorted::by_key(&mut order, |(name, place)| (place.start, place.end, *name));
        let mut end = 0;
        for (name, place) in &order {
            if place.start != end {
                let problem = if place.start < end { "overlap" } else { "gap" };
                let (what, start) = (named(name), place.start);
                let message = format!("{what}: the offset must be {end}, got {start} ({problem})");
                return Err(Error::format(message));
            }
            end = place.end;
        }
        if end != held {
            let message =
                format!("{LOAD}: tensors must fill the {held} bytes after the header, got {end}");
            return Err(Error::format(message));
        }
        Ok(order)
    }
}

/// Parses a type, such as `F32`.
fn stored(dtype: &str) -> Option<Stored> {
    let (letter, bits) = match dtype {
        "BOOL" => return Stored::new(Numbers::Bool, 1),
        "BF16" => return Some(Stored::Bf16),
        other => other.split_at_checked(1)?,
    };
    let numbers = match letter {
        "I" => Numbers::Signed,
        "U" => Numbers::Unsigned,
        "F" => Numbers::Float,
        _ => return None,
    };
    let size = match bits {
        "8" => 1,
        "16" => 2,
        "32" => 4,
        "64" => 8,
        _ => return None,
    };
    Stored::new(numbers, size)
}

/// A tensor's entry in the header, before it is checked.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Written {
    pub dtype: String,
    pub shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl Written {
    fn place(&self, name: &str, held: u64) -> Result<Place> {
        let what = named(name);
        let [start, end] = self.data_offsets;
        if start > end || end > held {
            let message =
                format!("{what}: offsets must be inside {held} bytes, got {start} to {end}");
            return Err(Error::format(message));
        }
        let mut shape = Vec::with_capacity(self.shape.len());
        for &extent in &self.shape {
            shape.push(usize::try_from(extent).unwrap_or(usize::MAX));
        }
        let shown = &self.shape;
        // The size of an unknown type is unknown, so it is not checked.
        let Some(stored) = stored(&self.dtype) else {
            return Ok(Place { stored: None, shape, start, end });
        };
        match bytes_of(&shape, stored) {
            Some(bytes) if bytes == end - start => {
                Ok(Place { stored: Some(stored), shape, start, end })
            }
            Some(bytes) => {
                let (has, dtype) = (end - start, &self.dtype);
                let from = format!("{has} from {start} to {end}");
                let message = format!(
                    "{what}: {dtype} of shape {shown:?} must have {bytes} bytes, got {from}"
                );
                Err(Error::format(message))
            }
            None => Err(Error::format(format!(
                "{what}: the number of bytes must fit 64 bits, got shape {shown:?}"
            ))),
        }
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Header, D::Error> {
        from.deserialize_map(Keys)
    }
}

/// Reads an object and rejects duplicate keys.
struct Keys;

impl<'de> Visitor<'de> for Keys {
    type Value = Header;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object of tensors")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> std::result::Result<Header, A::Error> {
        let (mut header, mut noted) = (Header::default(), false);
        while let Some(key) = map.next_key::<String>()? {
            let wrong = |error| A::Error::custom(format!("{key:?}: {error}"));
            if header.tensors.contains_key(&key) || (noted && key == METADATA) {
                return Err(wrong(A::Error::custom("given twice")));
            }
            if key == METADATA {
                noted = true;
                header.metadata = map.next_value::<Notes>().map_err(wrong)?.0;
            } else {
                let written = map.next_value().map_err(wrong)?;
                header.tensors.insert(key, written);
            }
        }
        Ok(header)
    }
}

/// Texts by key, without duplicate keys.
struct Notes(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Notes {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Notes, D::Error> {
        struct Texts;
        impl<'de> Visitor<'de> for Texts {
            type Value = Notes;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object of texts")
            }
            fn visit_map<A: MapAccess<'de>>(
                self,
                mut map: A,
            ) -> std::result::Result<Notes, A::Error> {
                let mut notes = BTreeMap::new();
                while let Some(key) = map.next_key::<String>()? {
                    if notes.contains_key(&key) {
                        return Err(A::Error::custom(format!("{key:?} given twice")));
                    }
                    notes.insert(key, map.next_value()?);
                }
                Ok(Notes(notes))
            }
        }
        from.deserialize_map(Texts)
    }
}
