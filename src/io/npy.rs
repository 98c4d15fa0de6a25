//! NumPy's `.npy` format, which has one array (`numpy.lib.format` defines it).

use super::elements::{about, bytes_of, encoded, Stored, FILE};
use super::literal;
use super::other::other_kind;
use crate::alloc::{try_copy, try_vec};
use crate::device::Device;
use crate::dtype::{DType, Numbers};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

const LOAD: &str = "load_npy";
const SAVE: &str = "save_npy";
const MAGIC: &[u8] = b"\x93NUMPY";
/// The alignment of the elements in bytes.
const ALIGNED: usize = 64;

/// Loads an array that NumPy saved, in versions 1 to 3 of the format, in either byte order, row-major or column-major. Bytes
/// after the array are ignored, as in NumPy.
///
/// Types that tensors have stay unchanged. Other integers become `i32` or `u32`, and `float64` is rounded to `f32`.
///
/// # Errors
/// `Format` if the file is damaged, has elements of another type, or has an integer that does not fit into 32 bits. `Limit` or
/// `Shape` if the array has more than 2^31-1 elements or more than eight axes. `Memory`.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, io};
/// let device = Device::with(Preference::Cpu).await?;
/// let file = io::save_npy(&device.tensor(&[1.0f32, 2.0], &[2])?).await?;
/// assert_eq!(&file[1..6], b"NUMPY");
/// assert_eq!(io::load_npy(&device, &file)?.read::<f32>().await?, [1.0, 2.0]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub fn load_npy(device: &Device, bytes: &[u8]) -> Result<Tensor> {
    array(device, LOAD, bytes)
}

/// Loads the array in an `.npy` file. Errors name `what`.
pub(super) fn array(device: &Device, what: &str, bytes: &[u8]) -> Result<Tensor> {
    let short = |end: usize| {
        let length = bytes.len();
        Error::format(format!(
            "{what}: the header must end at offset {end}, got a file of {length} bytes"
        ))
    };
    if !bytes.starts_with(&MAGIC[..MAGIC.len().min(bytes.len())]) {
        let kind = other_kind(bytes).unwrap_or("another beginning");
        return Err(Error::format(format!("{what}: the file must be an .npy file, got {kind}")));
    }
    let &[major, minor] = bytes.get(6..8).ok_or_else(|| short(8))? else { return Err(short(8)) };
    let wide = match (major, minor) {
        (1, 0) => 2,
        (2 | 3, 0) => 4,
        _ => {
            let message = format!(
                "{what}: the version must be 1.0, 2.0 or 3.0, got {major}.{minor} at offset 6"
            );
            return Err(Error::format(message));
        }
    };
    let begin = 8 + wide;
    let length = bytes.get(8..begin).ok_or_else(|| short(begin))?;
    let length = length.iter().rev().fold(0usize, |all, &byte| all << 8 | usize::from(byte));
    let end = begin.saturating_add(length);
    let text = bytes.get(begin..end).ok_or_else(|| short(end))?;
    let text = std::str::from_utf8(text).map_err(|error| {
        let at = begin + error.valid_up_to();
        Error::format(format!("{what}: the header must be UTF-8, got other bytes at offset {at}"))
    })?;
    let header = literal::header(text).map_err(|(at, why)| {
        Error::format(format!("{what}: the header at offset {} {why}", begin + at))
    })?;
    let Some((stored, big_endian)) = stored(&header.descr) else {
        let message = format!("{what}: the dtype must be one of tensors, got {:?}", header.descr);
        return Err(Error::format(message));
    };
    let mut shape = Vec::with_capacity(header.shape.len());
    for &extent in &header.shape {
        shape.push(usize::try_from(extent).unwrap_or(usize::MAX));
    }
    let held = (bytes.len() - end) as u64;
    let Some(own) = bytes_of(&shape, stored).filter(|&own| own <= held) else {
        let (shown, descr) = (&header.shape, &header.descr);
        let want = bytes_of(&shape, stored).map_or("too many".into(), |bytes| bytes.to_string());
        let message = format!(
            "{what}: {descr:?} of shape {shown:?} must have {want} bytes, got {held} from offset {end} on"
        );
        return Err(Error::format(message));
    };
    let elements = try_copy(what, &bytes[end..][..own as usize])?;
    if !header.fortran || shape.len() < 2 {
        return stored.tensor(device, what, &shape, elements, big_endian);
    }
    // A column-major array is a row-major array with reversed axes.
    shape.reverse();
    let turned = stored.tensor(device, what, &shape, elements, big_endian)?;
    let order: Vec<isize> = (0..shape.len() as isize).rev().collect();
    turned.permute(&order)
}

/// Parses a type, such as `<f4`. Returns also whether the bytes are big-endian.
fn stored(descr: &str) -> Option<(Stored, bool)> {
    let (order, kind) = descr.split_at_checked(1)?;
    let (letter, size) = if kind == "?" { ("b", "1") } else { kind.split_at_checked(1)? };
    let numbers = match letter {
        "b" => Numbers::Bool,
        "i" => Numbers::Signed,
        "u" => Numbers::Unsigned,
        "f" => Numbers::Float,
        _ => return None,
    };
    let size = match size {
        "1" => 1,
        "2" => 2,
        "4" => 4,
        "8" => 8,
        _ => return None,
    };
    let stored = Stored::new(numbers, size)?;
    match order {
        "<" => Some((stored, false)),
        ">" => Some((stored, true)),
        "=" => Some((stored, cfg!(target_endian = "big"))),
        // Single bytes have no order.
        "|" if stored.size() == 1 => Some((stored, false)),
        _ => None,
    }
}

/// Saves a tensor as an `.npy` file, little-endian and row-major.
///
/// # Errors
/// The errors of [`Tensor::read`]. `Memory`.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, io};
/// let device = Device::with(Preference::Cpu).await?;
/// let file = io::save_npy(&device.zeros(&[2, 3])?).await?;
/// assert_eq!(file.len(), 128 + 2 * 3 * 4);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub async fn save_npy(tensor: &Tensor) -> Result<Vec<u8>> {
    written(tensor).await.map_err(|error| about(SAVE, &error))
}

/// Returns the text for a type, such as `<f4`.
fn descr(dtype: DType) -> String {
    let letter = match dtype.numbers() {
        Numbers::Bool => 'b',
        Numbers::Signed => 'i',
        Numbers::Unsigned => 'u',
        Numbers::Float => 'f',
    };
    let size = Stored::Held(dtype).size();
    let order = if size == 1 { '|' } else { '<' };
    format!("{order}{letter}{size}")
}

pub(super) async fn written(tensor: &Tensor) -> Result<Vec<u8>> {
    let elements = encoded(tensor).await?;
    let descr = descr(tensor.dtype());
    let extents: Vec<String> = tensor.shape().iter().map(usize::to_string).collect();
    let shape = if let [one] = &extents[..] { format!("{one},") } else { extents.join(", ") };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({shape}), }}");
    let before = MAGIC.len() + 4;
    while !(before + text.len() + 1).is_multiple_of(ALIGNED) {
        text.push(' ');
    }
    text.push('\n');
    let mut file = try_vec(FILE, before + text.len() + elements.len())?;
    for part in [MAGIC, &[1, 0], &(text.len() as u16).to_le_bytes(), text.as_bytes(), &elements] {
        file.extend_from_slice(part);
    }
    Ok(file)
}
