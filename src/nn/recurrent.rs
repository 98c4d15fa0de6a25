//! Recurrent layers, with PyTorch's names and formulas.
//!
//! The inputs of all steps are multiplied by the input weights in one product, because they do not depend on the state. Each
//! step then needs one product with the state, followed by elementwise operations.

use super::linear::{affine, linear, transposed};
use super::{init, Dropout, Generator, Layer, Members, Module};
use crate::error::{Error, ErrorKind, Result};
use crate::shape::Shape;
use crate::tensor::{Tensor, Variable};

/// The most stacked layers of a recurrent layer.
const MAX_STACKED_LAYERS: usize = 1 << 16;

/// Options of recurrent layers.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecurrentOptions {
    /// The number of stacked layers. Each layer processes the results of the previous layer. The default is 1.
    pub num_layers: usize,
    /// Whether each layer also processes the sequence in reverse. The results of both directions are concatenated. The
    /// default is `false`.
    pub bidirectional: bool,
    /// Whether the layers have biases. The default is `true`.
    pub bias: bool,
    /// The probability of dropping results between layers in training. The default is 0.
    pub dropout: f64,
    /// The activation function, for `Rnn` only. The default is [`Nonlinearity::Tanh`].
    pub nonlinearity: Nonlinearity,
    /// The width to which the hidden state is projected after each step, for `Lstm` only (Sak et al. 2014). The default is 0,
    /// which means no projection.
    pub proj_size: usize,
}

impl Default for RecurrentOptions {
    fn default() -> RecurrentOptions {
        RecurrentOptions {
            num_layers: 1,
            bidirectional: false,
            bias: true,
            dropout: 0.0,
            nonlinearity: Nonlinearity::Tanh,
            proj_size: 0,
        }
    }
}

/// The activation function of `Rnn`.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Nonlinearity {
    /// The hyperbolic tangent.
    Tanh,
    /// `max(x, 0)`.
    Relu,
}

/// The parameters of one layer in one direction.
#[derive(Clone, Debug)]
struct Cell {
    /// The suffix of PyTorch's parameter names, such as `_l0_reverse`.
    suffix: String,
    weight_ih: Variable,
    weight_hh: Variable,
    bias: Option<[Variable; 2]>,
    /// `[projected, hidden]`.
    weight_hr: Option<Variable>,
}

/// The kind of recurrent cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rnn,
    ReluRnn,
    Lstm,
    Gru,
}

impl Kind {
    /// Returns the layer's name for messages.
    fn name(self) -> &'static str {
        match self {
            Kind::Rnn | Kind::ReluRnn => "rnn",
            Kind::Lstm => "lstm",
            Kind::Gru => "gru",
        }
    }

    fn gates(self) -> usize {
        match self {
            Kind::Rnn | Kind::ReluRnn => 1,
            Kind::Lstm => 4,
            Kind::Gru => 3,
        }
    }

    /// Applies the options to the kind. Rejects options that the kind does not support.
    fn with(self, hidden: usize, options: &RecurrentOptions) -> Result<Kind> {
        let RecurrentOptions { nonlinearity, proj_size, .. } = *options;
        let name = self.name();
        if proj_size > 0 && (self != Kind::Lstm || proj_size >= hidden) {
            let must = match self {
                Kind::Lstm => format!("proj_size must be below hidden, {hidden}"),
                _ => "proj_size must be 0, because only an LSTM has it".into(),
            };
            return Err(Error::argument(format!("{name}: {must}, got {proj_size}")));
        }
        match (self, nonlinearity) {
            (kind, Nonlinearity::Tanh) => Ok(kind),
            (Kind::Rnn, Nonlinearity::Relu) => Ok(Kind::ReluRnn),
            _ => Err(Error::argument(format!(
                "{name}: nonlinearity must be tanh, got relu; only an RNN has it"
            ))),
        }
    }

    /// Computes the states after a step. `x` is the product of the inputs and `h` the product of the state, both `[batch,
    /// gates * hidden]`. `state` has the previous states.
    fn step(self, x: &Tensor, h: &Tensor, state: &[Tensor]) -> Result<Vec<Tensor>> {
        let chunks = |x: &Tensor| x.chunk(self.gates(), -1);
        match self {
            Kind::Rnn => Ok(vec![x.add(h)?.tanh()]),
            Kind::ReluRnn => Ok(vec![x.add(h)?.relu()]),
            Kind::Lstm => {
                let gates = chunks(&x.add(h)?)?;
                let (input, forget) = (gates[0].sigmoid(), gates[1].sigmoid());
                let (cell, output) = (gates[2].tanh(), gates[3].sigmoid());
                let cell = forget.mul(&state[1])?.add(&input.mul(&cell)?)?;
                Ok(vec![output.mul(&cell.tanh())?, cell])
            }
            Kind::Gru => {
                let (x, h) = (chunks(x)?, chunks(h)?);
                let (reset, update) = (x[0].add(&h[0])?.sigmoid(), x[1].add(&h[1])?.sigmoid());
                let new = x[2].add(&reset.mul(&h[2])?)?.tanh();
                Ok(vec![new.add(&update.mul(&state[0].sub(&new)?)?)?])
            }
        }
    }
}

/// Rejects layers whose weights are too large for a tensor. Products of the sizes of the others cannot overflow.
///
/// # Errors
/// `Limit`.
fn check_sizes(
    kind: Kind,
    num_layers: usize,
    [inputs, hidden, width]: [usize; 3],
    directions: usize,
) -> Result<()> {
    let name = kind.name();
    if num_layers > MAX_STACKED_LAYERS {
        let must = format!("num_layers must be at most {MAX_STACKED_LAYERS}");
        return Err(Error::new(ErrorKind::Limit, format!("{name}: {must}, got {num_layers}")));
    }
    // The weights are `[gates * hidden, inputs]`, and `[gates * hidden, width]` or, after the first layer, twice as wide.
    Shape::new(name, &[kind.gates(), hidden, inputs])?;
    let directions = if num_layers > 1 { directions } else { 1 };
    Shape::new(name, &[kind.gates(), hidden, directions, width])?;
    Ok(())
}

/// Stacked layers of one kind of cell.
#[derive(Clone, Debug)]
struct Stack {
    kind: Kind,
    /// The cells, ordered by layer and then by direction.
    cells: Vec<Cell>,
    hidden: usize,
    /// The width of the results and of the hidden state.
    width: usize,
    directions: usize,
    dropout: Dropout,
}

impl Stack {
    fn new(
        kind: Kind,
        generator: &Generator,
        inputs: usize,
        hidden: usize,
        options: RecurrentOptions,
    ) -> Result<Stack> {
        let RecurrentOptions { num_layers, bidirectional, bias, dropout, .. } = options;
        if num_layers == 0 || hidden == 0 {
            return Err(Error::argument(format!(
                "{}: num_layers and hidden must be at least 1, got {num_layers} and {hidden}",
                kind.name()
            )));
        }
        let kind = kind.with(hidden, &options)?;
        let projected = (options.proj_size > 0).then_some(options.proj_size);
        let own = projected.unwrap_or(hidden);
        let directions = 1 + usize::from(bidirectional);
        check_sizes(kind, num_layers, [inputs, hidden, own], directions)?;
        let bound = 1.0 / (hidden as f64).sqrt();
        let begin =
            |shape: &[usize]| Ok(Variable::new(&init::uniform(generator, shape, -bound, bound)?));
        let rows = kind.gates() * hidden;
        let mut cells = Vec::with_capacity(num_layers * directions);
        for layer in 0..num_layers {
            let width = if layer == 0 { inputs } else { own * directions };
            for reverse in ["", "_reverse"].into_iter().take(directions) {
                cells.push(Cell {
                    suffix: format!("_l{layer}{reverse}"),
                    weight_ih: begin(&[rows, width])?,
                    weight_hh: begin(&[rows, own])?,
                    bias: bias.then(|| Ok([begin(&[rows])?, begin(&[rows])?])).transpose()?,
                    weight_hr: projected.map(|width| begin(&[width, hidden])).transpose()?,
                });
            }
        }
        let dropout = Dropout::new(generator, dropout)?;
        Ok(Stack { kind, cells, hidden, width: own, directions, dropout })
    }

    fn members(&self, members: &mut Members) {
        for Cell { suffix, weight_ih, weight_hh, bias, weight_hr } in &self.cells {
            members.parameter(&format!("weight_ih{suffix}"), weight_ih);
            members.parameter(&format!("weight_hh{suffix}"), weight_hh);
            if let Some([ih, hh]) = bias {
                members.parameter(&format!("bias_ih{suffix}"), ih);
                members.parameter(&format!("bias_hh{suffix}"), hh);
            }
            members.parameter_if(&format!("weight_hr{suffix}"), weight_hr);
        }
        self.dropout.members(members);
    }

    /// Returns the results, `[batch, steps, directions * width]`, and the last states,
    /// `[num_layers * directions, batch, width]`. Cell states have `hidden` elements instead of `width`.
    fn run(&self, x: &Tensor, states: &[&Tensor]) -> Result<(Tensor, Vec<Tensor>)> {
        let name = self.kind.name();
        let inputs = self.cells[0].weight_ih.shape()[1];
        let batch = match *x.shape() {
            [batch, steps, width] if steps > 0 && width == inputs => batch,
            _ => {
                let must = format!("the input must be [batch, steps, {inputs}] with a step");
                return Err(Error::wrong_shape(name, &must, x.shape()));
            }
        };
        let widths = [self.width, self.hidden];
        for (state, width) in states.iter().zip(widths) {
            let wanted = [self.cells.len(), batch, width];
            if state.shape() != wanted {
                let must =
                    format!("a state must be {wanted:?} (num_layers * directions, batch, hidden)");
                return Err(Error::wrong_shape(name, &must, state.shape()));
            }
        }
        let count = 1 + usize::from(self.kind == Kind::Lstm);
        let mut last: Vec<Vec<Tensor>> = vec![Vec::with_capacity(self.cells.len()); count];
        // With the steps as the first axis, each step is contiguous.
        let mut x = x.transpose(0, 1)?;
        for (layer, cells) in self.cells.chunks(self.directions).enumerate() {
            if layer > 0 {
                x = self.dropout.forward(&x)?;
            }
            let mut results = Vec::with_capacity(self.directions);
            for (direction, cell) in cells.iter().enumerate() {
                let at = (layer * self.directions + direction) as isize;
                let state: Vec<Tensor> = match states {
                    [] => {
                        let zeros = |&n: &usize| x.device().zeros((&[batch, n], x.dtype()));
                        widths[..count].iter().map(zeros).collect::<Result<_>>()?
                    }
                    states => {
                        states.iter().map(|state| state.select(0, at)).collect::<Result<_>>()?
                    }
                };
                let (result, state) = self.pass(cell, &x, state, direction == 1)?;
                results.push(result);
                last.iter_mut().zip(state).for_each(|(last, state)| last.push(state));
            }
            x = Tensor::concat(&results, -1)?;
        }
        let last = last.iter().map(|states| Tensor::stack(states, 0)).collect::<Result<_>>()?;
        Ok((x.transpose(0, 1)?, last))
    }

    /// Runs one cell over the whole sequence, `[steps, batch, inputs]`.
    fn pass(
        &self,
        cell: &Cell,
        x: &Tensor,
        mut state: Vec<Tensor>,
        reverse: bool,
    ) -> Result<(Tensor, Vec<Tensor>)> {
        let bias = cell.bias.as_ref().map(|both| both.each_ref().map(Variable::value));
        let [of_x, of_h] = match bias {
            None => [None, None],
            // A GRU needs both biases, because its gates do more than add the two products.
            Some([of_x, of_h]) if self.kind == Kind::Gru => [Some(of_x), Some(of_h)],
            Some([of_x, of_h]) => [Some(of_x.add(&of_h)?), None],
        };
        let weight = transposed(&cell.weight_hh.value(), x)?;
        let projection = cell.weight_hr.as_ref().map(|weight| transposed(&weight.value(), x));
        let projection = projection.transpose()?;
        let steps = linear(x, &cell.weight_ih.value(), of_x.as_ref())?.unbind(0)?;
        let mut results = Vec::with_capacity(steps.len());
        let mut advance = |step: &Tensor| {
            state = self.kind.step(step, &affine(&state[0], &weight, of_h.as_ref())?, &state)?;
            if let Some(projection) = &projection {
                state[0] = affine(&state[0], projection, None)?;
            }
            results.push(state[0].clone());
            Ok(())
        };
        match reverse {
            false => steps.iter().try_for_each(&mut advance)?,
            true => steps.iter().rev().try_for_each(&mut advance)?,
        }
        if reverse {
            results.reverse();
        }
        Ok((Tensor::stack(&results, 0)?, state))
    }
}

/// Defines the struct, constructor and traits that the three kinds share.
macro_rules! recurrent {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(Stack);

        impl $name {
            /// Creates layers of `hidden` units, for `inputs` elements in each step. All parameters are initialized uniformly
            /// within `1 / sqrt(hidden)`.
            ///
            /// # Errors
            /// `InvalidArgument` without layers or units, for a dropout outside `[0, 1]`, or for an option of another kind of
            /// layer. `Limit` if a weight is too large, or for more than 65,536 layers.
            pub fn new(
                generator: &Generator,
                inputs: usize,
                hidden: usize,
                options: RecurrentOptions,
            ) -> Result<$name> {
                Ok($name(Stack::new(Kind::$name, generator, inputs, hidden, options)?))
            }
        }

        impl Module for $name {
            fn members(&self, members: &mut Members) {
                self.0.members(members);
            }
        }

        impl Layer for $name {
            /// Returns the results from initial states of zeros. The input is `[batch, steps, inputs]`, and the result is
            /// `[batch, steps, directions * hidden]`.
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                Ok(self.0.run(x, &[])?.0)
            }
        }
    )* };
}

recurrent! {
    /// A recurrent layer with `h' = tanh(W_ih x + b_ih + W_hh h + b_hh)` (Elman 1990), or with ReLU instead of tanh.
    Rnn;
    /// A long short-term memory with a forget gate (Hochreiter and Schmidhuber 1997). The order of the gates is input,
    /// forget, cell, output.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// # use warpweft::nn::{Generator, Lstm, RecurrentOptions};
    /// # let device = Device::with(Preference::Cpu).await?;
    /// let options = RecurrentOptions { num_layers: 2, ..RecurrentOptions::default() };
    /// let lstm = Lstm::new(&Generator::new(&device, 0), 3, 8, options)?;
    /// let (y, (h, c)) = lstm.run(&device.ones(&[5, 10, 3])?, None)?;
    /// assert_eq!((y.shape(), h.shape(), c.shape()), (&[5, 10, 8][..], &[2, 5, 8][..], &[2, 5, 8][..]));
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    Lstm;
    /// A gated recurrent unit in PyTorch's form (Cho et al. 2014). The order of the gates is reset, update, new.
    Gru;
}

impl Rnn {
    /// Returns the results and the last states, `[num_layers * directions, batch, hidden]`. Pass the last states as `state` to
    /// continue the sequence. Without `state`, the initial states are zeros.
    ///
    /// # Errors
    /// `Shape` if a shape does not match. `DType`.
    pub fn run(&self, x: &Tensor, state: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let (y, mut last) = self.0.run(x, state.as_slice())?;
        Ok((y, last.swap_remove(0)))
    }
}

impl Gru {
    /// Same as [`Rnn::run`].
    ///
    /// # Errors
    /// `Shape` if a shape does not match. `DType`.
    pub fn run(&self, x: &Tensor, state: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let (y, mut last) = self.0.run(x, state.as_slice())?;
        Ok((y, last.swap_remove(0)))
    }
}

impl Lstm {
    /// Returns the results, and the last hidden and cell states, each `[num_layers * directions, batch, hidden]`. Pass the last
    /// states as `state` to continue the sequence. Without `state`, the initial states are zeros. With
    /// [`RecurrentOptions::proj_size`], results and hidden states have that width.
    ///
    /// # Errors
    /// `Shape` if a shape does not match. `DType`.
    pub fn run(
        &self,
        x: &Tensor,
        state: Option<(&Tensor, &Tensor)>,
    ) -> Result<(Tensor, (Tensor, Tensor))> {
        let state = state.map(|(h, c)| [h, c]);
        let (y, mut last) = self.0.run(x, state.as_ref().map_or(&[], |both| &both[..]))?;
        let cell = last.swap_remove(1);
        Ok((y, (last.swap_remove(0), cell)))
    }
}
