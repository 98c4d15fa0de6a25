//! GGUF, the file format of llama.cpp. A file has a head, with metadata and a table of tensors, and the tensors in blocks of
//! few bits. (<https://github.com/ggml-org/ggml/blob/master/docs/gguf.md>)
//!
//! The head is read and checked as a whole. Tensors are read one by one, each from its range of bytes.

mod blocks;
mod pack;
mod parts;
// Only language models read safetensors files as GGUF.
#[cfg(feature = "model")]
mod safetensors;
mod scan;
mod value;

pub use blocks::BlockFormat;
pub use parts::GgufParts;
pub use value::{GgufArray, GgufValue};

use super::other::other_kind;
use super::source::{at_once, Source};
use crate::alloc::try_vec;
use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{PackedBuilder, PackedTensor, Tensor};
use scan::{about, wrong, Scan};
use std::collections::BTreeMap;
use std::io::{Read, Seek};
use std::ops::Range;

/// The most axes of a tensor, as in ggml.
const AXES: u32 = 4;
/// The bytes of a tensor that are read at once.
const PIECE: u64 = 1 << 22;
/// The bytes at the beginning of a file that are read first. Most heads are longer, because they have a vocabulary.
const FIRST: u64 = 1 << 20;
/// The alignment of tensors in bytes, unless the file has another one.
const ALIGNMENT: u64 = 32;

/// The head of a GGUF file, with the metadata of the model and the table of tensors.
///
/// ```
/// use std::io::Cursor;
/// use warpweft::io::Gguf;
///
/// // A file with one note and one tensor of two numbers.
/// let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
/// let mut file = [&b"GGUF"[..], &3u32.to_le_bytes(), &1u64.to_le_bytes(), &1u64.to_le_bytes()].concat();
/// file.extend([text("general.name"), 8u32.to_le_bytes().to_vec(), text("tiny")].concat());
/// file.extend([text("w"), 1u32.to_le_bytes().to_vec(), 2u64.to_le_bytes().to_vec()].concat());
/// file.extend([0u32.to_le_bytes().to_vec(), 0u64.to_le_bytes().to_vec()].concat());
/// file.resize(file.len().next_multiple_of(32), 0);
/// file.extend([1.5f32, -2.0].map(f32::to_le_bytes).concat());
///
/// let mut file = Cursor::new(file);
/// let head = Gguf::read(&mut file)?;
/// assert_eq!(head.metadata["general.name"].as_str(), Some("tiny"));
/// let w = &head.tensors["w"];
/// assert_eq!((&w.shape[..], w.format.name()), (&[2][..], "F32"));
/// assert_eq!(w.format.decode(&w.read(&mut file)?)?, [1.5, -2.0]);
/// # Ok::<(), warpweft::error::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct Gguf {
    /// The version of the format: 2 or 3.
    pub version: u32,
    /// The metadata of the model by name, such as `general.architecture`.
    pub metadata: BTreeMap<String, GgufValue>,
    /// The tensors by name.
    pub tensors: BTreeMap<String, GgufTensor>,
    /// The offset of the first tensor in bytes.
    pub data: u64,
}

/// A tensor of a GGUF file.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct GgufTensor {
    /// The shape, slowest axis first, as everywhere in this crate. The file has the axes in reverse order.
    pub shape: Vec<usize>,
    /// The format of the elements.
    pub format: BlockFormat,
    /// The range of the tensor's bytes in the file.
    pub bytes: Range<u64>,
}

impl Gguf {
    /// Reads the head of a file. Counts and lengths are checked against the length of the file before memory is allocated.
    ///
    /// # Errors
    /// `Format` if the file is damaged, with the byte and the name, or is something else (a web page, a git-lfs pointer).
    /// `Memory`.
    pub fn read(file: &mut (impl Read + Seek)) -> Result<Gguf> {
        at_once(Gguf::read_from(file))
    }

    /// Reads the head as [`Gguf::read`] does, from a file that may have to wait for its bytes. It reads the beginning of the
    /// file, and then more until the head is complete.
    ///
    /// # Errors
    /// The errors of [`Gguf::read`].
    pub async fn read_from(file: &mut impl Source) -> Result<Gguf> {
        let about = |at, error: Error| about(at, &error);
        let length = file.length().await.map_err(|error| about(0, error))?;
        let mut beginning: Vec<u8> = Vec::new();
        loop {
            let there = beginning.len() as u64;
            let end = length.min((2 * there).max(FIRST));
            let more = file.read_range(there..end).await.map_err(|error| about(there, error))?;
            beginning.try_reserve_exact(more.len()).map_err(|error| {
                Error::new(
                    ErrorKind::Memory,
                    format!("gguf: the head must fit into memory: {error}"),
                )
            })?;
            beginning.extend(more);
            let mut scan = Scan::new(&beginning, length);
            match Gguf::parse(&mut scan, &beginning) {
                Err(_) if scan.is_short() && end < length => continue,
                head => return head,
            }
        }
    }

    /// Parses the head from the beginning of a file.
    fn parse(scan: &mut Scan, beginning: &[u8]) -> Result<Gguf> {
        if !beginning.starts_with(b"GGUF") {
            let found = other_kind(beginning).unwrap_or("another format");
            return Err(wrong(0, &format!("the file must begin with `GGUF`, got {found}")));
        }
        scan.number::<4>("the mark")?;
        let version = scan.u32("the version")?;
        if !(2..=3).contains(&version) {
            let why = match version.swap_bytes() {
                1..=3 => "; the file is big-endian",
                _ => "",
            };
            return Err(wrong(4, &format!("the version must be 2 or 3, got {version}{why}")));
        }
        let (tensors_at, tensors) = (scan.at(), scan.u64("the number of tensors")?);
        let notes = scan.u64("the number of metadata values")?;
        // A value needs at least a name's length, a type and a byte. A tensor needs a name's length, axes, a type and an
        // offset.
        scan.need("the number of metadata values", notes, 13)?;
        let metadata = metadata(scan, notes)?;
        let alignment = match metadata.get("general.alignment") {
            None => ALIGNMENT,
            Some(value) => {
                match value.as_u64().filter(|value| value.is_power_of_two() && *value <= 1 << 20) {
                    Some(alignment) => alignment,
                    None => {
                        let message = "`general.alignment` must be a power of two up to 1048576";
                        let got =
                            value.as_f64().map_or("no number".into(), |value| value.to_string());
                        return Err(wrong(scan.at(), &format!("{message}, got {got}")));
                    }
                }
            }
        };
        let count = scan.need("the number of tensors", tensors, 24).map_err(|_| {
            let left = scan.length() - scan.at();
            let what = "the tensors of the table must fit into the rest of the file";
            wrong(tensors_at, &format!("{what}, {left} bytes, got {tensors} tensors"))
        })?;
        let mut rows = try_vec("gguf", count)?;
        for _ in 0..count {
            rows.push(row(scan)?);
        }
        let data = scan.at().next_multiple_of(alignment);
        let tensors = placed(rows, data, alignment, scan.length())?;
        Ok(Gguf { version, metadata, tensors, data })
    }
}

impl Gguf {
    fn tensor(&self, name: &str) -> Result<&GgufTensor> {
        self.tensors.get(name).ok_or_else(|| {
            Error::format(format!(
                "gguf: the file must have a tensor {name:?}, got none of that name"
            ))
        })
    }

    /// Loads a tensor as `f32` numbers.
    ///
    /// # Errors
    /// `Format` if the file does not have the tensor or is damaged, `Unsupported` for formats that cannot be decoded, `Memory`.
    pub fn load(
        &self,
        file: &mut (impl Read + Seek),
        device: &Device,
        name: &str,
    ) -> Result<Tensor> {
        at_once(self.load_from(file, device, name))
    }

    /// Loads a tensor as [`Gguf::load`] does, from a file that may have to wait for its bytes.
    ///
    /// # Errors
    /// The errors of [`Gguf::load`].
    pub async fn load_from(
        &self,
        file: &mut impl Source,
        device: &Device,
        name: &str,
    ) -> Result<Tensor> {
        let tensor = self.tensor(name)?;
        let numbers = tensor.format.decode(&tensor.read_from(file).await?);
        device.tensor(
            &numbers.map_err(|error| error.within(&format!("gguf: {name:?}")))?,
            &tensor.shape,
        )
    }

    /// Loads packed matrices, and stacks their rows. Several matrices of one format with the same columns, such as those of
    /// queries, keys and values, become one matrix, so their products become one product. Memory is needed for the packed
    /// numbers and for the bytes of one tensor at a time.
    ///
    /// # Errors
    /// The errors of [`Gguf::load`]. `Shape` if the tensors are not matrices of one format with the same columns.
    /// `Unsupported` for formats that are not packed.
    ///
    /// ```no_run
    /// # use warpweft::{device::Device, io::Gguf};
    /// # async fn run() -> warpweft::error::Result<()> {
    /// let device = Device::new().await?;
    /// let mut file = std::io::BufReader::new(std::fs::File::open("model.gguf").expect("a file"));
    /// let head = Gguf::read(&mut file)?;
    /// let names = ["blk.0.ffn_gate.weight", "blk.0.ffn_up.weight"];
    /// let gate_and_up = head.load_packed(&mut file, &device, &names)?;
    /// # Ok(()) }
    /// ```
    pub fn load_packed(
        &self,
        file: &mut (impl Read + Seek),
        device: &Device,
        names: &[&str],
    ) -> Result<PackedTensor> {
        at_once(self.load_packed_from(file, device, names))
    }

    /// Loads matrices as [`Gguf::load_packed`] does, from a file that may have to wait for its bytes.
    ///
    /// # Errors
    /// The errors of [`Gguf::load_packed`].
    pub async fn load_packed_from(
        &self,
        file: &mut impl Source,
        device: &Device,
        names: &[&str],
    ) -> Result<PackedTensor> {
        let all = self.stacked(names)?;
        let (block, columns) = (all[0].format, all[0].shape[1]);
        let Some(format) = block.packed() else {
            let must = "must be in a format that is packed";
            let message = format!("gguf: {:?} {must}, got {block}", names[0]);
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let rows = all.iter().fold(0usize, |rows, tensor| rows.saturating_add(tensor.shape[0]));
        let mut matrix = PackedBuilder::new(device, format, [rows, columns])?;
        let bytes = (columns / block.block_len() * block.block_bytes()) as u64;
        for tensor in all {
            let each = (PIECE / bytes).max(1) * bytes;
            let mut at = tensor.bytes.start;
            while at < tensor.bytes.end {
                let end = tensor.bytes.end.min(at.saturating_add(each));
                let blocks = file.read_range(at..end).await.map_err(|error| about(at, &error))?;
                matrix.add(&block.pack(columns, &blocks)?)?;
                at = end;
            }
        }
        matrix.finish()
    }

    /// Finds the matrices with these names, at least one. They must have one format and the same columns.
    fn stacked(&self, names: &[&str]) -> Result<Vec<&GgufTensor>> {
        let mut all: Vec<&GgufTensor> = Vec::with_capacity(names.len());
        for name in names {
            let tensor = self.tensor(name)?;
            if tensor.shape.len() != 2 {
                let shape = &tensor.shape;
                return Err(Error::shape(format!(
                    "gguf: {name:?} must be a matrix, got {shape:?}"
                )));
            }
            let first = all.first().unwrap_or(&tensor);
            let (format, columns) = (first.format, first.shape[1]);
            if (tensor.format, tensor.shape[1]) != (format, columns) {
                let (other, width) = (tensor.format, tensor.shape[1]);
                let must = "must have the same columns and one format";
                return Err(Error::shape(format!(
                    "gguf: {:?} and {name:?} {must}, got {columns} in {format} and {width} in {other}",
                    names[0]
                )));
            }
            all.push(tensor);
        }
        match all.is_empty() {
            true => Err(Error::argument("gguf: at least one tensor must be named, got none")),
            false => Ok(all),
        }
    }
}

impl GgufTensor {
    /// Returns the number of elements.
    pub fn numel(&self) -> usize {
        self.shape.iter().product()
    }

    /// Reads the bytes of the tensor, from the file whose head was read.
    ///
    /// # Errors
    /// `Format` if the file is shorter now or cannot be read, `Memory`.
    pub fn read(&self, file: &mut (impl Read + Seek)) -> Result<Vec<u8>> {
        at_once(self.read_from(file))
    }

    /// Reads the bytes as [`GgufTensor::read`] does, from a file that may have to wait for its bytes.
    ///
    /// # Errors
    /// The errors of [`GgufTensor::read`].
    pub async fn read_from(&self, file: &mut impl Source) -> Result<Vec<u8>> {
        let read = file.read_range(self.bytes.clone()).await;
        read.map_err(|error| about(self.bytes.start, &error))
    }
}

fn metadata(scan: &mut Scan, count: u64) -> Result<BTreeMap<String, GgufValue>> {
    let mut all = BTreeMap::new();
    for _ in 0..count {
        let at = scan.at();
        let name = scan.name("the name of a metadata value")?;
        let what = format!("{name:?}");
        let kind = scan.u32(&what)?;
        let value = GgufValue::read(scan, &what, kind)?;
        if all.insert(name, value).is_some() {
            return Err(wrong(
                at,
                &format!("the names of metadata values must differ, got {what} twice"),
            ));
        }
    }
    Ok(all)
}

/// A row of the table of tensors.
struct Row {
    at: u64,
    name: String,
    shape: Vec<usize>,
    format: BlockFormat,
    /// The offset of the first byte, relative to the first tensor.
    start: u64,
    length: u64,
}

fn row(scan: &mut Scan) -> Result<Row> {
    let at = scan.at();
    let name = scan.name("the name of a tensor")?;
    let what = format!("tensor {name:?}");
    let refuse = |why: String| Err(wrong(at, &format!("{what}: {why}")));
    let axes = scan.u32(&what)?;
    if axes > AXES {
        return refuse(format!("it must have at most {AXES} axes, got {axes}"));
    }
    let mut shape = Vec::new();
    for _ in 0..axes {
        let extent = scan.u64(&what)?;
        match usize::try_from(extent).ok().filter(|&extent| extent > 0) {
            Some(extent) => shape.insert(0, extent),
            None => {
                return refuse(format!(
                    "each extent must be at least 1 and fit into memory, got {extent}"
                ))
            }
        }
    }
    let number = scan.u32(&what)?;
    let Some(format) = BlockFormat::of(number) else {
        return refuse(format!("its format must be one that is known, got number {number}"));
    };
    let start = scan.u64(&what)?;
    let row_length = shape.last().copied().unwrap_or(1);
    if !row_length.is_multiple_of(format.block_len()) {
        let length = format.block_len();
        return refuse(format!(
            "a row must be whole blocks of {length}, as {format} has, got {row_length} elements"
        ));
    }
    let elements = shape.iter().try_fold(1usize, |all, &extent| all.checked_mul(extent));
    let blocks = elements.map(|all| (all / format.block_len()) as u64);
    match blocks.and_then(|blocks| blocks.checked_mul(format.block_bytes() as u64)) {
        Some(length) => Ok(Row { at, name, shape, format, start, length }),
        None => refuse(format!("its bytes must be countable, got shape {shape:?}")),
    }
}

/// Returns the tensors with their ranges of bytes in a file of `length` bytes.
fn placed(
    rows: Vec<Row>,
    data: u64,
    alignment: u64,
    length: u64,
) -> Result<BTreeMap<String, GgufTensor>> {
    let mut all: BTreeMap<String, GgufTensor> = BTreeMap::new();
    let mut places = Vec::with_capacity(rows.len());
    for Row { at, name, shape, format, start, length: own } in rows {
        let refuse = |why: String| Err(wrong(at, &format!("tensor {name:?}: {why}")));
        if !start.is_multiple_of(alignment) {
            return refuse(format!("its offset must be a multiple of {alignment}, got {start}"));
        }
        let end = data.checked_add(start).and_then(|first| Some((first, first.checked_add(own)?)));
        let Some((first, end)) = end.filter(|(_, end)| *end <= length) else {
            return refuse(format!(
                "its {own} bytes at offset {start} must end within the file, got a file of {length} bytes whose tensors begin \
                 at {data}; it may be incomplete"
            ));
        };
        if all.contains_key(&name) {
            return refuse("the names of tensors must differ, got this one twice".into());
        }
        places.push((first, end, at));
        all.insert(name, GgufTensor { shape, format, bytes: first..end });
    }
    places.sort_unstable();
    for pair in places.windows(2) {
        let ((_, end, _), (start, _, at)) = (pair[0], pair[1]);
        if start < end {
            let message =
                format!("tensors must not overlap, got one at {start} where another ends at {end}");
            return Err(wrong(at, &message));
        }
    }
    Ok(all)
}
