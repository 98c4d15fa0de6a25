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
    /// 8-bit signed integer: a storage type, for quantised weights. It takes one byte, is moved, compared for equality, chosen
    /// from and cast; other operations ask for a cast first.
    I8,
    /// 8-bit unsigned integer: a storage type like [`DType::I8`], for pictures.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, dtype::DType};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let picture = device.tensor(&[0u8, 51, 255], &[3])?;
    /// let bright = picture.cast(DType::F32)?.mul(2)?.cast(DType::U8)?;
    /// assert_eq!(bright.read::<u8>().await?, [0, 102, 255]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    U8,
    /// 16-bit signed integer: a storage type like [`DType::I8`], for samples of sound.
    I16,
    /// 16-bit unsigned integer: a storage type like [`DType::I8`], for depths and scans.
    U16,
}

/// The dtypes of floats, for messages.
pub(crate) const FLOATS: &str = "f32 or f16";
/// The dtypes of indices, for messages.
pub(crate) const INDICES: &str = "i32 or u32";
/// The dtypes that are computed with, for messages.
pub(crate) const NUMBERS: &str = "f32, f16, i32 or u32";

/// What numbers a type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Numbers {
    Float,
    Signed,
    Unsigned,
    Bool,
}

/// What is true of a type. Everything else asks this; only files that lay elements out in memory name the types themselves.
struct Facts {
    name: &'static str,
    /// Bytes of one element in memory.
    size: usize,
    numbers: Numbers,
    /// The type that values have inside a kernel.
    compute: DType,
    /// Whether operations compute with it as it is; others move it and cast it.
    arithmetic: bool,
}

impl DType {
    /// All types.
    pub const ALL: [DType; 9] = [
        DType::F32,
        DType::F16,
        DType::I32,
        DType::U32,
        DType::Bool,
        DType::I8,
        DType::U8,
        DType::I16,
        DType::U16,
    ];

    const fn facts(self) -> Facts {
        use DType::{Bool, F16, F32, I16, I32, I8, U16, U32, U8};
        let (name, size, numbers, compute, arithmetic) = match self {
            F32 => ("f32", 4, Numbers::Float, F32, true),
            F16 => ("f16", 2, Numbers::Float, F32, true),
            I32 => ("i32", 4, Numbers::Signed, I32, true),
            U32 => ("u32", 4, Numbers::Unsigned, U32, true),
            Bool => ("bool", 4, Numbers::Bool, Bool, true),
            I8 => ("i8", 1, Numbers::Signed, I32, false),
            U8 => ("u8", 1, Numbers::Unsigned, U32, false),
            I16 => ("i16", 2, Numbers::Signed, I32, false),
            U16 => ("u16", 2, Numbers::Unsigned, U32, false),
        };
        Facts { name, size, numbers, compute, arithmetic }
    }

    /// Its name: `f32`.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Bytes of one element in memory.
    pub const fn size(self) -> usize {
        self.facts().size
    }

    /// What numbers it has.
    pub const fn numbers(self) -> Numbers {
        self.facts().numbers
    }

    /// The type values of this type have inside a kernel: `F16` computes as `F32`, narrow integers as those of 32 bits.
    pub const fn compute(self) -> DType {
        self.facts().compute
    }

    /// Whether it is of floats: `F32` or `F16`.
    pub fn is_float(self) -> bool {
        self.numbers() == Numbers::Float
    }

    /// Whether it is of integers that are computed with: `I32` or `U32`.
    pub fn is_int(self) -> bool {
        self.facts().arithmetic && matches!(self.numbers(), Numbers::Signed | Numbers::Unsigned)
    }

    /// Whether it is of numbers that are computed with: of floats, or of integers of 32 bits.
    pub fn is_number(self) -> bool {
        self.is_float() || self.is_int()
    }

    /// Whether several elements share a word of 32 bits in memory that kernels can only read and write as a whole: WGSL has no
    /// integers of fewer bits.
    pub fn is_packed(self) -> bool {
        self.size() < 4 && self.numbers() != Numbers::Float
    }

    /// The least and the greatest integer; `None` for floats.
    pub fn range(self) -> Option<(f64, f64)> {
        let bits = 8 * self.size() as i32;
        match self.numbers() {
            Numbers::Float => None,
            Numbers::Signed => Some((-(2f64.powi(bits - 1)), 2f64.powi(bits - 1) - 1.0)),
            Numbers::Unsigned => Some((0.0, 2f64.powi(bits) - 1.0)),
            Numbers::Bool => Some((0.0, 1.0)),
        }
    }

    /// The bit pattern `value` has as a kernel value of this type: floats round to `f32`, integers saturate, NaN is 0 there.
    pub fn bits(self, value: f64) -> u32 {
        let (low, high) = self.range().unwrap_or_default();
        match self.numbers() {
            Numbers::Float => (value as f32).to_bits(),
            Numbers::Signed => value.clamp(low, high) as i32 as u32,
            Numbers::Unsigned => value.clamp(low, high) as u32,
            Numbers::Bool => u32::from(value != 0.0),
        }
    }

    /// The number that a kernel value's bit pattern stands for.
    pub fn number(self, bits: u32) -> f64 {
        match self.numbers() {
            Numbers::Float => f64::from(f32::from_bits(bits)),
            Numbers::Signed => f64::from(bits as i32),
            Numbers::Unsigned | Numbers::Bool => f64::from(bits),
        }
    }

    /// The kernel value of an element in memory, of as many of the low bits as it has there.
    pub fn load(self, stored: u32) -> u32 {
        let unused = 32 - 8 * self.size() as u32;
        match self.numbers() {
            Numbers::Float if self.size() == 2 => f16::from_bits(stored as u16).to_f32().to_bits(),
            Numbers::Signed => ((stored << unused) as i32 >> unused) as u32,
            _ => stored << unused >> unused,
        }
    }

    /// What an element is in memory, in as many of the low bits as it has there: floats round, integers wrap.
    pub fn store(self, value: u32) -> u32 {
        let unused = 32 - 8 * self.size() as u32;
        match self.numbers() {
            Numbers::Float if self.size() == 2 => {
                u32::from(f16::from_f32(f32::from_bits(value)).to_bits())
            }
            _ => value << unused >> unused,
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A Rust type that a tensor can be made from and read into: `f32`, `i32`, `u32`, `i8`, `u8`, `i16`, `u16`, `bool`, and
/// [`half`]'s `f16` and `bf16`.
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
            _ => return false,
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

/// Types whose elements lie in memory as Rust has them.
macro_rules! stored_as_they_are {
    ($($element:ty: $dtype:ident),*) => { $(
        impl Element for $element {
            const DTYPE: DType = DType::$dtype;
            fn to_bytes(data: &[$element]) -> Option<Cow<'_, [u8]>> {
                Some(Cow::Borrowed(bytemuck::cast_slice(data)))
            }
            fn from_bytes(dtype: DType, bytes: &[u8], into: &mut Vec<$element>) -> bool {
                if dtype == DType::$dtype {
                    append(bytes, into);
                }
                dtype == DType::$dtype
            }
        }
    )* };
}

stored_as_they_are! { i32: I32, u32: U32, i8: I8, u8: U8, i16: I16, u16: U16 }

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
