//! Restores running statistics and random draws after a call that fails.

use crate::nn::{Generator, Member, Module};
use crate::tensor::{Tensor, Variable, WeakTensor};

/// The running statistics and the draws from before the forward function was called. Dropping the guard restores them, unless
/// it was disarmed.
pub(super) struct RollbackGuard {
    buffers: Vec<(Variable, Saved)>,
    draws: Vec<(Generator, u32)>,
}

/// The earlier value of a buffer.
enum Saved {
    Strong(Tensor),
    /// Recorded operations keep the value until they are computed.
    Weak(WeakTensor),
}

impl RollbackGuard {
    /// Saves the buffers of a model and the draws of these generators.
    pub fn new(model: &impl Module, generators: &[Generator]) -> RollbackGuard {
        let mut buffers = Vec::new();
        model.visit(&mut |_, member| {
            if let Member::Buffer(variable) = member {
                buffers.push((variable.clone(), Saved::Strong(variable.value())));
            }
        });
        let draws =
            generators.iter().map(|generator| (generator.clone(), generator.drawn())).collect();
        RollbackGuard { buffers, draws }
    }

    /// Replaces handles to values that recorded operations use by weak ones, so that the planner may overwrite the values.
    pub fn downgrade(&mut self) {
        for (_, saved) in &mut self.buffers {
            if let Saved::Strong(value) = saved {
                if let Some(weak) = value.weak().filter(|_| value.is_used()) {
                    *saved = Saved::Weak(weak);
                }
            }
        }
    }

    /// Keeps the new values, because the call succeeded.
    pub fn disarm(mut self) {
        self.buffers.clear();
        self.draws.clear();
    }
}

impl Drop for RollbackGuard {
    fn drop(&mut self) {
        for (variable, saved) in &self.buffers {
            let value = match saved {
                Saved::Strong(value) => Some(value.clone()),
                Saved::Weak(weak) => weak.upgrade(),
            };
            value.iter().for_each(|value| variable.restore(value));
        }
        for (generator, drawn) in &self.draws {
            generator.set_drawn(*drawn);
        }
    }
}
