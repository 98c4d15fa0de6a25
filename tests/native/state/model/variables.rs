//! The model of variables, and of gradients by them.
//!
//! Each assignment gives a variable a new value that is a separate tensor. `backward` takes gradients at the current values. A
//! loss that reads a former value is an error, unless a gradient through an assignment could also reach it.

use super::super::actions::{Action, Slot, TENSORS, VARIABLES};
use super::super::reference::array::{count, Array};
use super::super::reference::tape::{self, Op, Tensor};
use super::{ones, tame, total, Made, Model, Output, Variable, Why, FAILS};

/// A flat variable, and its parts: the numbers of variables, and the start of each.
#[derive(Clone, Debug)]
pub struct Flat {
    parts: Vec<(usize, usize)>,
    /// The elements of former parts.
    own: Vec<super::super::reference::number::Number>,
}

/// Whether a list contains a variable twice, which is an error. A variable may be in several lists.
fn has_twice(all: &[usize]) -> bool {
    all.iter().enumerate().any(|(n, x)| all[..n].contains(x))
}

impl Model {
    pub(super) fn act_on_variables(&mut self, action: &Action) -> Made<Output> {
        match action {
            Action::Variable { v, from } => {
                let at = self.new_variable(tape::identity(&self.tensor(*from)?));
                self.variables[v % VARIABLES] = Some(at);
                Ok(Vec::new())
            }
            Action::Value { v, to } => {
                let value = self.value(*v)?.clone();
                self.put(*to, value)
            }
            Action::Assign { v, from } => {
                let (at, from) = (self.variable(*v)?, self.tensor(*from)?);
                self.assign(at, tape::identity(&from))
            }
            Action::AssignSlice { v, start, from } => {
                let (at, from) = (self.variable(*v)?, self.tensor(*from)?);
                let value = &self.all[at].value;
                let (shape, rows) = (value.shape(), from.shape());
                if shape.is_empty() {
                    return Err(Why::Skip);
                }
                let fits = rows.len() == shape.len()
                    && rows[1..] == shape[1..]
                    && start + rows[0] <= shape[0];
                if !fits {
                    return Err(FAILS);
                }
                let value = value.value.with_rows(*start, &from.value);
                self.assign(at, tape::constant(value))
            }
            Action::Swap { v, w } => {
                let (v, w) = (self.variable(*v)?, self.variable(*w)?);
                let (first, second) = (self.all[v].value.clone(), self.all[w].value.clone());
                if v == w || first.shape() != second.shape() {
                    return Err(Why::Skip);
                }
                self.assign(v, tape::identity(&second))?;
                self.assign(w, tape::identity(&first))
            }
            Action::DropVariable { v } => {
                self.variable(*v)?;
                self.variables[v % VARIABLES] = None;
                Ok(Vec::new())
            }
            Action::Flatten { variables } => self.flatten(variables),
            Action::ReadFlat => {
                let values = self.flat_values()?;
                self.evaluate_all();
                Ok(vec![("flat".into(), Array::new(&[values.len()], values))])
            }
            Action::AssignFlat { from } => self.assign_flat(*from),
            _ => self.act_on_gradients(action),
        }
    }

    pub(super) fn new_variable(&mut self, value: Tensor) -> usize {
        let (former, gradient, owner) = (Vec::new(), None, None);
        self.all.push(Variable { value, former, gradient, owner, is_flat: false });
        self.all.len() - 1
    }

    /// Assigns a value to a variable. The value must have its shape.
    pub(super) fn assign(&mut self, at: usize, value: Tensor) -> Made<Output> {
        let variable = &mut self.all[at];
        if variable.value.shape() != value.shape() {
            return Err(FAILS);
        }
        let before = std::mem::replace(&mut variable.value, value);
        variable.former.push(before.id);
        Ok(Vec::new())
    }

    /// Returns the numbers of variables in slots. Each may occur once.
    pub(super) fn several(&self, slots: &[Slot]) -> Made<Vec<usize>> {
        let all: Vec<usize> = slots.iter().map(|&v| self.variable(v)).collect::<Made<_>>()?;
        match (all.is_empty(), has_twice(&all)) {
            (true, _) => Err(Why::Skip),
            (_, true) => Err(FAILS),
            _ => Ok(all),
        }
    }

    /// Returns the values of variables by their numbers.
    pub(super) fn values(&self, variables: &[usize]) -> Vec<Tensor> {
        variables.iter().map(|&at| self.all[at].value.clone()).collect()
    }

    fn flatten(&mut self, slots: &[Slot]) -> Made<Output> {
        let variables = self.several(slots)?;
        if variables.iter().any(|&at| self.all[at].owner.is_some()) {
            // The contract does not define the effect on the optimizer.
            return Err(Why::Skip);
        }
        variables.iter().for_each(|&at| self.take_out(at));
        for variable in &mut self.all {
            variable.is_flat = false;
        }
        let (mut parts, mut own) = (Vec::new(), Vec::new());
        for at in variables {
            parts.push((at, own.len()));
            own.extend(self.all[at].value.value.data.clone());
            self.all[at].is_flat = true;
        }
        self.flat = Some(Flat { parts, own });
        Ok(Vec::new())
    }

    /// Removes a variable from the flat one, which keeps its elements.
    pub(super) fn take_out(&mut self, at: usize) {
        if !std::mem::take(&mut self.all[at].is_flat) {
            return;
        }
        let Some(flat) = &mut self.flat else { return };
        for &(part, start) in flat.parts.iter().filter(|part| part.0 == at) {
            let data = &self.all[part].value.value.data;
            flat.own[start..start + data.len()].copy_from_slice(data);
        }
    }

    fn flat_values(&self) -> Made<Vec<super::super::reference::number::Number>> {
        let flat = self.flat.as_ref().ok_or(Why::Skip)?;
        let mut values = flat.own.clone();
        for &(at, start) in flat.parts.iter().filter(|part| self.all[part.0].is_flat) {
            let data = &self.all[at].value.value.data;
            values[start..start + data.len()].copy_from_slice(data);
        }
        Ok(values)
    }

    fn assign_flat(&mut self, from: Slot) -> Made<Output> {
        let (from, mut flat) = (self.tensor(from)?, self.flat.clone().ok_or(Why::Skip)?);
        let from = &from.value.data;
        flat.own = (0..flat.own.len()).map(|n| from[n % from.len()]).collect();
        for &(at, start) in &flat.parts {
            if self.all[at].is_flat {
                let shape = self.all[at].value.shape().to_vec();
                let data = flat.own[start..start + count(&shape)].to_vec();
                self.assign(at, tape::constant(Array::new(&shape, data)))?;
            }
        }
        self.flat = Some(flat);
        Ok(Vec::new())
    }

    /// Whether a tensor is, or was, the value of a variable.
    pub(super) fn is_value(&self, x: &Tensor) -> bool {
        let has = |v: &Variable| v.value.id == x.id || v.former.contains(&x.id);
        x.op == Op::Identity || self.all.iter().any(has)
    }

    fn act_on_gradients(&mut self, action: &Action) -> Made<Output> {
        match action {
            Action::Grad { of, wrt, to } => {
                let loss = total(&self.tensor(*of)?);
                let wrt: Vec<Tensor> = wrt.iter().map(|&t| self.tensor(t)).collect::<Made<_>>()?;
                if wrt.is_empty() {
                    return Err(Why::Skip);
                }
                let found = self.gradients(&loss, &ones(&loss), &wrt)?;
                self.put_all(*to, found)
            }
            Action::GradByVariable { of, v, to } => {
                let (loss, value) = (total(&self.tensor(*of)?), self.value(*v)?.clone());
                let found = self.gradients(&loss, &ones(&loss), &[value])?;
                self.put_all(*to, found)
            }
            Action::Vjp { of, seed, wrt, to } => {
                let (of, seed, wrt) = (self.tensor(*of)?, self.tensor(*seed)?, self.tensor(*wrt)?);
                if of.shape() != seed.shape() {
                    return Err(FAILS);
                }
                let found = self.gradients(&of, &seed, &[wrt])?;
                self.put_all(*to, found)
            }
            Action::Backward { of, variables } => {
                let (loss, variables) = (total(&self.tensor(*of)?), self.several(variables));
                // The contract does not define the result for the same variable twice.
                let variables = variables.map_err(|_| Why::Skip)?;
                let found = self.gradients_by(&loss, &variables)?;
                for (&at, gradient) in variables.iter().zip(found) {
                    let Some(gradient) = gradient else { continue };
                    let variable = &mut self.all[at];
                    let sum = match &variable.gradient {
                        Some(before) => tape::add(before, &gradient).ok_or(FAILS)?,
                        None => gradient,
                    };
                    tame(&sum)?;
                    variable.gradient = Some(sum);
                }
                Ok(Vec::new())
            }
            Action::Gradient { v, to, take } => {
                let at = self.variable(*v)?;
                let gradient = self.all[at].gradient.clone();
                if *take {
                    self.all[at].gradient = None;
                }
                if let Some(gradient) = &gradient {
                    self.put(*to, gradient.clone())?;
                }
                let has = f64::from(u8::from(gradient.is_some()));
                Ok(vec![("has a gradient".into(), Array::scalar(has))])
            }
            _ => self.act_on_optimizers(action),
        }
    }

    pub(super) fn put_all(&mut self, to: Slot, tensors: Vec<Tensor>) -> Made<Output> {
        for (n, tensor) in tensors.into_iter().enumerate() {
            self.put((to + n) % TENSORS, tensor)?;
        }
        Ok(Vec::new())
    }

    /// Returns the gradients of a loss by variables, as `backward` and `minimize` take them.
    pub(super) fn gradients_by(
        &mut self,
        loss: &Tensor,
        variables: &[usize],
    ) -> Made<Vec<Option<Tensor>>> {
        // The contract does not define whether a derivative that is 0 everywhere depends on anything.
        let is_zero = |x: &Tensor| x.value.data.iter().all(|x| x.value == 0.0);
        let all = tape::ancestors(std::slice::from_ref(loss), |_| true);
        let is_derived = all.iter().any(|x| self.gradients.contains(&x.id));
        if is_derived && is_zero(loss) {
            return Err(Why::Skip);
        }
        self.check_former(loss, variables)?;
        let values = self.values(variables);
        self.check_path(loss, &values)?;
        let found = self.found(loss, &ones(loss), &values)?;
        if is_derived && found.iter().flatten().all(is_zero) {
            return Err(Why::Skip);
        }
        Ok(found)
    }

    /// Searches a loss for former values of variables.
    fn check_former(&mut self, loss: &Tensor, variables: &[usize]) -> Made<()> {
        let all = tape::ancestors(std::slice::from_ref(loss), |_| true);
        let is_read = |x: &&Tensor| variables.iter().any(|&at| self.all[at].former.contains(&x.id));
        let read: Vec<Tensor> = all.iter().filter(is_read).cloned().collect();
        self.look_for_gone(loss, &read);
        let former = |at: usize, x: &Tensor| self.all[at].former.contains(&x.id);
        let is_value = |x: &Tensor| self.is_value(x);
        let (mut names, mut unclear) = (Vec::new(), false);
        for (place, &at) in variables.iter().enumerate() {
            let read = tape::path(loss, &|x| former(at, x), &is_value);
            if read.values().any(|x| former(at, x)) {
                names.push(place);
            }
            // A path through the assignment of another variable is unclear. A path through the assignment of this variable is
            // right.
            let own = |x: &Tensor| tape::same(x, &self.all[at].value);
            unclear |= !tape::path(loss, &|x| former(at, x), &own).is_empty();
        }
        self.may_be_gone |= unclear;
        if names.is_empty() {
            Ok(())
        } else {
            Err(Why::Fails(names))
        }
    }
}
