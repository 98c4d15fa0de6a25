//! Flat variables: keeping the parts and the whole consistent.
//!
//! An optimizer updates all its parameters with one kernel, because their values are parts of one flat tensor. Programs
//! must not notice this. A gradient by one parameter, or a tensor computed from it, must not depend on the other
//! parameters.
//!
//! A part gets a separate value when it is first read or assigned. Assigning a part leaves the flat value and the other
//! parts unchanged, and marks the part as loose. Reading the flat value gathers all loose parts into it first. Assigning
//! the flat variable gives new values to all parts.
//!
//! Example: `flat` has the parts `a` and `b`. After `a.assign(x)`, `a` is loose and has the value `x`. `flat.value()`
//! then records a new flat value that contains `x`, and `a` is no longer loose.
//!
//! Callers hold the structure lock.

use super::assignment::Cut;
use super::{Layout, Parked, Part, Place, Structure, Variable};
use crate::error::Result;
use crate::graph::VariableId;
use crate::tensor::{with_op_name, Inner, State, Tensor};
use std::sync::{Arc, Weak};

impl Variable {
    /// Creates a flat variable with the value `all`, and makes `variables` its parts. `values` are their current values.
    pub(super) fn adopt_parts(
        variables: &[Variable],
        all: Tensor,
        values: Vec<Tensor>,
    ) -> Variable {
        let id = VariableId::next();
        if let Ok(node) = all.node() {
            all.device.set_value_of(node, id);
            all.device.hold_for_variable(node);
        }
        let flat = Variable::of(id, all);
        let mut start = 0;
        for (n, (variable, value)) in variables.iter().zip(values).enumerate() {
            let (id, shape) = (variable.id(), value.shape);
            variable.move_to(Place::Part { flat: flat.clone(), n });
            let since = value.since();
            // A value that other tensors depend on stays the variable's value, so that gradients can be taken by it.
            let value = Some(value).filter(Tensor::is_used);
            let variable = Arc::downgrade(&variable.held);
            let is_loose = false;
            flat.held().parts.push(Part { variable, id, start, shape, value, since, is_loose });
            start += shape.numel();
        }
        flat
    }

    /// Returns the value, after gathering loose parts.
    pub(super) fn now(&self) -> Tensor {
        let gathered = self.gather();
        let value = self.stored();
        match gathered {
            Ok(()) => value,
            Err(error) => Tensor::failed(&value, error),
        }
    }

    /// Returns the value, without gathering loose parts.
    pub(super) fn stored(&self) -> Tensor {
        let (flat, n) = match &self.held().place {
            Place::Own(value) => return value.clone(),
            Place::Part { flat, n } => (flat.clone(), *n),
        };
        let (start, shape, id, since) = {
            let held = flat.held();
            let part = &held.parts[n];
            if let Some(value) = &part.value {
                return value.clone();
            }
            (part.start, part.shape, part.id, part.since)
        };
        let whole = flat.stored();
        let cut = || {
            let cut = whole.elements(start, &shape)?;
            let cut = if cut.node()? == whole.node()? { cut.alias()? } else { cut };
            let node = cut.node()?;
            whole.device.set_value_of(node, id);
            if let Some(since) = since {
                whole.device.set_since(node, since);
            }
            Ok(cut)
        };
        match cut() {
            Ok(value) => flat.held().parts[n].value.insert(value).clone(),
            // The error is not stored, because memory may be free at the next call.
            Err(error) => {
                let (device, dtype) = (whole.device.clone(), whole.dtype);
                Tensor(Arc::new(Inner { device, state: State::Failed(error), shape, dtype }))
            }
        }
    }

    /// Writes all loose parts into the flat value, including those of nested flat variables.
    fn gather(&self) -> Result<()> {
        let children: Vec<Weak<_>> =
            self.held().parts.iter().map(|part| part.variable.clone()).collect();
        for held in children.iter().filter_map(Weak::upgrade) {
            Variable { held }.gather()?;
        }
        let mut loose: Vec<(usize, Tensor)> = Vec::new();
        for part in &self.held().parts {
            loose.extend(part.value.clone().filter(|_| part.is_loose).map(|x| (part.start, x)));
        }
        if loose.is_empty() {
            return Ok(());
        }
        let all = with_op_name("assign", || joined(&self.stored(), &loose))?;
        self.store(all)?;
        for part in &mut self.held().parts {
            part.mark_contained();
        }
        Ok(())
    }

    /// Replaces the value. The parts of the variable do not change.
    pub(super) fn store(&self, value: Tensor) -> Result<()> {
        let node = value.node()?;
        let (device, id) = (value.device.clone(), self.id());
        device.set_value_of(node, id);
        let mut held = self.held();
        let (flat, n) = match &mut held.place {
            Place::Own(own) => {
                match own.node() {
                    Ok(before) => device.replace(before, node),
                    Err(_) => device.hold_for_variable(node),
                }
                let before = std::mem::replace(own, value);
                drop(held);
                drop(before);
                return Ok(());
            }
            Place::Part { flat, n } => (flat.clone(), *n),
        };
        drop(held);
        let mut held = flat.held();
        let part = &mut held.parts[n];
        part.since = None;
        let before = part.value.replace(value);
        match before.as_ref().filter(|_| part.is_loose).map(Tensor::node) {
            Some(Ok(before)) => device.replace(before, node),
            _ => device.hold_for_variable(node),
        }
        part.is_loose = true;
        Ok(())
    }

    /// Gives new values to all parts except the `unchanged` ones. An unchanged part keeps its tensor if something depends
    /// on it.
    pub(super) fn renew_parts(&self, unchanged: &[usize]) {
        let mut children = Vec::new();
        {
            let mut held = self.held();
            for (n, part) in held.parts.iter_mut().enumerate() {
                part.mark_contained();
                let stays = unchanged.contains(&n);
                part.note_age(stays);
                part.value = part.value.take().filter(|value| stays && value.is_used());
                children.extend(part.variable.upgrade().filter(|_| !stays));
            }
        }
        for held in children {
            Variable { held }.renew_parts(&[]);
        }
    }

    /// Appends the values of all parts, including nested ones, to `all`.
    pub(super) fn park_parts(&self, all: &mut Vec<(Variable, usize, Parked, Option<u64>)>) {
        let mut children = Vec::new();
        for (n, part) in self.held().parts.iter().enumerate() {
            let value = part.value.as_ref().map_or(Parked::None, |value| Parked::new(value, 1));
            let since = part.value.as_ref().and_then(Tensor::since).or(part.since);
            all.push((self.clone(), n, value, since));
            children.extend(part.variable.upgrade());
        }
        for held in children {
            Variable { held }.park_parts(all);
        }
    }

    /// Restores the value of the n-th part.
    pub(super) fn set_part(&self, n: usize, value: Option<Tensor>, since: Option<u64>) {
        let before = {
            let part = &mut self.held().parts[n];
            part.since = since;
            std::mem::replace(&mut part.value, value)
        };
        drop(before);
    }

    /// Returns where the value is sliced from a flat variable. `None` if it is not.
    pub(super) fn cut(&self) -> Option<Cut> {
        let (flat, n) = match &self.held().place {
            Place::Part { flat, n } => (flat.clone(), *n),
            Place::Own(_) => return None,
        };
        let since = {
            let held = flat.held();
            let part = &held.parts[n];
            (!part.is_loose).then(|| part.value.as_ref().and_then(Tensor::since).or(part.since))
        };
        since.map(|since| Cut { flat, n, since })
    }

    /// Discards what was assigned to the n-th part, which has its slice of the flat value again. `value` is that slice,
    /// if known.
    pub(super) fn cut_again(&self, n: usize, value: Option<Tensor>, since: Option<u64>) {
        self.held().parts[n].mark_contained();
        self.set_part(n, value, since);
    }

    /// Moves the variable's value to another place.
    pub(super) fn move_to(&self, place: Place) {
        let before = std::mem::replace(&mut self.held().place, place);
        match before {
            Place::Own(value) => value.let_go(),
            Place::Part { flat, n } => {
                // Loose values belong in the flat value, which keeps its elements. If gathering fails for lack of memory,
                // they stay loose.
                drop(flat.gather());
                let part = &mut flat.held().parts[n];
                part.variable = Weak::new();
                part.value = part.value.take().filter(|_| part.is_loose);
            }
        }
    }

    /// Returns the place where a program finds the value. Loose parts of a flat variable are gathered first.
    pub(in crate::tensor) fn layout(&self, _: &Structure) -> Result<Layout> {
        self.gather()?;
        let (mut at, mut start) = (self.clone(), 0);
        loop {
            let next = match &at.held().place {
                Place::Own(_) => None,
                Place::Part { flat, n } => Some((flat.clone(), *n)),
            };
            let Some((flat, n)) = next else { break };
            let part = {
                let held = flat.held();
                (held.parts[n].is_loose, held.parts[n].start)
            };
            if part.0 {
                break;
            }
            (at, start) = (flat, start + part.1);
        }
        Ok(if at.is_same(self) { Layout::Own } else { Layout::Part { flat: at, start } })
    }

    /// Returns the value of a flat variable that holds its parts, except loose ones.
    pub(in crate::tensor) fn whole(&self, _: &Structure) -> Tensor {
        self.stored()
    }
}

impl Part {
    /// Updates `since` before the part's tensor is dropped: an unchanged value keeps its age, and a new value has none.
    fn note_age(&mut self, stays: bool) {
        self.since = match (stays, &self.value) {
            (false, _) => None,
            (true, Some(value)) => value.since(),
            (true, None) => self.since,
        };
    }

    /// Marks the part as contained in the flat value.
    fn mark_contained(&mut self) {
        if std::mem::take(&mut self.is_loose) {
            self.value.iter().for_each(Tensor::let_go);
        }
    }
}

/// Computes the concatenation of the elements of all values.
pub(super) fn flat_value(values: &[Tensor]) -> Result<Tensor> {
    let lines: Result<Vec<Tensor>> = values.iter().map(|x| x.reshape(&[-1])).collect();
    let all = Tensor::concat(&lines?, 0)?;
    // The concatenation of one variable may be that variable's value, so it needs a separate node.
    let all = if values.len() == 1 { all.alias()? } else { all }.into_detached()?;
    all.run()?;
    Ok(all)
}

/// Returns the flat value with the loose values written into it.
fn joined(whole: &Tensor, loose: &[(usize, Tensor)]) -> Result<Tensor> {
    if let [(start, value)] = loose {
        return whole.slice_scatter(0, *start as isize, &value.reshape(&[-1])?)?.into_detached();
    }
    let (mut lines, mut end) = (Vec::new(), 0);
    for (start, value) in loose {
        if *start > end {
            lines.push(whole.slice(0, end as isize..*start as isize)?);
        }
        lines.push(value.reshape(&[-1])?);
        end = start + value.numel();
    }
    if end < whole.numel() {
        lines.push(whole.slice(0, end as isize..)?);
    }
    Tensor::concat(&lines, 0)?.into_detached()
}
