//! Flat variables: how the parts and the whole keep in line.
//!
//! An optimizer updates all its parameters by one kernel, because their values are parts of one flat tensor. That must not be
//! seen: the gradient by a parameter, and what was computed from it, have nothing to do with the other parameters.
//!
//! A part has a value of its own from when it is asked for or assigned. When it is assigned, nothing happens to the flat
//! value, or to the other parts: it is loose until the flat value is asked for, which then gathers what is loose. When the
//! flat variable is assigned, all parts have new values.
//!
//! All of this is called while the structure is locked.

use super::assignment::Cut;
use super::{Layout, Parked, Part, Place, Structure, Variable};
use crate::error::Result;
use crate::graph::VariableId;
use crate::tensor::{with_op_name, Inner, State, Tensor};
use std::sync::{Arc, Weak};

impl Variable {
    /// A flat variable of this value, whose parts these variables become; `values` are those that they have now.
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
            // A value that something was computed from stays the variable's: gradients are taken by it.
            let value = Some(value).filter(Tensor::is_used);
            let variable = Arc::downgrade(&variable.held);
            let is_loose = false;
            flat.held().parts.push(Part { variable, id, start, shape, value, since, is_loose });
            start += shape.numel();
        }
        flat
    }

    /// The value.
    pub(super) fn now(&self) -> Tensor {
        let gathered = self.gather();
        let value = self.stored();
        match gathered {
            Ok(()) => value,
            Err(error) => Tensor::failed(&value, error),
        }
    }

    /// The value, without what is loose.
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
            // The next one who asks for it may have more memory.
            Err(error) => {
                let (device, dtype) = (whole.device.clone(), whole.dtype);
                Tensor(Arc::new(Inner { device, state: State::Failed(error), shape, dtype }))
            }
        }
    }

    /// Brings what is loose into the flat value.
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
            part.settle();
        }
        Ok(())
    }

    /// Has this value from now on. Its parts stay as they are.
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

    /// The parts have new values, but for those that are named: what something was computed from stays the value of these.
    pub(super) fn renew_parts(&self, unchanged: &[usize]) {
        let mut children = Vec::new();
        {
            let mut held = self.held();
            for (n, part) in held.parts.iter_mut().enumerate() {
                part.settle();
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

    /// Notes the values of its parts, and of theirs.
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

    /// The value of its n-th part, as it was before.
    pub(super) fn set_part(&self, n: usize, value: Option<Tensor>, since: Option<u64>) {
        let before = {
            let part = &mut self.held().parts[n];
            part.since = since;
            std::mem::replace(&mut part.value, value)
        };
        drop(before);
    }

    /// Where its value is cut out of a flat variable, if it is.
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

    /// The n-th part has what the flat value has for it, and not what it was assigned; `value` is that where it is known.
    pub(super) fn cut_again(&self, n: usize, value: Option<Tensor>, since: Option<u64>) {
        self.held().parts[n].settle();
        self.set_part(n, value, since);
    }

    /// Has its value elsewhere from now on.
    pub(super) fn move_to(&self, place: Place) {
        let before = std::mem::replace(&mut self.held().place, place);
        match before {
            Place::Own(value) => value.let_go(),
            Place::Part { flat, n } => {
                // What is loose belongs to the elements of the flat one, which stay. There is room for it, or it stays loose.
                drop(flat.gather());
                let part = &mut flat.held().parts[n];
                part.variable = Weak::new();
                part.value = part.value.take().filter(|_| part.is_loose);
            }
        }
    }

    /// Where a program finds the value. What is loose in a flat variable is gathered before.
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

    /// The value of a flat variable as its parts find it that are not loose.
    pub(in crate::tensor) fn whole(&self, _: &Structure) -> Tensor {
        self.stored()
    }
}

impl Part {
    /// Its tensor goes: the value is as old as before, or it is another value.
    fn note_age(&mut self, stays: bool) {
        self.since = match (stays, &self.value) {
            (false, _) => None,
            (true, Some(value)) => value.since(),
            (true, None) => self.since,
        };
    }

    /// The flat value has it.
    fn settle(&mut self) {
        if std::mem::take(&mut self.is_loose) {
            self.value.iter().for_each(Tensor::let_go);
        }
    }
}

/// The elements of all of these, one after the other, computed.
pub(super) fn flat_value(values: &[Tensor]) -> Result<Tensor> {
    let lines: Result<Vec<Tensor>> = values.iter().map(|x| x.reshape(&[-1])).collect();
    let all = Tensor::concat(&lines?, 0)?;
    // Of one variable it may be that variable's own value.
    let all = if values.len() == 1 { all.alias()? } else { all }.into_detached()?;
    all.run()?;
    Ok(all)
}

/// A flat value with other values from some elements on.
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
