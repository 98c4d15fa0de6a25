//! The `Rule` trait: one optimizer's update step.

use super::number::Number;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

/// Computes new parameter values from gradients. Values, gradients and state are flat. Each is a tensor of rank 1 with the
/// elements of all parameters, one parameter after the other.
pub trait Rule {
    /// The initial learning rate.
    fn lr(&self) -> f64;

    /// The names and the initial values of the state tensors. Each has one number for each element of the parameters.
    fn state(&self) -> Vec<(&'static str, f64)>;

    /// Rejects hyperparameters out of range, and parameters of shapes that the rule does not support.
    ///
    /// # Errors
    /// `InvalidArgument`; `Shape`.
    fn check(&self, _shapes: &[Vec<usize>]) -> Result<()> {
        Ok(())
    }

    /// Returns the new values and the new state, in the order of [`Rule::state`].
    ///
    /// # Errors
    /// The errors of the operations that compute the step.
    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)>;
}

/// The inputs of an update step.
pub struct Update<'a> {
    /// The values.
    pub value: Tensor,
    /// The gradients.
    pub gradient: Tensor,
    /// The state of the previous step, with the names of [`Rule::state`].
    pub state: &'a [(&'static str, Tensor)],
    /// The parameters' shapes, in their order.
    pub shapes: &'a [Vec<usize>],
    /// The learning rate of this step.
    pub lr: f64,
    /// The number of this step, starting at 1. Steps that [`Optimizer::mixed_precision`](super::Optimizer::mixed_precision)
    /// skipped do not count.
    pub step: Number,
}

impl Update<'_> {
    /// Returns a state tensor of the previous step by its name.
    ///
    /// # Panics
    /// If [`Rule::state`] does not list the name.
    pub fn state(&self, name: &str) -> &Tensor {
        let found = self.state.iter().find(|(other, _)| *other == name);
        &found.expect("`Rule::state` lists the name").1
    }

    /// Returns the gradients plus `decay` times the values (L2 regularization).
    pub(super) fn l2_decay(&self, decay: f64) -> Result<Tensor> {
        match decay {
            0.0 => Ok(self.gradient.clone()),
            _ => self.gradient.add(&self.value.mul(decay)?),
        }
    }

    /// Returns the values times `1 - lr * decay`. This is decoupled weight decay (Loshchilov and Hutter 2019).
    pub(super) fn decoupled_decay(&self, decay: f64) -> Result<Tensor> {
        match decay {
            0.0 => Ok(self.value.clone()),
            _ => self.value.mul(1.0 - self.lr * decay),
        }
    }

    /// Returns the values and the gradients after weight decay. Decoupled weight decay changes the values. Otherwise it
    /// changes the gradients.
    pub(super) fn apply_decay(&self, decay: f64, decoupled: bool) -> Result<(Tensor, Tensor)> {
        match decoupled {
            true => Ok((self.decoupled_decay(decay)?, self.gradient.clone())),
            false => Ok((self.value.clone(), self.l2_decay(decay)?)),
        }
    }

    /// Returns the bias correction `1 - beta^step`, by which a running mean that started at 0 is divided.
    pub(super) fn bias_correction(&self, beta: f64) -> Result<Number> {
        // For `beta` close to 1, `1 - beta^step` in `f32` would lose most digits. A `beta` of 0 has no logarithm.
        let log = beta.max(1e-30).ln();
        self.step.map(|step| 1.0 - beta.powf(step), |step| Ok(step.mul(log)?.expm1().neg()))
    }

    /// Returns the bias corrections of Adam and its family, as factors. The first is the step size `lr / (1 - beta1^step)`.
    /// The second, for the square root of the second moment, is `1 / sqrt(1 - beta2^step)`.
    pub(super) fn bias_corrections(&self, betas: (f64, f64)) -> Result<(Number, Number)> {
        let step_size = Number::from(self.lr).div(self.bias_correction(betas.0)?)?;
        Ok((step_size, Number::from(1.0).div(self.bias_correction(betas.1)?.sqrt()?)?))
    }

    /// Calls `make` once for each distinct shape, with all parameters of that shape stacked along a new first axis. Returns
    /// the results as one flat tensor. The number of kernels is therefore that of shapes, not that of parameters.
    pub(super) fn map_by_shape(
        &self,
        flat: &[&Tensor],
        make: impl Fn(&[Tensor]) -> Result<Tensor>,
    ) -> Result<Tensor> {
        let mut starts = Vec::with_capacity(self.shapes.len());
        let mut end = 0;
        for shape in self.shapes {
            starts.push(end);
            end += shape.iter().product::<usize>() as isize;
        }
        let mut made: Vec<Option<Tensor>> = vec![None; self.shapes.len()];
        for (first, shape) in self.shapes.iter().enumerate() {
            if made[first].is_some() {
                continue;
            }
            let alike: Vec<usize> =
                (first..made.len()).filter(|&i| self.shapes[i] == *shape).collect();
            let count = shape.iter().product::<usize>() as isize;
            let part = |x: &Tensor, i: usize| {
                x.slice(0, starts[i]..starts[i] + count)?.reshape(&shape[..])
            };
            let stacked = |x: &&Tensor| {
                let parts: Result<Vec<Tensor>> = alike.iter().map(|&i| part(x, i)).collect();
                Tensor::stack(&parts?, 0)
            };
            let all = make(&flat.iter().map(stacked).collect::<Result<Vec<_>>>()?)?;
            for (at, &i) in alike.iter().enumerate() {
                made[i] = Some(all.select(0, at as isize)?.reshape(&[-1])?);
            }
        }
        let made: Vec<Tensor> = made.into_iter().flatten().collect();
        Tensor::concat(&made, 0)
    }
}

/// Returns the linear interpolation `mean + (x - mean) * rate`, which updates a running mean.
pub(super) fn lerp(mean: &Tensor, x: &Tensor, rate: f64) -> Result<Tensor> {
    mean.add(&x.sub(mean)?.mul(rate)?)
}

/// A hyperparameter with a range.
pub(super) trait Hyperparameter: Debug {
    fn numbers(&self) -> Vec<f64>;
}

impl Hyperparameter for f64 {
    fn numbers(&self) -> Vec<f64> {
        vec![*self]
    }
}

impl Hyperparameter for (f64, f64) {
    fn numbers(&self) -> Vec<f64> {
        vec![self.0, self.1]
    }
}

impl Hyperparameter for usize {
    fn numbers(&self) -> Vec<f64> {
        vec![*self as f64]
    }
}

/// Rejects a hyperparameter out of its range, which starts at 0. NaN is in no range.
pub(super) fn in_range(
    (rule, field): (&str, &str),
    value: &impl Hyperparameter,
    range: impl RangeBounds<f64>,
) -> Result<()> {
    if value.numbers().iter().all(|number| range.contains(number)) {
        return Ok(());
    }
    let wanted = match range.end_bound() {
        Bound::Unbounded => "at least 0".to_string(),
        Bound::Included(end) => format!("in [0, {end}]"),
        Bound::Excluded(end) => format!("in [0, {end})"),
    };
    Err(Error::argument(format!("optimizer: {field} of {rule} must be {wanted}, got {value:?}")))
}

/// Declares the hyperparameters of a rule, and their ranges as PyTorch checks them. `Default` returns PyTorch's defaults, and
/// `new` takes the learning rate.
macro_rules! hyperparameters {
    ($(#[$doc:meta])* $name:ident {
        $($(#[$about:meta])* $field:ident: $ty:ty = $value:expr $(=> $range:expr)?,)*
    }) => {
        $(#[$doc])*
        #[cfg_attr(feature = "js-nn", warpweft_macros::js)]
        #[derive(Clone, Copy, Debug, PartialEq)]
        pub struct $name { $($(#[$about])* pub $field: $ty,)* }

        impl Default for $name {
            fn default() -> $name {
                $name { $($field: $value,)* }
            }
        }

        impl $name {
            /// Creates the rule with this learning rate and default values for all other hyperparameters.
            pub fn new(lr: f64) -> $name {
                $name { lr, ..$name::default() }
            }

            /// Rejects hyperparameters out of their ranges.
            fn check_hyperparameters(&self) -> Result<()> {
                $($(
                    let place = (stringify!($name), stringify!($field));
                    $crate::optim::rule::in_range(place, &self.$field, $range)?;
                )?)*
                Ok(())
            }
        }
    };
}
pub(super) use hyperparameters;

/// Implements the methods of `Rule` that depend on the hyperparameters alone.
macro_rules! by_hyperparameters {
    () => {
        fn lr(&self) -> f64 {
            self.lr
        }

        fn check(&self, _shapes: &[Vec<usize>]) -> Result<()> {
            self.check_hyperparameters()
        }
    };
}
pub(super) use by_hyperparameters;
