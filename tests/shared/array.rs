//! Arrays in plain Rust: the expected values of tests. This file calls the library only to make a tensor from an array.

use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::Tensor;

/// An array of elements in row-major order. `f64` represents every value of every dtype; `u32` holds bits.
#[derive(Clone, Debug, PartialEq)]
pub struct Array<T> {
    pub shape: Vec<usize>,
    pub data: Vec<T>,
}

/// Calls `f` for all coordinates of a shape, in row-major order.
pub fn each(shape: &[usize], mut f: impl FnMut(&[usize])) {
    if shape.contains(&0) {
        return;
    }
    let mut at = vec![0; shape.len()];
    loop {
        f(&at);
        let Some(d) = (0..shape.len()).rev().find(|&d| at[d] + 1 < shape[d]) else { return };
        at[d] += 1;
        at[d + 1..].fill(0);
    }
}

/// Returns the shape that both shapes broadcast to.
fn joint(a: &[usize], b: &[usize]) -> Vec<usize> {
    let rank = a.len().max(b.len());
    let extent = |s: &[usize], d: usize| (d + s.len()).checked_sub(rank).map_or(1, |d| s[d]);
    let one = |d| if extent(a, d) == 1 { extent(b, d) } else { extent(a, d) };
    (0..rank).map(one).collect()
}

/// Returns the index of a position, or `None` outside the axis. Negative positions count from the end.
pub fn place(position: f64, extent: usize) -> Option<usize> {
    let extent = extent as f64;
    let from_start = if position < 0.0 { position + extent } else { position };
    (0.0 <= from_start && from_start < extent).then_some(from_start as usize)
}

impl<T: Copy> Array<T> {
    pub fn new(shape: &[usize], data: Vec<T>) -> Array<T> {
        assert_eq!(shape.iter().product::<usize>(), data.len(), "the test's own data");
        Array { shape: shape.to_vec(), data }
    }

    pub fn from_fn(shape: &[usize], mut f: impl FnMut(&[usize]) -> T) -> Array<T> {
        let mut data = Vec::with_capacity(shape.iter().product());
        each(shape, |at| data.push(f(at)));
        Array { shape: shape.to_vec(), data }
    }

    /// Returns the element at coordinates. Shapes are aligned at the end, and extents of 1 are broadcast.
    pub fn at(&self, at: &[usize]) -> T {
        let at = &at[at.len() - self.shape.len()..];
        let next = |sum: usize, (&c, &d): (&usize, &usize)| sum * d + if d == 1 { 0 } else { c };
        self.data[at.iter().zip(&self.shape).fold(0, next)]
    }

    pub fn map<U: Copy>(&self, f: impl FnMut(T) -> U) -> Array<U> {
        Array { shape: self.shape.clone(), data: self.data.iter().copied().map(f).collect() }
    }

    /// Combines the elements of both arrays, which are broadcast.
    pub fn zip<U: Copy, V: Copy>(
        &self,
        other: &Array<U>,
        mut f: impl FnMut(T, U) -> V,
    ) -> Array<V> {
        let shape = joint(&self.shape, &other.shape);
        Array::from_fn(&shape, |at| f(self.at(at), other.at(at)))
    }

    pub fn reshape(&self, shape: &[usize]) -> Array<T> {
        Array::new(shape, self.data.clone())
    }

    pub fn permute(&self, order: &[usize]) -> Array<T> {
        let shape: Vec<usize> = order.iter().map(|&a| self.shape[a]).collect();
        Array::from_fn(&shape, |at| {
            let mut from = vec![0; at.len()];
            order.iter().zip(at).for_each(|(&axis, &c)| from[axis] = c);
            self.at(&from)
        })
    }

    pub fn expand(&self, shape: &[usize]) -> Array<T> {
        Array::from_fn(shape, |at| self.at(at))
    }

    /// Returns `len` elements of an axis, every `step`-th one from `start` on.
    pub fn slice(&self, axis: usize, start: usize, len: usize, step: isize) -> Array<T> {
        let mut shape = self.shape.clone();
        shape[axis] = len;
        Array::from_fn(&shape, |at| {
            let mut from = at.to_vec();
            from[axis] = (start as isize + at[axis] as isize * step) as usize;
            self.at(&from)
        })
    }

    pub fn flip(&self, axes: &[usize]) -> Array<T> {
        Array::from_fn(&self.shape, |at| {
            let mut from = at.to_vec();
            axes.iter().for_each(|&a| from[a] = self.shape[a] - 1 - at[a]);
            self.at(&from)
        })
    }

    pub fn pad(&self, amounts: &[(usize, usize)], value: T) -> Array<T> {
        let shape: Vec<usize> =
            self.shape.iter().zip(amounts).map(|(d, (lo, hi))| d + lo + hi).collect();
        Array::from_fn(&shape, |at| {
            let from: Option<Vec<usize>> =
                at.iter().zip(amounts).map(|(c, (lo, _))| c.checked_sub(*lo)).collect();
            let inside = |f: &Vec<usize>| f.iter().zip(&self.shape).all(|(c, d)| c < d);
            from.filter(inside).map_or(value, |from| self.at(&from))
        })
    }

    /// Returns a copy in which the elements along `axis` from `start` on come from `source`.
    pub fn slice_scatter(&self, axis: usize, start: usize, source: &Array<T>) -> Array<T> {
        Array::from_fn(&self.shape, |at| {
            let mut from = at.to_vec();
            match at[axis].checked_sub(start).filter(|&n| n < source.shape[axis]) {
                Some(n) => {
                    from[axis] = n;
                    source.at(&from)
                }
                None => self.at(at),
            }
        })
    }

    pub fn concat(parts: &[Array<T>], axis: usize) -> Array<T> {
        let mut shape = parts[0].shape.clone();
        shape[axis] = parts.iter().map(|p| p.shape[axis]).sum();
        Array::from_fn(&shape, |at| {
            let mut from = at.to_vec();
            let mut parts = parts.iter();
            loop {
                let part = parts.next().expect("the coordinate lies in one of them");
                match from[axis].checked_sub(part.shape[axis]) {
                    Some(rest) => from[axis] = rest,
                    None => return part.at(&from),
                }
            }
        })
    }

    /// Calls `f` for the elements over `axes`. These axes keep extent 1.
    pub fn reduce<U: Copy>(&self, axes: &[usize], mut f: impl FnMut(&[T]) -> U) -> Array<U> {
        let pick = |keep: bool| -> Vec<usize> {
            let axes = (0..self.shape.len()).map(|a| (a, axes.contains(&a)));
            axes.map(|(a, inner)| if inner == keep { 1 } else { self.shape[a] }).collect()
        };
        let (outer, inner) = (pick(true), pick(false));
        Array::from_fn(&outer, |row| {
            let mut found = Vec::new();
            each(&inner, |column| {
                let at: Vec<usize> = row.iter().zip(column).map(|(r, c)| r + c).collect();
                found.push(self.at(&at));
            });
            f(&found)
        })
    }

    /// Removes axes of extent 1.
    pub fn squeeze(&self, axes: &[usize]) -> Array<T> {
        let kept = (0..self.shape.len()).filter(|a| !axes.contains(a));
        self.reshape(&kept.map(|a| self.shape[a]).collect::<Vec<_>>())
    }
}

/// Returns a well-mixed 32-bit word: a counter hashed by the finalizer of MurmurHash3.
pub fn word(seed: u32, n: usize) -> u32 {
    let mut h = seed.wrapping_mul(0x9e37_79b9) ^ n as u32;
    h = (h ^ h >> 16).wrapping_mul(0x85eb_ca6b);
    h = (h ^ h >> 13).wrapping_mul(0xc2b2_ae35);
    h ^ h >> 16
}

/// Returns bits without any pattern, including NaNs.
pub fn bits(shape: &[usize], seed: u32) -> Array<u32> {
    let count = shape.iter().product();
    Array::new(shape, (0..count).map(|n| word(seed, n)).collect())
}

/// Returns values in `[low, high)` that `f32` and, for small ranges, `f16` represent without rounding.
pub fn random(shape: &[usize], low: f64, high: f64, seed: u32) -> Array<f64> {
    let step = (high - low) / 1024.0;
    bits(shape, seed).map(|w| f64::from((low + step * f64::from(w >> 22)) as f32))
}

/// Returns whole numbers from `low` to `high`. Their sums are the same in any order.
pub fn integers(shape: &[usize], low: i32, high: i32, seed: u32) -> Array<f64> {
    let span = (high - low) as u32 + 1;
    bits(shape, seed).map(|w| f64::from(low + (w % span) as i32))
}

/// Returns the bits of the `f16` nearest to a number, with ties to even.
pub fn half_bits(value: f64) -> u16 {
    let sign = if value.is_sign_negative() { 0x8000 } else { 0 };
    let size = value.abs();
    if value.is_nan() {
        return sign | 0x7e00;
    }
    if size >= 65520.0 {
        return sign | 0x7c00;
    }
    // The exponent of the result's last place: 10 below the exponent of the number, but not below that of the smallest `f16`.
    let last = (size.log2().floor() as i32).max(-14) - 10;
    let places = (size / f64::from(last).exp2()).round_ties_even();
    let (places, last) = if places == 2048.0 { (1024.0, last + 1) } else { (places, last) };
    if places < 1024.0 {
        return sign | places as u16;
    }
    sign | ((last + 25) as u16) << 10 | (places as u16 - 1024)
}

/// Returns the value of an `f16` with these bits.
pub fn half_value(bits: u16) -> f64 {
    let sign = if bits >> 15 == 1 { -1.0 } else { 1.0 };
    let (exponent, places) = (i32::from(bits >> 10 & 31), f64::from(bits & 0x3ff));
    sign * match exponent {
        0 => places * (-24f64).exp2(),
        31 if places == 0.0 => f64::INFINITY,
        31 => f64::NAN,
        e => (places + 1024.0) * f64::from(e - 25).exp2(),
    }
}

impl Array<f64> {
    /// Returns a tensor of these values.
    pub fn on(&self, device: &Device, dtype: DType) -> Result<Tensor> {
        device.tensor_from_bytes(&encode(dtype, &self.data), &self.shape, dtype)
    }

    /// Returns a tensor of dtype `f32`.
    pub fn f32(&self, device: &Device) -> Result<Tensor> {
        self.on(device, DType::F32)
    }

    /// Returns the nearest values that the dtype can represent.
    pub fn rounded(&self, dtype: DType) -> Array<f64> {
        self.map(|v| decode(dtype, &encode(dtype, &[v]))[0])
    }
}

impl Array<u32> {
    /// Returns a tensor of these bits. For `f16`, uses the lower half of each word.
    pub fn on(&self, device: &Device, dtype: DType) -> Result<Tensor> {
        device.tensor_from_bytes(&self.bytes(dtype), &self.shape, dtype)
    }

    pub fn bytes(&self, dtype: DType) -> Vec<u8> {
        let bytes = self.data.iter().flat_map(|w| w.to_le_bytes()[..dtype.size()].to_vec());
        bytes.collect()
    }
}

/// Returns numbers as bytes in memory.
pub fn encode(dtype: DType, values: &[f64]) -> Vec<u8> {
    let one = |&v: &f64| match dtype {
        DType::F32 => (v as f32).to_le_bytes().to_vec(),
        DType::F16 => half_bits(v).to_le_bytes().to_vec(),
        DType::I32 => (v as i32).to_le_bytes().to_vec(),
        DType::U32 => (v as u32).to_le_bytes().to_vec(),
        DType::Bool => u32::from(v != 0.0).to_le_bytes().to_vec(),
        DType::I8 => (v as i8).to_le_bytes().to_vec(),
        DType::U8 => (v as u8).to_le_bytes().to_vec(),
        DType::I16 => (v as i16).to_le_bytes().to_vec(),
        DType::U16 => (v as u16).to_le_bytes().to_vec(),
        other => unreachable!("a test of {other:?}"),
    };
    values.iter().flat_map(one).collect()
}

/// Returns numbers from memory. A `bool` that is neither 0 nor 1 becomes NaN, which equals no expected value.
pub fn decode(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let word = |c: &[u8]| u32::from_le_bytes([c[0], c[1], c[2], c[3]]);
    let one = |c: &[u8]| match dtype {
        DType::F32 => f64::from(f32::from_bits(word(c))),
        DType::F16 => half_value(u16::from_le_bytes([c[0], c[1]])),
        DType::I32 => f64::from(word(c) as i32),
        DType::U32 => f64::from(word(c)),
        DType::Bool => match word(c) {
            0 => 0.0,
            1 => 1.0,
            _ => f64::NAN,
        },
        DType::I8 => f64::from(c[0] as i8),
        DType::U8 => f64::from(c[0]),
        DType::I16 => f64::from(i16::from_le_bytes([c[0], c[1]])),
        DType::U16 => f64::from(u16::from_le_bytes([c[0], c[1]])),
        other => unreachable!("a test of {other:?}"),
    };
    bytes.chunks_exact(dtype.size()).map(one).collect()
}
