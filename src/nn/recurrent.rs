//! Recurrent layers, by PyTorch's names and formulas. What does not depend on the step before is one product over the whole
//! sequence; a step is one product and what follows it.

use super::linear::{affine, linear, transposed};
use super::{init, Dropout, Generator, Layer, Members, Module};
use crate::error::{Error, Result};
use crate::tensor::{Tensor, Variable};

/// How recurrent layers are stacked.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RecurrentOptions {
    /// Layers, each over the results of the one before.
    pub layers: usize,
    /// Whether each layer goes through the sequence from its end as well; the results stand beside each other.
    pub bidirectional: bool,
    /// Whether there are biases.
    pub bias: bool,
    /// The probability by which results between layers are dropped while it trains.
    pub dropout: f64,
    /// What is made of the sums, for `Rnn` alone.
    pub nonlinearity: Nonlinearity,
    /// The width that a matrix brings the hidden state to after each step, for `Lstm` alone (Sak and others 2014); with 0
    /// there is no such matrix.
    pub proj_size: usize,
}

impl Default for RecurrentOptions {
    fn default() -> RecurrentOptions {
        RecurrentOptions {
            layers: 1,
            bidirectional: false,
            bias: true,
            dropout: 0.0,
            nonlinearity: Nonlinearity::Tanh,
            proj_size: 0,
        }
    }
}

/// The function that `Rnn` applies to the sums of a step.
#[cfg_attr(feature = "js-nn", warpweft_macros::js)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Nonlinearity {
    /// Their hyperbolic tangents.
    Tanh,
    /// Themselves where they are above 0, and else 0.
    Relu,
}

/// One direction of one layer.
#[derive(Clone, Debug)]
struct Cell {
    /// What PyTorch's names of its parameters end with.
    suffix: String,
    weight_ih: Variable,
    weight_hh: Variable,
    bias: Option<[Variable; 2]>,
    /// `[projected, hidden]`.
    weight_hr: Option<Variable>,
}

/// What a step of a cell does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Rnn,
    ReluRnn,
    Lstm,
    Gru,
}

impl Kind {
    /// The layer's name, for messages.
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

    /// The kind with these options.
    fn with(self, hidden: usize, options: &RecurrentOptions) -> Result<Kind> {
        let RecurrentOptions { nonlinearity, proj_size, .. } = *options;
        let name = self.name();
        if proj_size > 0 && (self != Kind::Lstm || proj_size >= hidden) {
            let must = match self {
                Kind::Lstm => format!("proj_size must be below hidden, {hidden}"),
                _ => "proj_size must be 0, because only an LSTM has it".into(),
            };
            return Err(Error::data(format!("{name}: {must}, got {proj_size}")));
        }
        match (self, nonlinearity) {
            (kind, Nonlinearity::Tanh) => Ok(kind),
            (Kind::Rnn, Nonlinearity::Relu) => Ok(Kind::ReluRnn),
            _ => Err(Error::data(format!(
                "{name}: nonlinearity must be tanh, got relu; only an RNN has it"
            ))),
        }
    }

    /// The state after a step: of the inputs' share `x` and the state's share `h`, both `[batch, gates * hidden]`, and the
    /// states before.
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

/// Layers of cells of one kind.
#[derive(Clone, Debug)]
struct Stack {
    kind: Kind,
    /// By layers, then directions.
    cells: Vec<Cell>,
    hidden: usize,
    /// The width of results and of the first state.
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
        let RecurrentOptions { layers, bidirectional, bias, dropout, .. } = options;
        if layers == 0 || hidden == 0 {
            return Err(Error::data(format!(
                "{}: layers and hidden must be at least 1, got {layers} and {hidden}",
                kind.name()
            )));
        }
        let kind = kind.with(hidden, &options)?;
        let projected = (options.proj_size > 0).then_some(options.proj_size);
        let own = projected.unwrap_or(hidden);
        let directions = 1 + usize::from(bidirectional);
        let bound = 1.0 / (hidden as f64).sqrt();
        let begin =
            |shape: &[usize]| Ok(Variable::new(&init::uniform(generator, shape, -bound, bound)?));
        let rows = kind.gates() * hidden;
        let mut cells = Vec::with_capacity(layers * directions);
        for layer in 0..layers {
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

    /// The results `[batch, steps, directions * width]`, and the last states, `[layers * directions, batch, width]`; cell
    /// states have `hidden` there.
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
                    format!("a state must be {wanted:?} (layers * directions, batch, hidden)");
                return Err(Error::wrong_shape(name, &must, state.shape()));
            }
        }
        let count = 1 + usize::from(self.kind == Kind::Lstm);
        let mut last: Vec<Vec<Tensor>> = vec![Vec::with_capacity(self.cells.len()); count];
        // Steps first: each is a part without gaps.
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

    /// One cell over the whole sequence, `[steps, batch, inputs]`.
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
            // Its gates do not just add the two shares.
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

/// What the three kinds have in common.
macro_rules! recurrent {
    ($($(#[$doc:meta])* $name:ident;)*) => { $(
        $(#[$doc])*
        #[derive(Clone, Debug)]
        pub struct $name(Stack);

        impl $name {
            /// Layers of `hidden` units over `inputs` numbers a step; all parameters begin uniform within
            /// `1 / sqrt(hidden)`.
            ///
            /// # Errors
            /// `Data` for no layers or units, a probability outside `[0, 1)`, or an option that it does not have; `Limit`.
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
            /// The results from states of zeros: `[batch, steps, inputs]` to `[batch, steps, directions * hidden]`.
            fn forward(&self, x: &Tensor) -> Result<Tensor> {
                Ok(self.0.run(x, &[])?.0)
            }
        }
    )* };
}

recurrent! {
    /// `h' = tanh(W_ih x + b_ih + W_hh h + b_hh)` (Elman 1990), or relu instead of tanh.
    Rnn;
    /// Long short-term memory (Hochreiter and Schmidhuber 1997), with a forget gate: gates in the order input, forget, cell,
    /// output.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// # use warpweft::nn::{Generator, Lstm, RecurrentOptions};
    /// # let device = Device::with(Preference::Cpu).await?;
    /// let options = RecurrentOptions { layers: 2, ..RecurrentOptions::default() };
    /// let lstm = Lstm::new(&Generator::new(&device, 0), 3, 8, options)?;
    /// let (y, (h, c)) = lstm.run(&device.ones(&[5, 10, 3])?, None)?;
    /// assert_eq!((y.shape(), h.shape(), c.shape()), (&[5, 10, 8][..], &[2, 5, 8][..], &[2, 5, 8][..]));
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    Lstm;
    /// Gated recurrent units (Cho and others 2014), in PyTorch's form: gates in the order reset, update, new.
    Gru;
}

impl Rnn {
    /// The results, and the last states `[layers * directions, batch, hidden]`, which the next part of a sequence begins
    /// with; zeros are the first.
    ///
    /// # Errors
    /// `Shape` if a shape does not fit; `DType`.
    pub fn run(&self, x: &Tensor, state: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let (y, mut last) = self.0.run(x, state.as_slice())?;
        Ok((y, last.swap_remove(0)))
    }
}

impl Gru {
    /// As [`Rnn::run`].
    ///
    /// # Errors
    /// `Shape` if a shape does not fit; `DType`.
    pub fn run(&self, x: &Tensor, state: Option<&Tensor>) -> Result<(Tensor, Tensor)> {
        let (y, mut last) = self.0.run(x, state.as_slice())?;
        Ok((y, last.swap_remove(0)))
    }
}

impl Lstm {
    /// The results, and the last hidden and cell states, each `[layers * directions, batch, hidden]`, which the next part of a
    /// sequence begins with; zeros are the first. With [`RecurrentOptions::proj_size`] results and hidden states have that
    /// width.
    ///
    /// # Errors
    /// `Shape` if a shape does not fit; `DType`.
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
