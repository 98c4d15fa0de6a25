//! What a rule is.

use super::number::Number;
use crate::error::{Error, Result};
use crate::tensor::Tensor;
use std::fmt::Debug;
use std::ops::{Bound, RangeBounds};

/// How values follow from gradients. Values, gradients and what is remembered are flat: rank 1, all parameters one after the
/// other.
pub trait Rule {
    /// The learning rate to begin with.
    fn lr(&self) -> f64;

    /// The names of what it remembers of each element, with the numbers that they begin with.
    fn memory(&self) -> Vec<(&'static str, f64)>;

    /// Refuses numbers of its own that make no sense, and parameters of shapes that it is not for.
    ///
    /// # Errors
    /// `Data`; `Shape`.
    fn check(&self, _shapes: &[Vec<usize>]) -> Result<()> {
        Ok(())
    }

    /// The new values, and what is remembered then, in the order of [`Rule::memory`].
    ///
    /// # Errors
    /// Those of the operations that it is made of.
    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)>;
}

/// What an update is made of.
pub struct Update<'a> {
    /// The values.
    pub value: Tensor,
    /// The gradients.
    pub gradient: Tensor,
    /// What was remembered.
    pub memory: &'a [Tensor],
    /// The parameters' shapes, in their order.
    pub shapes: &'a [Vec<usize>],
    /// The learning rate of this step.
    pub lr: f64,
    /// The number of this step; the first is 1. Steps that [`Optimizer::mixed_precision`](super::Optimizer::mixed_precision)
    /// skipped do not count.
    pub step: Number,
}

impl Update<'_> {
    /// The gradients with `decay` times the values added.
    pub(super) fn decayed(&self, decay: f64) -> Result<Tensor> {
        match decay {
            0.0 => Ok(self.gradient.clone()),
            _ => self.gradient.add(&self.value.mul(decay)?),
        }
    }

    /// The values, made smaller by `decay` times the learning rate.
    pub(super) fn shrunk(&self, decay: f64) -> Result<Tensor> {
        match decay {
            0.0 => Ok(self.value.clone()),
            _ => self.value.mul(1.0 - self.lr * decay),
        }
    }

    /// The values and the gradients, after the decay of one of them: of the values where it is decoupled.
    pub(super) fn with_decay(&self, decay: f64, decoupled: bool) -> Result<(Tensor, Tensor)> {
        match decoupled {
            true => Ok((self.shrunk(decay)?, self.gradient.clone())),
            false => Ok((self.value.clone(), self.decayed(decay)?)),
        }
    }

    /// `1 - beta^step`: how much of a running mean that began at 0 is there.
    pub(super) fn filled(&self, beta: f64) -> Result<Number> {
        // Close to 1, `beta^step` in `f32` would leave few digits of the difference. A `beta` of 0 has no logarithm.
        let log = beta.max(1e-30).ln();
        self.step.map(|step| 1.0 - beta.powf(step), |step| Ok(step.mul(log)?.expm1().neg()))
    }

    /// The bias corrections of Adam and its family: the learning rate over [`Update::filled`] of the first beta, for the
    /// running mean, and one over the root of that of the second, for the root of the mean of squares.
    pub(super) fn corrections(&self, betas: (f64, f64)) -> Result<(Number, Number)> {
        let rate = Number::from(self.lr).div(self.filled(betas.0)?)?;
        Ok((rate, Number::from(1.0).div(self.filled(betas.1)?.sqrt()?)?))
    }

    /// What `make` makes of the parameters of each shape, which stand in flat tensors and are given to it stacked (one axis
    /// more, the first); flat again. So kernels are as many as shapes.
    pub(super) fn by_shape(
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

/// `mean + (x - mean) * rate`: a running mean that takes so much of `x`.
pub(super) fn toward(mean: &Tensor, x: &Tensor, rate: f64) -> Result<Tensor> {
    mean.add(&x.sub(mean)?.mul(rate)?)
}

/// What is declared with a range.
pub(super) trait Numbers: Debug {
    fn numbers(&self) -> Vec<f64>;
}

impl Numbers for f64 {
    fn numbers(&self) -> Vec<f64> {
        vec![*self]
    }
}

impl Numbers for (f64, f64) {
    fn numbers(&self) -> Vec<f64> {
        vec![self.0, self.1]
    }
}

impl Numbers for usize {
    fn numbers(&self) -> Vec<f64> {
        vec![*self as f64]
    }
}

/// Refuses a number of a rule's that is not in its range, which begins with 0; NaN is in none.
pub(super) fn in_range(
    (rule, field): (&str, &str),
    value: &impl Numbers,
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
    Err(Error::data(format!("optimizer: {field} of {rule} must be {wanted}, got {value:?}")))
}

/// Declares a rule's numbers, their ranges as PyTorch checks them, with a `Default` of PyTorch's and a `new` of the learning
/// rate.
macro_rules! numbers {
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
            /// With this learning rate, and PyTorch's defaults.
            pub fn new(lr: f64) -> $name {
                $name { lr, ..$name::default() }
            }

            /// Refuses numbers that are not in their ranges.
            fn check_numbers(&self) -> Result<()> {
                $($(
                    let place = (stringify!($name), stringify!($field));
                    $crate::optim::rule::in_range(place, &self.$field, $range)?;
                )?)*
                Ok(())
            }
        }
    };
}
pub(super) use numbers;

/// Of `impl Rule`, what follows from its numbers alone.
macro_rules! by_numbers {
    () => {
        fn lr(&self) -> f64 {
            self.lr
        }

        fn check(&self, _shapes: &[Vec<usize>]) -> Result<()> {
            self.check_numbers()
        }
    };
}
pub(super) use by_numbers;
