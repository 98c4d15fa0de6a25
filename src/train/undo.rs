//! What a step that is not taken must leave as it was.

use crate::nn::{Generator, Member, Module};
use crate::tensor::{Tensor, Variable};

/// Running statistics and draws as they were before the forward function. They are given back when this is dropped, in
/// whichever way that happens, unless what is there now is kept.
pub(super) struct Before {
    buffers: Vec<(Variable, Tensor)>,
    draws: Vec<(Generator, u32)>,
}

impl Before {
    /// Those of a model, and of these generators.
    pub fn of(model: &impl Module, generators: &[Generator]) -> Before {
        let mut buffers = Vec::new();
        model.visit(&mut |_, member| {
            if let Member::Buffer(variable) = member {
                buffers.push((variable.clone(), variable.value()));
            }
        });
        let draws = generators.iter().map(|one| (one.clone(), one.drawn())).collect();
        Before { buffers, draws }
    }

    /// Lets go of what was before: what is held when a batch is made would cost memory.
    pub fn keep(mut self) {
        self.buffers.clear();
        self.draws.clear();
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        for (variable, value) in &self.buffers {
            // It is the variable's own value of before, which fits; on a device that is gone nothing is left to save.
            drop(variable.replace(value));
        }
        for (generator, drawn) in &self.draws {
            generator.set_drawn(*drawn);
        }
    }
}
