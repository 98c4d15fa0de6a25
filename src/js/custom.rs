//! Custom WGSL: element functions and compute shaders.

use super::objects::{keep, Object, Slot};
use super::programs::{call, thrown};
use super::Shell;
use super::{named, promise, Answer, At, FromJs, JsDevice, JsElementFunction, JsShader, JsTensor};
use crate::error::{Error, Result};
use crate::tensor::{ElementFunction, Operand, Tensor};
use js_sys::{Array, Promise};
use std::rc::Rc;
use wasm_bindgen::prelude::*;

/// Converts each item of a list.
fn all<T: FromJs>(values: &[JsValue], at: At) -> Result<Vec<T>> {
    values.iter().map(|value| T::from_js(value, at)).collect()
}

/// Returns the only tensor of a fallback's result.
fn only(mut made: Vec<Tensor>, op: &str) -> Result<Tensor> {
    match (made.pop(), made.len()) {
        (Some(tensor), 0) => Ok(tensor),
        _ => Err(Error::argument(format!(
            "{op}: the fallback must return one tensor, got another number of them"
        ))),
    }
}

#[wasm_bindgen(js_class = "Device")]
impl JsDevice {
    /// Compiles an element function.
    #[wasm_bindgen(js_name = madeElement, skip_typescript, skip_jsdoc)]
    pub fn element_function(
        &self,
        source: String,
        gradients: Vec<JsValue>,
        fallback: JsValue,
    ) -> Answer<Promise> {
        let op = "elementFunction";
        let device = self.core(op)?;
        let given: Vec<Rc<ElementFunction>> = all(&gradients, At { op, argument: "a gradient" })?;
        let made = device.element_function(&source);
        Ok(promise(async move {
            let mut function = made.await?;
            if !given.is_empty() {
                let all: Vec<&ElementFunction> = given.iter().map(|other| &**other).collect();
                function = function.with_gradients(&all)?;
            }
            if !fallback.is_undefined() {
                function = function.with_fallback(move |operands: &[Tensor]| {
                    only(call("elementFunction", &fallback, operands)?, "elementFunction")
                });
            }
            let object = Object::ElementFunction(device, Rc::new(function));
            Ok(JsValue::from(JsElementFunction(Slot::new(object))))
        }))
    }

    /// Compiles a compute shader.
    #[wasm_bindgen(js_name = madeShader, skip_typescript, skip_jsdoc)]
    pub fn shader(&self, source: String, gradient: JsValue, fallback: JsValue) -> Answer<Promise> {
        let device = self.core("shader")?;
        let made = device.shader(&source);
        Ok(promise(async move {
            let mut shader = made.await?;
            if !gradient.is_undefined() {
                shader = shader.with_gradient(move |inputs, outputs, of| {
                    call("shader", &gradient, &[inputs, outputs, of].concat())
                });
            }
            if !fallback.is_undefined() {
                shader = shader.with_fallback(move |inputs, params| {
                    // The host passes the numbers along with the tensors.
                    let numbers = Array::from_iter(params.iter().map(|&n| JsValue::from_f64(n)));
                    let bound = js_sys::Function::from(fallback.clone())
                        .bind1(&JsValue::UNDEFINED, &numbers);
                    call("shader", &bound, inputs)
                });
            }
            let object = Object::Shader(device, Rc::new(shader));
            Ok(JsValue::from(JsShader(Slot::new(object))))
        }))
    }
}

#[wasm_bindgen(js_class = "ElementFunction")]
impl JsElementFunction {
    /// Records a call of the function with tensors or numbers, which broadcast.
    ///
    /// @throws `Shape` if the operands do not broadcast, `DType` if their types differ from the parameters', `InvalidArgument`
    /// if their number differs or all are numbers, `Unsupported` on a CPU without a fallback.
    #[wasm_bindgen(variadic)]
    pub fn call(
        &self,
        #[wasm_bindgen(unchecked_param_type = "(Tensor | number | boolean)[]")] operands: Vec<
            JsValue,
        >,
    ) -> Answer<JsTensor> {
        let op = "elementFunction";
        let (_, function) = self.core(op)?;
        let operands: Vec<Operand> = all(&operands, At { op, argument: "an operand" })?;
        Ok(keep(thrown(function.call(&operands))?)?)
    }

    /// The function's name in WGSL.
    #[wasm_bindgen(getter)]
    pub fn name(&self) -> Answer<String> {
        Ok(self.core("name")?.1.name().to_string())
    }
}

#[wasm_bindgen(js_class = "Shader")]
impl JsShader {
    /// Returns the names of the shader's inputs, outputs and params.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn names(&self) -> Answer<JsValue> {
        let (_, shader) = self.core("shader")?;
        let list = |all: Vec<(&str, crate::dtype::DType)>| {
            let names = all.into_iter().map(|(name, _)| JsValue::from_str(name));
            JsValue::from(Array::from_iter(names))
        };
        let lists = [list(shader.inputs()), list(shader.outputs()), list(shader.params())];
        Ok(named(&["inputs", "outputs", "params"], lists))
    }

    /// Records a run. Names and values are in parallel lists.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    #[allow(clippy::too_many_arguments)]
    pub fn launch(
        &self,
        inputs: Vec<String>,
        tensors: Vec<JsValue>,
        outputs: Vec<String>,
        shapes: Vec<JsValue>,
        workgroups: Vec<JsValue>,
        params: Vec<String>,
        numbers: Vec<JsValue>,
    ) -> Answer<Vec<JsTensor>> {
        let op = "shader";
        let (_, shader) = self.core(op)?;
        let tensors: Vec<Tensor> = all(&tensors, At { op, argument: "an input" })?;
        let shapes: Vec<Vec<usize>> = all(&shapes, At { op, argument: "the shape of an output" })?;
        let numbers: Vec<f64> = all(&numbers, At { op, argument: "a number" })?;
        let grid: Vec<usize> = all(&workgroups, At { op, argument: "workgroups" })?;
        let count = |n: usize| u32::try_from(grid.get(n).copied().unwrap_or(1)).unwrap_or(u32::MAX);
        if grid.is_empty() || grid.len() > 3 {
            let message = format!("{op}: workgroups must have 1 to 3 numbers, got {}", grid.len());
            return Err(Error::argument(message).into());
        }
        let inputs: Vec<(&str, &Tensor)> = inputs.iter().map(|n| &n[..]).zip(&tensors).collect();
        let outputs: Vec<(&str, &[usize])> =
            outputs.iter().map(|n| &n[..]).zip(shapes.iter().map(|s| &s[..])).collect();
        let params: Vec<(&str, f64)> = params.iter().map(|n| &n[..]).zip(numbers).collect();
        let made = thrown(shader.run(&inputs, &outputs, [0, 1, 2].map(count), &params))?;
        Ok(made.into_iter().map(keep).collect::<Result<_>>()?)
    }
}
