//! Convolutions with learned kernels.

use super::module::{like, like_if};
use super::{init, Generator, Layer, Members, Module};
use crate::error::{Error, Result};
use crate::tensor::{ConvOptions, ConvTransposeOptions, Tensor, Variable};

/// Returns a weight and a bias, both uniform within `1 / sqrt(fan_in)`. `fan_in` is the first result of [`init::fans`].
fn begin(generator: &Generator, shape: &[usize], outputs: usize) -> Result<(Variable, Variable)> {
    let bound = 1.0 / (init::fans(shape)?.0.max(1) as f64).sqrt();
    let weight = init::uniform(generator, shape, -bound, bound)?;
    let bias = init::uniform(generator, &[outputs], -bound, bound)?;
    Ok((Variable::new(&weight), Variable::new(&bias)))
}

macro_rules! convolutions {
    ($($conv:ident $conv_fn:ident, $transposed:ident $transposed_fn:ident, $n:literal, $axes:literal;)*) => { $(
        #[doc = concat!("A layer of [`Tensor::", stringify!($conv_fn), "`] with a learned weight and bias. Its input is")]
        #[doc = concat!("`[batch, channels, ", $axes, "]`, where the batch axis may be missing.")]
        #[derive(Clone, Debug)]
        pub struct $conv {
            /// The shape is `[outputs, inputs / groups]`, followed by the kernel size.
            pub weight: Variable,
            /// `[outputs]`.
            pub bias: Option<Variable>,
            /// Stride, padding, dilation and groups.
            pub options: ConvOptions<$n>,
        }

        impl $conv {
            /// Creates a convolution from `inputs` to `outputs` channels.
            ///
            /// # Errors
            /// `Shape` if the channels are not multiples of the groups. `Limit` if the weight is too large.
            pub fn new(
                generator: &Generator,
                inputs: usize,
                outputs: usize,
                kernel_size: [usize; $n],
                options: ConvOptions<$n>,
            ) -> Result<$conv> {
                let inner = divided(stringify!($conv_fn), inputs, outputs, options.groups)?.0;
                let shape = [&[outputs, inner], &kernel_size[..]].concat();
                let (weight, bias) = begin(generator, &shape, outputs)?;
                Ok($conv { weight, bias: Some(bias), options })
            }
        }

        impl Module for $conv {
            fn members(&self, members: &mut Members) {
                members.parameter("weight", &self.weight).parameter_if("bias", &self.bias);
            }
        }

        impl Layer for $conv {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                let bias = like_if(self.bias.as_ref(), x)?;
                x.$conv_fn(&like(self.weight.value(), x)?, bias.as_ref(), self.options)
            }
        }

        #[doc = concat!("A layer of [`Tensor::", stringify!($transposed_fn), "`] with a learned weight and bias. Its input is")]
        #[doc = concat!("`[batch, channels, ", $axes, "]`, where the batch axis may be missing.")]
        #[derive(Clone, Debug)]
        pub struct $transposed {
            /// The shape is `[inputs, outputs / groups]`, followed by the kernel size.
            pub weight: Variable,
            /// `[outputs]`.
            pub bias: Option<Variable>,
            /// Stride, padding, dilation and groups.
            pub options: ConvTransposeOptions<$n>,
        }

        impl $transposed {
            /// Creates a transposed convolution from `inputs` to `outputs` channels.
            ///
            /// # Errors
            /// `Shape` if the channels are not multiples of the groups. `Limit` if the weight is too large.
            pub fn new(
                generator: &Generator,
                inputs: usize,
                outputs: usize,
                kernel_size: [usize; $n],
                options: ConvTransposeOptions<$n>,
            ) -> Result<$transposed> {
                let inner = divided(stringify!($transposed_fn), inputs, outputs, options.groups)?.1;
                let shape = [&[inputs, inner], &kernel_size[..]].concat();
                let (weight, bias) = begin(generator, &shape, outputs)?;
                Ok($transposed { weight, bias: Some(bias), options })
            }
        }

        impl Module for $transposed {
            fn members(&self, members: &mut Members) {
                members.parameter("weight", &self.weight).parameter_if("bias", &self.bias);
            }
        }

        impl Layer for $transposed {
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                let bias = like_if(self.bias.as_ref(), x)?;
                x.$transposed_fn(&like(self.weight.value(), x)?, bias.as_ref(), self.options)
            }
        }
    )* };
}

convolutions! {
    Conv1d conv1d, ConvTranspose1d conv_transpose1d, 1, "length";
    Conv2d conv2d, ConvTranspose2d conv_transpose2d, 2, "height, width";
    Conv3d conv3d, ConvTranspose3d conv_transpose3d, 3, "depth, height, width";
}

/// Returns the input and output channels of each group.
fn divided(name: &str, inputs: usize, outputs: usize, groups: usize) -> Result<(usize, usize)> {
    if groups == 0 || !inputs.is_multiple_of(groups) || !outputs.is_multiple_of(groups) {
        let message = format!("{name}: channels must be multiples of the groups, got {inputs} to {outputs} in {groups} groups");
        return Err(Error::shape(message));
    }
    Ok((inputs / groups, outputs / groups))
}
