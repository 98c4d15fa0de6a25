//! Structural operations, which move, create, convert and reduce elements, with their shape and type rules.

use crate::dtype::{DType, INDICES, NUMBERS};
use crate::error::{brief, Error, Result};
use crate::expr::{Binary, Expr};
use crate::op::constant::Const;
use crate::op::custom::{Element, ShaderCall};
use crate::op::function::Function;
use crate::op::pointwise::Pointwise;
use crate::op::routine::Routine;
use crate::op::spans::{Offset, PadAmount, Span, Windows};
use crate::shape::{pick, Shape};
use crate::sorted;
use std::sync::Arc;

/// How a reduction combines its elements.
#[cfg_attr(feature = "js", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Reduction {
    Sum,
    Prod,
    Max,
    Min,
    /// Logical or of `bool`.
    Any,
    /// Logical and of `bool`.
    All,
}

impl Reduction {
    /// Returns the name of the method.
    pub fn name(self) -> &'static str {
        match self {
            Reduction::Sum => "sum",
            Reduction::Prod => "prod",
            Reduction::Max => "max",
            Reduction::Min => "min",
            Reduction::Any => "any",
            Reduction::All => "all",
        }
    }

    /// Returns the operation between two elements.
    pub fn binary(self) -> Binary {
        match self {
            Reduction::Sum => Binary::Add,
            Reduction::Prod => Binary::Mul,
            Reduction::Max => Binary::Max,
            Reduction::Min => Binary::Min,
            Reduction::Any => Binary::Or,
            Reduction::All => Binary::And,
        }
    }

    /// Returns the result of an empty reduction, as bits of `dtype`, such as 0, 1, -Inf or the smallest integer.
    pub fn identity(self, dtype: DType) -> u32 {
        match (self, dtype) {
            (Reduction::Sum | Reduction::Any, _) => 0,
            (Reduction::All, _) => 1,
            (Reduction::Prod, _) => dtype.bits(1.0),
            (Reduction::Max, _) => dtype.bits(f64::NEG_INFINITY),
            (Reduction::Min, _) => dtype.bits(f64::INFINITY),
        }
    }
}

/// A recorded operation. All matches on it are exhaustive, so a new variant does not compile until every part of the crate
/// handles it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Op {
    /// Data in a buffer.
    Source,
    /// A number that the user passed, of rank 0. Its value is not part of the structure.
    Scalar,
    /// A constant of the program, repeated in all of `shape`.
    Fill {
        shape: Shape,
        value: Const,
    },
    /// The coordinate along `axis`, as `i32`.
    Iota {
        shape: Shape,
        axis: usize,
    },
    /// Zeros in the shape of the first operand. A routine whose derivatives are correct only up to the order `most` adds them
    /// to its operand. A derivative by the first operand is such zeros again, of the next `order`, and an error beyond `most`.
    /// The second operand, if there is one, is the gradient that the derivative was weighted with.
    DerivativeLimit {
        routine: &'static str,
        most: u8,
        order: u8,
    },
    /// A row of the table, with operands broadcast.
    Pointwise(Pointwise),
    /// A derivative of a row, as a function of some of its operands. Gradients consist of derivatives.
    Derivative {
        row: Pointwise,
        formula: Expr,
    },
    /// A custom elementwise function, with operands broadcast.
    Element(Arc<Element>),
    Cast(DType),
    /// The bits of each element, reinterpreted as a type of the same size.
    Bitcast(DType),
    Reshape(Shape),
    /// Axis i of the result is axis `permutation[i]` of the operand.
    Permute(Vec<usize>),
    /// Broadcast to a shape by NumPy's rule.
    Expand(Shape),
    Slice(Vec<Span>),
    /// The windows over an axis. The axis counts the windows, and a new last axis has their elements.
    Unfold(Windows),
    /// Padding before and after each axis. The second operand is a number, or a tensor of the result's shape with the padding
    /// at the same positions.
    Pad(Vec<PadAmount>),
    /// A reduction over some axes, which stay with extent 1.
    Reduce {
        op: Reduction,
        axes: Vec<usize>,
    },
    /// `gather(x, index)`. The axis `axis` of x is replaced by the axes of index. Indices out of range return 0. If `paired`,
    /// the axes before `axis` are also the first axes of the index, so each of their positions has separate indices.
    Gather {
        axis: usize,
        paired: bool,
    },
    /// At least one operand, concatenated along `axis`.
    Concat {
        axis: usize,
    },
    Routine(Routine),
    /// The positions of each row's first `most` elements in order, as `i32`: `[rows, n] -> [rows, most]`. Equal elements,
    /// including -0 and 0, keep their order, and NaN is last in both directions. It is recorded only if the device's limits
    /// have [`sorts`](crate::kernel::Limits::sorts).
    Order {
        descending: bool,
        most: usize,
    },
    /// A custom compute shader, whose operands are tensors and then numbers. It has no value. Its results are `Output` nodes.
    Shader(Arc<ShaderCall>),
    /// The n-th result of the shader that is the operand.
    Output(Arc<ShaderCall>, usize),
}

impl Op {
    /// Returns the name in errors and plans.
    pub fn name(&self) -> &'static str {
        match self {
            Op::Source => "source",
            Op::Scalar => "scalar",
            Op::Fill { .. } => "fill",
            Op::Iota { .. } => "iota",
            Op::DerivativeLimit { .. } => "derivative_limit",
            Op::Pointwise(p) => p.row().name,
            Op::Derivative { .. } => "derivative",
            Op::Element(_) => "element_function",
            Op::Cast(_) => "cast",
            Op::Bitcast(_) => "bitcast",
            Op::Reshape(_) => "reshape",
            Op::Permute(_) => "permute",
            Op::Expand(_) => "expand",
            Op::Slice(_) => "slice",
            Op::Unfold(_) => "unfold",
            Op::Pad(_) => "pad",
            Op::Reduce { op, .. } => op.name(),
            Op::Gather { .. } => "gather",
            Op::Concat { .. } => "concat",
            Op::Routine(r) => r.name(),
            Op::Order { .. } => "order",
            Op::Shader(_) => "shader",
            Op::Output(..) => "shader_output",
        }
    }

    /// Returns the elementwise function, or `None` if the operation is not elementwise.
    pub fn function(&self) -> Option<Function> {
        match self {
            Op::Pointwise(row) => Some(Function::Row(*row)),
            Op::Derivative { formula, .. } => Some(Function::Formula(*formula)),
            Op::Element(element) => Some(Function::Element(element.clone())),
            Op::Source | Op::Scalar | Op::Fill { .. } | Op::Iota { .. } => None,
            Op::DerivativeLimit { .. } => None,
            Op::Cast(_) | Op::Bitcast(_) => None,
            Op::Reshape(_) | Op::Permute(_) | Op::Expand(_) | Op::Slice(_) => None,
            Op::Unfold(_) | Op::Pad(_) => None,
            Op::Reduce { .. } | Op::Gather { .. } | Op::Concat { .. } | Op::Routine(_) => None,
            Op::Order { .. } | Op::Shader(_) | Op::Output(..) => None,
        }
    }

    /// Returns the shape and type of the result, or the error if the operands do not fit. `Source` and `Scalar` get theirs
    /// from the caller.
    pub fn infer(&self, operands: &[(Shape, DType)]) -> Result<(Shape, DType)> {
        let name = self.name();
        let first = || operands[0];
        match self {
            Op::Source | Op::Scalar => {
                Err(Error::state(format!("{name}: the node must be computed, got data")))
            }
            Op::Fill { shape, value } => Ok((*shape, value.dtype)),
            Op::Iota { shape, .. } => Ok((*shape, DType::I32)),
            Op::DerivativeLimit { .. } => Ok(first()),
            Op::Pointwise(p) | Op::Derivative { row: p, .. } => {
                let types: Vec<DType> = operands.iter().map(|o| o.1).collect();
                // Parameters come after the operands, and have the compute type of the operands.
                let dtype = p.row().dtype(&types[..p.row().operands.len()])?;
                let mut shape = first().0;
                for (other, _) in &operands[1..] {
                    shape = Shape::broadcast(name, &shape, other)?;
                }
                Ok((shape, dtype))
            }
            Op::Element(element) => element.infer(operands),
            Op::Cast(to) => Ok((first().0, *to)),
            Op::Bitcast(to) => {
                let (shape, from) = first();
                let words = [DType::F32, DType::I32, DType::U32];
                match words.contains(&from) && words.contains(to) {
                    true => Ok((shape, *to)),
                    false => Err(Error::dtype(format!(
                        "{name}: dtypes must be f32, i32 or u32, got {from} to {to}"
                    ))),
                }
            }
            Op::Reshape(shape) => {
                let (from, dtype) = first();
                if from.numel() != shape.numel() {
                    let must = "both must have as many elements";
                    return Err(Error::shapes(name, must, &from, shape));
                }
                Ok((*shape, dtype))
            }
            Op::Permute(permutation) => {
                let (from, dtype) = first();
                let mut seen = permutation.clone();
                sorted::sort(&mut seen);
                if !seen.iter().copied().eq(0..from.rank()) {
                    let order = brief(permutation);
                    let message = format!(
                        "{name}: the order must name each axis of shape {from} once, got {order}"
                    );
                    return Err(Error::shape(message));
                }
                let dims = pick(&from, permutation);
                Ok((Shape::new(name, &dims)?, dtype))
            }
            Op::Expand(shape) => {
                let (from, dtype) = first();
                if Shape::broadcast(name, &from, shape)? != *shape {
                    return Err(Error::shapes(
                        name,
                        "the shape must broadcast to the other",
                        &from,
                        shape,
                    ));
                }
                Ok((*shape, dtype))
            }
            Op::Slice(spans) => {
                need_starts(name, spans.iter().map(|span| span.start), &operands[1..])?;
                infer_slice(first(), spans)
            }
            Op::Unfold(windows) => infer_unfold(first(), windows),
            Op::Pad(margins) => {
                need_starts(name, margins.iter().map(|margin| margin.before), &operands[2..])?;
                let (shape, dtype) = infer_pad(first(), margins)?;
                let (around, _) = operands[1];
                if around != Shape::SCALAR && around != shape {
                    let must = "the value around must be one number, or have the result's shape";
                    return Err(Error::shapes(name, must, &shape, &around));
                }
                Ok((shape, dtype))
            }
            Op::Reduce { op, axes } => {
                let (from, dtype) = first();
                let logical = matches!(op, Reduction::Any | Reduction::All);
                let fits = if logical { dtype == DType::Bool } else { dtype.is_number() };
                if !fits {
                    let wanted = if logical { "bool" } else { NUMBERS };
                    return Err(Error::wrong_dtype(name, wanted, dtype));
                }
                Ok((axes.iter().fold(from, |s, &a| s.with(a, 1)), dtype))
            }
            Op::Gather { axis, paired } => infer_gather(*axis, *paired, operands),
            Op::Concat { axis } => infer_concat(*axis, operands),
            Op::Routine(routine) => routine.infer(operands),
            Op::Order { most, .. } => infer_order(first(), *most),
            Op::Shader(call) => call.check(operands).map(|()| (Shape::SCALAR, DType::F32)),
            Op::Output(call, n) => Ok(call.output(*n)),
        }
    }
}

/// Checks that each dynamic start has an operand.
fn need_starts(
    name: &str,
    starts: impl Iterator<Item = Offset>,
    operands: &[(Shape, DType)],
) -> Result<()> {
    let count = starts.filter(|start| matches!(start, Offset::Dynamic(_))).count();
    if count != operands.len() || operands.iter().any(|o| *o != (Shape::SCALAR, DType::I32)) {
        let message = format!(
            "{name}: each start must be one number of dtype i32, got {operands:?} for {count}"
        );
        return Err(Error::argument(message));
    }
    Ok(())
}

fn infer_slice((from, dtype): (Shape, DType), spans: &[Span]) -> Result<(Shape, DType)> {
    if spans.len() != from.rank() {
        let message = format!(
            "slice: there must be one range for each axis of shape {from}, got {}",
            spans.len()
        );
        return Err(Error::shape(message));
    }
    for (&extent, span) in from.iter().zip(spans) {
        let Span { start, len, step } = *span;
        let walked = step.checked_mul(len as isize - 1);
        let last = |start: usize| {
            let last = walked.and_then(|walked| (start as isize).checked_add(walked));
            last.is_some_and(|last| last >= 0 && (last as usize) < extent)
        };
        let (fits, from_where) = match start {
            Offset::Static(start) => (start < extent && last(start), start.to_string()),
            Offset::Dynamic(_) => (span.latest(extent).is_some(), "any start".into()),
        };
        if len > 0 && !fits {
            let message = format!(
                "slice: the range must be inside the axis of {extent} in shape {from}, got {len} elements from {from_where} \
                 in steps of {step}"
            );
            return Err(Error::shape(message));
        }
    }
    let dims: Vec<usize> = spans.iter().map(|s| s.len).collect();
    Ok((Shape::new("slice", &dims)?, dtype))
}

fn infer_pad((from, dtype): (Shape, DType), margins: &[PadAmount]) -> Result<(Shape, DType)> {
    if margins.len() != from.rank() {
        let message = format!(
            "pad: there must be one pair for each axis of shape {from}, got {}",
            margins.len()
        );
        return Err(Error::shape(message));
    }
    let mut dims = from.to_vec();
    for (extent, margin) in dims.iter_mut().zip(margins) {
        *extent = extent.saturating_add(margin.more);
    }
    Ok((Shape::new("pad", &dims)?, dtype))
}

fn infer_unfold((from, dtype): (Shape, DType), windows: &Windows) -> Result<(Shape, DType)> {
    let extent = from.get(windows.axis).copied().unwrap_or(0);
    let Some(count) = windows.count(extent) else {
        let Windows { axis, size, step, dilation } = windows;
        let message = format!(
            "unfold: a window must fit axis {axis} of shape {from}, got size {size}, dilation {dilation}, step {step}"
        );
        return Err(Error::shape(message));
    };
    let mut dims = from.to_vec();
    dims[windows.axis] = count;
    dims.push(windows.size);
    Ok((Shape::new("unfold", &dims)?, dtype))
}

fn infer_gather(axis: usize, paired: bool, operands: &[(Shape, DType)]) -> Result<(Shape, DType)> {
    let ((from, dtype), (index, index_type)) = (operands[0], operands[1]);
    if !index_type.is_int() {
        return Err(Error::wrong_dtype("gather", INDICES, index_type));
    }
    if paired && (index.rank() < axis || index[..axis] != from[..axis]) {
        let must = format!("the shapes must be equal before axis {axis}");
        return Err(Error::shapes("gather", &must, &from, &index));
    }
    let before = if paired { &[][..] } else { &from[..axis] };
    let dims = [before, &index, &from[axis + 1..]].concat();
    Ok((Shape::new("gather", &dims)?, dtype))
}

fn infer_order((from, dtype): (Shape, DType), most: usize) -> Result<(Shape, DType)> {
    if !dtype.is_number() && dtype != DType::Bool {
        return Err(Error::wrong_dtype("order", "f32, f16, i32, u32 or bool", dtype));
    }
    if from.rank() != 2 || most > from[1] {
        return Err(Error::shape(format!(
            "order: rows must have at least {most} elements, got shape {from}"
        )));
    }
    Ok((from.with(1, most), DType::I32))
}

fn infer_concat(axis: usize, operands: &[(Shape, DType)]) -> Result<(Shape, DType)> {
    let Some(&(first, dtype)) = operands.first() else {
        return Err(Error::shape("concat: there must be a tensor, got none"));
    };
    let mut extent = 0usize;
    for (shape, other) in operands {
        if shape.rank() != first.rank()
            || axis >= first.rank()
            || shape.with(axis, 0) != first.with(axis, 0)
        {
            let must = format!("the shapes must be equal except along axis {axis}");
            return Err(Error::shapes("concat", &must, &first, shape));
        }
        if *other != dtype {
            return Err(Error::mixed_dtypes("concat", dtype, other));
        }
        extent = extent.saturating_add(shape[axis]);
    }
    let mut dims = first.to_vec();
    dims[axis] = extent;
    Ok((Shape::new("concat", &dims)?, dtype))
}
