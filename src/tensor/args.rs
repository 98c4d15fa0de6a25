//! Arguments other than tensors: axes, shapes, lengths. Lists, arrays and single numbers convert to each of these types.

use crate::dtype::DType;
use crate::error::{brief, Error, Result};
use crate::shape::Shape;

/// The axes of an operation, and whether a reduction keeps them.
///
/// One number is one axis, and a list is several axes. An empty list, or `()`, means all axes. Negative axes count from
/// the end. A tensor of rank 0 accepts the axes 0 and -1, like PyTorch.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, tensor::Axes};
/// let device = Device::with(Preference::Cpu).await?;
/// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
/// assert_eq!(x.sum(-1)?.read::<f32>().await?, [3.0, 7.0]);
/// assert_eq!(x.sum([0, 1])?.item::<f32>().await?, 10.0);
/// assert_eq!(x.sum(())?.item::<f32>().await?, 10.0);
/// assert_eq!(x.sum(Axes::from(-1).keepdim(true))?.shape(), [2, 1]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Axes {
    list: Vec<isize>,
    keepdim: bool,
}

impl Axes {
    /// Sets whether a reduction keeps these axes, with extent 1. By default a reduction drops them.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Axes {
        self.keepdim = keepdim;
        self
    }

    /// The axes as the caller wrote them.
    pub fn list(&self) -> &[isize] {
        &self.list
    }

    /// Whether a reduction keeps the axes.
    pub fn keeps(&self) -> bool {
        self.keepdim
    }

    /// Returns the axes counted from the front and sorted. An empty list means all axes.
    pub(super) fn resolve(&self, name: &str, shape: &Shape) -> Result<Vec<usize>> {
        match (shape.rank(), &self.list[..]) {
            (0, [0 | -1]) => Ok(Vec::new()),
            _ => shape.axes(name, &self.list),
        }
    }
}

/// Whole numbers: one for each axis, or one for all axes. [`Tensor::roll`](super::Tensor::roll) takes its shifts as this
/// type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Integers {
    pub(super) list: Vec<isize>,
}

/// The shape that [`Tensor::reshape`](super::Tensor::reshape) or [`Tensor::expand`](super::Tensor::expand) returns. In a
/// reshape, one extent may be -1, and is computed from the others. In an expansion, each -1 keeps the extent of its axis.
///
/// Lists and arrays of `usize`, `isize` or `i32` convert to this type. `()` is the shape of a single number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    list: Vec<isize>,
}

impl Extents {
    /// Returns the shape, with -1 replaced by the extent that keeps the number of elements.
    pub(super) fn resolve_for_reshape(&self, name: &str, from: &Shape) -> Result<Shape> {
        let refuse = |must: &str| {
            let asked = brief(&self.list);
            Err(Error::shape(format!("{name}: {must}, got {from} to {asked}")))
        };
        let mut dims = Vec::with_capacity(self.list.len());
        let (mut open, mut known) = (None, 1usize);
        for (at, &extent) in self.list.iter().enumerate() {
            match usize::try_from(extent) {
                Ok(extent) => known = known.saturating_mul(extent),
                Err(_) if extent != -1 => return refuse("extents must be at least 0, or -1 once"),
                Err(_) if open.is_some() => return refuse("at most one extent must be -1"),
                Err(_) => open = Some(at),
            }
            dims.push(extent.max(1) as usize * usize::from(extent != 0));
        }
        if let Some(at) = open {
            if known == 0 {
                return refuse("extents must not be -1 where another is 0");
            }
            if !from.numel().is_multiple_of(known) {
                return refuse("the known extents must divide the number of elements");
            }
            dims[at] = from.numel() / known;
        }
        Shape::new(name, &dims)
    }

    /// Returns the shape, with each -1 replaced by the current extent of that axis.
    pub(super) fn resolve_for_expand(&self, name: &str, from: &Shape) -> Result<Shape> {
        let mut dims = Vec::with_capacity(self.list.len());
        for (at, &extent) in self.list.iter().enumerate() {
            let there = (at + from.rank()).checked_sub(self.list.len()).map(|axis| from[axis]);
            dims.push(match (usize::try_from(extent), there) {
                (Ok(extent), _) => extent,
                (Err(_), Some(there)) if extent == -1 => there,
                _ => {
                    let asked = brief(&self.list);
                    let must = "extents must be at least 0, or -1 for an axis that exists";
                    return Err(Error::shape(format!("{name}: {must}, got {from} to {asked}")));
                }
            });
        }
        Shape::new(name, &dims)
    }
}

/// The number of elements to add before and after each axis. A negative number removes elements. Pairs of `usize`,
/// `isize` or `i32` convert to this type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub(super) pairs: Vec<(isize, isize)>,
}

/// The argument of [`Tensor::split`](super::Tensor::split). One number is the length of each piece, and a list has all
/// lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sections {
    /// Pieces of this length. The last piece is shorter if the extent is not a multiple of it.
    Size(usize),
    /// Pieces of these lengths.
    Lengths(Vec<usize>),
}

/// The axis and the options of a cumulative operation. An axis converts to this type.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, tensor::Scan};
/// let device = Device::with(Preference::Cpu).await?;
/// let x = device.tensor(&[1.0f32, 2.0, 3.0], &[3])?;
/// assert_eq!(x.cumsum(0)?.read::<f32>().await?, [1.0, 3.0, 6.0]);
/// let reverse = Scan::from(0).exclusive(true).reverse(true);
/// assert_eq!(x.cumsum(reverse)?.read::<f32>().await?, [5.0, 3.0, 0.0]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Scan {
    pub(super) axis: isize,
    pub(super) exclusive: bool,
    pub(super) reverse: bool,
}

impl Scan {
    /// Sets whether each result excludes its own element. By default the element is included.
    #[must_use]
    pub fn exclusive(mut self, exclusive: bool) -> Scan {
        self.exclusive = exclusive;
        self
    }

    /// Sets whether to accumulate from the end to the start. By default the operation starts at the front.
    #[must_use]
    pub fn reverse(mut self, reverse: bool) -> Scan {
        self.reverse = reverse;
        self
    }
}

/// The shape and the type of a new tensor, as a shape or as a pair of both. The default type is `f32`. A single number is
/// the shape of a vector.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, dtype::DType};
/// let device = Device::with(Preference::Cpu).await?;
/// assert_eq!(device.zeros(&[2, 3])?.dtype(), DType::F32);
/// assert_eq!(device.zeros((&[2, 3], DType::I32))?.dtype(), DType::I32);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorSpec {
    pub(super) dims: Vec<usize>,
    pub(super) dtype: DType,
}

impl TensorSpec {
    /// Creates the description of a tensor with this shape and type.
    pub fn new(shape: &[usize], dtype: DType) -> TensorSpec {
        TensorSpec { dims: shape.to_vec(), dtype }
    }
}

/// Converts extents to numbers that can also be -1. An extent that is too large becomes the maximum, which is still too
/// large.
fn to_isizes(extents: &[usize]) -> Vec<isize> {
    extents.iter().map(|&extent| isize::try_from(extent).unwrap_or(isize::MAX)).collect()
}

fn widen(numbers: &[i32]) -> Vec<isize> {
    numbers.iter().map(|&number| number as isize).collect()
}

/// Implements conversions to a type: `from!(Type, |x: From, ...| value; ...)`. Only one element type behind an array
/// reference converts to [`Axes`]. With more of them, the type of `&[]` would be ambiguous.
macro_rules! from {
    ($to:ty, $([$($generic:tt)*] |$x:ident: $from:ty| $value:expr;)*) => { $(
        impl $($generic)* From<$from> for $to {
            fn from($x: $from) -> $to {
                $value
            }
        }
    )* };
}

macro_rules! integers {
    ($to:ident { $($rest:tt)* }) => {
        from! { $to,
            [] |_none: ()| $to { list: Vec::new(), $($rest)* };
            [] |one: isize| $to { list: vec![one], $($rest)* };
            [] |one: i32| $to { list: vec![one as isize], $($rest)* };
            [<const N: usize>] |list: [isize; N]| $to { list: list.to_vec(), $($rest)* };
            [<const N: usize>] |list: [i32; N]| $to { list: widen(&list), $($rest)* };
            [<const N: usize>] |list: &[isize; N]| $to { list: list.to_vec(), $($rest)* };
            [] |list: &[isize]| $to { list: list.to_vec(), $($rest)* };
            [] |list: Vec<isize>| $to { list, $($rest)* };
            [] |list: &Vec<isize>| $to { list: list.clone(), $($rest)* };
            [] |same: &$to| same.clone();
        }
    };
}
integers!(Axes { keepdim: false });
integers!(Integers {});

from! { Extents,
    [] |_number: ()| Extents { list: Vec::new() };
    [<const N: usize>] |list: [usize; N]| Extents { list: to_isizes(&list) };
    [<const N: usize>] |list: [isize; N]| Extents { list: list.to_vec() };
    [<const N: usize>] |list: [i32; N]| Extents { list: widen(&list) };
    [<const N: usize>] |list: &[usize; N]| Extents { list: to_isizes(list) };
    [<const N: usize>] |list: &[isize; N]| Extents { list: list.to_vec() };
    [<const N: usize>] |list: &[i32; N]| Extents { list: widen(list) };
    [] |list: &[usize]| Extents { list: to_isizes(list) };
    [] |list: &[isize]| Extents { list: list.to_vec() };
    [] |list: &[i32]| Extents { list: widen(list) };
    [] |list: Vec<usize>| Extents { list: to_isizes(&list) };
    [] |list: &Vec<usize>| Extents { list: to_isizes(list) };
    [] |list: &Vec<isize>| Extents { list: list.clone() };
    [] |shape: &Shape| Extents { list: to_isizes(shape) };
}

macro_rules! amounts {
    ($($number:ty),*) => { $(
        from! { Amounts,
            [<const N: usize>] |pairs: [($number, $number); N]| Amounts::from(&pairs[..]);
            [<const N: usize>] |pairs: &[($number, $number); N]| Amounts::from(&pairs[..]);
            [] |pairs: &Vec<($number, $number)>| Amounts::from(&pairs[..]);
            [] |pairs: &[($number, $number)]| {
                // A number that is too large becomes the maximum, which is still too large.
                let long = |n: $number| isize::try_from(n).unwrap_or(isize::MAX);
                let pairs = pairs.iter().map(|&(before, after)| (long(before), long(after)));
                Amounts { pairs: pairs.collect() }
            };
        }
    )* };
}
amounts!(usize, isize, i32);
from! { Amounts, [] |_none: ()| Amounts::default(); }

from! { Sections,
    [] |size: usize| Sections::Size(size);
    [<const N: usize>] |list: [usize; N]| Sections::Lengths(list.to_vec());
    [<const N: usize>] |list: &[usize; N]| Sections::Lengths(list.to_vec());
    [] |list: &[usize]| Sections::Lengths(list.to_vec());
    [] |list: Vec<usize>| Sections::Lengths(list);
    [] |list: &Vec<usize>| Sections::Lengths(list.clone());
}

from! { Scan,
    [] |axis: isize| Scan { axis, exclusive: false, reverse: false };
    [] |axis: i32| Scan { axis: axis as isize, exclusive: false, reverse: false };
}

macro_rules! specs {
    ($([$($generic:tt)*] |$x:ident: $from:ty| $dims:expr;)*) => {
        from! { TensorSpec, $(
            [$($generic)*] |$x: $from| TensorSpec { dims: $dims, dtype: DType::F32 };
        )* }
        $(
            impl $($generic)* From<($from, DType)> for TensorSpec {
                fn from(($x, dtype): ($from, DType)) -> TensorSpec {
                    TensorSpec { dims: $dims, dtype }
                }
            }
        )*
    };
}
specs! {
    [] |count: usize| vec![count];
    [<const N: usize>] |list: [usize; N]| list.to_vec();
    [<const N: usize>] |list: &[usize; N]| list.to_vec();
    [] |list: &[usize]| list.to_vec();
    [] |list: &Vec<usize>| list.clone();
    [] |list: Vec<usize>| list;
}
