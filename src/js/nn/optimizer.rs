//! Optimisers: one class, whose static methods make those of each rule.

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

/// A static method for each rule.
macro_rules! rules {
    ($($(#[$doc:meta])* $name:ident $rule:ident;)*) => {
        #[warpweft_macros::js]
        impl Optimizer { $(
            $(#[$doc])*
            ///
            /// A parameter belongs to the newest optimiser that was made of it: those before can not take steps any more.
            ///
            /// # Errors
            /// `Data` if there are no parameters, one is there twice, they live on two devices, or an option makes no sense;
            /// `DType` unless they are of floats.
            #[js(spread(options))]
            pub fn $name(parameters: &[Variable], options: optim::$rule) -> Result<Optimizer> {
                Optimizer::new(options, parameters)
            }
        )* }
    };
}

rules! {
    /// Stochastic gradient descent, with momentum (PyTorch's `SGD`).
    sgd Sgd;
    /// Adam (Kingma and Ba 2015).
    adam Adam;
    /// Adam with decoupled weight decay (Loshchilov and Hutter 2019).
    adam_w AdamW;
    /// Adam by the largest gradient (Kingma and Ba 2015).
    adamax Adamax;
    /// Adam with Nesterov's momentum (Dozat 2016).
    n_adam NAdam;
    /// Adam, rectified (Liu and others 2020).
    r_adam RAdam;
    /// Adam by how far gradients are from their running mean (Zhuang and others 2020).
    ada_belief AdaBelief;
    /// Adam whose squares change slowly (Zaheer and others 2018).
    yogi Yogi;
    /// Averaged gradient descent (PyTorch's `ASGD`); the averages are `ax` in `stateDict`.
    asgd Asgd;
    /// Steps by the signs of gradients (PyTorch's `Rprop`).
    rprop Rprop;
    /// RMSprop (Hinton 2012).
    rms_prop RmsProp;
    /// Adagrad (Duchi and others 2011).
    adagrad Adagrad;
    /// Adadelta (Zeiler 2012).
    adadelta Adadelta;
    /// Lion (Chen and others 2023).
    lion Lion;
    /// LAMB (You and others 2020).
    lamb Lamb;
    /// Muon, of matrices alone (Jordan 2024).
    muon Muon;
}

#[warpweft_macros::js]
impl Optimizer {
    /// Takes a step against the gradients of `loss`, a single number, and submits all that was recorded for it, the loss
    /// included; reading the loss afterwards only waits. Gradients that wait for `step` are added, and taken. A parameter of
    /// which nothing goes into the loss stays as it is, and so does what is remembered of it.
    ///
    /// # Errors
    /// `Shape` if the loss is not a single number; `Data` if it depends on none of the parameters, if it was computed from
    /// a value that a parameter had before it was assigned, or if a parameter belongs to another optimiser now; `Limit`,
    /// `Memory`. Nothing was changed then.
    pub fn minimize(&self, loss: &Tensor) -> Result<()> {
        self.with(|inner| inner.minimize(loss))
    }

    /// Adds the gradients of `loss` to those of the next step, and submits: a batch that is too large for the memory is
    /// computed in parts, each loss divided by their number.
    ///
    /// # Errors
    /// As `minimize`. Nothing was added then.
    pub fn accumulate(&self, loss: &Tensor) -> Result<()> {
        self.with(|inner| inner.accumulate(loss))
    }

    /// Takes a step against the gradients that `accumulate` added up, and those that {@link Tensor.backward} left with the
    /// parameters, which are taken. A parameter without one stays as it is. In mixed precision `backward` is called on what
    /// `scaleLoss` gives: all gradients are divided by the scale.
    ///
    /// # Errors
    /// `Data` if there are no gradients at all; `Limit`, `Memory`. Nothing was changed then, and the gradients are still there.
    pub fn step(&self) -> Result<()> {
        self.with(|inner| inner.step())
    }

    /// A loss times `lossScale()`, for {@link Tensor.backward} by hand; `minimize` and `accumulate` do it by themselves.
    /// Without {@link Optimizer.mixedPrecision} the loss as it is.
    ///
    /// # Errors
    /// `Shape` unless it is a single number.
    #[js(example = "optimizer.scaleLoss(loss).backward(model.parameters());")]
    pub fn scale_loss(&self, loss: &Tensor) -> Result<Tensor> {
        self.with(|inner| inner.scale_loss(loss))
    }

    /// Before an update all gradients are multiplied by one number, so that their norm, over all of them, is at most `max`.
    ///
    /// # Errors
    /// `Data` if `max` is not above 0, or the optimiser is at work.
    pub fn clip_norm(&self, max: f64) -> Result<()> {
        self.clip(Clip::Norm(max))
    }

    /// Before an update each element of a gradient is brought between `-max` and `max`.
    ///
    /// # Errors
    /// `Data` if `max` is not above 0, or the optimiser is at work.
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

    /// Sets the learning rate of one group, in the order in which they were added: {@link Optimizer.addGroup}. Setting `lr`
    /// sets that of all.
    ///
    /// # Errors
    /// `Data` if there is no such group, or the rate is negative or NaN.
    #[js(example = "optimizer.setGroupLr(1, 0.05);")]
    pub fn set_group_lr(&self, group: usize, lr: f64) -> Result<()> {
        self.with(|inner| inner.set_group_lr(group, lr))
    }

    /// Trains with gradients of 16 bits: losses are multiplied by a number before their gradients are taken, and gradients
    /// divided by it. A step where one is not finite is skipped, and the number becomes smaller; after many good steps it
    /// grows. The parameters stay `f32`: layers compute in the type of their input, so cast that to `f16`, and what comes out
    /// back.
    ///
    /// # Errors
    /// `Unsupported` where the device has no `f16`; `Data` unless the numbers are positive.
    #[js(spread(scale))]
    pub fn mixed_precision(&self, scale: optim::LossScale) -> Result<()> {
        self.with(|inner| inner.set_mixed_precision(scale))
    }

    /// How many updates were made, those that mixed precision skipped included. Rules that count steps, as Adam does, count
    /// the updates since their group was added, whether all its parameters took part or not.
    #[js(getter)]
    ///
    /// # Errors
    /// `Data` if it is at work.
    pub fn steps(&self) -> Result<u64> {
        self.with(|inner| Ok(inner.steps()))
    }

    /// An exponential moving average of the parameters that are there now (not of groups that are added later), of which
    /// `decay` stays each time. While it is there, `stateDict` and the checkpoints of a trainer have its values.
    ///
    /// # Errors
    /// `Data` unless `decay` lies in `[0, 1]`; `Memory`.
    #[js(returns = "WeightAverage")]
    pub fn average(&self, decay: f64) -> Result<Average> {
        let average = self.with(|inner| WeightAverage::new(inner, decay))?;
        Ok(Average { device: self.device.clone(), inner: Rc::new(average) })
    }
}

#[wasm_bindgen(js_class = "Optimizer")]
impl JsOptimizer {
    /// The number that losses are multiplied by now; undefined without {@link Optimizer.mixedPrecision}.
    #[wasm_bindgen(js_name = lossScale)]
    pub fn loss_scale(&self) -> Answer<Option<JsTensor>> {
        let scale = self.core("lossScale")?.with(|inner| Ok(inner.loss_scale()))?;
        Ok(scale.map(keep).transpose()?)
    }

    /// The learning rate. It is data: setting it plans nothing again.
    #[wasm_bindgen(getter)]
    pub fn lr(&self) -> Answer<f64> {
        Ok(self.core("lr")?.with(|inner| Ok(inner.lr()))?)
    }

    /// Sets it, of all groups: `Data` if it is negative or NaN.
    #[wasm_bindgen(setter)]
    pub fn set_lr(
        &self,
        #[wasm_bindgen(unchecked_param_type = "number")] lr: &JsValue,
    ) -> Answer<()> {
        let op = "lr";
        let lr = f64::from_js(lr, At { op, what: "lr" })?;
        optim::check_lr(op, lr)?;
        let set = |inner: &mut optim::Optimizer| {
            inner.set_lr(lr);
            Ok(())
        };
        Ok(self.core(op)?.with(set)?)
    }

    /// Takes the parameters of another optimiser over, as a group with its rule, and disposes of that one: so parts of a model
    /// have rules and rates of their own. Clipping and mixed precision are of all groups, and set on this one.
    ///
    /// @throws `Data` if the other has made steps, clips or trains in mixed precision, shares parameters with this one, or a
    /// trainer has it.
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
        let taken = Optimizer::from_js(other, At { op, what: "other" })?;
        if Rc::ptr_eq(&own.inner, &taken.inner) {
            return Err(Error::data(format!(
                "{op}: the group must be another optimizer, got this one"
            ))
            .into());
        }
        // One is the object's, one is here.
        if Rc::strong_count(&taken.inner) > 2 {
            return Err(Error::data(format!(
                "{op}: the other optimizer must not be in use, got one that is"
            ))
            .into());
        }
        let done = own.with(|inner| taken.with(|other| inner.take_groups(other)));
        done.map_err(|error| error.within(op))?;
        host(|host| host.dispose(other));
        Ok(())
    }

    /// The names of what it remembers, and these.
    #[wasm_bindgen(skip_typescript, skip_jsdoc)]
    pub fn state(&self) -> Answer<JsValue> {
        let state = self.core("stateDict")?.with(|inner| inner.state_dict())?;
        let (names, values): (Vec<_>, Vec<_>) = state.into_iter().unzip();
        Ok(pairs(&names, Array::from_iter(keep_all(&values)?)))
    }

    /// Takes such a state.
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
    /// Takes the values of now in: one kernel, with the next batch that is submitted.
    ///
    /// @throws `Limit`, `Memory`.
    pub fn update(&self) -> Answer<()> {
        Ok(self.core("average")?.inner.update()?)
    }

    /// Exchanges the average and the parameters: to evaluate with, and a second time to go on training.
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
        Ok(JsOptimizer(Object::Optimizer(self).placed()))
    }
}

impl IntoJs for Average {
    type Js = JsWeightAverage;
    fn into_js(self) -> Result<JsWeightAverage> {
        Ok(JsWeightAverage(Object::WeightAverage(self).placed()))
    }
}
