//! Layers: one class with a static method for each kind.

use super::members::Walked;
use super::models::{Layer, Run};
use super::Object;
use crate::error::{Error, Result};
use crate::js::objects::keep;
use crate::js::{
    Answer, At, BorrowedOptions, FromJs, FromOptions, IntoJs, JsLayer, JsTensor, Options, Shell,
};
use crate::nn::{self, Generator, RecurrentOptions, TransformerOptions};
use crate::tensor::{AttentionOptions, ConvOptions, ConvTransposeOptions, Tensor};
use std::rc::Rc;
use wasm_bindgen::prelude::*;

/// The options of attention that a call passed, with the mask.
type Attending = <AttentionOptions<'static> as BorrowedOptions>::Owned;

#[warpweft_macros::js]
impl Layer {
    /// Makes a linear layer, `x W^T + b`, from `inputs` to `outputs` features in the last axis. It is PyTorch's `Linear`, and
    /// is initialized in the same way.
    ///
    /// # Errors
    /// `Limit` if the weight is too large.
    #[js(options(bias = true))]
    pub fn linear(
        generator: &Generator,
        inputs: usize,
        outputs: usize,
        bias: bool,
    ) -> Result<Layer> {
        Ok(Layer::one(
            generator,
            match bias {
                true => nn::Linear::new(generator, inputs, outputs)?,
                false => nn::Linear::without_bias(generator, inputs, outputs)?,
            },
        ))
    }

    /// Makes a bilinear layer, `x1^T W x2 + b`, called as `forward([x1, x2])`. It is PyTorch's `Bilinear`, and is initialized
    /// in the same way.
    ///
    /// # Errors
    /// `Limit` if the weight is too large.
    #[js(options(bias = true))]
    pub fn bilinear(
        generator: &Generator,
        inputs1: usize,
        inputs2: usize,
        outputs: usize,
        bias: bool,
    ) -> Result<Layer> {
        let mut layer = nn::Bilinear::new(generator, inputs1, inputs2, outputs)?;
        layer.bias = layer.bias.filter(|_| bias);
        let own = layer.clone();
        let run = move |x: &[Tensor]| match x {
            [x1, x2] => Ok(vec![own.run(x1, x2)?]),
            _ => Err(Error::argument("forward: Bilinear must have 2 inputs, got 1")),
        };
        Ok(Layer::of(generator, layer, Run::Some(2, Rc::new(run))))
    }

    /// Makes a frozen linear layer with a trainable low-rank update (LoRA, Hu and others 2021). The path of its weight is
    /// `base.weight`.
    ///
    /// # Errors
    /// `InvalidArgument` if the rank is 0 or alpha is not finite; `Limit`.
    pub fn lora(
        generator: &Generator,
        inputs: usize,
        outputs: usize,
        rank: usize,
        alpha: f64,
    ) -> Result<Layer> {
        let base = nn::Linear::new(generator, inputs, outputs)?;
        Ok(Layer::one(generator, nn::Lora::new(generator, base, rank, alpha)?))
    }

    /// Makes a table of `count` rows of `width` elements, which integers select. It is PyTorch's `Embedding`.
    ///
    /// # Errors
    /// `Limit`.
    pub fn embedding(generator: &Generator, count: usize, width: usize) -> Result<Layer> {
        Ok(Layer::one(generator, nn::Embedding::new(generator, count, width)?))
    }

    /// Makes dropout: in training, each element is zeroed with probability `p`, and the others are scaled by `1 / (1 - p)`.
    ///
    /// # Errors
    /// `InvalidArgument` if the probability is outside `[0, 1]`.
    #[js(default(p = 0.5))]
    pub fn dropout(generator: &Generator, p: f64) -> Result<Layer> {
        Ok(Layer::one(generator, nn::Dropout::new(generator, p)?))
    }

    /// Makes batch normalization: normalizes each channel over the batch, with running statistics for evaluation. It is
    /// PyTorch's `BatchNorm1d` to `3d`.
    ///
    /// # Errors
    /// `Limit`.
    #[js(options(eps = 1e-5, momentum = 0.1))]
    pub fn batch_norm(
        generator: &Generator,
        channels: usize,
        eps: f64,
        momentum: f64,
    ) -> Result<Layer> {
        let mut layer = nn::BatchNorm::new(generator, channels)?;
        (layer.eps, layer.momentum) = (eps, momentum);
        Ok(Layer::one(generator, layer))
    }

    /// Makes layer normalization over the last axes, which have these sizes, with a trainable weight and bias.
    ///
    /// # Errors
    /// `Limit`.
    #[js(options(eps = 1e-5))]
    pub fn layer_norm(generator: &Generator, shape: &[usize], eps: f64) -> Result<Layer> {
        let layer = nn::LayerNorm::new(generator, shape)?;
        Ok(Layer::one(generator, nn::LayerNorm { eps, ..layer }))
    }

    /// Makes RMS normalization: divides by the root of the mean square over the last axes, with a trainable weight.
    ///
    /// # Errors
    /// `Limit`.
    #[js(options(eps = 1.1920929e-7))]
    pub fn rms_norm(generator: &Generator, shape: &[usize], eps: f64) -> Result<Layer> {
        let layer = nn::RmsNorm::new(generator, shape)?;
        Ok(Layer::one(generator, nn::RmsNorm { eps, ..layer }))
    }

    /// Makes group normalization: normalizes groups of channels of each image, with a trainable weight and bias for each
    /// channel.
    ///
    /// # Errors
    /// `Shape` in `forward` if the groups do not divide the channels; `Limit`.
    #[js(options(eps = 1e-5))]
    pub fn group_norm(
        generator: &Generator,
        groups: usize,
        channels: usize,
        eps: f64,
    ) -> Result<Layer> {
        let layer = nn::GroupNorm::new(generator, groups, channels)?;
        Ok(Layer::one(generator, nn::GroupNorm { eps, ..layer }))
    }

    /// Makes instance normalization: normalizes each channel of each image. If `affine`, with a trainable weight and bias.
    ///
    /// # Errors
    /// `Limit`.
    #[js(options(eps = 1e-5, affine = false))]
    pub fn instance_norm(
        generator: &Generator,
        channels: usize,
        eps: f64,
        affine: bool,
    ) -> Result<Layer> {
        let layer = match affine {
            true => nn::InstanceNorm::affine(generator, channels)?,
            false => nn::InstanceNorm::default(),
        };
        Ok(Layer::one(generator, nn::InstanceNorm { eps, ..layer }))
    }

    /// Makes multi-head attention, called as `forward([query, key, value])`, each of shape `[batch, length, width]`. It is
    /// PyTorch's `MultiheadAttention`, with the batch first. `addBiasKv` adds one trainable key and value, and
    /// `addZeroAttn` adds one key and value of zeros.
    ///
    /// # Errors
    /// `Shape` if the heads do not divide the width; `InvalidArgument` if the probability is outside `[0, 1]`.
    #[js(options(dropout = 0.0, add_bias_kv = false, add_zero_attn = false))]
    pub fn multihead_attention(
        generator: &Generator,
        width: usize,
        heads: usize,
        dropout: f64,
        add_bias_kv: bool,
        add_zero_attn: bool,
    ) -> Result<Layer> {
        let mut layer = nn::MultiheadAttention::new(generator, width, heads, dropout)?;
        if add_bias_kv {
            layer = layer.with_bias_kv(generator)?;
        }
        layer.add_zero_attn = add_zero_attn;
        let own = layer.clone();
        let run = move |x: &[Tensor], options: AttentionOptions<'_>| {
            own.attend(&x[0], &x[1], &x[2], options)
        };
        Ok(Layer::of(generator, layer, Run::Attends(3, Rc::new(run))))
    }

    /// Makes a transformer encoder layer over `[batch, length, width]`: self-attention, then a feed-forward network of two
    /// linear layers at each position.
    ///
    /// # Errors
    /// Errors of `multiheadAttention`.
    #[js(spread(options))]
    pub fn transformer_encoder_layer(
        generator: &Generator,
        width: usize,
        heads: usize,
        options: TransformerOptions,
    ) -> Result<Layer> {
        let layer = nn::TransformerEncoderLayer::new(generator, width, heads, options)?;
        let own = layer.clone();
        let run = move |x: &[Tensor], options: AttentionOptions<'_>| own.run(&x[0], options);
        Ok(Layer::of(generator, layer, Run::Attends(1, Rc::new(run))))
    }

    /// Makes a transformer decoder layer, called as `forward([x, memory])`. Options of attention apply to the self-attention of
    /// `x`.
    ///
    /// # Errors
    /// Errors of `multiheadAttention`.
    #[js(spread(options))]
    pub fn transformer_decoder_layer(
        generator: &Generator,
        width: usize,
        heads: usize,
        options: TransformerOptions,
    ) -> Result<Layer> {
        let layer = nn::TransformerDecoderLayer::new(generator, width, heads, options)?;
        let own = layer.clone();
        let run = move |x: &[Tensor], options: AttentionOptions<'_>| {
            own.run(&x[0], &x[1], options, AttentionOptions::default())
        };
        Ok(Layer::of(generator, layer, Run::Attends(2, Rc::new(run))))
    }

    /// Makes a recurrent network of `tanh` units over `[batch, steps, inputs]`. `run([x, h])` returns the results and the last
    /// states.
    ///
    /// # Errors
    /// `InvalidArgument` for zero layers or units, for a probability outside `[0, 1]`, or for an option of another kind of
    /// layer; `Limit`.
    #[js(spread(options))]
    pub fn rnn(
        generator: &Generator,
        inputs: usize,
        hidden: usize,
        options: RecurrentOptions,
    ) -> Result<Layer> {
        let layer = nn::Rnn::new(generator, inputs, hidden, options)?;
        let own = layer.clone();
        let run = move |x: &[Tensor]| own.run(&x[0], x.get(1)).map(|(y, h)| vec![y, h]);
        Ok(Layer::of(generator, layer, Run::Some(2, Rc::new(run))))
    }

    /// Makes a network of gated recurrent units (GRU), which is called like `rnn`.
    ///
    /// # Errors
    /// Errors of `rnn`.
    #[js(spread(options))]
    pub fn gru(
        generator: &Generator,
        inputs: usize,
        hidden: usize,
        options: RecurrentOptions,
    ) -> Result<Layer> {
        let layer = nn::Gru::new(generator, inputs, hidden, options)?;
        let own = layer.clone();
        let run = move |x: &[Tensor]| own.run(&x[0], x.get(1)).map(|(y, h)| vec![y, h]);
        Ok(Layer::of(generator, layer, Run::Some(2, Rc::new(run))))
    }

    /// Makes a long short-term memory (LSTM) over `[batch, steps, inputs]`. `run([x, h, c])` returns the results and the last
    /// hidden and cell states. Omitted initial states are zeros.
    ///
    /// # Errors
    /// Errors of `rnn`.
    #[js(spread(options))]
    pub fn lstm(
        generator: &Generator,
        inputs: usize,
        hidden: usize,
        options: RecurrentOptions,
    ) -> Result<Layer> {
        let layer = nn::Lstm::new(generator, inputs, hidden, options)?;
        let own = layer.clone();
        let run = move |x: &[Tensor]| {
            let state = x.get(1).zip(x.get(2));
            if state.is_none() && x.len() > 1 {
                return Err(Error::argument(
                    "forward: the state of Lstm must be two tensors, got one".to_string(),
                ));
            }
            own.run(&x[0], state).map(|(y, (h, c))| vec![y, h, c])
        };
        Ok(Layer::of(generator, layer, Run::Some(3, Rc::new(run))))
    }
}

/// Defines convolutions over one to three axes.
macro_rules! convolutions {
    ($($name:ident $conv:ident, $back_name:ident $back:ident, $n:literal, $axes:literal;)*) => {
        #[warpweft_macros::js]
        impl Layer { $(
            #[doc = concat!("Makes a convolution over `[batch, channels, ", $axes, "]` with a learned weight, like PyTorch's.")]
            ///
            /// # Errors
            /// `Shape` if the groups do not divide the channels; `Limit` if the weight is too large.
            #[js(options(bias = true), spread(options))]
            pub fn $name(
                generator: &Generator,
                inputs: usize,
                outputs: usize,
                kernel_size: [usize; $n],
                bias: bool,
                options: ConvOptions<$n>,
            ) -> Result<Layer> {
                let mut layer = nn::$conv::new(generator, inputs, outputs, kernel_size, options)?;
                layer.bias = layer.bias.filter(|_| bias);
                Ok(Layer::one(generator, layer))
            }

            #[doc = concat!("Makes the transpose of a convolution over `[batch, channels, ", $axes, "]`, like PyTorch's.")]
            ///
            /// # Errors
            /// `Shape` if the groups do not divide the channels; `Limit` if the weight is too large.
            #[js(options(bias = true), spread(options))]
            pub fn $back_name(
                generator: &Generator,
                inputs: usize,
                outputs: usize,
                kernel_size: [usize; $n],
                bias: bool,
                options: ConvTransposeOptions<$n>,
            ) -> Result<Layer> {
                let mut layer = nn::$back::new(generator, inputs, outputs, kernel_size, options)?;
                layer.bias = layer.bias.filter(|_| bias);
                Ok(Layer::one(generator, layer))
            }
        )* }
    };
}

convolutions! {
    conv1d Conv1d, conv_transpose1d ConvTranspose1d, 1, "length";
    conv2d Conv2d, conv_transpose2d ConvTranspose2d, 2, "height, width";
    conv3d Conv3d, conv_transpose3d ConvTranspose3d, 3, "depth, height, width";
}

#[wasm_bindgen(js_class = "Layer")]
impl JsLayer {
    /// Returns the result for `x`, or for several inputs if the layer takes them. The options apply to the layer's attention.
    /// The operations are only recorded.
    ///
    /// @throws `Shape` and `DType` if the inputs do not match; `InvalidArgument` for the wrong number of inputs.
    #[wasm_bindgen(unchecked_return_type = "Tensor")]
    pub fn forward(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Tensor | readonly Tensor[]")] x: &JsValue,
        #[wasm_bindgen(unchecked_optional_param_type = "AttentionOptions")] options: &JsValue,
    ) -> Answer<JsTensor> {
        let made = self.made(x, options)?.into_iter().next();
        let none = || Error::state("forward: the layer must return a result, got none".to_string());
        Ok(keep(made.ok_or_else(none)?)?)
    }

    /// Returns all results for `x`, or for several inputs. For recurrent layers, the last states follow the first result.
    ///
    /// @throws Errors of `forward`.
    #[wasm_bindgen(unchecked_return_type = "Tensor[]")]
    pub fn run(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Tensor | readonly Tensor[]")] x: &JsValue,
    ) -> Answer<Vec<JsTensor>> {
        Ok(self.made(x, &JsValue::UNDEFINED)?.into_js()?)
    }

    /// Returns the parameter or buffer with this name, such as `weight`.
    ///
    /// @throws `InvalidArgument` if the name does not exist.
    #[wasm_bindgen(unchecked_return_type = "Variable")]
    pub fn parameter(
        &self,
        #[wasm_bindgen(unchecked_param_type = "string")] name: &JsValue,
    ) -> Answer<JsValue> {
        let op = "parameter";
        let layer = self.core(op)?;
        let name = String::from_js(name, At { op, argument: "name" })?;
        let kind = layer.module.kind();
        let found = Walked::layer(layer).variable(&name);
        let none =
            || Error::argument(format!("parameter: the name must be one of {kind}, got `{name}`"));
        Ok(crate::js::variable::object_of(&found.ok_or_else(none)?)?)
    }
}

impl JsLayer {
    fn made(&self, x: &JsValue, options: &JsValue) -> Answer<Vec<Tensor>> {
        let op = "forward";
        let layer = self.core(op)?;
        let inputs = match Tensor::from_js(x, At { op, argument: "x" }) {
            Ok(one) => vec![one],
            Err(error) if !js_sys::Array::is_array(x) => return Err(error.into()),
            Err(_) => Vec::<Tensor>::from_js(x, At { op, argument: "x" })?,
        };
        let options = Options::open(options, &[Attending::KNOWN], op)?;
        let attending = Attending::from_options(options.after(0))?;
        Ok(layer.outputs(&inputs, attending.borrowed())?)
    }
}

impl IntoJs for Layer {
    type Js = JsLayer;
    fn into_js(self) -> Result<JsLayer> {
        Ok(JsLayer(Object::Layer(self).into_slot()))
    }
}
