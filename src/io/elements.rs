//! Elements in files: their types, and their conversion to types of tensors.

use crate::alloc::try_vec;
use crate::device::Device;
use crate::dtype::{DType, Numbers};
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use half::bf16;

/// The name of a file's bytes in messages about memory.
pub(super) const FILE: &str = "file";

/// The type of an array's elements in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stored {
    /// A type that tensors have.
    Held(DType),
    /// `i64`, converted to `i32`.
    I64,
    /// `u64`, converted to `u32`.
    U64,
    /// `bf16` and `f64`, converted to `f32`.
    Bf16,
    F64,
}

impl Stored {
    /// Finds the type with this kind of numbers and elements of `size` bytes.
    pub fn new(numbers: Numbers, size: usize) -> Option<Stored> {
        let same = |dtype: &DType| dtype.numbers() == numbers && bytes_in_files(*dtype) == size;
        match (DType::ALL.into_iter().find(same), numbers, size) {
            (Some(dtype), ..) => Some(Stored::Held(dtype)),
            (None, Numbers::Signed, 8) => Some(Stored::I64),
            (None, Numbers::Unsigned, 8) => Some(Stored::U64),
            (None, Numbers::Float, 8) => Some(Stored::F64),
            _ => None,
        }
    }

    /// Returns the bytes of an element.
    pub fn size(self) -> usize {
        match self {
            Stored::Held(dtype) => bytes_in_files(dtype),
            Stored::Bf16 => 2,
            Stored::I64 | Stored::U64 | Stored::F64 => 8,
        }
    }

    /// Creates a tensor from stored elements, row-major. Their number must fit the shape. Errors name `what`.
    pub fn tensor(
        self,
        device: &Device,
        what: &str,
        shape: &[usize],
        mut bytes: Vec<u8>,
        big_endian: bool,
    ) -> Result<Tensor> {
        let size = self.size();
        if big_endian && size > 1 {
            bytes.chunks_exact_mut(size).for_each(<[u8]>::reverse);
        }
        let elements = Elements { what, bytes: &bytes, size };
        let made = match self {
            Stored::Held(DType::Bool) => {
                let truths = elements.each(|bits| match bits {
                    0 | 1 => Ok(bits == 1),
                    _ => Err(format!("must be 0 or 1, got {bits}")),
                });
                device.tensor(&truths?, shape)
            }
            Stored::Held(dtype) => device.tensor_from_bytes(&bytes, shape, dtype),
            Stored::I64 => {
                let narrow = elements.each(|bits| {
                    let wide = bits as i64;
                    i32::try_from(wide).map_err(|_| format!("must fit i32, got {wide}"))
                });
                device.tensor(&narrow?, shape)
            }
            Stored::U64 => {
                let narrow = elements.each(|bits| {
                    u32::try_from(bits).map_err(|_| format!("must fit u32, got {bits}"))
                });
                device.tensor(&narrow?, shape)
            }
            Stored::Bf16 => {
                let floats = elements.each(|bits| Ok(bf16::from_bits(bits as u16).to_f32()));
                device.tensor(&floats?, shape)
            }
            Stored::F64 => {
                let floats = elements.each(|bits| Ok(f64::from_bits(bits) as f32));
                device.tensor(&floats?, shape)
            }
        };
        made.map_err(|error| about(what, &error))
    }
}

/// Returns the bytes of an element in files. They equal those in memory, except that a `bool` has one byte.
fn bytes_in_files(dtype: DType) -> usize {
    if dtype == DType::Bool {
        1
    } else {
        dtype.size()
    }
}

/// Little-endian elements of up to eight bytes.
struct Elements<'a> {
    what: &'a str,
    bytes: &'a [u8],
    size: usize,
}

impl Elements<'_> {
    /// Converts the bits of each element.
    fn each<T>(&self, convert: impl Fn(u64) -> std::result::Result<T, String>) -> Result<Vec<T>> {
        let mut all = try_vec(self.what, self.bytes.len() / self.size)?;
        for (at, element) in self.bytes.chunks_exact(self.size).enumerate() {
            let mut own = [0; 8];
            own[..self.size].copy_from_slice(element);
            let refuse = |why| Error::format(format!("{}: element {at} {why}", self.what));
            all.push(convert(u64::from_le_bytes(own)).map_err(refuse)?);
        }
        Ok(all)
    }
}

/// Returns the error with the name of a tensor in front.
pub(super) fn about(what: &str, error: &Error) -> Error {
    Error::new(error.kind(), format!("{what}: {}", error.message()))
}

/// Returns the bytes of an array, or `None` if they overflow.
pub(super) fn bytes_of(shape: &[usize], stored: Stored) -> Option<u64> {
    let mut bytes = stored.size() as u64;
    for &extent in shape {
        bytes = bytes.checked_mul(extent as u64)?;
    }
    Some(bytes)
}

/// Reads the elements of a tensor in the form of files, little-endian.
pub(super) async fn encoded(tensor: &Tensor) -> Result<Vec<u8>> {
    let bytes = tensor.read_bytes().await?;
    Ok(match tensor.dtype() {
        DType::Bool => {
            let mut truths = try_vec(FILE, bytes.len() / 4)?;
            truths.extend(bytes.chunks_exact(4).map(|word| word[0]));
            truths
        }
        _ => bytes,
    })
}
