//! Modules written in JavaScript. The JavaScript side walks their properties, and the parts it finds become a Rust module here.
//! Names, states and tables are therefore equal in both languages.

use super::models::Layer;
use super::Object;
use crate::error::Result;
use crate::js::convert::object;
use crate::js::objects::{keep_all, Object as Any};
use crate::js::states::{pairs, state};
use crate::js::variable::object_of;
use crate::js::{given, Answer, At, FromJs, JsLayer};
use crate::nn::{Members, Module};
use crate::tensor::Variable;
use js_sys::Array;
use wasm_bindgen::prelude::*;

/// A part found in a property.
#[derive(Clone)]
pub enum Part {
    Layer(Layer),
    Parameter(Variable),
}

impl FromJs for Part {
    fn from_js(value: &JsValue, at: At) -> Result<Part> {
        match object(value, at, "a layer or a variable")? {
            Some(Any::Nn(Object::Layer(layer))) => Ok(Part::Layer(layer)),
            Some(Any::Variable(held)) => Ok(Part::Parameter(held.variable.clone())),
            _ => Err(at.refuse(value, "a layer or a variable")),
        }
    }
}

/// A JavaScript module: its parts with their paths.
pub struct Walked(Vec<(String, Part)>);

impl Module for Walked {
    fn members(&self, members: &mut Members) {
        for (path, part) in &self.0 {
            match part {
                Part::Layer(layer) => members.child_dyn(path, &*layer.module),
                Part::Parameter(variable) => members.parameter(path, variable),
            };
        }
    }

    fn kind(&self) -> &'static str {
        match &self.0[..] {
            [(path, Part::Layer(layer))] if path.is_empty() => layer.module.kind(),
            _ => "Module",
        }
    }
}

impl Walked {
    /// Makes a module from parts at these paths.
    ///
    /// # Errors
    /// `InvalidArgument` if a part is neither a layer nor a variable.
    pub fn new(paths: Vec<String>, parts: &[JsValue]) -> Result<Walked> {
        let at = At { op: "module", argument: "a part" };
        let one = |(path, part)| Ok((path, Part::from_js(part, at)?));
        Ok(Walked(paths.into_iter().zip(parts).map(one).collect::<Result<_>>()?))
    }

    /// Makes a module of one layer.
    pub fn layer(layer: Layer) -> Walked {
        Walked(vec![(String::new(), Part::Layer(layer))])
    }

    /// Returns the parameter or buffer at a path.
    pub fn variable(&self, path: &str) -> Option<Variable> {
        let mut found = None;
        self.visit(&mut |at, member| {
            use crate::nn::Member::{Buffer, Parameter};
            if let (true, Parameter(variable) | Buffer(variable)) = (at == path, member) {
                found = Some(variable.clone());
            }
        });
        found
    }
}

/// Operations on the parts that the JavaScript side found, given with their paths.
#[wasm_bindgen(js_class = "Layer")]
impl JsLayer {
    /// Returns the paths and variables of all parameters.
    #[wasm_bindgen(js_name = moduleParameters, skip_typescript, skip_jsdoc)]
    pub fn module_parameters(paths: Vec<String>, parts: Vec<JsValue>) -> Answer<JsValue> {
        let all = Walked::new(paths, &parts)?.named_parameters();
        let (paths, variables): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        Ok(pairs(&paths, variables.iter().map(object_of).collect::<Result<_>>()?))
    }

    /// Returns the paths and values of all parameters and buffers.
    #[wasm_bindgen(js_name = moduleState, skip_typescript, skip_jsdoc)]
    pub fn module_state(paths: Vec<String>, parts: Vec<JsValue>) -> Answer<JsValue> {
        let state = Walked::new(paths, &parts)?.state_dict();
        let (paths, values): (Vec<_>, Vec<_>) = state.into_iter().unzip();
        Ok(pairs(&paths, Array::from_iter(keep_all(&values)?)))
    }

    /// Loads the values of parameters and buffers.
    #[wasm_bindgen(js_name = moduleLoad, skip_typescript, skip_jsdoc)]
    pub fn module_load(
        paths: Vec<String>,
        parts: Vec<JsValue>,
        names: Vec<String>,
        values: Vec<JsValue>,
    ) -> Answer<()> {
        let op = "loadStateDict";
        let state = state(op, names, &values)?;
        given(Walked::new(paths, &parts)?.load_state_dict(&state), op)
    }

    /// Switches the parts to training or evaluation.
    #[wasm_bindgen(js_name = moduleMode, skip_typescript, skip_jsdoc)]
    pub fn module_mode(paths: Vec<String>, parts: Vec<JsValue>, training: bool) -> Answer<()> {
        Walked::new(paths, &parts)?.set_training(training);
        Ok(())
    }

    /// Returns a table of all parameters.
    #[wasm_bindgen(js_name = moduleSummary, skip_typescript, skip_jsdoc)]
    pub fn module_summary(paths: Vec<String>, parts: Vec<JsValue>) -> Answer<String> {
        Ok(Walked::new(paths, &parts)?.summary())
    }

    /// Returns the number of elements in all parameters.
    #[wasm_bindgen(js_name = moduleCount, skip_typescript, skip_jsdoc)]
    pub fn module_count(paths: Vec<String>, parts: Vec<JsValue>) -> Answer<f64> {
        Ok(Walked::new(paths, &parts)?.parameter_count() as f64)
    }
}
