//! Element types, and the Rust types that tensors are made from and read into.

use half::{bf16, f16};
use std::borrow::Cow;
use std::fmt;

/// The type of a tensor's elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum DType {
    /// 32-bit float, the type of most computations.
    F32,
    /// 16-bit float, a storage type. Kernels convert it to `f32` when they read, and round once when they write.
    F16,
    /// 32-bit signed integer, which wraps on overflow.
    I32,
    /// 32-bit unsigned integer, which wraps on overflow.
    U32,
    /// Boolean, which is 0 or 1 in four bytes of memory.
    Bool,
    /// 8-bit signed integer, a storage type for quantized weights. It takes one byte. It can be moved, compared for equality,
    /// selected, cast, and reduced by `sum`, `prod`, `max` and `min`. Most other operations need a cast first.
    I8,
    /// 8-bit unsigned integer, a storage type like [`DType::I8`], for images.
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
    /// 16-bit signed integer, a storage type like [`DType::I8`], for audio samples.
    I16,
    /// 16-bit unsigned integer, a storage type like [`DType::I8`], for depth maps and scans.
    U16,
}

/// The dtypes of floats, for messages.
pub(crate) const FLOATS: &str = "f32 or f16";
/// The dtypes of indices, for messages.
pub(crate) const INDICES: &str = "i32 or u32";
/// The dtypes that operations compute with, for messages.
pub(crate) const NUMBERS: &str = "f32, f16, i32 or u32";

/// The kind of numbers that a type has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Numbers {
    Float,
    Signed,
    Unsigned,
    Bool,
}

/// The properties of a type. All other code uses them. Only code for layouts in files or memory names the types directly.
struct Facts {
    name: &'static str,
    /// The bytes of an element in memory.
    size: usize,
    numbers: Numbers,
    /// The type of the values inside a kernel.
    compute: DType,
    /// Whether operations compute with the type. Otherwise they only move and cast it.
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

    /// Returns the name, such as `f32`.
    pub const fn name(self) -> &'static str {
        self.facts().name
    }

    /// Returns the bytes of an element in memory.
    pub const fn size(self) -> usize {
        self.facts().size
    }

    /// Returns the kind of numbers.
    pub const fn numbers(self) -> Numbers {
        self.facts().numbers
    }

    /// Returns the type of the values inside a kernel. `F16` computes as `F32`, and narrow integers compute as 32-bit
    /// integers.
    pub const fn compute(self) -> DType {
        self.facts().compute
    }

    /// Whether the type is a float: `F32` or `F16`.
    pub fn is_float(self) -> bool {
        self.numbers() == Numbers::Float
    }

    /// Whether the type is an integer that operations compute with: `I32` or `U32`.
    pub fn is_int(self) -> bool {
        self.facts().arithmetic && matches!(self.numbers(), Numbers::Signed | Numbers::Unsigned)
    }

    /// Whether the type is a number that operations compute with: a float or a 32-bit integer.
    pub fn is_number(self) -> bool {
        self.is_float() || self.is_int()
    }

    /// Whether several elements share a 32-bit word in memory. Kernels read and write only whole words, because WGSL has no
    /// narrow integers.
    pub fn is_packed(self) -> bool {
        self.size() < 4 && self.numbers() != Numbers::Float
    }

    /// Returns the least and the greatest integer, or `None` for floats.
    pub fn range(self) -> Option<(f64, f64)> {
        let bits = 8 * self.size() as i32;
        match self.numbers() {
            Numbers::Float => None,
            Numbers::Signed => Some((-(2f64.powi(bits - 1)), 2f64.powi(bits - 1) - 1.0)),
            Numbers::Unsigned => Some((0.0, 2f64.powi(bits) - 1.0)),
            Numbers::Bool => Some((0.0, 1.0)),
        }
    }

    /// Returns the bit pattern of `value` inside a kernel. Floats round to the type and integers saturate. NaN becomes the
    /// integer 0.
    pub fn bits(self, value: f64) -> u32 {
        let (low, high) = self.range().unwrap_or_default();
        match self.numbers() {
            Numbers::Float if self.size() == 2 => rounded_to_f16(value as f32).to_bits(),
            Numbers::Float => (value as f32).to_bits(),
            Numbers::Signed => value.clamp(low, high) as i32 as u32,
            Numbers::Unsigned => value.clamp(low, high) as u32,
            Numbers::Bool => u32::from(value != 0.0),
        }
    }

    /// Returns the number of a bit pattern inside a kernel.
    pub fn number(self, bits: u32) -> f64 {
        match self.numbers() {
            Numbers::Float => f64::from(f32::from_bits(bits)),
            Numbers::Signed => f64::from(bits as i32),
            Numbers::Unsigned | Numbers::Bool => f64::from(bits),
        }
    }

    /// Converts an element in memory to a kernel value. The element is in the low bits of `stored`.
    pub fn load(self, stored: u32) -> u32 {
        let unused = 32 - 8 * self.size() as u32;
        match self.numbers() {
            Numbers::Float if self.size() == 2 => f16::from_bits(stored as u16).to_f32().to_bits(),
            Numbers::Signed => ((stored << unused) as i32 >> unused) as u32,
            _ => stored << unused >> unused,
        }
    }

    /// Converts a kernel value to an element in memory, in the low bits. Floats round and integers wrap.
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

/// A Rust type that tensors can be made from and read into: `f32`, `i32`, `u32`, `i8`, `u8`, `i16`, `u16`, `bool`, and
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
    /// The tensor type that represents every value exactly.
    const DTYPE: DType;
    /// Returns the bytes that a device stores for `data`. If the representation is the same, the bytes are not copied.
    /// Returns `None` if memory for a copy is missing.
    fn to_bytes(data: &[Self]) -> Option<Cow<'_, [u8]>>;
    /// Appends the values in bytes of type `dtype`. Returns `false` if `dtype` cannot be read as `Self`.
    fn from_bytes(dtype: DType, bytes: &[u8], into: &mut Vec<Self>) -> bool;
}

/// Appends elements from bytes, which need not be aligned.
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

/// Tensors have type `f16`. Every bit is preserved.
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

/// Tensors have type `f32`, which represents every `bf16`. Reading rounds to the nearest, ties to even.
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

/// Implements `Element` for types that have the same representation in Rust and on devices.
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

/// Rounds `value` as a tensor of type `f16` does: to the nearest `f16`, ties to even.
pub(crate) fn rounded_to_f16(value: f32) -> f32 {
    f16::from_f32(value).to_f32()
}
