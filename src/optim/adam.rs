//! Adam and its family.

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
    let root =
        largest.as_ref().unwrap_or(&square).sqrt().mul(1.0 / update.filled(betas.1).sqrt())?;
    let change = mean.div(&root.add(eps)?)?.mul(update.lr / update.filled(betas.0))?;
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
        let change = mean.div(&largest)?.mul(update.lr / update.filled(self.betas.0))?;
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
    fn momentum(&self, step: u64) -> f64 {
        self.betas.0 * (1.0 - 0.5 * 0.96f64.powf(step as f64 * self.momentum_decay))
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
        let root = square.mul(1.0 / update.filled(self.betas.1))?.sqrt().add(self.eps)?;
        // After some thousand steps the product is 0, and no further factor changes that.
        let product =
            (1..=update.step.min(10_000)).map(|step| self.momentum(step)).product::<f64>();
        let (now, next) = (self.momentum(update.step), self.momentum(update.step + 1));
        let of_gradient = gradient.mul(update.lr * (1.0 - now) / (1.0 - product))?;
        let of_mean = mean.mul(update.lr * next / (1.0 - product * next))?;
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

impl Rule for RAdam {
    by_numbers!();

    fn memory(&self) -> Vec<(&'static str, f64)> {
        MOMENTS.to_vec()
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let (value, gradient) =
            update.with_decay(self.weight_decay, self.decoupled_weight_decay)?;
        let (mean, square) = moments(update, &gradient, self.betas)?;
        let change = mean.mul(update.lr / update.filled(self.betas.0))?;
        // The length of a mean with as much variance, at most and by now.
        let (filled, most) = (update.filled(self.betas.1), 2.0 / (1.0 - self.betas.1) - 1.0);
        let length = most - 2.0 * update.step as f64 * (1.0 - filled) / filled;
        let change = match length > 5.0 {
            true => {
                let now = (length - 4.0) * (length - 2.0) / length;
                let factor = (now * most / ((most - 4.0) * (most - 2.0)) * filled).sqrt();
                change.mul(factor)?.div(&square.sqrt().add(self.eps)?)?
            }
            false => change,
        };
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
        let root = variance.sqrt().mul(1.0 / update.filled(self.betas.1).sqrt())?.add(self.eps)?;
        let change = mean.div(&root)?.mul(update.lr / update.filled(self.betas.0))?;
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
        let root = square.sqrt().mul(1.0 / update.filled(self.betas.1).sqrt())?.add(self.eps)?;
        let change = mean.div(&root)?.mul(update.lr / update.filled(self.betas.0))?;
        Ok((update.value.sub(&change)?, vec![mean, square]))
    }
}
