//! Tensors: reading, gradients, and what JavaScript calls in another form than Rust.

use super::objects::{keep, Held};
use super::reading::{elements_of, number, stored};
use super::{given, promise, Answer, At, FromJs, IntoJs, JsTensor, Known, Options, Shell};
use crate::error::{Error, Result};
use crate::tensor::{AttentionOptions, Filter, Operand, Sampling, Tensor, Variable};
use js_sys::Promise;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

#[wasm_bindgen(js_class = "Tensor")]
impl JsTensor {
    /// All elements, row-major. Everything it needs is submitted before this returns, as one batch; the promise waits for
    /// it. `f32` and `f16` come as a `Float32Array`, `bool` as a `Uint8Array` of 0 and 1.
    ///
    /// @throws `DeviceLost`, `Memory`, `Limit`: the promise rejects with what went wrong on the device.
    #[wasm_bindgen(unchecked_return_type = "Promise<DataOf[D]>")]
    pub fn read(&self) -> Answer<Promise> {
        let this = self.core("read")?;
        let length = this.numel();
        Ok(promise(elements_of((&this, 0, length))))
    }

    /// The `length` elements from the `start`-th on, row-major, as {@link Tensor.read} gives them.
    ///
    /// @throws `Shape` where they lie outside.
    #[wasm_bindgen(js_name = readRange, unchecked_return_type = "Promise<DataOf[D]>")]
    pub fn read_range(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] start: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "number")] length: &JsValue,
    ) -> Answer<Promise> {
        let op = "readRange";
        let this = self.core(op)?;
        let start = usize::from_js(start, At { op, what: "start" })?;
        let length = usize::from_js(length, At { op, what: "length" })?;
        if start.checked_add(length).is_none_or(|end| end > this.numel()) {
            let message = format!(
                "{op}: the range must be inside shape {:?}, got {length} elements from {start} on",
                this.shape()
            );
            return Err(Error::shape(message).into());
        }
        Ok(promise(elements_of((&this, start, length))))
    }

    /// The only element of a tensor that has one, as a number; `bool` gives 0 or 1.
    ///
    /// @throws `Shape` if it has more or none.
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

    /// Elements as the device stores them.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn bytes(&self) -> Answer<Promise> {
        Ok(promise(stored(&self.core("to")?)))
    }

    /// The gradients of this number by each of `wrt`, each of the shape and type of what it is by; zeros by what does not
    /// go into it. They are tensors like any others: computed when read, best together in a batch or program, and
    /// differentiable again. With a `seed` of this tensor's shape it need not be one number: the gradients of the sum of
    /// the products with it.
    ///
    /// Equal largest or smallest elements share the gradient; `abs` and `relu` have 0 at 0; what rounds, compares or
    /// chooses has 0.
    ///
    /// @throws `DType` unless all are of floats; `Data` if a tensor on the way was computed and what it was computed from
    /// was disposed, or if a program made it; in a program, if a tensor from outside on the way was computed from a variable
    /// that the gradient is by. {@link Tensor.detach} it, if a constant is meant.
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
        let wrt = Vec::<Tensor>::from_js(wrt, At { op, what: "wrt" })?;
        let wrt: Vec<&Tensor> = wrt.iter().collect();
        let gradients = match Option::<Tensor>::from_js(seed, At { op, what: "seed" })? {
            None => this.grad(&wrt),
            Some(seed) => this.vjp(&seed, &wrt),
        };
        let gradients = gradients.map_err(|error| error.within(op))?;
        Ok(gradients.into_iter().map(keep).collect::<Result<_>>()?)
    }

    /// The gradients by each of `wrt` of the sum of all `results`, each multiplied by its seed, which has its shape and type:
    /// {@link Tensor.grad} of several tensors.
    ///
    /// @throws `Data` unless there is one seed for each result; as {@link Tensor.grad}.
    #[wasm_bindgen(unchecked_return_type = "Tensor[]")]
    pub fn vjp(
        #[wasm_bindgen(unchecked_param_type = "readonly Tensor[]")] results: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "readonly Tensor[]")] seeds: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "readonly Tensor[]")] wrt: &JsValue,
    ) -> Answer<Vec<JsTensor>> {
        let op = "vjp";
        let list = |value: &JsValue, what| Vec::<Tensor>::from_js(value, At { op, what });
        let (results, seeds) = (list(results, "results")?, list(seeds, "seeds")?);
        let wrt = list(wrt, "wrt")?;
        let (results, seeds): (Vec<&Tensor>, Vec<&Tensor>) =
            (results.iter().collect(), seeds.iter().collect());
        let gradients = Tensor::vjp_all(&results, &seeds, &wrt.iter().collect::<Vec<_>>());
        let gradients = gradients.map_err(|error| error.within(op))?;
        Ok(gradients.into_iter().map(keep).collect::<Result<_>>()?)
    }

    /// Leaves the gradients of this number by the values of `variables` with them, for {@link Variable.takeGradient}; what
    /// is there already is added to. A variable of which nothing goes into it gets none. Errors as {@link Tensor.grad}.
    pub fn backward(
        &self,
        #[wasm_bindgen(unchecked_param_type = "readonly Variable[]")] variables: &JsValue,
    ) -> Answer<()> {
        let op = "backward";
        let this = self.core(op)?;
        let held = Vec::<Rc<Held>>::from_js(variables, At { op, what: "variables" })?;
        let variables: Vec<&Variable> = held.iter().map(|held| &held.variable).collect();
        Ok(this.backward(&variables)?)
    }

    /// The extents, for the property `shape`.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn extents(&self) -> Answer<Vec<JsValue>> {
        Ok(self.core("shape")?.shape().into_js()?)
    }

    /// Every `step`-th element along `axis` from `start` up to but not including `end`. Negative positions count from the
    /// end; `step` is at least 1.
    ///
    /// @throws `Shape` if the range does not lie within the axis.
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
        let axis = isize::from_js(axis, At { op, what: "axis" })?;
        let start = Option::from_js(start, At { op, what: "start" })?.unwrap_or(0);
        let end = Option::<isize>::from_js(end, At { op, what: "end" })?;
        let step = Option::from_js(step, At { op, what: "step" })?.unwrap_or(1);
        let sliced = match end {
            Some(end) => this.slice_step(axis, start..end, step),
            None => this.slice_step(axis, start.., step),
        };
        given(sliced, op)
    }

    /// The axes from `startAxis` to `endAxis`, which is one of them, as one axis.
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
        let start = Option::<isize>::from_js(start, At { op, what: "startAxis" })?.unwrap_or(0);
        let end = Option::<isize>::from_js(end, At { op, what: "endAxis" })?.unwrap_or(-1);
        given(this.flatten(start..=end), op)
    }

    /// The elements limited to at least `min` and at most `max`; one of them may be left out. NaN stays NaN. The gradient
    /// goes to the elements inside, both ends included, and to the limit outside.
    ///
    /// @throws `Shape` if they do not broadcast, `DType` if their types do not go together.
    #[wasm_bindgen(unchecked_return_type = "Tensor<D>")]
    pub fn clamp(
        &self,
        #[wasm_bindgen(unchecked_optional_param_type = "Operand | undefined")] min: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "Operand | undefined")] max: &JsValue,
    ) -> Answer<JsTensor> {
        let op = "clamp";
        let this = self.core(op)?;
        let min = Option::<Operand>::from_js(min, At { op, what: "min" })?;
        let max = Option::<Operand>::from_js(max, At { op, what: "max" })?;
        let clamped = match (min, max) {
            (Some(min), Some(max)) => this.clamp(min, max),
            (Some(min), None) => this.clamp_min(min),
            (None, Some(max)) => this.clamp_max(max),
            (None, None) => Ok(this),
        };
        given(clamped, op)
    }

    /// Scaled dot-product attention, `softmax(q k^T * scale + mask) v`, without the matrix of scores in memory. This is q,
    /// `[batch, heads, queries, size]`; k is `[batch, kv heads, keys, size]`, v `[batch, kv heads, keys, value size]`; each
    /// kv head serves `heads / kv heads` heads. The result is `[batch, heads, queries, value size]`. A query that sees no
    /// key gives zeros. Takes `f32` and `f16`.
    ///
    /// @throws `Shape` if extents do not fit; `DType` unless all are of one float type (the mask may be `bool`).
    #[wasm_bindgen(unchecked_return_type = "Tensor<D>")]
    pub fn attention(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Tensor")] k: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "Tensor")] v: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "AttentionOptions")] options: &JsValue,
    ) -> Answer<JsTensor> {
        let op = "attention";
        let this = self.core(op)?;
        let k = Tensor::from_js(k, At { op, what: "k" })?;
        let v = Tensor::from_js(v, At { op, what: "v" })?;
        given(this.attention(&k, &v, Attending::open(options, op)?.options()), op)
    }

    /// An axis with `size` elements, the i-th made of those around the place `first + i * step` of this one's. Takes `f32`
    /// and `f16`.
    ///
    /// @throws `Shape` if the axis does not exist or is empty, or the size is 0; `Data` where the numbers are not finite.
    #[wasm_bindgen(unchecked_return_type = "Tensor<D>")]
    pub fn resample(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] axis: &JsValue,
        #[wasm_bindgen(unchecked_param_type = "number")] size: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "ResampleOptions")] options: &JsValue,
    ) -> Answer<JsTensor> {
        let op = "resample";
        let this = self.core(op)?;
        let axis = isize::from_js(axis, At { op, what: "axis" })?;
        let size = usize::from_js(size, At { op, what: "size" })?;
        const KNOWN: Known = &["first step filter sharpness antialias inside"];
        let options = Options::open(options, KNOWN, op)?;
        let number = |n, what| Option::<f64>::from_js(&options.get(n), At { op, what });
        let filter = Option::from_js(&options.get(2), At { op, what: "filter" })?;
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

/// Options of attention.
pub struct Attending {
    causal: bool,
    window: Option<usize>,
    mask: Option<Tensor>,
    scale: Option<f64>,
    kv_length: Option<usize>,
}

impl Attending {
    /// Those that were passed.
    ///
    /// # Errors
    /// `Data` where it is no object, or has a field that is not known.
    pub fn open(options: &JsValue, op: &'static str) -> Result<Attending> {
        const KNOWN: Known = &["causal window mask scale kvLength"];
        let options = Options::open(options, KNOWN, op)?;
        Ok(Attending {
            causal: options.after(0).flag(0, "causal", false)?,
            window: Option::from_js(&options.get(1), At { op, what: "window" })?,
            mask: Option::from_js(&options.get(2), At { op, what: "mask" })?,
            scale: Option::from_js(&options.get(3), At { op, what: "scale" })?,
            kv_length: Option::from_js(&options.get(4), At { op, what: "kvLength" })?,
        })
    }

    /// As the core takes them.
    pub fn options(&self) -> AttentionOptions<'_> {
        let Attending { causal, window, ref mask, scale, kv_length } = *self;
        AttentionOptions { causal, window, mask: mask.as_ref(), scale, kv_length }
    }
}
