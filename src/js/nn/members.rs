//! Modules that are written in JavaScript: JavaScript's side walks their properties, and what it finds is a module here, so
//! that names, states and tables are what they are in Rust.

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

/// What is found in a property.
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

/// A module of JavaScript's: the paths of its parts, and these.
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
    /// What was found at these paths.
    ///
    /// # Errors
    /// `Data` where one is no layer and no variable.
    pub fn new(paths: Vec<String>, parts: &[JsValue]) -> Result<Walked> {
        let at = At { op: "module", what: "a part" };
        let one = |(path, part)| Ok((path, Part::from_js(part, at)?));
        Ok(Walked(paths.into_iter().zip(parts).map(one).collect::<Result<_>>()?))
    }

    /// One layer alone.
    pub fn layer(layer: Layer) -> Walked {
        Walked(vec![(String::new(), Part::Layer(layer))])
    }

    /// The parameter or buffer at a path.
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

/// What JavaScript's side asks of the parts that it found at some paths.
#[wasm_bindgen(js_class = "Layer")]
impl JsLayer {
    /// The paths of all parameters, and these.
    #[wasm_bindgen(js_name = moduleParameters, skip_typescript, skip_jsdoc)]
    pub fn module_parameters(paths: Vec<String>, parts: Vec<JsValue>) -> Answer<JsValue> {
        let all = Walked::new(paths, &parts)?.named_parameters();
        let (paths, variables): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        Ok(pairs(&paths, variables.iter().map(object_of).collect::<Result<_>>()?))
    }

    /// The paths of all parameters and buffers, and their values.
    #[wasm_bindgen(js_name = moduleState, skip_typescript, skip_jsdoc)]
    pub fn module_state(paths: Vec<String>, parts: Vec<JsValue>) -> Answer<JsValue> {
        let state = Walked::new(paths, &parts)?.state_dict();
        let (paths, values): (Vec<_>, Vec<_>) = state.into_iter().unzip();
        Ok(pairs(&paths, Array::from_iter(keep_all(&values)?)))
    }

    /// Takes such values.
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

    /// Changes between training and evaluation.
    #[wasm_bindgen(js_name = moduleMode, skip_typescript, skip_jsdoc)]
    pub fn module_mode(paths: Vec<String>, parts: Vec<JsValue>, training: bool) -> Answer<()> {
        Walked::new(paths, &parts)?.set_training(training);
        Ok(())
    }

    /// A table of all parameters.
    #[wasm_bindgen(js_name = moduleSummary, skip_typescript, skip_jsdoc)]
    pub fn module_summary(paths: Vec<String>, parts: Vec<JsValue>) -> Answer<String> {
        Ok(Walked::new(paths, &parts)?.summary())
    }

    /// How many numbers are learnt.
    #[wasm_bindgen(js_name = moduleCount, skip_typescript, skip_jsdoc)]
    pub fn module_count(paths: Vec<String>, parts: Vec<JsValue>) -> Answer<f64> {
        Ok(Walked::new(paths, &parts)?.parameter_count() as f64)
    }
}
