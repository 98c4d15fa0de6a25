//! Elementwise rules outside of Adam's family.

use super::number::Number;
use super::rule::{by_hyperparameters, hyperparameters, lerp, Rule, Update};
use crate::error::{Error, Result};
use crate::tensor::Tensor;

hyperparameters! {
    /// Stochastic gradient descent, optionally with momentum (`torch.optim.SGD`).
    Sgd {
        /// The learning rate.
        lr: f64 = 1e-3 => 0.0..,
        /// The momentum factor.
        momentum: f64 = 0.0 => 0.0..,
        /// The part of a gradient that is not added to the momentum. The gradients of the first step are added whole. A
        /// parameter whose first gradient comes later is dampened, unlike in PyTorch.
        dampening: f64 = 0.0,
        /// The L2 regularization factor. The values, multiplied by this factor, are added to the gradients.
        weight_decay: f64 = 0.0 => 0.0..,
        /// Whether Nesterov momentum is used (Nesterov 1983).
        nesterov: bool = false,
    }
}

impl Rule for Sgd {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn check(&self, _shapes: &[Vec<usize>]) -> Result<()> {
        self.check_hyperparameters()?;
        let Sgd { momentum, dampening, nesterov, .. } = *self;
        match nesterov && (momentum == 0.0 || dampening != 0.0) {
            true => Err(Error::argument(format!(
                "optimizer: nesterov of Sgd must have momentum and no dampening, got {momentum} and {dampening}"
            ))),
            false => Ok(()),
        }
    }

    fn state(&self) -> Vec<(&'static str, f64)> {
        match self.momentum {
            0.0 => vec![],
            _ => vec![("momentum_buffer", 0.0)],
        }
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let gradient = update.l2_decay(self.weight_decay)?;
        if self.momentum == 0.0 {
            return Ok((update.value.sub(&gradient.mul(update.lr)?)?, vec![]));
        }
        // The first gradient is not dampened.
        let kept = update.state("momentum_buffer").mul(self.momentum)?;
        let dampening = self.dampening;
        let buffer = match dampening {
            0.0 => kept.add(&gradient)?,
            _ => update.step.choose(
                1.5,
                || kept.add(&gradient.mul(1.0 - dampening)?),
                || kept.add(&gradient),
            )?,
        };
        let change = match self.nesterov {
            true => gradient.add(&buffer.mul(self.momentum)?)?,
            false => buffer.clone(),
        };
        Ok((update.value.sub(&change.mul(update.lr)?)?, vec![buffer]))
    }
}

hyperparameters! {
    /// Divides gradients by the root of a running mean of their squares (Hinton 2012, `torch.optim.RMSprop`).
    RmsProp {
        /// The learning rate.
        lr: f64 = 1e-2 => 0.0..,
        /// The decay rate of the running mean.
        alpha: f64 = 0.99 => 0.0..,
        /// Added to the denominator for numerical stability.
        eps: f64 = 1e-8 => 0.0..,
        /// The L2 regularization factor. The values, multiplied by this factor, are added to the gradients.
        weight_decay: f64 = 0.0 => 0.0..,
        /// The momentum factor.
        momentum: f64 = 0.0 => 0.0..,
        /// Whether the squared running mean of the gradients is subtracted, which gives their variance.
        centered: bool = false,
    }
}

impl Rule for RmsProp {
    by_hyperparameters!();

    fn state(&self) -> Vec<(&'static str, f64)> {
        let mut names = vec![("square_avg", 0.0)];
        names.extend(self.centered.then_some(("grad_avg", 0.0)));
        names.extend((self.momentum > 0.0).then_some(("momentum_buffer", 0.0)));
        names
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let gradient = update.l2_decay(self.weight_decay)?;
        let square = update.state("square_avg").mul(self.alpha)?;
        let square = square.add(&gradient.square().mul(1.0 - self.alpha)?)?;
        let (mut variance, mut state) = (square.clone(), vec![square]);
        if self.centered {
            let mean = lerp(update.state("grad_avg"), &gradient, 1.0 - self.alpha)?;
            variance = variance.sub(&mean.square())?;
            state.push(mean);
        }
        let mut change = gradient.div(&variance.sqrt().add(self.eps)?)?;
        if self.momentum > 0.0 {
            change = update.state("momentum_buffer").mul(self.momentum)?.add(&change)?;
            state.push(change.clone());
        }
        Ok((update.value.sub(&change.mul(update.lr)?)?, state))
    }
}

hyperparameters! {
    /// Divides gradients by the root of the sum of all their squares (Duchi et al. 2011, `torch.optim.Adagrad`).
    Adagrad {
        /// The learning rate.
        lr: f64 = 1e-2 => 0.0..,
        /// The decay of the learning rate, which is multiplied by `1 / (1 + (step - 1) * lr_decay)`.
        lr_decay: f64 = 0.0 => 0.0..,
        /// The L2 regularization factor. The values, multiplied by this factor, are added to the gradients.
        weight_decay: f64 = 0.0 => 0.0..,
        /// The initial value of the sums.
        initial_accumulator_value: f64 = 0.0 => 0.0..,
        /// Added to the denominator for numerical stability.
        eps: f64 = 1e-10 => 0.0..,
    }
}

impl Rule for Adagrad {
    by_hyperparameters!();

    fn state(&self) -> Vec<(&'static str, f64)> {
        vec![("sum", self.initial_accumulator_value)]
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let gradient = update.l2_decay(self.weight_decay)?;
        let sum = update.state("sum").add(&gradient.square())?;
        let rate = match self.lr_decay {
            0.0 => Number::from(update.lr),
            decay => Number::from(update.lr).div(update.step.sub(1.0)?.mul(decay)?.add(1.0)?)?,
        };
        let change = rate.times(&gradient.div(&sum.sqrt().add(self.eps)?)?)?;
        Ok((update.value.sub(&change)?, vec![sum]))
    }
}

hyperparameters! {
    /// Scales each change to the size of the earlier changes (Zeiler 2012, `torch.optim.Adadelta`).
    Adadelta {
        /// The learning rate.
        lr: f64 = 1.0 => 0.0..,
        /// The decay rate of the running means.
        rho: f64 = 0.9 => 0.0..=1.0,
        /// Added under both roots for numerical stability.
        eps: f64 = 1e-6 => 0.0..,
        /// The L2 regularization factor. The values, multiplied by this factor, are added to the gradients.
        weight_decay: f64 = 0.0 => 0.0..,
    }
}

impl Rule for Adadelta {
    by_hyperparameters!();

    fn state(&self) -> Vec<(&'static str, f64)> {
        vec![("square_avg", 0.0), ("acc_delta", 0.0)]
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let gradient = update.l2_decay(self.weight_decay)?;
        let rest = 1.0 - self.rho;
        let square = update.state("square_avg").mul(self.rho)?;
        let square = square.add(&gradient.square().mul(rest)?)?;
        let before = update.state("acc_delta");
        let scale = before.add(self.eps)?.sqrt().div(&square.add(self.eps)?.sqrt())?;
        let change = scale.mul(&gradient)?;
        let changes = before.mul(self.rho)?.add(&change.square().mul(rest)?)?;
        Ok((update.value.sub(&change.mul(update.lr)?)?, vec![square, changes]))
    }
}

hyperparameters! {
    /// Changes values by the sign of a running mean of the gradients (Chen et al. 2023).
    Lion {
        /// The learning rate.
        lr: f64 = 1e-4 => 0.0..,
        /// The decay rates of the running mean. The first one computes the change, and the second one the mean that is
        /// stored.
        betas: (f64, f64) = (0.9, 0.99) => 0.0..1.0,
        /// The decoupled weight decay. A step multiplies the values by `1 - lr * weight_decay`.
        weight_decay: f64 = 0.0 => 0.0..,
    }
}

impl Rule for Lion {
    by_hyperparameters!();

    fn state(&self) -> Vec<(&'static str, f64)> {
        vec![("exp_avg", 0.0)]
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let (m, g) = (update.state("exp_avg"), &update.gradient);
        let direction = lerp(m, g, 1.0 - self.betas.0)?.sign();
        let theta = update.decoupled_decay(self.weight_decay)?.sub(&direction.mul(update.lr)?)?;
        Ok((theta, vec![lerp(m, g, 1.0 - self.betas.1)?]))
    }
}

hyperparameters! {
    /// Averaged stochastic gradient descent (Polyak and Juditsky 1992, `torch.optim.ASGD`). The averages are `ax` in
    /// [`Optimizer::state_dict`](crate::optim::Optimizer::state_dict).
    Asgd {
        /// The learning rate.
        lr: f64 = 1e-2 => 0.0..,
        /// The decay term. The learning rate of a step is `lr / (1 + lambd * lr * (step - 1))^alpha`. The values are
        /// multiplied by 1 minus `lambd` times that rate.
        lambd: f64 = 1e-4 => 0.0..,
        /// The exponent in the decay of the learning rate.
        alpha: f64 = 0.75 => 0.0..,
        /// The step after which values are averaged.
        t0: f64 = 1e6 => 0.0..,
        /// The L2 regularization factor. The values, multiplied by this factor, are added to the gradients.
        weight_decay: f64 = 0.0 => 0.0..,
    }
}

impl Rule for Asgd {
    by_hyperparameters!();

    fn state(&self) -> Vec<(&'static str, f64)> {
        vec![("ax", 0.0)]
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let gradient = update.l2_decay(self.weight_decay)?;
        let (one, before) = (Number::from(1.0), update.step.sub(1.0)?);
        let fall = before.mul(self.lambd * update.lr)?.add(1.0)?;
        let fall = fall.map(|x| x.powf(self.alpha), |x| x.pow(self.alpha))?;
        let lr = Number::from(update.lr).div(fall)?;
        let kept = one.sub(lr.mul(self.lambd)?)?.times(&update.value)?;
        let value = kept.sub(&lr.times(&gradient)?)?;
        let averaged = before.sub(self.t0)?.map(|x| x.max(1.0), |x| x.maximum(1.0))?;
        let share = one.div(averaged)?;
        let kept = one.sub(share.clone())?.times(update.state("ax"))?;
        let average = kept.add(&share.times(&value)?)?;
        Ok((value, vec![average]))
    }
}

hyperparameters! {
    /// Changes values by the signs of the gradients alone (Riedmiller and Braun 1993, `torch.optim.Rprop`). The step size of
    /// an element grows while its sign stays the same. The rule is meant for gradients of the whole data set.
    Rprop {
        /// The initial step size. Later changes of the learning rate have no effect.
        lr: f64 = 1e-2 => 0.0..,
        /// The factors for the step size after a change of sign, and after equal signs.
        etas: (f64, f64) = (0.5, 1.2) => 0.0..,
        /// The smallest and the largest step size.
        step_sizes: (f64, f64) = (1e-6, 50.0) => 0.0..,
    }
}

impl Rule for Rprop {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn check(&self, _shapes: &[Vec<usize>]) -> Result<()> {
        self.check_hyperparameters()?;
        let (less, more) = self.etas;
        match 0.0 < less && less < 1.0 && 1.0 < more {
            true => Ok(()),
            false => Err(Error::argument(format!(
                "optimizer: etas of Rprop must be in (0, 1) and above 1, got {less} and {more}"
            ))),
        }
    }

    fn state(&self) -> Vec<(&'static str, f64)> {
        vec![("prev", 0.0), ("step_size", self.lr)]
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let agree = update.gradient.mul(update.state("prev"))?;
        let (turned, stayed) = (agree.lt(0.0)?, agree.gt(0.0)?);
        let before = update.state("step_size");
        let size = stayed.where_cond(&before.mul(self.etas.1)?, before)?;
        let size = turned.where_cond(&before.mul(self.etas.0)?, &size)?;
        let size = size.clamp(self.step_sizes.0, self.step_sizes.1)?;
        let gradient = turned.where_cond(0.0, &update.gradient)?;
        let value = update.value.sub(&gradient.sign().mul(&size)?)?;
        Ok((value, vec![gradient, size]))
    }
}
