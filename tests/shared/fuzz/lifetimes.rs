//! Runs random programs with random lifetimes. Handles are kept or dropped, some values are read on the way or submitted,
//! variables hold others, and gradients are taken after reads.

use super::meaning::Program;
use super::step::{record, Kind};
use super::{slopes, Wanted};
use crate::shared::array::word;
use crate::shared::check::{said, Outcome};
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::tensor::{Tensor, Variable};

/// A holder of a value.
enum Holder {
    Tensor(Tensor),
    Variable(Variable),
}

impl Holder {
    fn value(&self) -> Tensor {
        match self {
            Holder::Tensor(tensor) => tensor.clone(),
            Holder::Variable(variable) => variable.value(),
        }
    }
}

/// Returns a variable that first had another value.
fn variable(device: &Device, value: &Tensor) -> Result<Variable> {
    let variable = Variable::new(&device.full(value.shape(), 0.0, value.dtype())?);
    variable.assign(value)?;
    Ok(variable)
}

/// Runs a program with random lifetimes, and compares the values that it reads and its gradients. Messages begin with `what`.
pub(super) async fn lived(
    what: &str,
    device: &Device,
    program: &Program,
    wanted: &Wanted,
    seed: u32,
) -> Outcome {
    let smooth = program.kind == Kind::Smooth;
    // No handle is dropped before the last step that takes it is recorded.
    let mut last: Vec<usize> = (0..program.steps.len()).collect();
    for (number, step) in program.steps.iter().enumerate() {
        step.of.iter().for_each(|&of| last[of] = number);
    }
    let inputs = program.inputs();
    let kept = program.results.iter().chain(if smooth { &inputs[..] } else { &[] });
    kept.for_each(|&number| last[number] = usize::MAX);
    let mut holders: Vec<Option<Holder>> = Vec::new();
    let mut indices = Vec::new();
    for (number, step) in program.steps.iter().enumerate() {
        let of: Vec<Tensor> =
            step.of.iter().map(|&of| holders[of].as_ref().expect("it is held").value()).collect();
        let of: Vec<&Tensor> = of.iter().collect();
        let tensor = record(device, &step.op, &of, &mut indices).map_err(said)?;
        let choice = word(seed, number) % 8;
        if choice < 2 {
            let said = format!("{what}, in between, a{number}");
            wanted.check(said, program.kind, &tensor, number).run().await?;
        }
        holders.push(Some(match choice {
            2 | 3 => Holder::Variable(variable(device, &tensor).map_err(said)?),
            _ => Holder::Tensor(tensor),
        }));
        if choice == 4 {
            device.submit().map_err(said)?;
        }
        for earlier in 0..=number {
            if last[earlier] <= number && word(seed, (number + 1) << 8 | earlier).is_multiple_of(2)
            {
                holders[earlier] = None;
            }
        }
    }
    let value = |number: usize| holders[number].as_ref().expect("it is held").value();
    if smooth && !program.results.is_empty() {
        let of: Vec<Tensor> = inputs.iter().map(|&number| value(number)).collect();
        let loss = value(program.results[program.results.len() - 1]).square().sum(&[]);
        let loss = loss.map_err(said)?;
        if seed.is_multiple_of(2) {
            loss.item::<f32>().await.map_err(said)?;
        }
        let said = format!("{what}, after reads");
        slopes(&said, program, &loss, &of.iter().collect::<Vec<_>>()).await?;
    }
    for &number in &program.results {
        let said = format!("{what}, at the end, a{number}");
        wanted.check(said, program.kind, &value(number), number).run().await?;
    }
    Ok(())
}
