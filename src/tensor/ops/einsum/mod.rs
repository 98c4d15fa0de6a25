//! Sums of products over named axes: `einsum` and `tensordot`.

mod equation;

use crate::error::{Error, Result};
use crate::tensor::{with_op_name, Tensor};
use equation::{Equation, Label};
use std::borrow::Borrow;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Computes a sum of products by Einstein's convention, as in NumPy and PyTorch.
    ///
    /// Letters name the axes of each operand and, after the arrow, of the result. Elements at the same place along axes
    /// of one name are multiplied. Axes that the result does not name are summed over. A letter that an operand has twice
    /// is its diagonal.
    ///
    /// An ellipsis `...` means axes without names, which broadcast. Without an arrow, the result has the axes of the
    /// ellipsis and then the letters that occur once, in alphabetical order. As in PyTorch, extents of 1 broadcast, and
    /// an ellipsis that the result omits is summed over.
    ///
    /// Two operands become one matrix product. If nothing is summed, or each axis is in both operands, they become an
    /// elementwise product, which fuses with later operations. Of several operands, the two whose product is smallest
    /// compared with them are multiplied first.
    ///
    /// # Errors
    /// `Shape` if the text is not a valid equation or does not fit the operands. The message names the letter and the
    /// shapes. `DType` if the types differ or are `bool`; `InvalidArgument` if the operands are on two devices.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::Tensor};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    /// let y = device.tensor(&[1.0f32, 10.0], &[2])?;
    /// let product = Tensor::einsum("ij,j->i", &[&x, &y])?;
    /// assert_eq!(product.read::<f32>().await?, [21.0, 43.0]);
    /// assert_eq!(Tensor::einsum("ii", &[&x])?.item::<f32>().await?, 5.0);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn einsum<T: Borrow<Tensor>>(
        equation: impl Into<String>,
        operands: &[T],
    ) -> Result<Tensor> {
        let text = equation.into();
        let tensors: Vec<&Tensor> = operands.iter().map(Borrow::borrow).collect();
        let shapes: Vec<&[usize]> = tensors.iter().map(|tensor| tensor.shape()).collect();
        let equation = Equation::new(&text, &shapes)?;
        with_op_name("einsum", || {
            let mut factors = Vec::with_capacity(tensors.len());
            for (tensor, labels) in tensors.iter().zip(equation.operands) {
                factors.push(Factor { tensor: (*tensor).clone(), labels }.diagonals()?);
            }
            contract(factors, &equation.result)
        })
    }

    /// Returns the sum of products over axes of this tensor and another one. `axes[i]` of this tensor is paired with
    /// `other_axes[i]`.
    ///
    /// The result has the remaining axes, first those of this tensor. Without axes it is the outer product.
    ///
    /// # Errors
    /// `Shape` if an axis does not exist or is listed twice, or if the lists differ in length or the axes in extent;
    /// `DType` if the types differ or are `bool`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let (x, y) = (device.ones(&[2, 3, 4])?, device.ones(&[4, 3, 5])?);
    /// assert_eq!(x.tensordot(&y, &[1, 2], &[1, 0])?.shape(), [2, 5]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn tensordot(
        &self,
        other: &Tensor,
        axes: &[isize],
        other_axes: &[isize],
    ) -> Result<Tensor> {
        let name = "tensordot";
        let found = |tensor: &Tensor, axes: &[isize]| -> Result<Vec<usize>> {
            if axes.is_empty() {
                return Ok(Vec::new());
            }
            tensor.shape.axes(name, axes)?;
            axes.iter().map(|&axis| tensor.shape.axis(name, axis)).collect()
        };
        let (here, there) = (found(self, axes)?, found(other, other_axes)?);
        let fits = |(&a, &b): (&usize, &usize)| self.shape[a] == other.shape[b];
        if here.len() != there.len() || !here.iter().zip(&there).all(fits) {
            let must = format!("axes {axes:?} and {other_axes:?} must have the same extents");
            return Err(Error::shapes(name, &must, &self.shape, &other.shape));
        }
        // Labels of the other tensor's axes are numbered after those of this tensor.
        let own: Vec<Label> = (0..self.rank()).map(Label::Ellipsis).collect();
        let mut its: Vec<Label> =
            (0..other.rank()).map(|axis| Label::Ellipsis(self.rank() + axis)).collect();
        for (&a, &b) in here.iter().zip(&there) {
            its[b] = own[a];
        }
        let mut result = [&own[..], &its[..]].concat();
        result.retain(|label| !(own.contains(label) && its.contains(label)));
        with_op_name(name, || {
            let (a, b) = (self.clone(), other.clone());
            let factors =
                vec![Factor { tensor: a, labels: own }, Factor { tensor: b, labels: its }];
            contract(factors, &result)
        })
    }
}

/// An operand or a product of operands, and the labels of its axes.
struct Factor {
    tensor: Tensor,
    labels: Vec<Label>,
}

/// Multiplies all operands, and sums over the labels that the result does not have.
fn contract(mut factors: Vec<Factor>, result: &[Label]) -> Result<Tensor> {
    while factors.len() > 1 {
        let (first, second) = cheapest(&factors, result);
        let b = factors.remove(second);
        let a = factors.remove(first);
        let product = a.times(b, |label| needed(label, &factors, result))?;
        factors.insert(first, product);
    }
    let Some(factor) = factors.pop() else {
        return Err(Error::shape("einsum: there must be a tensor, got none"));
    };
    let factor = factor.summed(|label| result.contains(&label))?;
    factor.grouped(&result.iter().map(std::slice::from_ref).collect::<Vec<_>>())
}

/// Whether the result or another operand has the label.
fn needed(label: Label, others: &[Factor], result: &[Label]) -> bool {
    result.contains(&label) || others.iter().any(|other| other.labels.contains(&label))
}

/// Chooses the two operands to multiply next. The size of their product minus the sizes of both is smallest.
fn cheapest(factors: &[Factor], result: &[Label]) -> (usize, usize) {
    let mut best = (f64::INFINITY, (0, 1));
    for second in 1..factors.len() {
        for first in 0..second {
            let (a, b) = (&factors[first], &factors[second]);
            let others = factors.iter().enumerate().filter(|(n, _)| *n != first && *n != second);
            let outside = |label: &Label| {
                result.contains(label) || others.clone().any(|(_, f)| f.labels.contains(label))
            };
            let mut elements = 1.0;
            for (at, label) in a.labels.iter().chain(&b.labels).enumerate() {
                // A shared axis counts once, with the longer one of its extents.
                let again = at >= a.labels.len() && a.extent(*label).is_some();
                if !again && outside(label) {
                    elements *= a.extent(*label).max(b.extent(*label)).unwrap_or(1) as f64;
                }
            }
            let more = elements - (a.tensor.numel() + b.tensor.numel()) as f64;
            if more < best.0 {
                best = (more, (first, second));
            }
        }
    }
    best.1
}

impl Factor {
    fn extent(&self, label: Label) -> Option<usize> {
        let at = self.labels.iter().position(|&other| other == label)?;
        Some(self.tensor.shape[at])
    }

    /// Replaces axes that have the same label by their diagonal.
    fn diagonals(mut self) -> Result<Factor> {
        let twice = |labels: &[Label]| {
            let again = |&at: &usize| labels[..at].contains(&labels[at]);
            let second = (0..labels.len()).find(again)?;
            let first = labels.iter().position(|&label| label == labels[second])?;
            Some((first, second))
        };
        while let Some((first, second)) = twice(&self.labels) {
            let label = self.labels.remove(second);
            self.labels.remove(first);
            self.labels.push(label);
            self.tensor = self.tensor.main_diagonal(first, second)?;
        }
        Ok(self)
    }

    /// Sums over the axes whose labels are not kept.
    fn summed(mut self, keep: impl Fn(Label) -> bool) -> Result<Factor> {
        let gone: Vec<isize> = (0..self.labels.len())
            .filter(|&at| !keep(self.labels[at]))
            .map(|at| at as isize)
            .collect();
        if !gone.is_empty() {
            self.tensor = self.tensor.sum(gone)?;
            self.labels.retain(|&label| keep(label));
        }
        Ok(self)
    }

    /// Removes the axis with this label, which has extent 1.
    fn squeezed(mut self, label: Label) -> Result<Factor> {
        if let Some(at) = self.labels.iter().position(|&other| other == label) {
            self.labels.remove(at);
            self.tensor = self.tensor.squeeze(at as isize)?;
        }
        Ok(self)
    }

    /// Returns the tensor with the axes of each group merged into one axis.
    fn grouped(&self, groups: &[&[Label]]) -> Result<Tensor> {
        let (mut order, mut dims) = (Vec::new(), Vec::new());
        for group in groups {
            let mut extent = 1;
            for label in *group {
                let at = self.labels.iter().position(|other| other == label);
                let at = at.ok_or_else(|| {
                    Error::shape(format!("einsum: {label} must be an axis, got none"))
                })?;
                order.push(at as isize);
                extent *= self.tensor.shape[at];
            }
            dims.push(extent);
        }
        let permuted = match order.iter().copied().eq(0..order.len() as isize) {
            true => self.tensor.clone(),
            false => self.tensor.permute(&order)?,
        };
        match permuted.shape[..] == dims[..] {
            true => Ok(permuted),
            false => permuted.reshape(&dims),
        }
    }

    /// Returns the product of two factors, summed over the axes that are not kept.
    fn times(self, other: Factor, keep: impl Fn(Label) -> bool) -> Result<Factor> {
        let (mut a, mut b) = (self, other);
        for label in a.labels.clone() {
            match (a.extent(label), b.extent(label)) {
                (Some(1), Some(there)) if there != 1 => a = a.squeezed(label)?,
                (Some(here), Some(1)) if here != 1 => b = b.squeezed(label)?,
                _ => {}
            }
        }
        let (mine, its) = (a.labels.clone(), b.labels.clone());
        let a = a.summed(|label| keep(label) || its.contains(&label))?;
        let b = b.summed(|label| keep(label) || mine.contains(&label))?;
        let of = |labels: &[Label], wanted: &dyn Fn(Label) -> bool| -> Vec<Label> {
            labels.iter().copied().filter(|&label| wanted(label)).collect()
        };
        let both = |label: Label| b.labels.contains(&label);
        let batch = of(&a.labels, &|label| both(label) && keep(label));
        let inner = of(&a.labels, &|label| both(label) && !keep(label));
        let left = of(&a.labels, &|label| !both(label));
        let right = of(&b.labels, &|label| !a.labels.contains(&label));
        let alone = left.is_empty() && right.is_empty();
        let product = if inner.is_empty() || alone || !a.tensor.dtype.is_float() {
            let x = a.grouped(&[&batch, &left, &[], &inner])?;
            let y = b.grouped(&[&batch, &[], &right, &inner])?;
            if inner.is_empty() {
                x.mul(y)?
            } else if x.dtype.is_float() && y.dtype == x.dtype {
                let y = y.cast(y.dtype.compute())?;
                x.compute_in_f32(|x| x.mul(y)?.sum(3))?
            } else {
                x.mul(y)?.sum(3)?
            }
        } else if batch.is_empty() {
            a.grouped(&[&left, &inner])?.matmul(&b.grouped(&[&inner, &right])?)?
        } else {
            let x = a.grouped(&[&batch, &left, &inner])?;
            x.matmul(&b.grouped(&[&batch, &inner, &right])?)?
        };
        let labels = [batch, left, right].concat();
        let extent = |&label: &Label| a.extent(label).or(b.extent(label)).unwrap_or(1);
        let dims: Vec<usize> = labels.iter().map(extent).collect();
        Ok(Factor { tensor: product.reshape(&dims)?, labels })
    }
}
