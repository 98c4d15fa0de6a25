//! Batches, programs, and their plans.

use super::host::host;
use super::objects::{keep, keep_all, Object, Slot};
use super::returns::{plan_object, promise};
use super::{Answer, At, FromJs, JsBatch, JsDevice, JsPlan, JsProgram, JsTensor, Shell, Thrown};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::tensor::{Dim, Tensor};
use js_sys::{Array, Promise};
use std::cell::Cell;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

#[wasm_bindgen(js_class = "Batch")]
impl JsBatch {
    /// Adds a result. JavaScript's `add` calls it and returns the batch.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn push(&self, tensor: &JsValue) -> Answer<()> {
        let op = "batch";
        let (_, batch) = self.core(op)?;
        let tensor = Tensor::from_js(tensor, At { op, argument: "tensor" })?;
        batch.borrow_mut().add(&tensor)?;
        Ok(())
    }

    /// Returns the plan of a run of the batch with its present tensors.
    ///
    /// @throws `Limit` if the batch cannot be planned.
    pub fn plan(&self) -> Answer<JsPlan> {
        let (device, batch) = self.core("plan")?;
        let plan = batch.borrow().plan()?;
        Ok(plan_object(&device, plan))
    }

    /// Submits the batch without waiting.
    ///
    /// @throws `Limit`, `Memory`.
    pub fn run(&self) -> Answer<()> {
        Ok(self.core("batch")?.1.borrow().run()?)
    }
}

#[wasm_bindgen(js_class = "Program")]
impl JsProgram {
    /// Submits the program with these inputs and returns the results, in order. If a named axis has a new size, the program's
    /// function is called again and planned for that size.
    ///
    /// @throws `Shape`, `DType` or `InvalidArgument` if the inputs differ from the declared ones.
    #[wasm_bindgen(variadic, unchecked_return_type = "Tensor[]")]
    pub fn run(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Tensor[]")] inputs: Vec<JsValue>,
    ) -> Answer<Vec<JsTensor>> {
        let op = "program";
        let (_, program) = self.core(op)?;
        let one = |input: &JsValue| Tensor::from_js(input, At { op, argument: "an input" });
        let inputs = inputs.iter().map(one).collect::<Result<Vec<_>>>()?;
        let results = thrown(program.run(&inputs.iter().collect::<Vec<_>>()))?;
        Ok(results.into_iter().map(keep).collect::<Result<_>>()?)
    }

    /// Compiles the program's kernels in advance, without blocking the page. Otherwise the first `run` compiles them. The
    /// promise resolves when they are compiled.
    ///
    /// @throws `InvalidState` if inputs have named axes and the program was not run yet. The promise rejects if the device
    /// rejects a kernel.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn ready(&self) -> Answer<Promise> {
        let (_, program) = self.core("ready")?;
        program.plan()?;
        Ok(promise(async move {
            program.ready().await?;
            Ok(JsValue::UNDEFINED)
        }))
    }

    /// The plan of the program. If inputs have named axes, it is the plan of the last run.
    ///
    /// @throws `InvalidState` if inputs have named axes and the program was not run yet.
    #[wasm_bindgen(getter)]
    pub fn plan(&self) -> Answer<JsPlan> {
        let (device, program) = self.core("plan")?;
        Ok(plan_object(&device, program.plan()?))
    }
}

thread_local! {
    /// The value that a user's function threw.
    static THROWN: Cell<Option<JsValue>> = const { Cell::new(None) };
    /// The number of nested calls of users' functions that record operations.
    static RECORDING: Cell<usize> = const { Cell::new(0) };
}

/// Whether a user's function is being called to record operations, such as the function of a program.
pub fn is_recording() -> bool {
    RECORDING.get() > 0
}

/// Returns a result, or the value that a JavaScript function threw during the call.
pub fn thrown<T>(result: Result<T>) -> Answer<T> {
    match THROWN.take() {
        Some(thrown) => Err(Thrown::from(thrown)),
        None => Ok(result?),
    }
}

/// Calls a JavaScript function of tensors, for `op`. The objects of the arguments and of the tensors it makes are disposed of
/// afterwards. The returned tensors do not depend on these objects.
pub fn call(op: &'static str, build: &JsValue, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    host(|host| host.open_scope());
    RECORDING.set(RECORDING.get() + 1);
    let made = called(op, build, inputs);
    RECORDING.set(RECORDING.get() - 1);
    host(|host| host.close_scope());
    made
}

fn called(op: &'static str, build: &JsValue, inputs: &[Tensor]) -> Result<Vec<Tensor>> {
    let built = keep_all(inputs).and_then(|inputs| Ok(host(|host| host.build(build, inputs))?));
    match built {
        Ok(results) => {
            let one = |result: &JsValue| Tensor::from_js(result, At { op, argument: "a result" });
            results.iter().map(one).collect()
        }
        Err(error) => {
            THROWN.set(Some(JsValue::from(error)));
            Err(Error::argument(format!("{op}: the function must not throw, got an error")))
        }
    }
}

/// Converts a shape whose axes may have names.
fn dims(shape: &JsValue, at: At) -> Result<Vec<Dim>> {
    let one = |dim: JsValue| match dim.as_string() {
        Some(name) => Ok(Dim::Named(name)),
        None => usize::from_js(&dim, at).map(Dim::Fixed),
    };
    match shape.dyn_ref::<Array>() {
        Some(list) => list.iter().map(one).collect(),
        // Any other value is refused with the usual error for sizes.
        None => Ok(Vec::<usize>::from_js(shape, at)?.into_iter().map(Dim::Fixed).collect()),
    }
}

#[wasm_bindgen(js_class = "Device")]
impl JsDevice {
    /// Compiles a program from shapes and types of the inputs and a function. The host calls the function with placeholder
    /// tensors.
    #[wasm_bindgen(js_name = compiled, skip_typescript, skip_jsdoc)]
    pub fn compile(
        &self,
        shapes: Vec<JsValue>,
        dtypes: Vec<JsValue>,
        build: &JsValue,
    ) -> Answer<JsProgram> {
        let op = "compile";
        let device = self.core(op)?;
        let mut inputs = Vec::with_capacity(shapes.len());
        for (shape, dtype) in shapes.iter().zip(&dtypes) {
            let dims = dims(shape, At { op, argument: "shape" })?;
            inputs.push((dims, DType::from_js(dtype, At { op, argument: "dtype" })?));
        }
        let program =
            if inputs.iter().flat_map(|(dims, _)| dims).any(|d| matches!(d, Dim::Named(_))) {
                let types: Vec<(&[Dim], DType)> =
                    inputs.iter().map(|(d, t)| (&d[..], *t)).collect();
                let build = build.clone();
                device.compile_dynamic(&types, move |inputs| call(op, &build, inputs))
            } else {
                let fixed = |dim: &Dim| if let Dim::Fixed(extent) = dim { *extent } else { 0 };
                let shapes: Vec<Vec<usize>> =
                    inputs.iter().map(|(dims, _)| dims.iter().map(fixed).collect()).collect();
                let types: Vec<(&[usize], DType)> =
                    shapes.iter().zip(&inputs).map(|(shape, (_, t))| (&shape[..], *t)).collect();
                device.compile(&types, |inputs| call(op, build, inputs))
            };
        Ok(JsProgram(Slot::new(Object::Program(device, Rc::new(thrown(program)?)))))
    }
}

#[wasm_bindgen(js_class = "Plan")]
impl JsPlan {
    /// The number of recorded operations in the plan.
    #[wasm_bindgen(getter)]
    pub fn operations(&self) -> Answer<usize> {
        Ok(self.core("plan")?.1.operations)
    }

    /// The number of kernels in the plan.
    #[wasm_bindgen(getter)]
    pub fn kernels(&self) -> Answer<usize> {
        Ok(self.core("plan")?.1.dispatches.len())
    }

    /// The number of buffers that the plan writes: results and temporaries.
    #[wasm_bindgen(getter)]
    pub fn buffers(&self) -> Answer<usize> {
        let (_, plan) = self.core("plan")?;
        Ok(plan.temporaries.len() + plan.outputs.len())
    }

    /// The bytes of these buffers.
    #[wasm_bindgen(getter)]
    pub fn bytes(&self) -> Answer<f64> {
        Ok(self.core("plan")?.1.bytes_written() as f64)
    }

    /// The plan as readable text: one line of totals, then two lines for each kernel.
    #[wasm_bindgen(getter)]
    pub fn text(&self) -> Answer<String> {
        Ok(self.core("plan")?.1.to_string())
    }

    /// The operations of each kernel, such as `matmul[8,4]x[4,2] + add + relu`.
    #[wasm_bindgen(getter)]
    pub fn labels(&self) -> Answer<Vec<String>> {
        Ok(self.core("plan")?.1.dispatches.iter().map(|kernel| kernel.label.clone()).collect())
    }

    /// Returns the source text of each kernel. Undefined on the CPU, which compiles none.
    #[wasm_bindgen(unchecked_return_type = "(string | undefined)[]")]
    pub fn sources(&self) -> Answer<Vec<JsValue>> {
        let (device, plan) = self.core("sources")?;
        let source =
            |kernel| device.kernel_source(&plan, kernel).map_or(JsValue::UNDEFINED, JsValue::from);
        Ok((0..plan.dispatches.len()).map(source).collect())
    }
}
