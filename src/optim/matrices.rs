//! Rules that use the shapes of parameters: `Lamb` and `Muon`.

use super::number::Number;
use super::rule::{by_hyperparameters, hyperparameters, lerp, Rule, Update};
use crate::error::{Error, Result};
use crate::tensor::{Axes, Tensor};

hyperparameters! {
    /// [`Adam`](super::Adam) with layerwise adaptation (You et al. 2020). The change of each parameter is scaled to the
    /// parameter's norm, before it is multiplied by the learning rate.
    Lamb {
        /// The learning rate.
        lr: f64 = 1e-3 => 0.0..,
        /// The decay rates of the first and second moment.
        betas: (f64, f64) = (0.9, 0.999) => 0.0..1.0,
        /// Added to the denominator for numerical stability.
        eps: f64 = 1e-6 => 0.0..,
        /// The weight decay. The values, multiplied by this factor, are added to the change.
        weight_decay: f64 = 0.0 => 0.0..,
    }
}

impl Rule for Lamb {
    by_hyperparameters!();

    fn state(&self) -> Vec<(&'static str, f64)> {
        vec![("exp_avg", 0.0), ("exp_avg_sq", 0.0)]
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let (g, (beta1, beta2)) = (&update.gradient, self.betas);
        let m = lerp(update.state("exp_avg"), g, 1.0 - beta1)?;
        let v = update.state("exp_avg_sq").mul(beta2)?.add(&g.square().mul(1.0 - beta2)?)?;
        let one = Number::from(1.0);
        let (correction1, correction2) =
            (update.bias_correction(beta1)?, update.bias_correction(beta2)?);
        let denominator = one.div(correction2)?.times(&v)?.sqrt().add(self.eps)?;
        let r = one.div(correction1)?.times(&m)?.div(&denominator)?;
        let change = r.add(&update.value.mul(self.weight_decay)?)?;
        let theta = update.map_by_shape(&[&update.value, &change], |parts| {
            let [theta, change] = parts else { unreachable!("two were given") };
            let count = theta.shape()[0];
            let rows = [count, theta.numel() / count];
            let (theta, change) = (theta.reshape(&rows)?, change.reshape(&rows)?);
            let each = || Axes::from(1).keepdim(true);
            let (theta_norm, change_norm) = (theta.norm_l2(each())?, change.norm_l2(each())?);
            let both = theta_norm.gt(0.0)?.logical_and(&change_norm.gt(0.0)?)?;
            let one = theta.device().full(&[], 1.0, theta.dtype())?;
            let trust_ratio = both.where_cond(&theta_norm.div(&change_norm)?, &one)?;
            theta.sub(&change.mul(&trust_ratio)?.mul(update.lr)?)
        })?;
        Ok((theta, vec![m, v]))
    }
}

hyperparameters! {
    /// Momentum whose matrices are nearly orthogonalized by Newton-Schulz iterations (Jordan et al. 2024,
    /// `torch.optim.Muon`). Use it for the matrices of a model's hidden layers, and another rule for the other parameters
    /// ([`Optimizer::add_group`](super::Optimizer::add_group)).
    Muon {
        /// The learning rate.
        lr: f64 = 1e-3 => 0.0..,
        /// The decoupled weight decay. A step multiplies the values by `1 - lr * weight_decay`.
        weight_decay: f64 = 0.1 => 0.0..,
        /// The decay rate of the running mean of the gradients.
        momentum: f64 = 0.95 => 0.0..,
        /// Whether Nesterov momentum is used.
        nesterov: bool = true,
        /// The coefficients of the Newton-Schulz polynomial for the first, third and fifth power of the matrix.
        #[cfg_attr(feature = "js-nn", js(skip))]
        ns_coefficients: (f64, f64, f64) = (3.4445, -4.775, 2.0315),
        /// The number of Newton-Schulz iterations.
        ns_steps: usize = 5 => 0.0..100.0,
        /// The smallest norm that a matrix is divided by, for numerical stability.
        eps: f64 = 1e-7 => 0.0..,
    }
}

impl Muon {
    /// Moves all singular values of the matrices close to 1, with Newton-Schulz iterations.
    fn orthogonalize(&self, matrices: &Tensor) -> Result<Tensor> {
        let (a, b, c) = self.ns_coefficients;
        let tall = matrices.shape()[1] > matrices.shape()[2];
        let x = if tall { matrices.transpose(1, 2)? } else { matrices.clone() };
        let each = Axes::from([1, 2]).keepdim(true);
        let mut x = x.div(&matrices.norm_l2(each)?.clamp_min(self.eps)?)?;
        for _ in 0..self.ns_steps {
            let gram = x.matmul(&x.transpose(1, 2)?)?;
            let powers = gram.mul(b)?.add(&gram.matmul(&gram)?.mul(c)?)?;
            x = x.mul(a)?.add(&powers.matmul(&x)?)?;
        }
        if tall {
            x.transpose(1, 2)
        } else {
            Ok(x)
        }
    }
}

impl Rule for Muon {
    fn lr(&self) -> f64 {
        self.lr
    }

    fn state(&self) -> Vec<(&'static str, f64)> {
        vec![("momentum_buffer", 0.0)]
    }

    fn check(&self, shapes: &[Vec<usize>]) -> Result<()> {
        self.check_hyperparameters()?;
        match shapes.iter().find(|shape| shape.len() != 2) {
            Some(shape) => Err(Error::shape(format!(
                "muon: a parameter must be a matrix, got shape {shape:?}"
            ))),
            None => Ok(()),
        }
    }

    fn update(&self, update: &Update) -> Result<(Tensor, Vec<Tensor>)> {
        let buffer = lerp(update.state("momentum_buffer"), &update.gradient, 1.0 - self.momentum)?;
        let change = match self.nesterov {
            true => lerp(&update.gradient, &buffer, self.momentum)?,
            false => buffer.clone(),
        };
        let change = update.map_by_shape(&[&change], |parts| {
            let [_, rows, columns] = parts[0].shape() else { unreachable!("`check` was asked") };
            let factor = (*rows as f64 / (*columns).max(1) as f64).max(1.0).sqrt();
            self.orthogonalize(&parts[0])?.mul(factor * update.lr)
        })?;
        Ok((update.decoupled_decay(self.weight_decay)?.sub(&change)?, vec![buffer]))
    }
}
