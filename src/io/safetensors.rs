//! The safetensors format. A file has the length of the header in eight bytes, a JSON object with the type, the shape and the
//! range of each tensor, and the elements without gaps. (<https://github.com/huggingface/safetensors#format>)

use super::elements::{about, encoded, Stored, FILE};
use super::header::{named, Header, Written, LOAD, METADATA};
use super::other::{other_kind, KNOWN_BY};
use super::part::part;
use super::source::{at_once, Source};
use crate::alloc::try_vec;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::sorted;
use crate::tensor::Tensor;
use std::collections::BTreeMap;
use std::io::{Cursor, Read, Seek};
use std::ops::Range;

const SAVE: &str = "save_safetensors";
/// The most bytes of a header, as in the format's own library.
const LONGEST: u64 = 100_000_000;

/// The tensors of a file by name, and the file's notes.
#[derive(Clone, Debug, Default)]
pub struct Safetensors {
    /// The tensors.
    pub tensors: BTreeMap<String, Tensor>,
    /// The notes of the file's writer.
    pub metadata: BTreeMap<String, String>,
    /// The tensors that were not loaded, because tensors cannot have their type, such as `F8_E4M3`.
    pub skipped: BTreeMap<String, Skipped>,
}

/// A tensor of a file that was not loaded, because tensors cannot have its type.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, io};
/// let device = Device::with(Preference::Cpu).await?;
/// let header = r#"{"x":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}}"#;
/// let mut file = (header.len() as u64).to_le_bytes().to_vec();
/// file.extend(header.as_bytes());
/// file.extend([0x38, 0x40]);
/// let loaded = io::load_safetensors(&device, &file)?;
/// assert!(loaded.tensors.is_empty());
/// let skipped = &loaded.skipped["x"];
/// assert_eq!((&skipped.dtype[..], &skipped.shape[..]), ("F8_E4M3", &[2][..]));
/// assert_eq!(skipped.read(&mut std::io::Cursor::new(&file))?, [0x38, 0x40]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Skipped {
    /// The type in the file, such as `F8_E4M3`.
    pub dtype: String,
    /// The shape in the file.
    pub shape: Vec<u64>,
    /// The range of the tensor's bytes in the file.
    pub bytes: Range<u64>,
}

impl Skipped {
    /// Reads the tensor's bytes unchanged from the file that was loaded.
    ///
    /// # Errors
    /// `Format` if the file is shorter now or cannot be read, `Memory`.
    pub fn read(&self, file: &mut (impl Read + Seek)) -> Result<Vec<u8>> {
        part(file, &self.bytes).map_err(|error| about(LOAD, &error))
    }
}

/// Loads the tensors of a safetensors file. Types that tensors have stay unchanged. `BF16` becomes `f32`, which is exact.
/// Other integers become `i32` or `u32` if they fit, and `F64` is rounded to `f32`. Tensors of other types are not loaded.
/// [`Safetensors::skipped`] has their names, types and ranges.
///
/// # Errors
/// `Format` if the file is damaged, with the tensor's name, or is something else (a web page, a git-lfs pointer). `Limit` or
/// `Shape` if a tensor has more than 2^31-1 elements or more than eight axes. `Memory`.
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

/// Loads the tensors of a safetensors file as [`load_safetensors`] does. Tensors are read one after the other, so the whole
/// file need not fit into memory at once.
///
/// # Errors
/// The errors of [`load_safetensors`]. `Format` if the file cannot be read.
pub fn load_safetensors_from(
    device: &Device,
    file: &mut (impl Read + Seek),
) -> Result<Safetensors> {
    at_once(Safetensors::load_from(device, file))
}

impl Safetensors {
    /// Loads tensors as [`load_safetensors_from`] does, from a file that may have to wait for its bytes.
    ///
    /// # Errors
    /// The errors of [`load_safetensors_from`].
    pub async fn load_from(device: &Device, file: &mut impl Source) -> Result<Safetensors> {
        let (header, length) = read_header(file).await?;
        let order = header.checked(length.file - length.header)?;
        let (mut tensors, mut skipped) = (BTreeMap::new(), BTreeMap::new());
        for (name, place) in order {
            let bytes = length.header + place.start..length.header + place.end;
            let Some(stored) = place.stored else {
                let Written { dtype, shape, .. } = &header.tensors[name];
                let (dtype, shape) = (dtype.clone(), shape.clone());
                skipped.insert(name.to_string(), Skipped { dtype, shape, bytes });
                continue;
            };
            let what = named(name);
            let bytes = file.read_range(bytes).await.map_err(|error| about(&what, &error))?;
            let tensor = stored.tensor(device, &what, &place.shape, bytes, false)?;
            tensors.insert(name.to_string(), tensor);
        }
        Ok(Safetensors { tensors, metadata: header.metadata, skipped })
    }
}

/// The bytes of a file, and of its header with the eight bytes of its length.
pub(super) struct Length {
    pub file: u64,
    pub header: u64,
}

/// Reads the header of a file, and checks that the header fits into the file.
pub(super) async fn read_header(file: &mut impl Source) -> Result<(Header, Length)> {
    let unread = |error: Error| about(LOAD, &error);
    let whole = file.length().await.map_err(unread)?;
    if whole < 8 {
        let message = format!(
            "{LOAD}: the file must have at least 8 bytes, the length of the header, got {whole}"
        );
        return Err(Error::format(message));
    }
    let first = file.read_range(0..whole.min(8 + KNOWN_BY as u64)).await.map_err(unread)?;
    let length = first[..8].iter().rev().fold(0u64, |length, &byte| length << 8 | u64::from(byte));
    if length > LONGEST {
        let message = match other_kind(&first) {
            Some(why) => format!("{LOAD}: the file must be a safetensors file, got {why}"),
            None => {
                format!("{LOAD}: the header must have at most {LONGEST} bytes, got {length}")
            }
        };
        return Err(Error::format(message));
    }
    if length > whole - 8 {
        let message =
            format!("{LOAD}: the header must fit into the file of {whole} bytes, got {length} from offset 8 on");
        return Err(Error::format(message));
    }
    let header = file.read_range(8..8 + length).await.map_err(unread)?;
    Ok((Header::parse(&header)?, Length { file: whole, header: 8 + length }))
}

/// Saves tensors and notes as a safetensors file. Names in the header are sorted. Elements of the widest types come first, so
/// that every tensor is aligned to its elements. The elements begin at a multiple of eight bytes.
///
/// # Errors
/// `InvalidArgument` if a tensor is called `__metadata__`. `Memory`. Also as [`Tensor::read`].
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
        return Err(Error::argument(format!(
            "{SAVE}: the name of a tensor must not be reserved, got {METADATA:?}"
        )));
    }
    let mut data = Vec::with_capacity(tensors.len());
    for (name, tensor) in tensors {
        let bytes = encoded(tensor).await.map_err(|error| about(SAVE, &error))?;
        data.push((name.as_str(), tensor, bytes));
    }
    let mut order: Vec<usize> = (0..data.len()).collect();
    sorted::by_key(&mut order, |&n| std::cmp::Reverse(Stored::Held(data[n].1.dtype()).size()));
    let (mut end, mut places) = (0, vec![[0, 0]; data.len()]);
    for &n in &order {
        let start = end;
        end += data[n].2.len();
        places[n] = [start, end];
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
    let mut file = try_vec(FILE, 8 + text.len() + end).map_err(|error| about(SAVE, &error))?;
    file.extend_from_slice(&(text.len() as u64).to_le_bytes());
    file.extend_from_slice(text.as_bytes());
    for n in order {
        file.extend_from_slice(&data[n].2);
    }
    Ok(file)
}
