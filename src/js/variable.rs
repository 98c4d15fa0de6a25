//! Variables: which object of JavaScript is given out for a value, and when it is disposed of.

use super::host::host;
use super::objects::{keep, Held, Object, Place};
use super::programs::is_recording;
use super::{Answer, At, FromJs, JsTensor, JsVariable, Shell};
#[cfg(feature = "js-nn")]
use crate::error::Result;
use crate::tensor::{Tensor, Variable};
use js_sys::{Object as Anything, WeakRef};
use std::cell::RefCell;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

#[wasm_bindgen(js_class = "Variable")]
impl JsVariable {
    /// A variable with this value, which it takes over.
    #[wasm_bindgen(constructor)]
    pub fn new(
        #[wasm_bindgen(unchecked_param_type = "Tensor")] value: &JsValue,
    ) -> Answer<JsVariable> {
        let op = "variable";
        let tensor = Tensor::from_js(value, At { op, what: "value" })?;
        let variable = Variable::new(&tensor);
        if let Some(error) = variable.value().error() {
            return Err(error.clone().into());
        }
        let held = Held::new(variable);
        held.take_over(value);
        Ok(JsVariable(Place::new(Object::Variable(Rc::new(held)))))
    }

    /// The present value: the same object each time, until another value is assigned or a step is taken. It belongs to the
    /// variable, which disposes of it then. {@link Tensor.detach} gives one that stays.
    #[wasm_bindgen(getter, unchecked_return_type = "Tensor")]
    pub fn value(&self) -> Answer<JsValue> {
        let held = self.core("value")?;
        let now = held.variable.value();
        // An optimizer may have changed it since, or the object been disposed of.
        let is_now = |known: &JsValue| {
            Tensor::from_js(known, At { op: "value", what: "value" })
                .is_ok_and(|known| known.is_same(&now))
        };
        if let Some(known) = object_in(&held.value).filter(is_now) {
            return Ok(known);
        }
        if let Some(assigned) = object_in(&held.assigned).filter(is_now) {
            held.value.swap(&held.assigned);
            return Ok(assigned);
        }
        let made: JsValue = keep(now)?.into();
        // A program has tensors of its own for the values that it reads: outside of it the value is the one before.
        if !is_recording() {
            held.give_out(&made);
        }
        Ok(made)
    }

    /// Takes this value from now on, and disposes of the one before. Where more than 2,000 operations were recorded since
    /// something was computed, they are submitted, as by `flush`: so steps that nobody waits for do not pile up. In the
    /// function of a program, the variable has the value from there on, and each run of the program assigns the last one.
    ///
    /// @throws `Shape` or `DType` if it has another shape or type; `Data` if it lives on another device.
    pub fn assign(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Tensor")] value: &JsValue,
    ) -> Answer<()> {
        let op = "assign";
        let held = self.core(op)?;
        held.variable.assign(&Tensor::from_js(value, At { op, what: "value" })?)?;
        // A program assigns when it runs.
        if !is_recording() {
            held.take_over(value);
        }
        Ok(())
    }

    /// Takes the elements of `source` along `axis` from `start` on, as {@link Tensor.sliceScatter}, and keeps the others: a
    /// row of a cache. Where no tensor and no operation that is still to be computed needs the value before, only these
    /// elements are written, in its memory. Gradients do not pass to the new value.
    ///
    /// @throws `Shape` or `DType` if the source does not fit; `Data` if it lives on another device.
    #[wasm_bindgen(js_name = assignSlice)]
    pub fn assign_slice(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] axis: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "number")] start: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "Tensor")] source: &JsValue,
    ) -> Answer<()> {
        let op = "assignSlice";
        let held = self.core(op)?;
        let axis = isize::from_js(axis, At { op, what: "axis" })?;
        let start = isize::from_js(start, At { op, what: "start" })?;
        let source = Tensor::from_js(source, At { op, what: "source" })?;
        let assigned = held.variable.assign_slice(axis, start, &source);
        assigned.map_err(|error| error.within(op))?;
        if is_recording() {
            return Ok(());
        }
        let value: JsValue = keep(held.variable.value())?.into();
        held.dispose_all_but(&value);
        held.give_out(&value);
        Ok(())
    }

    /// What {@link Tensor.backward} has left, added up, until it is taken; undefined where there is nothing.
    #[wasm_bindgen(js_name = takeGradient)]
    pub fn take_gradient(&self) -> Answer<Option<JsTensor>> {
        let held = self.core("takeGradient")?;
        Ok(held.variable.take_gradient().map(keep).transpose()?)
    }

    /// Empties it, and disposes of the value.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn end(&self) {
        if let Ok(held) = self.core("dispose") {
            self.0.clear();
            held.dispose_all_but(&JsValue::UNDEFINED);
        }
    }
}

/// The object that a weak reference leads to, if it is still there.
fn object_in(slot: &RefCell<Option<WeakRef>>) -> Option<JsValue> {
    slot.borrow().as_ref().and_then(WeakRef::deref).map(JsValue::from)
}

fn weak(object: &JsValue) -> Option<WeakRef> {
    Some(WeakRef::new(object.unchecked_ref::<Anything>()))
}

impl Held {
    /// Of a variable, whose value nobody has an object of yet.
    fn new(variable: Variable) -> Held {
        let device = variable.value().device().clone();
        Held { variable, value: RefCell::default(), assigned: RefCell::default(), device }
    }

    /// The object of what was assigned is the variable's from now on, unless another variable has it; those before are disposed
    /// of.
    fn take_over(&self, assigned: &JsValue) {
        let has = |slot| object_in(slot).is_some_and(|own| own == *assigned);
        let is_own = has(&self.value) || has(&self.assigned);
        self.dispose_all_but(assigned);
        // An object that two variables had would be disposed of by one while the other gives it out.
        if is_own || host(|host| host.own(assigned)) {
            self.assigned.replace(weak(assigned));
        }
    }

    /// The value's object is this one from now on; those of a value before are disposed of.
    fn give_out(&self, value: &JsValue) {
        host(|host| host.own(value));
        // The first object for a value: what was assigned is that value, too.
        if object_in(&self.value).is_some() {
            self.dispose_all_but(value);
        }
        self.value.replace(weak(value));
    }

    fn dispose_all_but(&self, kept: &JsValue) {
        for slot in [&self.value, &self.assigned] {
            let before = object_in(slot);
            slot.replace(None);
            if let Some(before) = before.filter(|before| before != kept) {
                host(|host| host.dispose(&before));
            }
        }
    }
}

/// The object for a variable of Rust's: the same each time, as long as it is there.
#[cfg(feature = "js-nn")]
pub fn object_of(variable: &Variable) -> Result<JsValue> {
    let known = host(|host| host.known(variable.address()));
    if !known.is_undefined() {
        return Ok(known);
    }
    let held = Held::new(variable.clone());
    let made: JsValue = JsVariable(Place::new(Object::Variable(Rc::new(held)))).into();
    host(|host| host.remember(variable.address(), &made));
    Ok(made)
}
