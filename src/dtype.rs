//! Element types, and the Rust types that go in and out of tensors.

use half::{bf16, f16};
use std::borrow::Cow;
use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DType {
    /// 32-bit float; what everything is computed in.
    F32,
    /// 16-bit float: a storage type. Kernels read it into `f32` and round once when they write.
    F16,
    /// 32-bit signed integer; wraps on overflow.
    I32,
    /// 32-bit unsigned integer; wraps on overflow.
    U32,
    /// True or false; four bytes in memory, 0 or 1.
    Bool,
}

impl DType {
    /// Bytes of one element in memory.
    pub fn size(self) -> usize {
        match self {
            DType::F16 => 2,
            DType::F32 | DType::I32 | DType::U32 | DType::Bool => 4,
        }
    }

    /// The type values of this type have inside a kernel: `F16` computes as `F32`.
    pub fn compute(self) -> DType {
        match self {
            DType::F16 => DType::F32,
            other => other,
        }
    }

    /// `F32` or `F16`.
    pub fn is_float(self) -> bool {
        matches!(self, DType::F32 | DType::F16)
    }

    /// `I32` or `U32`.
    pub fn is_int(self) -> bool {
        matches!(self, DType::I32 | DType::U32)
    }

    /// The field's word for it: `f32`, `f16`, `i32`, `u32`, `bool`.
    pub fn name(self) -> &'static str {
        match self {
            DType::F32 => "f32",
            DType::F16 => "f16",
            DType::I32 => "i32",
            DType::U32 => "u32",
            DType::Bool => "bool",
        }
    }

    /// The bit pattern `value` has as a kernel value of this type: floats round, integers saturate, NaN is 0 there.
    pub fn bits(self, value: f64) -> u32 {
        match self {
            DType::F32 | DType::F16 => (value as f32).to_bits(),
            DType::I32 => value as i32 as u32,
            DType::U32 => value as u32,
            DType::Bool => u32::from(value != 0.0),
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that a tensor can be made from and read into: `f32`, `i32`, `u32`, `bool`, and [`half`]'s `f16` and `bf16`.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::device::{Device, Preference};
/// use half::{bf16, f16};
/// let device = Device::with(Preference::Cpu).await?;
/// let x = device.tensor(&[f16::from_f32(1.5), f16::MAX], &[2])?; // A tensor of type `f16`.
/// assert_eq!(x.read::<f16>().await?, [f16::from_f32(1.5), f16::MAX]);
/// assert_eq!(x.read::<f32>().await?, [1.5, 65504.0]);
/// let y = device.tensor(&[bf16::from_f32(3.0)], &[1])?.sqrt(); // One of type `f32`.
/// assert_eq!(y.read::<bf16>().await?, [bf16::from_f32(1.7320508)]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
pub trait Element: Copy + Send + Sync + 'static {
    /// The tensor type that holds it without loss.
    const DTYPE: DType;
    /// The bytes a device stores for `data`; where those are its own, they are not copied. `None` where there is no memory
    /// for them.
    fn to_bytes(data: &[Self]) -> Option<Cow<'_, [u8]>>;
    /// Appends what bytes of type `dtype` stand for; `false` where `dtype` does not read as `Self`.
    fn from_bytes(dtype: DType, bytes: &[u8], into: &mut Vec<Self>) -> bool;
}

/// Appends elements as they lie in bytes, wherever these begin.
fn append<T: bytemuck::Pod>(bytes: &[u8], into: &mut Vec<T>) {
    match bytemuck::try_cast_slice(bytes) {
        Ok(elements) => into.extend_from_slice(elements),
        Err(_) => {
            let each = bytes.chunks_exact(size_of::<T>());
            into.extend(each.map(bytemuck::pod_read_unaligned::<T>));
        }
    }
}

impl Element for f32 {
    const DTYPE: DType = DType::F32;
    fn to_bytes(data: &[f32]) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(bytemuck::cast_slice(data)))
    }
    fn from_bytes(dtype: DType, bytes: &[u8], into: &mut Vec<f32>) -> bool {
        match dtype {
            DType::F32 => append(bytes, into),
            DType::F16 => {
                let halves =
                    bytes.chunks_exact(2).map(|half| f16::from_le_bytes([half[0], half[1]]));
                into.extend(halves.map(f16::to_f32));
            }
            DType::I32 | DType::U32 | DType::Bool => return false,
        }
        true
    }
}

/// A tensor of type `f16`: what goes in comes out, bit by bit.
impl Element for f16 {
    const DTYPE: DType = DType::F16;
    fn to_bytes(data: &[f16]) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(bytemuck::cast_slice(data)))
    }
    fn from_bytes(dtype: DType, bytes: &[u8], into: &mut Vec<f16>) -> bool {
        if dtype == DType::F16 {
            append(bytes, into);
        }
        dtype == DType::F16
    }
}

/// A tensor of type `f32`, which holds each of them. What is read is rounded to the nearest, ties to even.
impl Element for bf16 {
    const DTYPE: DType = DType::F32;
    fn to_bytes(data: &[bf16]) -> Option<Cow<'_, [u8]>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(data.len().checked_mul(4)?).ok()?;
        bytes.extend(data.iter().flat_map(|x| x.to_f32().to_le_bytes()));
        Some(Cow::Owned(bytes))
    }
    fn from_bytes(dtype: DType, bytes: &[u8], into: &mut Vec<bf16>) -> bool {
        if dtype == DType::F32 {
            let words = bytes.chunks_exact(4).map(|word| [word[0], word[1], word[2], word[3]]);
            into.extend(words.map(|word| bf16::from_f32(f32::from_le_bytes(word))));
        }
        dtype == DType::F32
    }
}

impl Element for i32 {
    const DTYPE: DType = DType::I32;
    fn to_bytes(data: &[i32]) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(bytemuck::cast_slice(data)))
    }
    fn from_bytes(dtype: DType, bytes: &[u8], into: &mut Vec<i32>) -> bool {
        if dtype == DType::I32 {
            append(bytes, into);
        }
        dtype == DType::I32
    }
}

impl Element for u32 {
    const DTYPE: DType = DType::U32;
    fn to_bytes(data: &[u32]) -> Option<Cow<'_, [u8]>> {
        Some(Cow::Borrowed(bytemuck::cast_slice(data)))
    }
    fn from_bytes(dtype: DType, bytes: &[u8], into: &mut Vec<u32>) -> bool {
        if dtype == DType::U32 {
            append(bytes, into);
        }
        dtype == DType::U32
    }
}

impl Element for bool {
    const DTYPE: DType = DType::Bool;
    fn to_bytes(data: &[bool]) -> Option<Cow<'_, [u8]>> {
        let mut bytes = Vec::new();
        bytes.try_reserve_exact(data.len().checked_mul(4)?).ok()?;
        bytes.extend(data.iter().flat_map(|&b| u32::from(b).to_le_bytes()));
        Some(Cow::Owned(bytes))
    }
    fn from_bytes(dtype: DType, bytes: &[u8], into: &mut Vec<bool>) -> bool {
        if dtype == DType::Bool {
            into.extend(bytes.chunks_exact(4).map(|word| word != [0; 4]));
        }
        dtype == DType::Bool
    }
}

/// `value` as it comes back from a tensor of type `f16`: rounded to the nearest half, ties to even.
pub(crate) fn rounded_to_f16(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
}
