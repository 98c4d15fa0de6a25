//! Elements as files store them: their types, and how they become those of tensors.

use crate::data::Values;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::room::room;
use crate::tensor::Tensor;
use half::{bf16, f16};

/// How a file stores the elements of an array.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    Bool,
    I8,
    I16,
    I32,
    I64,
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
}

impl Stored {
    /// Bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Stored::Bool | Stored::I8 | Stored::U8 => 1,
            Stored::I16 | Stored::U16 | Stored::F16 | Stored::Bf16 => 2,
            Stored::I32 | Stored::U32 | Stored::F32 => 4,
            Stored::I64 | Stored::U64 | Stored::F64 => 8,
        }
    }

    /// How these values are stored.
    pub fn of(values: &Values) -> Stored {
        match values {
            Values::Bool(_) => Stored::Bool,
            Values::I8(_) => Stored::I8,
            Values::U8(_) => Stored::U8,
            Values::I32(_) => Stored::I32,
            Values::U32(_) => Stored::U32,
            Values::F16(_) => Stored::F16,
            Values::F32(_) => Stored::F32,
        }
    }

    /// A tensor of stored elements, row-major, which are as many as the shape has. `what` says in errors whose they are.
    pub fn tensor(
        self,
        device: &Device,
        what: &str,
        shape: &[usize],
        mut bytes: Vec<u8>,
        big_endian: bool,
    ) -> Result<Tensor> {
        if big_endian && self.size() > 1 {
            bytes.chunks_exact_mut(self.size()).for_each(<[u8]>::reverse);
        }
        let bytes = &bytes[..];
        let made = match self {
            Stored::Bool => {
                if let Some(at) = bytes.iter().position(|&byte| byte > 1) {
                    let message =
                        format!("{what}: element {at} is {}, which is no bool", bytes[at]);
                    return Err(Error::data(message));
                }
                device.tensor(&each(what, bytes, |[byte]| Ok(byte != 0))?, shape)
            }
            Stored::I8 => device.tensor(&each(what, bytes, |b| Ok(i8::from_le_bytes(b)))?, shape),
            Stored::U8 => device.tensor(bytes, shape),
            Stored::I32 => device.tensor(&each(what, bytes, |b| Ok(i32::from_le_bytes(b)))?, shape),
            Stored::U32 => device.tensor(&each(what, bytes, |b| Ok(u32::from_le_bytes(b)))?, shape),
            Stored::F16 => device.tensor(&each(what, bytes, |b| Ok(f16::from_le_bytes(b)))?, shape),
            Stored::F32 => device.tensor(&each(what, bytes, |b| Ok(f32::from_le_bytes(b)))?, shape),
            Stored::I16 => {
                device.tensor(&each(what, bytes, |b| Ok(i32::from(i16::from_le_bytes(b))))?, shape)
            }
            Stored::U16 => {
                device.tensor(&each(what, bytes, |b| Ok(u32::from(u16::from_le_bytes(b))))?, shape)
            }
            Stored::I64 => {
                let narrow = |b| {
                    let wide = i64::from_le_bytes(b);
                    i32::try_from(wide).map_err(|_| format!("{wide} does not fit i32"))
                };
                device.tensor(&each(what, bytes, narrow)?, shape)
            }
            Stored::U64 => {
                let narrow = |b| {
                    let wide = u64::from_le_bytes(b);
                    u32::try_from(wide).map_err(|_| format!("{wide} does not fit u32"))
                };
                device.tensor(&each(what, bytes, narrow)?, shape)
            }
            Stored::Bf16 => {
                device.tensor(&each(what, bytes, |b| Ok(bf16::from_le_bytes(b).to_f32()))?, shape)
            }
            Stored::F64 => {
                device.tensor(&each(what, bytes, |b| Ok(f64::from_le_bytes(b) as f32))?, shape)
            }
        };
        made.map_err(|error| about(what, &error))
    }
}

/// Each element, of `N` bytes, as another.
fn each<const N: usize, T>(
    what: &str,
    bytes: &[u8],
    convert: impl Fn([u8; N]) -> std::result::Result<T, String>,
) -> Result<Vec<T>> {
    let mut all = room(what, bytes.len() / N)?;
    for (at, element) in bytes.chunks_exact(N).enumerate() {
        let mut own = [0; N];
        own.copy_from_slice(element);
        let refuse = |why| Error::data(format!("{what}: element {at}: {why}"));
        all.push(convert(own).map_err(refuse)?);
    }
    Ok(all)
}

/// The same error, told of a tensor.
pub(super) fn about(what: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("{what}: {}", error.message()))
}

/// The number of bytes of an array, if that can be.
pub(super) fn bytes_of(shape: &[usize], stored: Stored) -> Option<u64> {
    let mut bytes = stored.size() as u64;
    for &extent in shape {
        bytes = bytes.checked_mul(extent as u64)?;
    }
    Some(bytes)
}

/// The little-endian bytes of values, as files store them.
pub(super) fn encoded(values: &Values) -> Vec<u8> {
    fn all<T: Copy, const N: usize>(values: &[T], bytes: impl Fn(T) -> [u8; N]) -> Vec<u8> {
        values.iter().flat_map(|&value| bytes(value)).collect()
    }
    match values {
        Values::F32(values) => all(values, f32::to_le_bytes),
        Values::F16(values) => all(values, f16::to_le_bytes),
        Values::I32(values) => all(values, i32::to_le_bytes),
        Values::U32(values) => all(values, u32::to_le_bytes),
        Values::Bool(values) => all(values, |value| [u8::from(value)]),
        Values::I8(values) => all(values, i8::to_le_bytes),
        Values::U8(values) => values.clone(),
    }
}
