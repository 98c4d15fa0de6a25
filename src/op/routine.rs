//! Routines: operations with hand-written kernels, with their parameters and shape rules. `expand` defines each in terms of
//! ordinary operations.

use crate::dtype::{DType, FLOATS};
use crate::error::{Error, Result};
use crate::op::packed::{PackedArithmetic, PackedFormat};
use crate::shape::Shape;

/// The parameters of a two-dimensional convolution, for each spatial axis, height first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv2d {
    pub stride: [usize; 2],
    /// Zeros before and after, for each axis.
    pub padding: [(usize, usize); 2],
    pub dilation: [usize; 2],
    pub groups: usize,
}

/// The parameters of scaled dot-product attention. The operand after q, k and v is the scale, a number of rank 0. In the
/// fields `causal` and `window`, `keys` is the number of keys that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Attention {
    /// Whether query i attends only to keys up to `i + keys - queries`, so that the last query attends to all of them.
    pub causal: bool,
    /// The window, if any. Query i attends only to keys at a smaller distance from its position, which is
    /// `i + keys - queries`.
    pub window: Option<usize>,
    /// Whether a fifth operand, broadcast to `[batch, heads, queries, keys]`, is added to the scores. It covers all keys, also
    /// those that do not count.
    pub mask: bool,
    /// Whether the last operand, an `i32` of rank 0, is the number of first keys that count. Otherwise all keys count.
    pub length: bool,
}

/// An operation with a hand-written kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Routine {
    /// `[.., m, k] x [.., k, n] -> [.., m, n]`, leading axes broadcast.
    Matmul,
    /// `x [batch, in, h, w], w [out, in / groups, kh, kw] -> [batch, out, oh, ow]`.
    Conv2d(Conv2d),
    /// `q [b, heads, queries, d], k [b, kv_heads, keys, d], v [b, kv_heads, keys, dv] -> [b, heads, queries, dv]`. `heads`
    /// must be a multiple of `kv_heads`.
    Attention(Attention),
    /// `x [m, k], w [n, words of a row] -> [m, n]`, the product with the transpose of a packed matrix, whose rows are `u32`.
    PackedMatmul { format: PackedFormat, arithmetic: PackedArithmetic },
    /// `w [n, words of a row] -> [n, columns]`, a packed matrix converted to `f32`. It has no kernel, because plans contain
    /// its expansion.
    Unpack { format: PackedFormat, columns: usize },
}

impl Routine {
    /// Returns the name of the method.
    pub fn name(&self) -> &'static str {
        match self {
            Routine::Matmul => "matmul",
            Routine::Conv2d(_) => "conv2d",
            Routine::Attention(_) => "attention",
            Routine::PackedMatmul { .. } => "packed_matmul",
            Routine::Unpack { .. } => "dequantize",
        }
    }

    /// Returns the shape and type of the result, or the error if the operands do not fit.
    pub fn infer(&self, operands: &[(Shape, DType)]) -> Result<(Shape, DType)> {
        let name = self.name();
        let dtype = operands[0].1;
        let integers = match self {
            Routine::Attention(attention) => usize::from(attention.length),
            Routine::PackedMatmul { .. } => 1,
            Routine::Unpack { format, columns } => {
                let shape = infer_unpack(*format, *columns, &operands[0])?;
                return Ok((shape, DType::F32));
            }
            Routine::Matmul | Routine::Conv2d(_) => 0,
        };
        let floats = &operands[..operands.len() - integers];
        if let Some((_, other)) = floats.iter().find(|o| o.1 != dtype) {
            return Err(Error::mixed_dtypes(name, dtype, other));
        }
        if !dtype.is_float() {
            return Err(Error::wrong_dtype(name, FLOATS, dtype));
        }
        let shape = match self {
            Routine::Matmul => infer_matmul(&operands[0].0, &operands[1].0)?,
            Routine::Conv2d(conv) => conv.infer(&operands[0].0, &operands[1].0)?,
            Routine::Attention(attention) => attention.infer(operands)?,
            Routine::PackedMatmul { format, .. } => infer_packed(*format, operands)?,
            Routine::Unpack { .. } => unreachable!("its operand is no float"),
        };
        Ok((shape, dtype))
    }
}

fn infer_unpack(
    format: PackedFormat,
    columns: usize,
    (words, dtype): &(Shape, DType),
) -> Result<Shape> {
    if *dtype != DType::U32 {
        return Err(Error::wrong_dtype("dequantize", "u32", *dtype));
    }
    let [rows, width] = words[..] else {
        return Err(Error::wrong_shape("dequantize", "the rows must have rank 2", words));
    };
    if !columns.is_multiple_of(format.block_len()) || width != format.row_words(columns) {
        let (name, need) = (format.name(), format.row_words(columns));
        let must = format!("rows of {columns} elements in {name} must have {need} words");
        return Err(Error::wrong_shape("dequantize", &must, words));
    }
    Shape::new("dequantize", &[rows, columns])
}

fn infer_packed(format: PackedFormat, operands: &[(Shape, DType)]) -> Result<Shape> {
    let x = &operands[0].0;
    let [rows, columns] = x[..] else {
        return Err(Error::wrong_shape("packed_matmul", "the input must have rank 2", x));
    };
    let matrix = infer_unpack(format, columns, &operands[1])?;
    Shape::new("packed_matmul", &[rows, matrix[0]])
}

fn infer_matmul(a: &Shape, b: &Shape) -> Result<Shape> {
    if a.rank() < 2 || b.rank() < 2 {
        return Err(Error::shapes("matmul", "both must have rank 2 or more", a, b));
    }
    let ([batch_a @ .., m, k], [batch_b @ .., k2, n]) = (&a[..], &b[..]) else {
        unreachable!("both have rank 2 or more");
    };
    if k != k2 {
        return Err(Error::shapes("matmul", "the inner extents must be equal", a, b));
    }
    let batch = Shape::broadcast("matmul", batch_a, batch_b)
        .map_err(|_| Error::shapes("matmul", "the leading axes must broadcast", a, b))?;
    Shape::new("matmul", &[&batch[..], &[*m, *n]].concat())
}

impl Conv2d {
    /// Returns the result's extent along spatial axis `i` for an input extent and a kernel extent, or `None` if the kernel
    /// does not fit.
    pub fn extent(&self, i: usize, input: usize, kernel: usize) -> Option<usize> {
        let (before, after) = self.padding[i];
        let padded = input.checked_add(before)?.checked_add(after)?;
        let reach = self.dilation[i].checked_mul(kernel.checked_sub(1)?)?.checked_add(1)?;
        Some(padded.checked_sub(reach)? / self.stride[i] + 1)
    }

    fn infer(&self, x: &Shape, w: &Shape) -> Result<Shape> {
        let refuse = |must: &str| Err(Error::shapes("conv2d", must, x, w));
        let (&[batch, channels, height, width], &[out, per_group, kh, kw]) = (&x[..], &w[..])
        else {
            return refuse(
                "both must have rank 4 (batch, channels, height, width; out, in / groups, kh, kw)",
            );
        };
        if self.stride.contains(&0) || self.dilation.contains(&0) || self.groups == 0 {
            return refuse("stride, dilation and groups must be at least 1");
        }
        if per_group.checked_mul(self.groups) != Some(channels) || out % self.groups != 0 {
            return refuse(&format!("the channels must divide into {} groups", self.groups));
        }
        let extents = (self.extent(0, height, kh), self.extent(1, width, kw));
        let (Some(oh), Some(ow)) = extents else {
            return refuse("the kernel must fit into the padded input");
        };
        Shape::new("conv2d", &[batch, out, oh, ow])
    }
}

impl Attention {
    fn infer(&self, operands: &[(Shape, DType)]) -> Result<Shape> {
        let (q, k, v) = (operands[0].0, operands[1].0, operands[2].0);
        let refuse = |must: &str| {
            let message = format!("attention: {must}, got q {q}, k {k} and v {v}");
            Err(Error::shape(message))
        };
        let (&[b, heads, queries, d], &[bk, kv_heads, keys, dk], &[bv, v_heads, v_keys, dv]) =
            (&q[..], &k[..], &v[..])
        else {
            return refuse("q, k and v must have rank 4 (batch, heads, length, head size)");
        };
        if b != bk || b != bv {
            return refuse("the batches must be equal");
        }
        if d != dk {
            return refuse("the head sizes of q and k must be equal");
        }
        if keys != v_keys || kv_heads != v_heads {
            return refuse("k and v must have the same heads and length");
        }
        if kv_heads == 0 || heads % kv_heads != 0 {
            return refuse("the heads of q must be a multiple of those of k");
        }
        if operands[3].0.rank() != 0 {
            return refuse("the scale must be one number");
        }
        if self.mask {
            let (mask, scores) = (operands[4].0, [b, heads, queries, keys]);
            if Shape::broadcast("attention", &mask, &scores).map_or(true, |s| s[..] != scores) {
                return refuse(&format!("the mask {mask} must broadcast to {scores:?}"));
            }
        }
        if self.length && operands[operands.len() - 1] != (Shape::SCALAR, DType::I32) {
            return refuse("kv_length must be one i32");
        }
        Shape::new("attention", &[b, heads, queries, dv])
    }
}
