//! Variables: which JavaScript object represents a value, and when it is disposed of.

use super::host::host;
use super::objects::{keep, Held, Object, Slot};
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
    /// Makes a variable with this value, and takes ownership of the tensor.
    #[wasm_bindgen(constructor)]
    pub fn new(
        #[wasm_bindgen(unchecked_param_type = "Tensor")] value: &JsValue,
    ) -> Answer<JsVariable> {
        let op = "variable";
        let tensor = Tensor::from_js(value, At { op, argument: "value" })?;
        let variable = Variable::new(&tensor);
        if let Some(error) = variable.value().error() {
            return Err(error.clone().into());
        }
        let held = Held::new(variable);
        held.take_over(value);
        Ok(JsVariable(Slot::new(Object::Variable(Rc::new(held)))))
    }

    /// The current value. It is the same object until another value is assigned or an optimizer takes a step. The variable
    /// owns the object, and disposes of it when the value changes. Use {@link Tensor.detach} to keep the value.
    #[wasm_bindgen(getter, unchecked_return_type = "Tensor")]
    pub fn value(&self) -> Answer<JsValue> {
        let held = self.core("value")?;
        let now = held.variable.value();
        // An optimizer may have changed the value, or the object was disposed of.
        let is_now = |known: &JsValue| {
            Tensor::from_js(known, At { op: "value", argument: "value" })
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
        // While a program is compiled, the value is a placeholder. Outside of the program, the value is unchanged.
        if !is_recording() {
            held.give_out(&made);
        }
        Ok(made)
    }

    /// Assigns a new value, and disposes of the old one. If more than 2,000 operations were recorded since the last
    /// computation, they are submitted as by `submit`. Steps that nothing waits for therefore do not accumulate. In the
    /// function of a program, the variable has the new value from the assignment on, and each run assigns the last one.
    ///
    /// @throws `Shape` or `DType` if the value has another shape or type; `InvalidArgument` if it is on another device.
    pub fn assign(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Tensor")] value: &JsValue,
    ) -> Answer<()> {
        let op = "assign";
        let held = self.core(op)?;
        held.variable.assign(&Tensor::from_js(value, At { op, argument: "value" })?)?;
        // A program assigns when it runs.
        if !is_recording() {
            held.take_over(value);
        }
        Ok(())
    }

    /// Replaces the elements along `axis` from `start` on with `source`, as {@link Tensor.sliceScatter} does, such as a row of
    /// a cache. If no tensor and no pending operation needs the old value, only these elements are written, in place. Gradients
    /// do not pass to the new value.
    ///
    /// @throws `Shape` or `DType` if the source does not fit; `InvalidArgument` if it is on another device.
    #[wasm_bindgen(js_name = assignSlice)]
    pub fn assign_slice(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] axis: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "number")] start: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "Tensor")] source: &JsValue,
    ) -> Answer<()> {
        let op = "assignSlice";
        let held = self.core(op)?;
        let axis = isize::from_js(axis, At { op, argument: "axis" })?;
        let start = isize::from_js(start, At { op, argument: "start" })?;
        let source = Tensor::from_js(source, At { op, argument: "source" })?;
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

    /// Returns the gradient that {@link Tensor.backward} accumulated, and clears it. Undefined if `backward` left no gradient.
    #[wasm_bindgen(js_name = takeGradient)]
    pub fn take_gradient(&self) -> Answer<Option<JsTensor>> {
        let held = self.core("takeGradient")?;
        Ok(held.variable.take_gradient().map(keep).transpose()?)
    }

    /// Empties the variable's place, and disposes of the value.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn end(&self) {
        if let Ok(held) = self.core("dispose") {
            self.0.clear();
            held.dispose_all_but(&JsValue::UNDEFINED);
        }
    }
}

/// Returns the object of a weak reference, if it was not collected.
fn object_in(slot: &RefCell<Option<WeakRef>>) -> Option<JsValue> {
    slot.borrow().as_ref().and_then(WeakRef::deref).map(JsValue::from)
}

fn weak(object: &JsValue) -> Option<WeakRef> {
    Some(WeakRef::new(object.unchecked_ref::<Anything>()))
}

impl Held {
    /// Makes the record of a variable whose value has no object yet.
    fn new(variable: Variable) -> Held {
        let device = variable.value().device().clone();
        Held { variable, value: RefCell::default(), assigned: RefCell::default(), device }
    }

    /// Takes ownership of the assigned object, unless another variable owns it. Disposes of earlier objects.
    fn take_over(&self, assigned: &JsValue) {
        let has = |slot| object_in(slot).is_some_and(|own| own == *assigned);
        let is_own = has(&self.value) || has(&self.assigned);
        self.dispose_all_but(assigned);
        // If two variables owned an object, one could dispose of it while the other still returns it.
        if is_own || host(|host| host.own(assigned)) {
            self.assigned.replace(weak(assigned));
        }
    }

    /// Makes this object the one for the value. Disposes of objects of an earlier value.
    fn give_out(&self, value: &JsValue) {
        host(|host| host.own(value));
        // If this is the first object for the value, the assigned object is the same value and is kept.
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

/// Returns the object for a variable of the core. It is the same object each time, as long as it is not collected.
#[cfg(feature = "js-nn")]
pub fn object_of(variable: &Variable) -> Result<JsValue> {
    let known = host(|host| host.known(variable.address()));
    if !known.is_undefined() {
        return Ok(known);
    }
    let held = Held::new(variable.clone());
    let made: JsValue = JsVariable(Slot::new(Object::Variable(Rc::new(held)))).into();
    host(|host| host.remember(variable.address(), &made));
    Ok(made)
}
