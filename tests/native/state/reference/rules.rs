//! The rules of optimizers, as their papers and the documentation of PyTorch state them, one element at a time.

use super::number::Number;

/// A rule with its numbers. The learning rate belongs to the optimizer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Rule {
    Sgd { momentum: f64, dampening: f64, decay: f64, nesterov: bool },
    Adam { betas: (f64, f64), eps: f64, decay: f64, amsgrad: bool },
    AdamW { betas: (f64, f64), eps: f64, decay: f64 },
    NAdam { betas: (f64, f64), eps: f64, decay: f64, momentum_decay: f64 },
    Lion { betas: (f64, f64), decay: f64 },
    RmsProp { alpha: f64, eps: f64, decay: f64, momentum: f64, centered: bool },
    Adagrad { lr_decay: f64, decay: f64, start: f64, eps: f64 },
}

/// The rules that programs choose from, each with its initial learning rate. Rules with a division have a large `eps`. A
/// gradient that is 0 except for rounding therefore does not make a large step.
pub const RULES: [(Rule, f64); 12] = [
    (Rule::Sgd { momentum: 0.0, dampening: 0.0, decay: 0.0, nesterov: false }, 0.1),
    (Rule::Sgd { momentum: 0.5, dampening: 0.0, decay: 0.0, nesterov: false }, 0.1),
    (Rule::Sgd { momentum: 0.5, dampening: 0.25, decay: 0.125, nesterov: false }, 0.1),
    (Rule::Sgd { momentum: 0.5, dampening: 0.0, decay: 0.0, nesterov: true }, 0.1),
    (Rule::Adam { betas: (0.5, 0.75), eps: 0.01, decay: 0.0, amsgrad: false }, 0.1),
    (Rule::Adam { betas: (0.9, 0.99), eps: 0.01, decay: 0.125, amsgrad: true }, 0.1),
    (Rule::AdamW { betas: (0.5, 0.75), eps: 0.01, decay: 0.125 }, 0.1),
    (Rule::NAdam { betas: (0.5, 0.75), eps: 0.01, decay: 0.0, momentum_decay: 0.125 }, 0.1),
    (Rule::Lion { betas: (0.5, 0.75), decay: 0.125 }, 0.0625),
    (Rule::RmsProp { alpha: 0.5, eps: 0.01, decay: 0.0, momentum: 0.0, centered: false }, 0.0625),
    (Rule::RmsProp { alpha: 0.75, eps: 0.01, decay: 0.125, momentum: 0.5, centered: true }, 0.0625),
    (Rule::Adagrad { lr_decay: 0.125, decay: 0.0, start: 0.25, eps: 0.01 }, 0.1),
];

impl Rule {
    /// Returns the names of the state of each element, with the initial values.
    pub fn memory(self) -> Vec<(&'static str, f64)> {
        let moments = vec![("exp_avg", 0.0), ("exp_avg_sq", 0.0)];
        match self {
            Rule::Sgd { momentum: 0.0, .. } => vec![],
            Rule::Sgd { .. } => vec![("momentum_buffer", 0.0)],
            Rule::Adam { amsgrad: true, .. } => [moments, vec![("max_exp_avg_sq", 0.0)]].concat(),
            Rule::Adam { .. } | Rule::AdamW { .. } | Rule::NAdam { .. } => moments,
            Rule::Lion { .. } => vec![("exp_avg", 0.0)],
            Rule::RmsProp { momentum, centered, .. } => {
                let mut names = vec![("square_avg", 0.0)];
                names.extend(centered.then_some(("grad_avg", 0.0)));
                names.extend((momentum > 0.0).then_some(("momentum_buffer", 0.0)));
                names
            }
            Rule::Adagrad { start, .. } => vec![("sum", start)],
        }
    }

    /// Returns the new value of an element with the gradient `g`, in step number `t`, which begins at 1.
    pub fn update(self, p: Number, g: Number, memory: &mut [Number], lr: f64, t: u64) -> Number {
        let filled = |beta: f64| 1.0 - beta.powi(t as i32);
        match self {
            Rule::Sgd { momentum, dampening, decay, nesterov } => {
                let g = g + p * decay;
                let [buffer] = memory else { return p - g * lr };
                *buffer = if t == 1 { g } else { *buffer * momentum + g * (1.0 - dampening) };
                p - if nesterov { g + *buffer * momentum } else { *buffer } * lr
            }
            Rule::Adam { betas, eps, decay, amsgrad } => {
                let (m, v) = moments(g + p * decay, memory, betas);
                if amsgrad {
                    memory[2] = memory[2].max(v);
                }
                let v = if amsgrad { memory[2] } else { v };
                let root = (v * (1.0 / filled(betas.1))).sqrt() + eps;
                p - m * (lr / filled(betas.0)) / root
            }
            Rule::AdamW { betas, eps, decay } => {
                let (m, v) = moments(g, memory, betas);
                let root = (v * (1.0 / filled(betas.1))).sqrt() + eps;
                p * (1.0 - lr * decay) - m * (lr / filled(betas.0)) / root
            }
            Rule::NAdam { betas, eps, decay, momentum_decay } => {
                let g = g + p * decay;
                let (m, v) = moments(g, memory, betas);
                let momentum =
                    |t: u64| betas.0 * (1.0 - 0.5 * 0.96f64.powf(t as f64 * momentum_decay));
                let product: f64 = (1..=t).map(momentum).product();
                let (now, next) = (momentum(t), momentum(t + 1));
                let mean =
                    m * (next / (1.0 - product * next)) + g * ((1.0 - now) / (1.0 - product));
                p - mean * lr / ((v * (1.0 / filled(betas.1))).sqrt() + eps)
            }
            Rule::Lion { betas, decay } => {
                let m = memory[0];
                memory[0] = m * betas.1 + g * (1.0 - betas.1);
                let direction = (m * betas.0 + g * (1.0 - betas.0)).sign();
                p * (1.0 - lr * decay) - direction * lr
            }
            Rule::RmsProp { alpha, eps, decay, momentum, centered } => {
                let g = g + p * decay;
                memory[0] = memory[0] * alpha + g.square() * (1.0 - alpha);
                let mut variance = memory[0];
                if centered {
                    memory[1] = memory[1] * alpha + g * (1.0 - alpha);
                    variance = variance - memory[1].square();
                }
                let mut change = g / (variance.sqrt() + eps);
                if momentum > 0.0 {
                    let buffer = memory.last_mut().expect("there is a buffer");
                    *buffer = *buffer * momentum + change;
                    change = *buffer;
                }
                p - change * lr
            }
            Rule::Adagrad { lr_decay, decay, eps, .. } => {
                let g = g + p * decay;
                memory[0] = memory[0] + g.square();
                let lr = lr / (1.0 + (t - 1) as f64 * lr_decay);
                p - g / (memory[0].sqrt() + eps) * lr
            }
        }
    }
}

/// Updates and returns the running means of gradients and of their squares.
fn moments(g: Number, memory: &mut [Number], betas: (f64, f64)) -> (Number, Number) {
    memory[0] = memory[0] * betas.0 + g * (1.0 - betas.0);
    memory[1] = memory[1] * betas.1 + g.square() * (1.0 - betas.1);
    (memory[0], memory[1])
}
