//! The values that a training changes: those of the model, and those of the optimizer's other parameters.

use super::{OptimizerHandle, Trainer};
use crate::error::{Error, Result};
use crate::nn::{Member, Module};
use crate::tensor::{Assignment, Tensor, Variable};
use std::collections::BTreeMap;

/// The prefix of the names of the optimizer's parameters that are not the model's.
pub(super) const OTHER: &str = "trainer/parameter/";

impl<M: Module, O: OptimizerHandle> Trainer<M, O> {
    /// Returns the optimizer's parameters that are not the model's, such as a learned temperature.
    pub(super) fn other_parameters(&self) -> Result<Vec<Variable>> {
        let of_model = variables(&self.model);
        let is_other = |x: &&Variable| !of_model.iter().any(|(_, own)| own.is_same(x));
        self.optimizer.with(|own| {
            Ok(own.parameters_in_order().into_iter().filter(|x| is_other(&x)).collect())
        })
    }

    /// Returns the variables of the model and the optimizer's other parameters, with their names in checkpoints.
    pub(super) fn trained(&self) -> Result<Vec<(String, Variable)>> {
        let others = self.other_parameters()?.into_iter().enumerate();
        let mut all = variables(&self.model);
        all.extend(others.map(|(n, parameter)| (format!("{OTHER}{n}"), parameter)));
        Ok(all)
    }

    /// Returns the values of the model and of the optimizer's other parameters.
    pub(super) fn values(&self) -> Result<BTreeMap<String, Tensor>> {
        let mut values = self.model.state_dict();
        for (n, parameter) in self.other_parameters()?.iter().enumerate() {
            values.insert(format!("{OTHER}{n}"), parameter.value());
        }
        Ok(values)
    }

    /// Assigns values from [`Trainer::values`]: all, or after an error none.
    pub(super) fn set_values(&self, values: &BTreeMap<String, Tensor>) -> Result<()> {
        let mut others = Vec::new();
        for (n, parameter) in self.other_parameters()?.into_iter().enumerate() {
            let (name, now) = (format!("{OTHER}{n}"), parameter.value());
            let fits = |x: &&Tensor| x.shape() == now.shape() && x.dtype() == now.dtype();
            let value = values.get(&name).filter(fits).ok_or_else(|| {
                let got = format!("got one without `{name}` of the right shape and dtype");
                Error::format(format!(
                    "load: the file must be a checkpoint of this training, {got}"
                ))
            })?;
            others.push((parameter, value.detach()));
        }
        let others = Assignment::new(others)?;
        self.model.load_state_dict(values)?;
        drop(others.commit());
        Ok(())
    }
}

/// Returns parameters and buffers, which may have gradients of `backward`.
pub(super) fn variables(model: &impl Module) -> Vec<(String, Variable)> {
    let mut found = Vec::new();
    model.visit(&mut |path, member| {
        if let Member::Parameter(variable) | Member::Buffer(variable) = member {
            found.push((path.to_string(), variable.clone()));
        }
    });
    found
}
