//! Tensors: reading, gradients, and methods whose JavaScript form differs from Rust.

use super::objects::{keep, Held};
use super::reading::{elements_of, number, stored};
use super::{given, promise, Answer, At, FromJs, IntoJs, JsTensor, Known, Options, Shell};
use crate::error::{Error, Result};
use crate::tensor::{Filter, Operand, Sampling, Tensor, Variable};
use js_sys::Promise;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

#[wasm_bindgen(js_class = "Tensor")]
impl JsTensor {
    /// Reads all elements, row-major. Everything that the tensor needs is submitted as one batch before this returns, and the
    /// promise waits for it. `f32` and `f16` become a `Float32Array`, and `bool` a `Uint8Array` of 0 and 1.
    ///
    /// @throws `DeviceLost`, `Memory`, `Limit`: the promise rejects with errors of the device.
    #[wasm_bindgen(unchecked_return_type = "Promise<DataOf[D]>")]
    pub fn read(&self) -> Answer<Promise> {
        let this = self.core("read")?;
        let length = this.numel();
        Ok(promise(elements_of((&this, 0, length))))
    }

    /// Reads `length` elements from the `start`-th on, row-major, as by {@link Tensor.read}.
    ///
    /// @throws `Shape` if the range is outside of the tensor.
    #[wasm_bindgen(js_name = readRange, unchecked_return_type = "Promise<DataOf[D]>")]
    pub fn read_range(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] start: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "number")] length: &JsValue,
    ) -> Answer<Promise> {
        let op = "readRange";
        let this = self.core(op)?;
        let start = usize::from_js(start, At { op, argument: "start" })?;
        let length = usize::from_js(length, At { op, argument: "length" })?;
        if start.checked_add(length).is_none_or(|end| end > this.numel()) {
            let message = format!(
                "{op}: the range must be inside shape {:?}, got {length} elements from {start} on",
                this.shape()
            );
            return Err(Error::shape(message).into());
        }
        Ok(promise(elements_of((&this, start, length))))
    }

    /// Reads the only element of a tensor as a number. `bool` gives 0 or 1.
    ///
    /// @throws `Shape` unless the tensor has exactly one element.
    #[wasm_bindgen(unchecked_return_type = "Promise<number>")]
    pub fn item(&self) -> Answer<Promise> {
        let this = self.core("item")?;
        if this.numel() != 1 {
            let message =
                format!("item: the tensor must have one element, got shape {:?}", this.shape());
            return Err(Error::shape(message).into());
        }
        let (dtype, bytes) = (this.dtype(), this.read_bytes());
        Ok(promise(async move { Ok(number(dtype, &bytes.await?)) }))
    }

    /// Reads the elements in the device's storage format.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn bytes(&self) -> Answer<Promise> {
        Ok(promise(stored(&self.core("to")?)))
    }

    /// Returns the gradients of this tensor, which has one element, with respect to each tensor of `wrt`, in that tensor's
    /// shape and type. If this tensor does not depend on a tensor of `wrt`, that gradient is zeros. Gradients are ordinary
    /// tensors. They are computed when they are read, best together in a batch or program, and can be differentiated again.
    ///
    /// With a `seed` of this tensor's shape, this tensor may have any shape. The result is the gradients of the sum of its
    /// products with the seed.
    ///
    /// If several elements are the largest or smallest, they share the gradient equally. `abs` and `relu` have gradient 0 at 0.
    /// Comparisons, rounding, indices and conditions have gradient 0.
    ///
    /// After a computed tensor is disposed of or collected, gradients pass through it for 64 more batches, as long as all
    /// such tensors with their histories take at most 16 MiB (or a quarter of the memory in use, if that is more) and 65,536
    /// operations.
    ///
    /// @throws `Shape` unless this tensor has one element or the seed has its shape; `DType` unless all tensors are floats.
    /// `InvalidState` if the gradient would pass through a computed tensor that was dropped long ago, or if an optimizer's step
    /// has used up this tensor. In a program, also `InvalidState` if it would pass through a tensor from outside that was
    /// computed from a variable of `wrt`. Use {@link Tensor.detach} to treat a tensor as a constant.
    ///
    /// @example
    /// ```ts
    /// const w = device.tensor([1, -2, 3]);
    /// const [gradient] = w.square().sum().grad([w]);
    /// console.log(await gradient.read()); // Float32Array [2, -4, 6]
    /// ```
    #[wasm_bindgen(unchecked_return_type = "Tensor[]")]
    pub fn grad(
        &self,
        #[wasm_bindgen(unchecked_param_type = "readonly Tensor[]")] wrt: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "Tensor")] seed: &JsValue,
    ) -> Answer<Vec<JsTensor>> {
        let op = "grad";
        let this = self.core(op)?;
        let wrt = Vec::<Tensor>::from_js(wrt, At { op, argument: "wrt" })?;
        let wrt: Vec<&Tensor> = wrt.iter().collect();
        let gradients = match Option::<Tensor>::from_js(seed, At { op, argument: "seed" })? {
            None => this.grad(&wrt),
            Some(seed) => this.vjp(&seed, &wrt),
        };
        let gradients = gradients.map_err(|error| error.within(op))?;
        Ok(gradients.into_iter().map(keep).collect::<Result<_>>()?)
    }

    /// Returns the gradients of several tensors by each tensor of `wrt`, as {@link Tensor.grad} does. They are gradients of the
    /// sum of all `results`, each multiplied by its seed. A seed has the shape and type of its result.
    ///
    /// @throws `InvalidArgument` unless there is one seed for each result; errors of {@link Tensor.grad}.
    #[wasm_bindgen(unchecked_return_type = "Tensor[]")]
    pub fn vjp(
        #[wasm_bindgen(unchecked_param_type = "readonly Tensor[]")] results: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "readonly Tensor[]")] seeds: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "readonly Tensor[]")] wrt: &JsValue,
    ) -> Answer<Vec<JsTensor>> {
        let op = "vjp";
        let list = |value: &JsValue, argument| Vec::<Tensor>::from_js(value, At { op, argument });
        let (results, seeds) = (list(results, "results")?, list(seeds, "seeds")?);
        let wrt = list(wrt, "wrt")?;
        let (results, seeds): (Vec<&Tensor>, Vec<&Tensor>) =
            (results.iter().collect(), seeds.iter().collect());
        let gradients = Tensor::vjp_all(&results, &seeds, &wrt.iter().collect::<Vec<_>>());
        let gradients = gradients.map_err(|error| error.within(op))?;
        Ok(gradients.into_iter().map(keep).collect::<Result<_>>()?)
    }

    /// Adds the gradients of this single number by the values of `variables` to these variables' gradients.
    /// {@link Variable.takeGradient} returns them. A variable that this number does not depend on gets no gradient. Throws the
    /// errors of {@link Tensor.grad}.
    pub fn backward(
        &self,
        #[wasm_bindgen(unchecked_param_type = "readonly Variable[]")] variables: &JsValue,
    ) -> Answer<()> {
        let op = "backward";
        let this = self.core(op)?;
        let held = Vec::<Rc<Held>>::from_js(variables, At { op, argument: "variables" })?;
        let variables: Vec<&Variable> = held.iter().map(|held| &held.variable).collect();
        Ok(this.backward(&variables)?)
    }

    /// Returns the sizes of the axes, for the property `shape`.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn extents(&self) -> Answer<Vec<JsValue>> {
        Ok(self.core("shape")?.shape().into_js()?)
    }

    /// Returns every `step`-th element along `axis`, from `start` up to, but not including, `end`. Negative positions count
    /// from the end. `step` is at least 1.
    ///
    /// @throws `Shape` if the range is not within the axis.
    ///
    /// @example
    /// ```ts
    /// x.slice(0, 2);      // without the first two rows
    /// x.slice(-1, -3);    // the last three columns
    /// x.slice(0, 0, 8, 2) // every second row of the first eight
    /// ```
    #[wasm_bindgen(unchecked_return_type = "Tensor<D>")]
    pub fn slice(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] axis: &JsValue,
        #[wasm_bindgen(
            unchecked_optional_param_type = "number",
            param_description = "Default: 0."
        )]
        start: &JsValue,
        #[wasm_bindgen(
            unchecked_optional_param_type = "number",
            param_description = "Default: the axis's end."
        )]
        end: &JsValue,
        #[wasm_bindgen(
            unchecked_optional_param_type = "number",
            param_description = "Default: 1."
        )]
        step: &JsValue,
    ) -> Answer<JsTensor> {
        let op = "slice";
        let this = self.core(op)?;
        let axis = isize::from_js(axis, At { op, argument: "axis" })?;
        let start = Option::from_js(start, At { op, argument: "start" })?.unwrap_or(0);
        let end = Option::<isize>::from_js(end, At { op, argument: "end" })?;
        let step = Option::from_js(step, At { op, argument: "step" })?.unwrap_or(1);
        let sliced = match end {
            Some(end) => this.slice_step(axis, start..end, step),
            None => this.slice_step(axis, start.., step),
        };
        given(sliced, op)
    }

    /// Merges the axes from `startAxis` to `endAxis`, inclusive, into one axis.
    ///
    /// @throws `Shape` if an axis does not exist.
    #[wasm_bindgen(unchecked_return_type = "Tensor<D>")]
    pub fn flatten(
        &self,
        #[wasm_bindgen(
            js_name = "startAxis",
            unchecked_optional_param_type = "number",
            param_description = "Default: 0."
        )]
        start: &JsValue,
        #[wasm_bindgen(
            js_name = "endAxis",
            unchecked_optional_param_type = "number",
            param_description = "Default: -1."
        )]
        end: &JsValue,
    ) -> Answer<JsTensor> {
        let op = "flatten";
        let this = self.core(op)?;
        let start = Option::<isize>::from_js(start, At { op, argument: "startAxis" })?.unwrap_or(0);
        let end = Option::<isize>::from_js(end, At { op, argument: "endAxis" })?.unwrap_or(-1);
        given(this.flatten(start..=end), op)
    }

    /// Limits the elements to at least `min` and at most `max`, one of which may be omitted. NaN stays NaN. The gradient flows
    /// to elements within the limits, including the limits themselves. Outside, it flows to the limit.
    ///
    /// @throws `Shape` if the limits do not broadcast, `DType` if their types do not match.
    #[wasm_bindgen(unchecked_return_type = "Tensor<D>")]
    pub fn clamp(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "Operand | undefined")] min: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "Operand | undefined")] max: &JsValue,
    ) -> Answer<JsTensor> {
        let op = "clamp";
        let this = self.core(op)?;
        let min = Option::<Operand>::from_js(min, At { op, argument: "min" })?;
        let max = Option::<Operand>::from_js(max, At { op, argument: "max" })?;
        let clamped = match (min, max) {
            (Some(min), Some(max)) => this.clamp(min, max),
            (Some(min), None) => this.clamp_min(min),
            (None, Some(max)) => this.clamp_max(max),
            (None, None) => Ok(this),
        };
        given(clamped, op)
    }

    /// Resamples an axis to `size` elements. The i-th is interpolated from elements around position `first + i * step` of this
    /// axis. Types are `f32` and `f16`.
    ///
    /// @throws `Shape` if the axis does not exist or is empty, or the size is 0; `InvalidArgument` if a number is not finite.
    #[wasm_bindgen(unchecked_return_type = "Tensor<D>")]
    pub fn resample(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] axis: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "number")] size: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "ResampleOptions")] options: &JsValue,
    ) -> Answer<JsTensor> {
        let op = "resample";
        let this = self.core(op)?;
        let axis = isize::from_js(axis, At { op, argument: "axis" })?;
        let size = usize::from_js(size, At { op, argument: "size" })?;
        const KNOWN: Known = &["first step filter sharpness antialias inside"];
        let options = Options::open(options, KNOWN, op)?;
        let number = |n, argument| Option::<f64>::from_js(&options.get(n), At { op, argument });
        let filter = Option::from_js(&options.get(2), At { op, argument: "filter" })?;
        let filter = match (filter.unwrap_or(Filter::Linear), number(3, "sharpness")?) {
            (Filter::Cubic(_), Some(sharpness)) => Filter::Cubic(sharpness),
            (filter, _) => filter,
        };
        let sampling = Sampling {
            first: number(0, "first")?.unwrap_or(0.0),
            step: number(1, "step")?.unwrap_or(1.0),
            filter,
            antialias: options.after(4).flag(0, "antialias", false)?,
            inside: options.after(5).flag(0, "inside", false)?,
        };
        given(this.resample(axis, size, sampling), op)
    }
}
