//! Linear, bilinear and embedding layers.

use super::module::like;
use super::{init, Generator, Layer, Members, Module};
use crate::error::{Error, Result};
use crate::tensor::{with_op_name, Tensor, Variable};

/// A linear layer, `x W^T + b` over the last axis. The weight is `[outputs, inputs]` and the bias `[outputs]`. Both are
/// initialized uniformly within `1 / sqrt(inputs)`.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::device::{Device, Preference};
/// # use warpweft::nn::{Generator, Layer, Linear};
/// # let device = Device::with(Preference::Cpu).await?;
/// let linear = Linear::new(&Generator::new(&device, 0), 3, 2)?;
/// assert_eq!(linear.forward(&device.ones(&[5, 3])?)?.shape(), [5, 2]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Linear {
    /// `[outputs, inputs]`.
    pub weight: Variable,
    /// `[outputs]`.
    pub bias: Option<Variable>,
}

impl Linear {
    /// Creates a layer with a bias.
    ///
    /// # Errors
    /// `Limit` if the weight is too large.
    pub fn new(generator: &Generator, inputs: usize, outputs: usize) -> Result<Linear> {
        let mut linear = Linear::without_bias(generator, inputs, outputs)?;
        let bound = 1.0 / (inputs.max(1) as f64).sqrt();
        linear.bias = Some(Variable::new(&init::uniform(generator, &[outputs], -bound, bound)?));
        Ok(linear)
    }

    /// Creates a layer without a bias.
    ///
    /// # Errors
    /// `Limit` if the weight is too large.
    pub fn without_bias(generator: &Generator, inputs: usize, outputs: usize) -> Result<Linear> {
        let bound = 1.0 / (inputs.max(1) as f64).sqrt();
        let weight = init::uniform(generator, &[outputs, inputs], -bound, bound)?;
        Ok(Linear { weight: Variable::new(&weight), bias: None })
    }
}

/// Computes `x W^T + b` in the type of `x`.
pub(super) fn linear(x: &Tensor, weight: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    affine(x, &transposed(weight, x)?, bias)
}

/// Returns `W^T` in the type of `x`.
pub(super) fn transposed(weight: &Tensor, x: &Tensor) -> Result<Tensor> {
    with_op_name("linear", || like(weight.clone(), x)?.transpose(0, 1))
}

/// Computes `x A + b`.
pub(super) fn affine(x: &Tensor, matrix: &Tensor, bias: Option<&Tensor>) -> Result<Tensor> {
    with_op_name("linear", || {
        let product = x.matmul(matrix)?;
        match bias {
            Some(bias) => product.add(like(bias.clone(), x)?),
            None => Ok(product),
        }
    })
}

impl Module for Linear {
    fn members(&self, members: &mut Members) {
        members.parameter("weight", &self.weight).parameter_if("bias", &self.bias);
    }
}

impl Layer for Linear {
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let bias = self.bias.as_ref().map(Variable::value);
        linear(x, &self.weight.value(), bias.as_ref())
    }
}

/// A bilinear layer, `x1^T W x2 + b` for each output. The weight is `[outputs, inputs1, inputs2]` and the bias `[outputs]`.
/// Both are initialized uniformly within `1 / sqrt(inputs1)`.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::device::{Device, Preference};
/// # use warpweft::nn::{Bilinear, Generator};
/// # let device = Device::with(Preference::Cpu).await?;
/// let bilinear = Bilinear::new(&Generator::new(&device, 0), 3, 4, 2)?;
/// assert_eq!(bilinear.run(&device.ones(&[5, 3])?, &device.ones(&[5, 4])?)?.shape(), [5, 2]);
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug)]
pub struct Bilinear {
    /// `[outputs, inputs1, inputs2]`.
    pub weight: Variable,
    /// `[outputs]`.
    pub bias: Option<Variable>,
}

impl Bilinear {
    /// Creates a layer with a bias.
    ///
    /// # Errors
    /// `Limit` if the weight is too large.
    pub fn new(
        generator: &Generator,
        inputs1: usize,
        inputs2: usize,
        outputs: usize,
    ) -> Result<Bilinear> {
        let bound = 1.0 / (inputs1.max(1) as f64).sqrt();
        let begin = |shape: &[usize]| init::uniform(generator, shape, -bound, bound);
        let weight = Variable::new(&begin(&[outputs, inputs1, inputs2])?);
        Ok(Bilinear { weight, bias: Some(Variable::new(&begin(&[outputs])?)) })
    }

    /// Returns `[.., outputs]` for inputs `[.., inputs1]` and `[.., inputs2]`.
    ///
    /// # Errors
    /// `Shape` unless the last axes match the weight and all other axes are equal. `DType`.
    pub fn run(&self, x1: &Tensor, x2: &Tensor) -> Result<Tensor> {
        let weight = like(self.weight.value(), x1)?;
        let &[outputs, first, second] = weight.shape() else { unreachable!("it has three axes") };
        let (a, b) = (x1.shape(), x2.shape());
        let fit = match (a.split_last(), b.split_last()) {
            (Some((&i, before)), Some((&j, other))) => (i, j, before) == (first, second, other),
            _ => false,
        };
        if !fit {
            let message = format!(
                "bilinear: inputs must be [.., {first}] and [.., {second}], got {a:?} and {b:?}"
            );
            return Err(Error::shape(message));
        }
        let rows = weight.permute(&[1, 0, 2])?.reshape(&[first, outputs * second])?;
        let products = with_op_name("bilinear", || x1.matmul(&rows))?;
        let before = &a[..a.len() - 1];
        let products = products.reshape([before, &[outputs, second]].concat())?;
        let vector = x2.unsqueeze(-1)?;
        let sums = with_op_name("bilinear", || products.matmul(&vector))?.squeeze(-1)?;
        match &self.bias {
            Some(bias) => sums.add(like(bias.value(), x1)?),
            None => Ok(sums),
        }
    }
}

impl Module for Bilinear {
    fn members(&self, members: &mut Members) {
        members.parameter("weight", &self.weight).parameter_if("bias", &self.bias);
    }
}

/// A lookup table that returns a row for each index. The table is `[count, width]`, with normal initial values.
#[derive(Clone, Debug)]
pub struct Embedding {
    /// `[count, width]`.
    pub weight: Variable,
}

impl Embedding {
    /// Creates a table of `count` rows.
    ///
    /// # Errors
    /// `Limit` if the table is too large.
    pub fn new(generator: &Generator, count: usize, width: usize) -> Result<Embedding> {
        let weight = init::normal(generator, &[count, width], 0.0, 1.0)?;
        Ok(Embedding { weight: Variable::new(&weight) })
    }
}

impl Module for Embedding {
    fn members(&self, members: &mut Members) {
        members.parameter("weight", &self.weight);
    }
}

impl Layer for Embedding {
    /// Returns the rows for indices of any shape, as `[.., width]`.
    fn forward(&self, x: &Tensor) -> Result<Tensor> {
        let weight = self.weight.value();
        let shape = [x.shape(), &weight.shape()[1..]].concat();
        with_op_name("embedding", || weight.index_select(0, &x.ravel())?.reshape(&shape))
    }
}
