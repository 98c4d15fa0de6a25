//! The types of arguments other than tensors: axes, shapes, lengths. Lists, arrays and single numbers convert to each type.

use crate::dtype::DType;
use crate::error::{brief, Error, Result};
use crate::shape::Shape;

/// The axes an operation is over, and whether a reduction keeps them.
///
/// One number is one axis; a list is several; an empty list, or `()`, is all of them. Negative axes count from the end.
/// A tensor of rank 0 takes the axes 0 and -1, as PyTorch's does.
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
    /// Whether a reduction keeps these axes, with extent 1. The default is that it drops them.
    #[must_use]
    pub fn keepdim(mut self, keepdim: bool) -> Axes {
        self.keepdim = keepdim;
        self
    }

    /// The axes as they were written.
    pub fn list(&self) -> &[isize] {
        &self.list
    }

    /// Whether they are kept.
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

/// Whole numbers, one for each axis or one for all: what [`Tensor::roll`](super::Tensor::roll) moves by.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Integers {
    pub(super) list: Vec<isize>,
}

/// A shape to give to a tensor, in which -1 stands for an extent that follows from the others.
///
/// It is made from lists and arrays of `usize`, `isize` or `i32`; `()` is the shape of a single number.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Extents {
    list: Vec<isize>,
}

impl Extents {
    /// Returns the shape, in which -1 becomes the extent that keeps the number of elements.
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

    /// Returns the shape, in which -1 becomes the extent that the axis has already.
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

/// How many elements to add before and after each axis, or, where negative, to cut off: a pair for each, of `usize`,
/// `isize` or `i32`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Amounts {
    pub(super) pairs: Vec<(isize, isize)>,
}

/// How [`Tensor::split`](super::Tensor::split) cuts: a number is the length of each piece, a list is all lengths.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sections {
    /// Pieces of this length; the last one is shorter where they do not come out even.
    Size(usize),
    /// Pieces of these lengths.
    Lengths(Vec<usize>),
}

/// The axis of a running sum, and which elements it is over; made from the axis.
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
    /// Whether each result is over the elements before its own, without that. The default is with it.
    #[must_use]
    pub fn exclusive(mut self, exclusive: bool) -> Scan {
        self.exclusive = exclusive;
        self
    }

    /// Whether it goes from the end to the start. The default is from the start.
    #[must_use]
    pub fn reverse(mut self, reverse: bool) -> Scan {
        self.reverse = reverse;
        self
    }
}

/// The shape and the type of a tensor to be made: a shape alone, or a pair of both. The default type is `f32`; a number
/// is the shape of a vector.
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
    /// A tensor of this shape and type.
    pub fn new(shape: &[usize], dtype: DType) -> TensorSpec {
        TensorSpec { dims: shape.to_vec(), dtype }
    }
}

/// An extent as a number that can also be -1. One that is too large stays too large.
fn to_isizes(extents: &[usize]) -> Vec<isize> {
    extents.iter().map(|&extent| isize::try_from(extent).unwrap_or(isize::MAX)).collect()
}

fn widen(numbers: &[i32]) -> Vec<isize> {
    numbers.iter().map(|&number| number as isize).collect()
}

/// `from!(Type, |x: From, ...| value; ...)`: what converts to a type, and how. Among the arrays behind a reference only one
/// element type can convert to [`Axes`], or `&[]` would not say which it is.
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
                // What is too large stays so.
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
