//! Adam and its family.

use super::number::Number;
use super::rule::{by_numbers, numbers, toward, Rule, Update};
use crate::error::Result;
use crate::tensor::Tensor;

const MOMENTS: [(&str, f64); 2] = [("exp_avg", 0.0), ("exp_avg_sq", 0.0)];

/// The running means of the gradients and of their squares.
fn moments(update: &Update, gradient: &Tensor, betas: (f64, f64)) -> Result<(Tensor, Tensor)> {
    let mean = toward(&update.memory[0], gradient, 1.0 - betas.0)?;
    let kept = update.memory[1].mul(betas.1)?;
    Ok((mean, kept.add(&gradient.square().mul(1.0 - betas.1)?)?))
}

/// The step of Adam from `value`.
fn step(
    update: &Update,
    value: &Tensor,
    gradient: &Tensor,
    (betas, eps, amsgrad): ((f64, f64), f64, bool),
) -> Result<(Tensor, Vec<Tensor>)> {
    let (mean, square) = moments(update, gradient, betas)?;
    let largest = amsgrad.then(|| update.memory[2].maximum(&square)).transpose()?;
    let (rate, scale) = update.corrections(betas)?;
    let root = scale.times(&largest.as_ref().unwrap_or(&square).sqrt())?;
    let change = rate.times(&mean.div(&root.add(eps)?)?)?;
    let mut memory = vec![mean, square];
    memory.extend(largest);
    Ok((value.sub(&change)?, memory))
}

fn remembered(amsgrad: bool) -> Vec<(&'static str, f64)> {
    let mut names = MOMENTS.to_vec();
    names.extend(amsgrad.then_some(("max_exp_avg_sq", 0.0)));
    names
}

numbers! {
    /// A running mean of the gradients by the root of one of their squares (Kingma and Ba 2015, `torch.optim.Adam`).
    Adam {
        /// The learning rate.
        lr: f64 = 1e-3 => 0.0..,
        /// How much of the two running means stays.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// What is added to the root.
        eps: f64 = 1e-8 => 0.0..,
        /// How much of the values is added to the gradients.
        weight_decay: f64 = 0.0 => 0.0..,
        /// Whether the largest mean of squares so far counts (Reddi and others 2018).
        amsgrad: bool = false,
    }
}

impl Rule for Adam {
    by_numbers!();

    fn memory(&self) -> Vec<(&'static str, f64)> {
        remembered(self.amsgrad)
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let gradient = update.decayed(self.weight_decay)?;
        step(update, &update.value, &gradient, (self.betas, self.eps, self.amsgrad))
    }
}

numbers! {
    /// [`Adam`], with values that become smaller by themselves (Loshchilov and Hutter 2019, `torch.optim.AdamW`).
    AdamW {
        /// The learning rate.
        lr: f64 = 1e-3 => 0.0..,
        /// How much of the two running means stays.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// What is added to the root.
        eps: f64 = 1e-8 => 0.0..,
        /// How much smaller the values become by themselves, times the learning rate.
        weight_decay: f64 = 1e-2 => 0.0..,
        /// Whether the largest mean of squares so far counts (Reddi and others 2018).
        amsgrad: bool = false,
    }
}

impl Rule for AdamW {
    by_numbers!();

    fn memory(&self) -> Vec<(&'static str, f64)> {
        remembered(self.amsgrad)
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let value = update.shrunk(self.weight_decay)?;
        step(update, &value, &update.gradient, (self.betas, self.eps, self.amsgrad))
    }
}

numbers! {
    /// [`Adam`] with the largest gradient of late in place of the root (Kingma and Ba 2015, `torch.optim.Adamax`).
    Adamax {
        /// The learning rate.
        lr: f64 = 2e-3 => 0.0..,
        /// How much of the running mean, and of the largest, stays.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// What is added to sizes of gradients.
        eps: f64 = 1e-8 => 0.0..,
        /// How much of the values is added to the gradients.
        weight_decay: f64 = 0.0 => 0.0..,
    }
}

impl Rule for Adamax {
    by_numbers!();

    fn memory(&self) -> Vec<(&'static str, f64)> {
        vec![("exp_avg", 0.0), ("exp_inf", 0.0)]
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let gradient = update.decayed(self.weight_decay)?;
        let mean = toward(&update.memory[0], &gradient, 1.0 - self.betas.0)?;
        let largest =
            update.memory[1].mul(self.betas.1)?.maximum(&gradient.abs().add(self.eps)?)?;
        let rate = Number::from(update.lr).div(update.filled(self.betas.0)?)?;
        let change = rate.times(&mean.div(&largest)?)?;
        Ok((update.value.sub(&change)?, vec![mean, largest]))
    }
}

numbers! {
    /// [`Adam`] that looks one step ahead (Dozat 2016, `torch.optim.NAdam`).
    NAdam {
        /// The learning rate.
        lr: f64 = 2e-3 => 0.0..,
        /// How much of the two running means stays.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// What is added to the root.
        eps: f64 = 1e-8 => 0.0..,
        /// How much of the values is added to the gradients.
        weight_decay: f64 = 0.0 => 0.0..,
        /// How fast the momentum rises.
        momentum_decay: f64 = 4e-3 => 0.0..,
        /// Whether the values become smaller by themselves instead, as in [`AdamW`].
        decoupled_weight_decay: bool = false,
    }
}

impl NAdam {
    /// Steps whose momenta are multiplied. After that many the product is 0, or one more factor changes it no more than
    /// `betas.0` does.
    const MOST: usize = 10_000;

    /// The momentum of a step.
    fn momentum(&self, step: &Number) -> Result<Number> {
        let (most, decay) = (self.betas.0, self.momentum_decay);
        step.map(
            |step| most * (1.0 - 0.5 * 0.96f64.powf(step * decay)),
            |step| step.mul(decay * 0.96f64.ln())?.exp().mul(-0.5)?.add(1)?.mul(most),
        )
    }

    /// The product of the momenta of all steps up to this one.
    fn product(&self, step: &Number) -> Result<Number> {
        let (most, decay) = (self.betas.0, self.momentum_decay);
        let momentum = |step: usize| most * (1.0 - 0.5 * 0.96f64.powf(step as f64 * decay));
        step.map(
            |step| (1..=NAdam::MOST.min(step as usize)).map(momentum).product(),
            |step| {
                // A sum of logarithms: what is left of each momentum without `betas.0`, and that for all steps.
                let steps = step.device().arange(NAdam::MOST as f64)?.add(1)?;
                let rest = steps.mul(decay * 0.96f64.ln())?.exp().mul(-0.5)?.log1p();
                let rest = steps.le(step)?.where_cond(&rest, 0)?.sum(0)?;
                Ok(step.mul(most.max(1e-30).ln())?.add(&rest)?.exp())
            },
        )
    }
}

impl Rule for NAdam {
    by_numbers!();

    fn memory(&self) -> Vec<(&'static str, f64)> {
        MOMENTS.to_vec()
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let (value, gradient) =
            update.with_decay(self.weight_decay, self.decoupled_weight_decay)?;
        let (mean, square) = moments(update, &gradient, self.betas)?;
        let scale = Number::from(1.0).div(update.filled(self.betas.1)?)?;
        let root = scale.times(&square)?.sqrt().add(self.eps)?;
        let (now, next) = (self.momentum(&update.step)?, self.momentum(&update.step.add(1.0)?)?);
        let (lr, one) = (Number::from(update.lr), Number::from(1.0));
        let product = self.product(&update.step)?;
        let rate = lr.mul(one.sub(now)?)?.div(one.sub(product.clone())?)?;
        let rate_of_mean = lr.mul(next.clone())?.div(one.sub(product.mul(next)?)?)?;
        let (of_gradient, of_mean) = (rate.times(&gradient)?, rate_of_mean.times(&mean)?);
        let change = of_gradient.add(&of_mean)?.div(&root)?;
        Ok((value.sub(&change)?, vec![mean, square]))
    }
}

numbers! {
    /// [`Adam`] that waits for squares enough before it divides by their root (Liu and others 2020, `torch.optim.RAdam`).
    RAdam {
        /// The learning rate.
        lr: f64 = 1e-3 => 0.0..,
        /// How much of the two running means stays.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// What is added to the root.
        eps: f64 = 1e-8 => 0.0..,
        /// How much of the values is added to the gradients.
        weight_decay: f64 = 0.0 => 0.0..,
        /// Whether the values become smaller by themselves instead, as in [`AdamW`].
        decoupled_weight_decay: bool = false,
    }
}

impl RAdam {
    /// The most that [`RAdam::length`] can be.
    fn longest(&self) -> f64 {
        2.0 / (1.0 - self.betas.1) - 1.0
    }

    /// The length of a plain mean with as much variance as the running mean of squares has at this step.
    fn length(&self, step: &Number) -> Result<Number> {
        let (beta, most) = (self.betas.1, self.longest());
        let log = beta.max(1e-30).ln();
        step.map(
            |step| most - 2.0 * step * beta.powf(step) / (1.0 - beta.powf(step)),
            |step| {
                // `beta^n / (1 - beta^n)` is `1 / (e^u - 1)` where `u` is `-n log(beta)`, and that is
                // `1 / u - 1 / 2 + u / 12 - ...`. Nearly all of the first term is taken away by `most`, so `f64` does that.
                let u = step.mul(-log)?;
                let series = u.square().mul(-1.0 / 720.0)?.add(1.0 / 12.0)?.mul(&u)?;
                let exact = u.expm1().reciprocal().sub(&u.reciprocal())?.add(0.5)?;
                let rest = u.lt(0.5)?.where_cond(&series, &exact)?;
                step.mul(&rest.mul(-2)?.add(1)?)?.add(most + 2.0 / log)
            },
        )
    }
}

impl Rule for RAdam {
    by_numbers!();

    fn memory(&self) -> Vec<(&'static str, f64)> {
        MOMENTS.to_vec()
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let (value, gradient) =
            update.with_decay(self.weight_decay, self.decoupled_weight_decay)?;
        let (mean, square) = moments(update, &gradient, self.betas)?;
        let change = Number::from(update.lr).div(update.filled(self.betas.0)?)?.times(&mean)?;
        let (length, most) = (self.length(&update.step)?, self.longest());
        let rectified = || {
            let now = length.sub(4.0)?.mul(length.sub(2.0)?)?.div(length.clone())?;
            let factor = now.mul(most / ((most - 4.0) * (most - 2.0)))?;
            let factor = factor.mul(update.filled(self.betas.1)?)?.sqrt()?;
            factor.times(&change)?.div(&square.sqrt().add(self.eps)?)
        };
        let change = length.choose(5.0, rectified, || Ok(change.clone()))?;
        Ok((value.sub(&change)?, vec![mean, square]))
    }
}

numbers! {
    /// [`Adam`] by how far gradients are from their running mean (Zhuang and others 2020, algorithm 2).
    AdaBelief {
        /// The learning rate.
        lr: f64 = 1e-3 => 0.0..,
        /// How much of the two running means stays.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// What is added to the squares of the distances each time, and to their root.
        eps: f64 = 1e-16 => 0.0..,
        /// How much smaller the values become by themselves, times the learning rate.
        weight_decay: f64 = 0.0 => 0.0..,
    }
}

impl Rule for AdaBelief {
    by_numbers!();

    fn memory(&self) -> Vec<(&'static str, f64)> {
        vec![("exp_avg", 0.0), ("exp_avg_var", 0.0)]
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let gradient = &update.gradient;
        let mean = toward(&update.memory[0], gradient, 1.0 - self.betas.0)?;
        let square = gradient.sub(&mean)?.square().mul(1.0 - self.betas.1)?;
        let variance = update.memory[1].mul(self.betas.1)?.add(&square)?.add(self.eps)?;
        let (rate, scale) = update.corrections(self.betas)?;
        let root = scale.times(&variance.sqrt())?.add(self.eps)?;
        let change = rate.times(&mean.div(&root)?)?;
        Ok((update.shrunk(self.weight_decay)?.sub(&change)?, vec![mean, variance]))
    }
}

numbers! {
    /// [`Adam`] whose squares change by no more than those of a gradient (Zaheer and others 2018, algorithm 2).
    Yogi {
        /// The learning rate.
        lr: f64 = 1e-2 => 0.0..,
        /// How much of the two running means stays.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// What is added to the root.
        eps: f64 = 1e-3 => 0.0..,
        /// What the two running means begin with.
        initial_accumulator: f64 = 1e-6 => 0.0..,
        /// How much of the values is added to the gradients.
        weight_decay: f64 = 0.0 => 0.0..,
    }
}

impl Rule for Yogi {
    by_numbers!();

    fn memory(&self) -> Vec<(&'static str, f64)> {
        MOMENTS.map(|(name, _)| (name, self.initial_accumulator)).to_vec()
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let gradient = update.decayed(self.weight_decay)?;
        let mean = toward(&update.memory[0], &gradient, 1.0 - self.betas.0)?;
        let (before, now) = (&update.memory[1], gradient.square());
        let change = before.sub(&now)?.sign().mul(&now)?.mul(1.0 - self.betas.1)?;
        let square = before.sub(&change)?;
        let (rate, scale) = update.corrections(self.betas)?;
        let root = scale.times(&square.sqrt())?.add(self.eps)?;
        let change = rate.times(&mean.div(&root)?)?;
        Ok((update.value.sub(&change)?, vec![mean, square]))
    }
}
