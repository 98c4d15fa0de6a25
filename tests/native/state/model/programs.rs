//! The model of programs. Each run records the operations again, on the inputs, the captured tensors, and the current values of
//! variables.

use super::super::actions::{Action, Body, Extent, PROGRAMS};
use super::super::reference::array::Array;
use super::super::reference::tape::{self, Tensor};
use super::{Fault, Made, Model, Output, Why, FAILS};

/// The extent that replaces a name in a program without named dimensions.
pub const FIXED: usize = 2;

/// A compiled program.
#[derive(Clone, Debug)]
pub struct Program {
    pub inputs: Vec<Vec<Extent>>,
    body: Body,
    captured: Vec<Tensor>,
    variables: Vec<usize>,
    /// The variable to which each run assigns the last result. No other object uses this result.
    assigns: Option<usize>,
}

impl Model {
    pub(super) fn act_on_programs(&mut self, action: &Action) -> Made<Output> {
        match action {
            Action::Compile { p, named, inputs, body, .. } => {
                let mut program = self.program(inputs, body)?;
                if !named {
                    let fixed = |dim: &mut Extent| *dim = Some(dim.unwrap_or(FIXED));
                    program.inputs.iter_mut().flatten().for_each(fixed);
                    self.check_fixed(&program)?;
                }
                self.programs[p % PROGRAMS] = Some(program);
                Ok(Vec::new())
            }
            Action::RunProgram { p, inputs, to } => {
                let program = self.programs[p % PROGRAMS].clone().ok_or(Why::Skip)?;
                let inputs: Vec<Tensor> =
                    inputs.iter().map(|&t| self.tensor(t)).collect::<Made<_>>()?;
                let results = self.run_program(&program, &inputs)?;
                self.put_all(*to, results)
            }
            _ => self.act_on_trainers(action),
        }
    }

    fn program(&self, inputs: &[Vec<Extent>], body: &Body) -> Made<Program> {
        if inputs.is_empty() || body.results.is_empty() {
            return Err(Why::Skip);
        }
        let (captured, variables) = (self.captured(body)?, self.variables_of(body)?);
        let (mut body, mut assigns) = (body.clone(), None);
        if let Some((v, at)) = body.assigns {
            assigns = Some(self.variable(v)?);
            body.results.push(at);
        }
        Ok(Program { inputs: inputs.to_vec(), body, captured, variables, assigns })
    }

    /// Rejects the errors of compiling a program without named dimensions.
    fn check_fixed(&self, program: &Program) -> Made<()> {
        let zeros = |dims: &Vec<Extent>| {
            let shape: Vec<usize> = dims.iter().map(|extent| extent.unwrap_or(FIXED)).collect();
            tape::constant(Array::zeros(&shape))
        };
        let inputs: Vec<Tensor> = program.inputs.iter().map(zeros).collect();
        // Compiling draws nothing.
        let drawn = self.draws.get();
        let results = self.results(program, &inputs);
        self.draws.set(drawn);
        let results = results?;
        let fits = |at: usize| self.all[at].value.shape() == results[results.len() - 1].shape();
        if program.assigns.is_some_and(|at| !fits(at)) {
            return Err(FAILS);
        }
        Ok(())
    }

    /// Returns the results for inputs that fit.
    fn results(&self, program: &Program, inputs: &[Tensor]) -> Made<Vec<Tensor>> {
        let values = self.values(&program.variables);
        let captured = match self.setting.fault {
            Fault::LateCapture => self.captured(&program.body)?,
            _ => program.captured.clone(),
        };
        let operands = [inputs, &captured[..], &values[..]].concat();
        self.run_body(&program.body, &operands)
    }

    fn run_program(&mut self, program: &Program, inputs: &[Tensor]) -> Made<Vec<Tensor>> {
        let mut n = None;
        if inputs.len() != program.inputs.len() {
            return Err(FAILS);
        }
        for (input, dims) in inputs.iter().zip(&program.inputs) {
            let fits = input.shape().len() == dims.len()
                && input.shape().iter().zip(dims).all(|(&extent, dim)| match dim {
                    Some(dim) => extent == *dim,
                    None => *n.get_or_insert(extent) == extent,
                });
            if !fits {
                return Err(FAILS);
            }
        }
        let drawn = self.draws.get();
        let mut results = self.results(program, inputs)?;
        if self.setting.fault == Fault::NoDraws {
            self.draws.set(drawn);
        }
        for tensors in [inputs, &program.captured[..], &results[..]] {
            self.evaluate(tensors);
        }
        let values = self.values(&program.variables);
        self.evaluate(&values);
        self.again.extend(results.iter().map(|x| x.id));
        if let Some(at) = program.assigns {
            let value = results.pop().expect("it was added");
            self.assign(at, tape::identity(&value))?;
        }
        Ok(results)
    }
}
