//! Restores variables and random draws after a call that fails.

use crate::nn::{Generator, Member, Module};
use crate::tensor::{Tensor, Variable, WeakTensor};

/// The values of a model's variables, and the draws, from before the forward function was called. Dropping the guard restores
/// them, unless it was disarmed.
pub(super) struct RollbackGuard {
    buffers: Vec<(Variable, Saved)>,
    /// Parameters, which a forward function may assign, too.
    parameters: Vec<(Variable, Saved)>,
    draws: Vec<(Generator, u32)>,
}

/// The earlier value of a variable.
enum Saved {
    Strong(Tensor),
    /// Recorded operations keep the value until they are computed.
    Weak(WeakTensor),
}

impl RollbackGuard {
    /// Saves the variables of a model and the draws of these generators.
    pub fn new(model: &impl Module, generators: &[Generator]) -> RollbackGuard {
        let (mut buffers, mut parameters) = (Vec::new(), Vec::new());
        let saved = |variable: &Variable| (variable.clone(), Saved::Strong(variable.value()));
        model.visit(&mut |_, member| match member {
            Member::Buffer(variable) => buffers.push(saved(variable)),
            Member::Parameter(variable) => parameters.push(saved(variable)),
            _ => {}
        });
        let draws =
            generators.iter().map(|generator| (generator.clone(), generator.drawn())).collect();
        RollbackGuard { buffers, parameters, draws }
    }

    /// Forgets parameters that were not assigned. Replaces handles to values that recorded operations use by weak ones, so that
    /// the planner may overwrite the values.
    pub fn downgrade(&mut self) {
        self.parameters.retain(|(variable, saved)| !saved.is_value_of(variable));
        for (_, saved) in self.buffers.iter_mut().chain(&mut self.parameters) {
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
        self.parameters.clear();
        self.draws.clear();
    }
}

impl Saved {
    fn get(&self) -> Option<Tensor> {
        match self {
            Saved::Strong(value) => Some(value.clone()),
            Saved::Weak(weak) => weak.upgrade(),
        }
    }

    fn is_value_of(&self, variable: &Variable) -> bool {
        self.get().is_some_and(|value| variable.is_at(&value))
    }
}

impl Drop for RollbackGuard {
    fn drop(&mut self) {
        for (variable, saved) in &self.buffers {
            saved.get().iter().for_each(|value| variable.restore(value));
        }
        // Parameters may be parts of a flat variable, so their earlier values are assigned.
        for (variable, saved) in &self.parameters {
            if let Some(value) = saved.get().filter(|value| !variable.is_at(value)) {
                variable.assign(&value.detach()).ok();
            }
        }
        for (generator, drawn) in &self.draws {
            generator.set_drawn(*drawn);
        }
    }
}
