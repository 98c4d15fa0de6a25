//! Gated recurrent networks, step by step, as WebNN's specification defines them with its other operators.

use super::super::args::{Args, Operand, Stop};
use super::super::vectors::Kind;
use super::Results;
use warpweft::device::Device;
use warpweft::tensor::Tensor;

pub fn call(device: &Device, name: &str, args: &Args) -> Results {
    let gates = if name.starts_with("gru") { 3 } else { 4 };
    let cell = Cell::new(args, gates)?;
    if name.ends_with("Cell") {
        let x = args.get("input")?;
        let hidden = args.tensor("hiddenState")?;
        let state = match gates {
            3 => vec![hidden],
            _ => vec![hidden, args.tensor("cellState")?],
        };
        let next = cell.weights(args, None)?.step(&x.tensor, state)?;
        return Ok(operands(next, x.kind));
    }
    network(device, &cell, args)
}

fn operands(tensors: Vec<Tensor>, kind: Kind) -> Vec<Operand> {
    tensors.into_iter().map(|tensor| Operand::new(tensor, kind)).collect()
}

/// Runs all steps in one or both directions.
fn network(device: &Device, cell: &Cell, args: &Args) -> Results {
    let x = args.get("input")?;
    let (steps, batch) = (args.integer("steps", 1)? as usize, x.tensor.shape()[1]);
    let directions: &[bool] = match args.word("direction", "forward")? {
        "forward" => &[false],
        "backward" => &[true],
        _ => &[false, true],
    };
    let initial = [args.maybe_tensor("initialHiddenState")?, cell.initial(args)?];
    let states = cell.gates - 2;
    let mut last: Vec<Vec<Tensor>> = vec![Vec::new(); states];
    let mut sequences = Vec::new();
    for (direction, &backward) in directions.iter().enumerate() {
        let weights = cell.weights(args, Some(direction))?;
        let mut state = Vec::new();
        for given in &initial[..states] {
            state.push(match given {
                Some(given) => picked(given, direction)?,
                None => device.zeros((&[batch, cell.hidden], x.tensor.dtype()))?,
            });
        }
        let mut hiddens = Vec::new();
        for step in 0..steps {
            let at = if backward { steps - 1 - step } else { step };
            state = weights.step(&picked(&x.tensor, at)?, state)?;
            hiddens.push(state[0].clone());
        }
        if backward {
            hiddens.reverse();
        }
        sequences.push(stacked(&hiddens, 0)?);
        state.into_iter().zip(&mut last).for_each(|(state, last)| last.push(state));
    }
    let mut results = Vec::new();
    for states in &last {
        results.push(stacked(states, 0)?);
    }
    if args.flag("returnSequence", false)? {
        results.push(stacked(&sequences, 1)?);
    }
    Ok(operands(results, x.kind))
}

/// Returns the n-th element of the first axis.
fn picked(x: &Tensor, n: usize) -> Result<Tensor, Stop> {
    Ok(x.slice(0, n as isize..n as isize + 1)?.squeeze(0)?)
}

fn stacked(tensors: &[Tensor], axis: isize) -> Result<Tensor, Stop> {
    Ok(Tensor::stack(tensors, axis)?)
}

/// The parameters that all steps and directions share.
struct Cell {
    gates: usize,
    hidden: usize,
    /// The positions in the weights of the gates in the usual layout.
    order: Vec<usize>,
    activations: Vec<String>,
    reset_after: bool,
}

/// The weights of one direction.
struct Weights<'a> {
    cell: &'a Cell,
    weight: Tensor,
    recurrent: Tensor,
    bias: Option<Tensor>,
    recurrent_bias: Option<Tensor>,
    peephole: Option<Tensor>,
}

impl Cell {
    fn new(args: &Args, gates: usize) -> Result<Cell, Stop> {
        let (usual, layout, activations): (_, _, &[&str]) = match gates {
            3 => ("zrn", args.word("layout", "zrn")?, &["sigmoid", "tanh"]),
            _ => ("iofg", args.word("layout", "iofg")?, &["sigmoid", "tanh", "tanh"]),
        };
        let order: Option<Vec<usize>> = usual.chars().map(|gate| layout.find(gate)).collect();
        let given = args.words("activations")?;
        Ok(Cell {
            gates,
            hidden: args.integer("hiddenSize", 0)? as usize,
            order: order.ok_or_else(|| Stop::Wrong(format!("layout {layout}")))?,
            activations: given
                .as_deref()
                .unwrap_or(activations)
                .iter()
                .map(|a| a.to_string())
                .collect(),
            reset_after: gates == 3 && args.flag("resetAfter", true)?,
        })
    }

    fn initial(&self, args: &Args) -> Result<Option<Tensor>, Stop> {
        match self.gates {
            3 => Ok(None),
            _ => args.maybe_tensor("initialCellState"),
        }
    }

    /// Returns the weights of a direction. The weights of a single cell have no axis for the direction.
    fn weights(&self, args: &Args, direction: Option<usize>) -> Result<Weights<'_>, Stop> {
        let own = |given: Option<Tensor>| match (given, direction) {
            (Some(given), Some(direction)) => picked(&given, direction).map(Some),
            (given, _) => Ok(given),
        };
        let peephole = if self.gates == 4 { args.maybe_tensor("peepholeWeight")? } else { None };
        let must = |given: Option<Tensor>| given.ok_or_else(|| Stop::Wrong("no weight".into()));
        Ok(Weights {
            cell: self,
            weight: must(own(args.maybe_tensor("weight")?)?)?,
            recurrent: must(own(args.maybe_tensor("recurrentWeight")?)?)?,
            bias: own(args.maybe_tensor("bias")?)?,
            recurrent_bias: own(args.maybe_tensor("recurrentBias")?)?,
            peephole: own(peephole)?,
        })
    }

    fn activate(&self, n: usize, x: &Tensor) -> Result<Tensor, Stop> {
        match self.activations.get(n).map(String::as_str) {
            Some("relu") => Ok(x.relu()),
            Some("sigmoid") => Ok(x.sigmoid()),
            Some("tanh") => Ok(x.tanh()),
            other => Err(Stop::Wrong(format!("activation {other:?}"))),
        }
    }
}

impl Weights<'_> {
    /// Returns the rows of the n-th gate.
    fn gate(&self, x: &Tensor, n: usize) -> Result<Tensor, Stop> {
        let (size, at) = (self.cell.hidden as isize, self.cell.order[n] as isize);
        Ok(x.slice(0, at * size..(at + 1) * size)?)
    }

    /// Computes `x W' + bias` of the n-th gate.
    fn part(
        &self,
        x: &Tensor,
        weight: &Tensor,
        bias: &Option<Tensor>,
        n: usize,
    ) -> Result<Tensor, Stop> {
        let product = x.matmul(&self.gate(weight, n)?.transpose(0, 1)?)?;
        match bias {
            Some(bias) => Ok(product.add(&self.gate(bias, n)?)?),
            None => Ok(product),
        }
    }

    fn given(&self, x: &Tensor, n: usize) -> Result<Tensor, Stop> {
        self.part(x, &self.weight, &self.bias, n)
    }

    fn remembered(&self, hidden: &Tensor, n: usize) -> Result<Tensor, Stop> {
        self.part(hidden, &self.recurrent, &self.recurrent_bias, n)
    }

    /// Returns the input of the n-th gate's activation.
    fn both(&self, x: &Tensor, hidden: &Tensor, n: usize) -> Result<Tensor, Stop> {
        Ok(self.given(x, n)?.add(&self.remembered(hidden, n)?)?)
    }

    fn step(&self, x: &Tensor, state: Vec<Tensor>) -> Result<Vec<Tensor>, Stop> {
        match &state[..] {
            [hidden] => Ok(vec![self.gru(x, hidden)?]),
            [hidden, cell] => self.lstm(x, hidden, cell),
            _ => Err(Stop::Wrong("a state of other size".into())),
        }
    }

    /// Runs a step of a GRU with the gates update, reset, new.
    fn gru(&self, x: &Tensor, hidden: &Tensor) -> Result<Tensor, Stop> {
        let cell = self.cell;
        let update = cell.activate(0, &self.both(x, hidden, 0)?)?;
        let reset = cell.activate(0, &self.both(x, hidden, 1)?)?;
        let remembered = match cell.reset_after {
            true => reset.mul(&self.remembered(hidden, 2)?)?,
            false => self.remembered(&reset.mul(hidden)?, 2)?,
        };
        let new = cell.activate(1, &self.given(x, 2)?.add(&remembered)?)?;
        let kept = update.mul(hidden)?;
        Ok(kept.add(&new.mul(&update.mul(-1.0)?.add(1.0)?)?)?)
    }

    /// Runs a step of an LSTM with the gates input, output, forget, cell. The peephole weights are those of input, output and
    /// forget.
    fn lstm(&self, x: &Tensor, hidden: &Tensor, cell: &Tensor) -> Result<Vec<Tensor>, Stop> {
        let size = self.cell.hidden as isize;
        let gate = |n: usize, seen: &Tensor| -> Result<Tensor, Stop> {
            let mut sum = self.both(x, hidden, n)?;
            if let Some(peephole) = &self.peephole {
                let own = peephole.slice(0, n as isize * size..(n as isize + 1) * size)?;
                sum = sum.add(&seen.mul(&own)?)?;
            }
            self.cell.activate(0, &sum)
        };
        let (input, forget) = (gate(0, cell)?, gate(2, cell)?);
        let new = self.cell.activate(1, &self.both(x, hidden, 3)?)?;
        let next = forget.mul(cell)?.add(&input.mul(&new)?)?;
        let output = gate(1, &next)?;
        let shown = output.mul(&self.cell.activate(2, &next)?)?;
        Ok(vec![shown, next])
    }
}
