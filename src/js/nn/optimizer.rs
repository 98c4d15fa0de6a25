//! Optimizers: one class with a static method for each rule.

use super::models::{Average, Optimizer};
use super::Object;
use crate::error::{Error, Result};
use crate::js::convert::object;
use crate::js::host::host;
use crate::js::objects::{keep, keep_all, Object as Any};
use crate::js::states::{pairs, state};
use crate::js::{
    promise, Answer, At, FromJs, IntoJs, JsOptimizer, JsTensor, JsWeightAverage, Shell,
};
use crate::optim::{self, Clip, WeightAverage};
use crate::tensor::{Tensor, Variable};
use js_sys::{Array, Promise};
use std::rc::Rc;
use wasm_bindgen::prelude::*;

/// Defines a static method for each rule.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident $rule:ident;)*) => {
        #[warpweft_macros::js]
        impl Optimizer { $(
            $(#[$doc])*
            ///
            /// A parameter belongs to the newest optimizer that was made with it. Earlier optimizers of it cannot take steps
            /// any more.
            ///
            /// # Errors
            /// `InvalidArgument` if there are no parameters, a parameter is listed twice, they are on two devices, or an option
            /// is invalid; `DType` unless they are floats.
            #[js(spread(options))]
            pub fn $name(parameters: &[Variable], options: optim::$rule) -> Result<Optimizer> {
                Optimizer::new(options, parameters)
            }
        )* }
    };
}

rules! {
    /// Makes stochastic gradient descent with momentum (PyTorch's `SGD`).
    sgd Sgd;
    /// Makes Adam (Kingma and Ba 2015).
    adam Adam;
    /// Makes AdamW: Adam with decoupled weight decay (Loshchilov and Hutter 2019).
    adam_w AdamW;
    /// Makes Adamax: Adam with the infinity norm of gradients (Kingma and Ba 2015).
    adamax Adamax;
    /// Makes NAdam: Adam with Nesterov momentum (Dozat 2016).
    n_adam NAdam;
    /// Makes RAdam: rectified Adam (Liu and others 2020).
    r_adam RAdam;
    /// Makes AdaBelief: Adam with the variance of gradients around their running mean (Zhuang and others 2020).
    ada_belief AdaBelief;
    /// Makes Yogi: Adam with a slowly changing second moment (Zaheer and others 2018).
    yogi Yogi;
    /// Makes averaged stochastic gradient descent (PyTorch's `ASGD`). The averages are `ax` in `stateDict`.
    asgd Asgd;
    /// Makes Rprop: steps by the signs of gradients (PyTorch's `Rprop`).
    rprop Rprop;
    /// Makes RMSprop (Hinton 2012).
    rms_prop RmsProp;
    /// Makes Adagrad (Duchi and others 2011).
    adagrad Adagrad;
    /// Makes Adadelta (Zeiler 2012).
    adadelta Adadelta;
    /// Makes Lion (Chen and others 2023).
    lion Lion;
    /// Makes LAMB (You and others 2020).
    lamb Lamb;
    /// Makes Muon, for matrices only (Jordan 2024).
    muon Muon;
}

#[warpweft_macros::js]
impl Optimizer {
    /// Takes a step with the gradients of `loss`, a single number. Submits everything that is needed, including the loss, so
    /// a later read of the loss only waits. Gradients stored by `accumulate` and {@link Tensor.backward} are added, and then
    /// cleared. A parameter that the loss does not depend on is unchanged, and so is its optimizer state. The step uses up
    /// the loss. Later gradients of it with respect to these parameters are an error.
    ///
    /// # Errors
    /// `Shape` if the loss is not a single number; `InvalidArgument` if it depends on none of the parameters; `InvalidState` if
    /// it depends on a value that a parameter had before it was assigned, or if a parameter belongs to another optimizer now;
    /// `Limit`, `Memory`. Nothing is changed then.
    pub fn minimize(&self, loss: &Tensor) -> Result<()> {
        self.with(|inner| inner.minimize(loss))
    }

    /// Adds the gradients of `loss` to those of the next step, and submits. Use it to compute a batch that is too large for the
    /// memory in parts. Divide each loss by the number of parts.
    ///
    /// # Errors
    /// Errors of `minimize`. Nothing is added then.
    pub fn accumulate(&self, loss: &Tensor) -> Result<()> {
        self.with(|inner| inner.accumulate(loss))
    }

    /// Takes a step against the accumulated gradients. These are the sums of `accumulate`, and the gradients that
    /// {@link Tensor.backward} left in the parameters, which are cleared. A parameter without a gradient is unchanged. In mixed
    /// precision, call `backward` on the result of `scaleLoss`, because all gradients are divided by the scale.
    ///
    /// # Errors
    /// `InvalidState` if there are no gradients; `Limit`, `Memory`. Nothing is changed then, and the gradients are kept.
    pub fn step(&self) -> Result<()> {
        self.with(|inner| inner.step())
    }

    /// Returns a loss times `lossScale()`, for {@link Tensor.backward}. `minimize` and `accumulate` scale losses automatically.
    /// Without {@link Optimizer.mixedPrecision}, the loss is returned unchanged.
    ///
    /// # Errors
    /// `Shape` unless the loss is a single number.
    #[js(example = "optimizer.scaleLoss(loss).backward(model.parameters());")]
    pub fn scale_loss(&self, loss: &Tensor) -> Result<Tensor> {
        self.with(|inner| inner.scale_loss(loss))
    }

    /// Sets clipping by norm. Before each update, all gradients are scaled so that their common norm is at most `max`.
    ///
    /// # Errors
    /// `InvalidArgument` if `max` is not positive, `InvalidState` if the optimizer is busy.
    pub fn clip_norm(&self, max: f64) -> Result<()> {
        self.clip(Clip::Norm(max))
    }

    /// Sets clipping by value. Before each update, each element of a gradient is limited to `-max` and `max`.
    ///
    /// # Errors
    /// `InvalidArgument` if `max` is not positive, `InvalidState` if the optimizer is busy.
    pub fn clip_value(&self, max: f64) -> Result<()> {
        self.clip(Clip::Value(max))
    }

    fn clip(&self, clip: Clip) -> Result<()> {
        clip.check("clip")?;
        self.with(|inner| {
            inner.set_clip(clip);
            Ok(())
        })
    }

    /// Sets the learning rate of one group. Groups are numbered in the order in which {@link Optimizer.addGroup} added them.
    /// Setting `lr` sets the rate of all groups.
    ///
    /// # Errors
    /// `InvalidArgument` if the group does not exist, or the rate is negative or NaN.
    #[js(example = "optimizer.setGroupLr(1, 0.05);")]
    pub fn set_group_lr(&self, group: usize, lr: f64) -> Result<()> {
        self.with(|inner| inner.set_group_lr(group, lr))
    }

    /// Enables training with 16-bit gradients. Losses are multiplied by a scale before differentiation, and gradients are
    /// divided by it. If a gradient is not finite, the step is skipped and the scale is reduced. After many good steps the
    /// scale grows. Parameters remain `f32`. Layers compute in the type of their input, so cast inputs to `f16` and results
    /// back.
    ///
    /// # Errors
    /// `Unsupported` if the device has no `f16`; `InvalidArgument` unless the numbers are positive.
    #[js(spread(scale))]
    pub fn mixed_precision(&self, scale: optim::LossScale) -> Result<()> {
        self.with(|inner| inner.set_mixed_precision(scale))
    }

    /// The number of updates, including those that mixed precision skipped. Rules that count steps, such as Adam, count the
    /// updates since their group was added that were not skipped, even for parameters without a gradient.
    #[js(getter)]
    ///
    /// # Errors
    /// `InvalidState` if the optimizer is busy.
    pub fn steps(&self) -> Result<u64> {
        self.with(|inner| Ok(inner.steps()))
    }

    /// Makes an exponential moving average of the present parameters, without groups that are added later. `decay` is the
    /// fraction that is kept at each update. While the average exists, `stateDict` and checkpoints of a trainer include its
    /// values.
    ///
    /// # Errors
    /// `InvalidArgument` unless `decay` is in `[0, 1]`; `Memory`.
    #[js(returns = "WeightAverage")]
    pub fn average(&self, decay: f64) -> Result<Average> {
        let average = self.with(|inner| WeightAverage::new(inner, decay))?;
        Ok(Average { device: self.device.clone(), inner: Rc::new(average) })
    }
}

#[wasm_bindgen(js_class = "Optimizer")]
impl JsOptimizer {
    /// Returns the present loss scale. Undefined without {@link Optimizer.mixedPrecision}.
    #[wasm_bindgen(js_name = lossScale)]
    pub fn loss_scale(&self) -> Answer<Option<JsTensor>> {
        let scale = self.core("lossScale")?.with(|inner| Ok(inner.loss_scale()))?;
        Ok(scale.map(keep).transpose()?)
    }

    /// The learning rate of the first group. Setting it sets the rate of all groups. Programs are not planned again.
    #[wasm_bindgen(getter)]
    pub fn lr(&self) -> Answer<f64> {
        Ok(self.core("lr")?.with(|inner| Ok(inner.lr()))?)
    }

    /// Sets the learning rate of all groups. Throws `InvalidArgument` if it is negative or NaN.
    #[wasm_bindgen(setter)]
    pub fn set_lr(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] lr: &JsValue,
    ) -> Answer<()> {
        let op = "lr";
        let lr = f64::from_js(lr, At { op, argument: "lr" })?;
        optim::check_lr(op, lr)?;
        let set = |inner: &mut optim::Optimizer| {
            inner.set_lr(lr);
            Ok(())
        };
        Ok(self.core(op)?.with(set)?)
    }

    /// Takes over the parameters of another optimizer as a group with its rule, and disposes of the other optimizer. Parts of a
    /// model can therefore have different rules and learning rates. Clipping and mixed precision apply to all groups, and are
    /// set on this optimizer.
    ///
    /// @throws `InvalidState` if the other optimizer has taken steps or belongs to a trainer. `InvalidArgument` if it clips
    /// gradients, trains in mixed precision, or shares parameters with this one.
    ///
    /// @example
    /// ```ts
    /// const optimizer = Optimizer.adam(model.body, { lr: 1e-3 });
    /// optimizer.addGroup(Optimizer.sgd(model.head, { lr: 0.1 }));
    /// optimizer.setGroupLr(1, 0.05);
    /// ```
    #[wasm_bindgen(js_name = addGroup)]
    pub fn add_group(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Optimizer")] other: &JsValue,
    ) -> Answer<()> {
        let op = "addGroup";
        let own = self.core(op)?;
        let taken = Optimizer::from_js(other, At { op, argument: "other" })?;
        if Rc::ptr_eq(&own.inner, &taken.inner) {
            return Err(Error::argument(format!(
                "{op}: the group must be another optimizer, got this one"
            ))
            .into());
        }
        // One reference is the object's, and one is here.
        if Rc::strong_count(&taken.inner) > 2 {
            return Err(Error::state(format!(
                "{op}: the other optimizer must not be in use, got one that is"
            ))
            .into());
        }
        let done = own.with(|inner| taken.with(|other| inner.take_groups(other)));
        done.map_err(|error| error.within(op))?;
        host(|host| host.dispose(other));
        Ok(())
    }

    /// Returns the names and values of the optimizer's state.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn state(&self) -> Answer<JsValue> {
        let state = self.core("stateDict")?.with(|inner| inner.state_dict())?;
        let (names, values): (Vec<_>, Vec<_>) = state.into_iter().unzip();
        Ok(pairs(&names, Array::from_iter(keep_all(&values)?)))
    }

    /// Loads a state.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn load(&self, names: Vec<String>, values: Vec<JsValue>) -> Answer<Promise> {
        let op = "loadStateDict";
        let optimizer = self.core(op)?;
        let state = state(op, names, &values)?;
        Ok(promise(async move {
            let steps = optim::Optimizer::saved_steps(&state).await;
            let restored =
                steps.and_then(|steps| optimizer.with(|inner| inner.restore(&state, &steps)));
            restored.map_err(|error| error.within(op))
        }))
    }
}

#[wasm_bindgen(js_class = "WeightAverage")]
impl JsWeightAverage {
    /// Updates the average with the current values of the parameters. This is one kernel of the next submission.
    ///
    /// @throws `Limit`, `Memory`.
    pub fn update(&self) -> Answer<()> {
        Ok(self.core("average")?.inner.update()?)
    }

    /// Swaps the average and the parameters. Call it before an evaluation, and again before training continues.
    ///
    /// @throws `Limit`, `Memory`.
    pub fn swap(&self) -> Answer<()> {
        Ok(self.core("average")?.inner.swap()?)
    }
}

impl FromJs for Optimizer {
    fn from_js(value: &JsValue, at: At) -> Result<Optimizer> {
        match object(value, at, "an optimizer")? {
            Some(Any::Nn(Object::Optimizer(optimizer))) => Ok(optimizer),
            _ => Err(at.refuse(value, "an optimizer")),
        }
    }
}

impl IntoJs for Optimizer {
    type Js = JsOptimizer;
    fn into_js(self) -> Result<JsOptimizer> {
        Ok(JsOptimizer(Object::Optimizer(self).into_slot()))
    }
}

impl IntoJs for Average {
    type Js = JsWeightAverage;
    fn into_js(self) -> Result<JsWeightAverage> {
        Ok(JsWeightAverage(Object::WeightAverage(self).into_slot()))
    }
}
