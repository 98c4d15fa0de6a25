//! Adam and its variants.

use super::number::Number;
use super::rule::{by_hyperparameters, hyperparameters, lerp, Rule, Update};
use crate::error::Result;
use crate::tensor::Tensor;

/// The names of the first and the second moment, and their initial values. The names are PyTorch's.
const MOMENTS: [(&str, f64); 2] = [("exp_avg", 0.0), ("exp_avg_sq", 0.0)];

/// Returns the moments of the gradients `g`: `m = beta1 m + (1 - beta1) g` and `v = beta2 v + (1 - beta2) g^2`.
fn moments(update: &Update, g: &Tensor, (beta1, beta2): (f64, f64)) -> Result<(Tensor, Tensor)> {
    let m = lerp(update.state("exp_avg"), g, 1.0 - beta1)?;
    let v = update.state("exp_avg_sq").mul(beta2)?.add(&g.square().mul(1.0 - beta2)?)?;
    Ok((m, v))
}

/// The hyperparameters that [`Adam`] and [`AdamW`] share, apart from their weight decay.
struct AdamStep {
    betas: (f64, f64),
    eps: f64,
    amsgrad: bool,
}

impl AdamStep {
    fn state(&self) -> Vec<(&'static str, f64)> {
        let mut names = MOMENTS.to_vec();
        names.extend(self.amsgrad.then_some(("max_exp_avg_sq", 0.0)));
        names
    }

    /// Takes the step of Kingma and Ba 2015, algorithm 1, from the values `theta` with the gradients `g`:
    ///
    /// ```text
    /// m_hat = m / (1 - beta1^step)
    /// v_hat = v / (1 - beta2^step)
    /// theta = theta - lr * m_hat / (sqrt(v_hat) + eps)
    /// ```
    fn update(&self, update: &Update, theta: &Tensor, g: &Tensor) -> Result<(Tensor, Vec<Tensor>)> {
        let (m, v) = moments(update, g, self.betas)?;
        let v_max = self.amsgrad.then(|| update.state("max_exp_avg_sq").maximum(&v)).transpose()?;
        let (step_size, v_scale) = update.bias_corrections(self.betas)?;
        let sqrt_v_hat = v_scale.times(&v_max.as_ref().unwrap_or(&v).sqrt())?;
        let change = step_size.times(&m.div(&sqrt_v_hat.add(self.eps)?)?)?;
        let mut state = vec![m, v];
        state.extend(v_max);
        Ok((theta.sub(&change)?, state))
    }
}

hyperparameters! {
    /// Adam divides the first moment of the gradients by the root of the second moment (Kingma and Ba 2015,
    /// `torch.optim.Adam`).
    Adam {
        /// The learning rate.
        lr: f64 = 1e-3 => 0.0..,
        /// The decay rates of the first and second moment.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// Added to the denominator for numerical stability.
        eps: f64 = 1e-8 => 0.0..,
        /// The L2 regularization factor. The values, multiplied by this factor, are added to the gradients.
        weight_decay: f64 = 0.0 => 0.0..,
        /// Whether the largest second moment so far is used (Reddi et al. 2018).
        amsgrad: bool = false,
    }
}

impl Adam {
    fn step(&self) -> AdamStep {
        AdamStep { betas: self.betas, eps: self.eps, amsgrad: self.amsgrad }
    }
}

impl Rule for Adam {
    by_hyperparameters!();

    fn state(&self) -> Vec<(&'static str, f64)> {
        self.step().state()
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let g = update.l2_decay(self.weight_decay)?;
        self.step().update(update, &update.value, &g)
    }
}

hyperparameters! {
    /// [`Adam`] with decoupled weight decay (Loshchilov and Hutter 2019, `torch.optim.AdamW`).
    AdamW {
        /// The learning rate.
        lr: f64 = 1e-3 => 0.0..,
        /// The decay rates of the first and second moment.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// Added to the denominator for numerical stability.
        eps: f64 = 1e-8 => 0.0..,
        /// The decoupled weight decay. A step multiplies the values by `1 - lr * weight_decay`.
        weight_decay: f64 = 1e-2 => 0.0..,
        /// Whether the largest second moment so far is used (Reddi et al. 2018).
        amsgrad: bool = false,
    }
}

impl AdamW {
    fn step(&self) -> AdamStep {
        AdamStep { betas: self.betas, eps: self.eps, amsgrad: self.amsgrad }
    }
}

impl Rule for AdamW {
    by_hyperparameters!();

    fn state(&self) -> Vec<(&'static str, f64)> {
        self.step().state()
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let theta = update.decoupled_decay(self.weight_decay)?;
        self.step().update(update, &theta, &update.gradient)
    }
}

hyperparameters! {
    /// [`Adam`] with a decaying maximum of absolute gradients instead of the second moment (Kingma and Ba 2015,
    /// `torch.optim.Adamax`).
    Adamax {
        /// The learning rate.
        lr: f64 = 2e-3 => 0.0..,
        /// The decay rates of the first moment and of the maximum.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// Added to the absolute values of the gradients for numerical stability.
        eps: f64 = 1e-8 => 0.0..,
        /// The L2 regularization factor. The values, multiplied by this factor, are added to the gradients.
        weight_decay: f64 = 0.0 => 0.0..,
    }
}

impl Rule for Adamax {
    by_hyperparameters!();

    fn state(&self) -> Vec<(&'static str, f64)> {
        vec![("exp_avg", 0.0), ("exp_inf", 0.0)]
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let g = update.l2_decay(self.weight_decay)?;
        let (beta1, beta2) = self.betas;
        let m = lerp(update.state("exp_avg"), &g, 1.0 - beta1)?;
        let u = update.state("exp_inf").mul(beta2)?.maximum(&g.abs().add(self.eps)?)?;
        let step_size = Number::from(update.lr).div(update.bias_correction(beta1)?)?;
        let change = step_size.times(&m.div(&u)?)?;
        Ok((update.value.sub(&change)?, vec![m, u]))
    }
}

hyperparameters! {
    /// [`Adam`] with Nesterov momentum (Dozat 2016, `torch.optim.NAdam`).
    NAdam {
        /// The learning rate.
        lr: f64 = 2e-3 => 0.0..,
        /// The decay rates of the first and second moment.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// Added to the denominator for numerical stability.
        eps: f64 = 1e-8 => 0.0..,
        /// The weight decay. By default it is L2 regularization, which adds the values, multiplied by this factor, to the
        /// gradients.
        weight_decay: f64 = 0.0 => 0.0..,
        /// The rate at which the momentum rises to the first of the `betas`.
        momentum_decay: f64 = 4e-3 => 0.0..,
        /// Whether the weight decay is decoupled, as in [`AdamW`].
        decoupled_weight_decay: bool = false,
    }
}

impl NAdam {
    /// The most momenta that are multiplied one by one. With this many steps the product is practically 0, or the further
    /// momenta are practically `betas.0`.
    const MOST: usize = 10_000;

    /// Returns the momentum of a step.
    fn momentum(&self, step: &Number) -> Result<Number> {
        let (most, decay) = (self.betas.0, self.momentum_decay);
        step.map(
            |step| most * (1.0 - 0.5 * 0.96f64.powf(step * decay)),
            |step| step.mul(decay * 0.96f64.ln())?.exp().mul(-0.5)?.add(1)?.mul(most),
        )
    }

    /// Returns the product of the momenta of all steps up to this one.
    fn product(&self, step: &Number) -> Result<Number> {
        let (most, decay) = (self.betas.0, self.momentum_decay);
        let momentum = |step: usize| most * (1.0 - 0.5 * 0.96f64.powf(step as f64 * decay));
        step.map(
            |step| (1..=NAdam::MOST.min(step as usize)).map(momentum).product(),
            |step| {
                // A sum of logarithms. `rest` is the sum for the momenta divided by `betas.0`. The factor `betas.0` is added
                // for all steps.
                let steps = step.device().arange(NAdam::MOST as f64)?.add(1)?;
                let rest = steps.mul(decay * 0.96f64.ln())?.exp().mul(-0.5)?.log1p();
                let rest = steps.le(step)?.where_cond(&rest, 0)?.sum(0)?;
                Ok(step.mul(most.max(1e-30).ln())?.add(&rest)?.exp())
            },
        )
    }
}

impl Rule for NAdam {
    by_hyperparameters!();

    fn state(&self) -> Vec<(&'static str, f64)> {
        MOMENTS.to_vec()
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let (theta, g) = update.apply_decay(self.weight_decay, self.decoupled_weight_decay)?;
        let (m, v) = moments(update, &g, self.betas)?;
        let v_scale = Number::from(1.0).div(update.bias_correction(self.betas.1)?)?;
        let denominator = v_scale.times(&v)?.sqrt().add(self.eps)?;
        let (mu, mu_next) = (self.momentum(&update.step)?, self.momentum(&update.step.add(1.0)?)?);
        let (lr, one) = (Number::from(update.lr), Number::from(1.0));
        let product = self.product(&update.step)?;
        let g_rate = lr.mul(one.sub(mu)?)?.div(one.sub(product.clone())?)?;
        let m_rate = lr.mul(mu_next.clone())?.div(one.sub(product.mul(mu_next)?)?)?;
        let (g_part, m_part) = (g_rate.times(&g)?, m_rate.times(&m)?);
        let change = g_part.add(&m_part)?.div(&denominator)?;
        Ok((theta.sub(&change)?, vec![m, v]))
    }
}

hyperparameters! {
    /// [`Adam`] with a rectified variance (Liu et al. 2020, `torch.optim.RAdam`). It divides by the root of the second moment
    /// only after enough steps.
    RAdam {
        /// The learning rate.
        lr: f64 = 1e-3 => 0.0..,
        /// The decay rates of the first and second moment.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// Added to the denominator for numerical stability.
        eps: f64 = 1e-8 => 0.0..,
        /// The weight decay. By default it is L2 regularization, which adds the values, multiplied by this factor, to the
        /// gradients.
        weight_decay: f64 = 0.0 => 0.0..,
        /// Whether the weight decay is decoupled, as in [`AdamW`].
        decoupled_weight_decay: bool = false,
    }
}

impl RAdam {
    /// Returns the limit of [`RAdam::rho`] after many steps.
    fn rho_max(&self) -> f64 {
        2.0 / (1.0 - self.betas.1) - 1.0
    }

    /// Returns the length of a simple moving average with the same variance as the second moment at this step.
    fn rho(&self, step: &Number) -> Result<Number> {
        let (beta, rho_max) = (self.betas.1, self.rho_max());
        let log = beta.max(1e-30).ln();
        step.map(
            |step| rho_max - 2.0 * step * beta.powf(step) / (1.0 - beta.powf(step)),
            |step| {
                // With `u = -n log(beta)`, `beta^n / (1 - beta^n)` is `1 / (e^u - 1)`, which is `1 / u - 1 / 2 + u / 12 -
                // ...`. The first term is subtracted from `rho_max` in `f64`, because the two nearly cancel.
                let u = step.mul(-log)?;
                let series = u.square().mul(-1.0 / 720.0)?.add(1.0 / 12.0)?.mul(&u)?;
                let exact = u.expm1().reciprocal().sub(&u.reciprocal())?.add(0.5)?;
                let rest = u.lt(0.5)?.where_cond(&series, &exact)?;
                step.mul(&rest.mul(-2)?.add(1)?)?.add(rho_max + 2.0 / log)
            },
        )
    }
}

impl Rule for RAdam {
    by_hyperparameters!();

    fn state(&self) -> Vec<(&'static str, f64)> {
        MOMENTS.to_vec()
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let (theta, g) = update.apply_decay(self.weight_decay, self.decoupled_weight_decay)?;
        let (m, v) = moments(update, &g, self.betas)?;
        let (beta1, beta2) = self.betas;
        let change = Number::from(update.lr).div(update.bias_correction(beta1)?)?.times(&m)?;
        let (rho, rho_max) = (self.rho(&update.step)?, self.rho_max());
        let rectified = || {
            let r = rho.sub(4.0)?.mul(rho.sub(2.0)?)?.div(rho.clone())?;
            let r = r.mul(rho_max / ((rho_max - 4.0) * (rho_max - 2.0)))?;
            let factor = r.mul(update.bias_correction(beta2)?)?.sqrt()?;
            factor.times(&change)?.div(&v.sqrt().add(self.eps)?)
        };
        let change = rho.choose(5.0, rectified, || Ok(change.clone()))?;
        Ok((theta.sub(&change)?, vec![m, v]))
    }
}

hyperparameters! {
    /// [`Adam`] with the variance of the gradients around their running mean as second moment (Zhuang et al. 2020, algorithm
    /// 2).
    AdaBelief {
        /// The learning rate.
        lr: f64 = 1e-3 => 0.0..,
        /// The decay rates of the first and second moment.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// Added to the second moment in each step, and to the denominator, for numerical stability.
        eps: f64 = 1e-16 => 0.0..,
        /// The decoupled weight decay. A step multiplies the values by `1 - lr * weight_decay`.
        weight_decay: f64 = 0.0 => 0.0..,
    }
}

impl Rule for AdaBelief {
    by_hyperparameters!();

    fn state(&self) -> Vec<(&'static str, f64)> {
        vec![("exp_avg", 0.0), ("exp_avg_var", 0.0)]
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let g = &update.gradient;
        let (beta1, beta2) = self.betas;
        let m = lerp(update.state("exp_avg"), g, 1.0 - beta1)?;
        let distance = g.sub(&m)?.square().mul(1.0 - beta2)?;
        let s = update.state("exp_avg_var").mul(beta2)?.add(&distance)?.add(self.eps)?;
        let (step_size, s_scale) = update.bias_corrections(self.betas)?;
        let denominator = s_scale.times(&s.sqrt())?.add(self.eps)?;
        let change = step_size.times(&m.div(&denominator)?)?;
        Ok((update.decoupled_decay(self.weight_decay)?.sub(&change)?, vec![m, s]))
    }
}

hyperparameters! {
    /// [`Adam`] with a second moment that changes by at most `(1 - beta2) g^2` in a step (Zaheer et al. 2018, algorithm 2).
    Yogi {
        /// The learning rate.
        lr: f64 = 1e-2 => 0.0..,
        /// The decay rates of the first and second moment.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// Added to the denominator for numerical stability.
        eps: f64 = 1e-3 => 0.0..,
        /// The initial value of both moments.
        initial_accumulator: f64 = 1e-6 => 0.0..,
        /// The L2 regularization factor. The values, multiplied by this factor, are added to the gradients.
        weight_decay: f64 = 0.0 => 0.0..,
    }
}

impl Rule for Yogi {
    by_hyperparameters!();

    fn state(&self) -> Vec<(&'static str, f64)> {
        MOMENTS.map(|(name, _)| (name, self.initial_accumulator)).to_vec()
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let g = update.l2_decay(self.weight_decay)?;
        let (beta1, beta2) = self.betas;
        let m = lerp(update.state("exp_avg"), &g, 1.0 - beta1)?;
        let (v, g_squared) = (update.state("exp_avg_sq"), g.square());
        let v_change = v.sub(&g_squared)?.sign().mul(&g_squared)?.mul(1.0 - beta2)?;
        let v = v.sub(&v_change)?;
        let (step_size, v_scale) = update.bias_corrections(self.betas)?;
        let denominator = v_scale.times(&v.sqrt())?.add(self.eps)?;
        let change = step_size.times(&m.div(&denominator)?)?;
        Ok((update.value.sub(&change)?, vec![m, v]))
    }
}
