//! Safetensors: eight bytes that say how long the header is, a JSON object that says of each tensor its type, shape and
//! place, and the elements without gaps. (<https://github.com/huggingface/safetensors#format>)

use super::elements::{about, bytes_of, encoded, Stored};
use crate::device::Device;
use crate::dtype::Numbers;
use crate::error::{Error, Result};
use crate::room::room;
use crate::tensor::Tensor;
use serde::de::{Deserialize, Deserializer, Error as _, MapAccess, Visitor};
use std::collections::BTreeMap;
use std::fmt;
use std::io::{Cursor, Read, Seek, SeekFrom};

const LOAD: &str = "load_safetensors";
const SAVE: &str = "save_safetensors";
/// Bytes a header may have, as in the format's own library.
const LONGEST: u64 = 100_000_000;
/// What is no tensor but notes.
const METADATA: &str = "__metadata__";

/// The tensors of a file by name, and the notes in it.
#[derive(Clone, Debug, Default)]
pub struct Safetensors {
    /// The tensors.
    pub tensors: BTreeMap<String, Tensor>,
    /// What the file's writer noted.
    pub metadata: BTreeMap<String, String>,
}

/// Loads all tensors of a safetensors file. What tensors hold stays what it is. `BF16` becomes `f32`, which holds it exactly,
/// other integers become `i32` or `u32`, if they fit, and `F64` is rounded to `f32`.
///
/// # Errors
/// `Data` if the file is damaged or a tensor has another type, with the tensor's name; `Limit` or `Shape` if a tensor has
/// more than 2^31-1 elements or more than eight axes; `Memory`.
///
/// ```
/// # pollster::block_on(async {
/// # use std::collections::BTreeMap;
/// # use warpweft::{device::{Device, Preference}, io};
/// let device = Device::with(Preference::Cpu).await?;
/// let tensors = BTreeMap::from([("bias".to_string(), device.tensor(&[1.0f32, 2.0], &[2])?)]);
/// let notes = BTreeMap::from([("format".to_string(), "pt".to_string())]);
/// let file = io::save_safetensors(&tensors, &notes).await?;
/// let loaded = io::load_safetensors(&device, &file)?;
/// assert_eq!(loaded.tensors["bias"].read::<f32>().await?, [1.0, 2.0]);
/// assert_eq!(loaded.metadata, notes);
/// assert!(io::load_safetensors(&device, &file[..20]).is_err());
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub fn load_safetensors(device: &Device, bytes: &[u8]) -> Result<Safetensors> {
    load_safetensors_from(device, &mut Cursor::new(bytes))
}

/// Loads all tensors of a safetensors file, as [`load_safetensors`]. One tensor after the other is read: a file need not
/// fit in memory beside its tensors.
///
/// # Errors
/// As [`load_safetensors`]; `Data` if the file cannot be read.
pub fn load_safetensors_from(
    device: &Device,
    file: &mut (impl Read + Seek),
) -> Result<Safetensors> {
    let unread = |error: std::io::Error| Error::data(format!("{LOAD}: it cannot be read: {error}"));
    let whole = file.seek(SeekFrom::End(0)).map_err(unread)?;
    file.seek(SeekFrom::Start(0)).map_err(unread)?;
    if whole < 8 {
        let message =
            format!("{LOAD}: {whole} bytes are too few: the first 8 say how long the header is");
        return Err(Error::data(message));
    }
    let mut length = [0; 8];
    file.read_exact(&mut length).map_err(unread)?;
    let length = u64::from_le_bytes(length);
    if length > LONGEST {
        let message = format!("{LOAD}: a header of {length} bytes is longer than {LONGEST}");
        return Err(Error::data(message));
    }
    let Some(held) = (whole - 8).checked_sub(length) else {
        let message =
            format!("{LOAD}: a header of {length} bytes from offset 8 on leaves a file of {whole}");
        return Err(Error::data(message));
    };
    let header = taken(file, length).map_err(|error| about(LOAD, &error))?;
    let header = Header::parse(&header)?;
    let order = header.checked(held)?;
    let mut tensors = BTreeMap::new();
    for (name, place) in order {
        let what = named(name);
        let bytes = taken(file, place.end - place.start).map_err(|error| about(&what, &error))?;
        let tensor = place.stored.tensor(device, &what, &place.shape, bytes, false)?;
        tensors.insert(name.to_string(), tensor);
    }
    Ok(Safetensors { tensors, metadata: header.metadata })
}

/// The next bytes of a file, which are known to be there.
fn taken(file: &mut impl Read, length: u64) -> Result<Vec<u8>> {
    let length = usize::try_from(length).map_err(|_| Error::data(format!("{length} bytes")))?;
    let mut bytes = room("file", length)?;
    bytes.resize(length, 0);
    let unread = |error: std::io::Error| Error::data(format!("it cannot be read: {error}"));
    file.read_exact(&mut bytes).map_err(unread)?;
    Ok(bytes)
}

/// Whose error it is.
fn named(name: &str) -> String {
    format!("{LOAD}: tensor {name:?}")
}

/// Where a tensor lies behind the header, and what it is.
struct Place {
    stored: Stored,
    shape: Vec<usize>,
    start: u64,
    end: u64,
}

/// What a file says it holds.
#[derive(Default)]
struct Header {
    tensors: BTreeMap<String, Written>,
    metadata: BTreeMap<String, String>,
}

impl Header {
    fn parse(text: &[u8]) -> Result<Header> {
        let text = std::str::from_utf8(text).map_err(|error| {
            let at = 8 + error.valid_up_to();
            Error::data(format!("{LOAD}: the header is not UTF-8 at offset {at}"))
        })?;
        if !text.starts_with('{') {
            let message = format!("{LOAD}: the header does not begin with an object at offset 8");
            return Err(Error::data(message));
        }
        let wrong = |error| Error::data(format!("{LOAD}: the header: {error}"));
        serde_json::from_str(text).map_err(wrong)
    }

    /// The tensors in the order in which they lie, if they fill what lies behind the header and their shapes fit.
    fn checked(&self, held: u64) -> Result<Vec<(&str, Place)>> {
        let mut order = Vec::with_capacity(self.tensors.len());
        for (name, written) in &self.tensors {
            order.push((name.as_str(), written.place(name, held)?));
        }
        order.sort_by_key(|(name, place)| (place.start, place.end, *name));
        let mut end = 0;
        for (name, place) in &order {
            if place.start != end {
                let what = if place.start < end {
                    "overlaps what ends"
                } else {
                    "leaves a gap behind what ends"
                };
                let message = format!("{}: offset {} {what} at {end}", named(name), place.start);
                return Err(Error::data(message));
            }
            end = place.end;
        }
        if end != held {
            let message =
                format!("{LOAD}: {held} bytes behind the header, of which tensors fill {end}");
            return Err(Error::data(message));
        }
        Ok(order)
    }
}

/// The type that a text such as `F32` stands for.
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

/// What the header says of a tensor.
#[derive(serde::Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    dtype: String,
    shape: Vec<u64>,
    data_offsets: [u64; 2],
}

impl Written {
    fn place(&self, name: &str, held: u64) -> Result<Place> {
        let what = named(name);
        let stored = stored(&self.dtype).ok_or_else(|| {
            let other = &self.dtype;
            let message = format!("{what}: elements of type {other:?} are not held by tensors");
            Error::data(message)
        })?;
        let [start, end] = self.data_offsets;
        if start > end || end > held {
            let message = format!("{what}: offsets {start} to {end} of {held} bytes");
            return Err(Error::data(message));
        }
        let mut shape = Vec::with_capacity(self.shape.len());
        for &extent in &self.shape {
            shape.push(usize::try_from(extent).unwrap_or(usize::MAX));
        }
        let shown = &self.shape;
        match bytes_of(&shape, stored) {
            Some(bytes) if bytes == end - start => Ok(Place { stored, shape, start, end }),
            Some(bytes) => {
                let (has, dtype) = (end - start, &self.dtype);
                let from = format!("{has} from {start} to {end}");
                let message =
                    format!("{what}: {dtype} of shape {shown:?} takes {bytes} bytes, not {from}");
                Err(Error::data(message))
            }
            None => Err(Error::data(format!("{what}: shape {shown:?} is too large"))),
        }
    }
}

impl<'de> Deserialize<'de> for Header {
    fn deserialize<D: Deserializer<'de>>(from: D) -> std::result::Result<Header, D::Error> {
        from.deserialize_map(Keys)
    }
}

/// Reads objects in which no key stands twice.
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
                return Err(wrong(A::Error::custom("stands twice")));
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

/// Texts by keys that are different.
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
                        return Err(A::Error::custom(format!("{key:?} stands twice")));
                    }
                    notes.insert(key, map.next_value()?);
                }
                Ok(Notes(notes))
            }
        }
        from.deserialize_map(Texts)
    }
}

/// Writes tensors and notes as a safetensors file: names in order in the header, elements of the widest types first, so
/// that all lie at multiples of their size; the elements begin at a multiple of eight.
///
/// # Errors
/// `Data` if a tensor is called `__metadata__`; as [`Tensor::read`].
///
/// ```
/// # pollster::block_on(async {
/// # use std::collections::BTreeMap;
/// # use warpweft::{device::{Device, Preference}, io};
/// let device = Device::with(Preference::Cpu).await?;
/// let tensors = BTreeMap::from([("x".to_string(), device.zeros(&[4])?)]);
/// let file = io::save_safetensors(&tensors, &BTreeMap::new()).await?;
/// assert_eq!(file.len() % 8, 0);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub async fn save_safetensors(
    tensors: &BTreeMap<String, Tensor>,
    metadata: &BTreeMap<String, String>,
) -> Result<Vec<u8>> {
    if tensors.contains_key(METADATA) {
        return Err(Error::data(format!("{SAVE}: no tensor can be called {METADATA:?}")));
    }
    let mut data = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let bytes = encoded(tensor).await.map_err(|error| about(SAVE, &error))?;
        data.push((name.as_str(), tensor, bytes));
    }
    let mut order: Vec<usize> = (0..data.len()).collect();
    order.sort_by_key(|&n| std::cmp::Reverse(Stored::Held(data[n].1.dtype()).size()));
    let (mut elements, mut places) = (Vec::<u8>::new(), vec![[0, 0]; data.len()]);
    for n in order {
        let start = elements.len();
        elements.extend(&data[n].2);
        places[n] = [start, elements.len()];
    }
    let mut header = serde_json::Map::new();
    if !metadata.is_empty() {
        header.insert(METADATA.into(), serde_json::json!(metadata));
    }
    for ((name, tensor, _), place) in data.iter().zip(places) {
        let dtype = tensor.dtype().name().to_uppercase();
        let entry =
            serde_json::json!({"dtype": dtype, "shape": tensor.shape(), "data_offsets": place});
        header.insert((*name).to_string(), entry);
    }
    let mut text = serde_json::Value::Object(header).to_string();
    while !text.len().is_multiple_of(8) {
        text.push(' ');
    }
    let mut file = (text.len() as u64).to_le_bytes().to_vec();
    file.extend(text.into_bytes());
    file.extend(elements);
    Ok(file)
}
