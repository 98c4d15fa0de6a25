//! What a call that fails must leave as it was.

use crate::nn::{Generator, Member, Module};
use crate::tensor::{Tensor, Variable, WeakTensor};

/// Running statistics and draws as they were before the forward function was called. They are restored when this is dropped, in
/// whichever way that happens, unless the call succeeded.
pub(super) struct Before {
    buffers: Vec<(Variable, Saved)>,
    draws: Vec<(Generator, u32)>,
}

/// A value that a buffer had.
enum Saved {
    Held(Tensor),
    /// What is computed from it keeps it until then.
    Loose(WeakTensor),
}

impl Before {
    /// Those of a model, and of these generators.
    pub fn of(model: &impl Module, generators: &[Generator]) -> Before {
        let mut buffers = Vec::new();
        model.visit(&mut |_, member| {
            if let Member::Buffer(variable) = member {
                buffers.push((variable.clone(), Saved::Held(variable.value())));
            }
        });
        let draws = generators.iter().map(|one| (one.clone(), one.drawn())).collect();
        Before { buffers, draws }
    }

    /// Holds no more than it must: what is held when a batch is made would cost memory.
    pub fn loosen(&mut self) {
        for (_, saved) in &mut self.buffers {
            if let Saved::Held(value) = saved {
                if let Some(weak) = value.weak().filter(|_| value.is_used()) {
                    *saved = Saved::Loose(weak);
                }
            }
        }
    }

    /// The call succeeded.
    pub fn keep(mut self) {
        self.buffers.clear();
        self.draws.clear();
    }
}

impl Drop for Before {
    fn drop(&mut self) {
        for (variable, saved) in &self.buffers {
            let value = match saved {
                Saved::Held(value) => Some(value.clone()),
                Saved::Loose(weak) => weak.upgrade(),
            };
            value.iter().for_each(|value| variable.restore(value));
        }
        for (generator, drawn) in &self.draws {
            generator.set_drawn(*drawn);
        }
    }
}
