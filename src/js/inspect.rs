//! Inspection of how tensors were computed, and checkpoints.

use super::host::host;
use super::objects::keep;
use super::{named, promise, Answer, At, FromJs, JsDevice, JsTensor, Shell};
use crate::error::Result;
use crate::tensor::Tensor;
use js_sys::Promise;
use wasm_bindgen::prelude::*;

#[wasm_bindgen(js_class = "Device")]
impl JsDevice {
    /// Returns the number of recorded operations, which is where a checkpoint begins.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn recorded(&self) -> Answer<f64> {
        Ok(self.core("checkpoint")?.recorded() as f64)
    }
}

#[wasm_bindgen(js_class = "Tensor")]
impl JsTensor {
    /// Makes the tensor a checkpoint of all operations since the `since`-th. Returns a new object for the caller, because this
    /// object may be an argument of `work` or belong to other code.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn checkpointed(&self, since: &JsValue) -> Answer<JsTensor> {
        let op = "checkpoint";
        let since = f64::from_js(since, At { op, argument: "since" })?;
        let tensor = self.core(op)?;
        tensor.set_checkpoint(since as u64)?;
        Ok(keep(tensor)?)
    }

    /// Returns another object for the same tensor. Each can be disposed of without the other.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn twin(&self) -> Answer<JsTensor> {
        Ok(keep(self.core("forward")?)?)
    }

    /// Draws the operations that this tensor was computed from: as text in Graphviz's DOT language, and as an SVG picture.
    /// Tensors in `names` are labeled. Each single number shows its value. If this tensor is a single float, each single
    /// float also shows the gradient of this tensor with respect to it.
    ///
    /// Gradients through a tensor that was dropped long ago are left out.
    ///
    /// @throws `Limit` for more than 500 operations and operands; errors of {@link Tensor.read}.
    ///
    /// @example
    /// ```ts
    /// const [a, b] = [device.tensor(2), device.tensor(-3)];
    /// const { svg } = await a.mul(b).tanh().graph({ a, b });
    /// document.body.insertAdjacentHTML("beforeend", svg);
    /// ```
    #[wasm_bindgen(unchecked_return_type = "Promise<{ dot: string; svg: string }>")]
    pub fn graph(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "Readonly<Record<string, Tensor>>")]
        names: &JsValue,
    ) -> Answer<Promise> {
        let op = "graph";
        let this = self.core(op)?;
        let mut known: Vec<(String, Tensor)> = Vec::new();
        if !names.is_undefined() {
            let at = At { op, argument: "names" };
            let entries = host(|host| host.entries(names));
            let entries =
                entries.ok_or_else(|| at.refuse(names, "a readable object of tensors"))?;
            for entry in entries.chunks_exact(2) {
                known.push((String::from_js(&entry[0], at)?, Tensor::from_js(&entry[1], at)?));
            }
        }
        let lent: Vec<(&str, &Tensor)> = known.iter().map(|(name, x)| (&name[..], x)).collect();
        let graph = this.graph(&lent)?;
        Ok(promise(async move {
            let graph = graph.with_values().await?;
            let texts = [graph.dot(), graph.svg()].map(JsValue::from);
            Ok(named(&["dot", "svg"], texts))
        }))
    }

    /// Finds the first operation that computed NaN or infinity from finite values. Returns a sentence with its name and the
    /// shapes of its operands, or undefined if this tensor is finite. The recorded history of the tensor is computed again for
    /// this.
    ///
    /// @throws Errors of {@link Tensor.read}.
    ///
    /// @example
    /// ```ts
    /// const loss = device.tensor([1, 0]).log().sum();
    /// console.log(await loss.findNonFinite()); // log gave an infinity, f32 [2], for data f32 [2]
    /// ```
    #[wasm_bindgen(
        js_name = findNonFinite,
        unchecked_return_type = "Promise<string | undefined>"
    )]
    pub fn find_non_finite(&self) -> Answer<Promise> {
        let this = self.core("findNonFinite")?;
        Ok(promise(async move {
            let found = this.find_non_finite().await?;
            let text: Result<JsValue> =
                Ok(found.map_or(JsValue::UNDEFINED, |found| found.to_string().into()));
            text
        }))
    }
}
