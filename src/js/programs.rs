//! Programs, and what submissions are planned as, in words: in the part `extras`, as what is in that file is.

use super::numbers::Numbers;
use super::objects::{self, keep, keep_tensors, Object};
use super::values::Function;
use super::{codes, references, Answer, Thrown};
use crate::error::{Error, Result};
use crate::tensor::DType;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

/// Compiles a program. Numbers: for each input its rank, type and extents. `build` is called with the inputs' handles
/// and gives the results'.
#[inline(never)]
pub fn compile(device: u32, numbers: &[f64], build: &Function) -> Answer<u32> {
    let device = objects::device(device)?;
    let inputs = program_inputs(numbers)?;
    let mut types: Vec<(&[usize], DType)> = Vec::with_capacity(inputs.len());
    for (shape, dtype) in &inputs {
        types.push((shape, *dtype));
    }
    let mut thrown = None;
    let program = device.compile(&types, |inputs| {
        let mut handles = Vec::new();
        keep_tensors(inputs, &mut handles)?;
        match build.build(&JsValue::UNDEFINED, handles) {
            Ok(results) => objects::tensors(&results),
            Err(error) => {
                thrown = Some(Thrown(error));
                Err(Error::data("compile: it threw"))
            }
        }
    });
    match (program, thrown) {
        (_, Some(thrown)) => Err(thrown),
        (program, None) => Ok(keep(Object::Program(device, Rc::new(program?)))),
    }
}

fn program_inputs(numbers: &[f64]) -> Result<Vec<(Vec<usize>, DType)>> {
    let mut inputs = Vec::new();
    let mut numbers = Numbers::new("compile", numbers);
    while !numbers.is_empty() {
        let (rank, dtype) = (numbers.size()?, numbers.dtype()?);
        inputs.push((numbers.some_sizes(rank)?, dtype));
    }
    Ok(inputs)
}

/// Runs a program, and keeps the results.
#[inline(never)]
pub fn run(program: u32, inputs: &[u32], answer: &mut Vec<f64>) -> Result<()> {
    let (_, program) = objects::program(program)?;
    let inputs = objects::tensors(inputs)?;
    keep_tensors(&program.run(&references(&inputs))?, answer)
}

/// Keeps the plan of a device's last submission, of a program, or of tensors together; none where nothing was submitted.
#[inline(never)]
pub fn plan(what: u32, of: u32, tensors: &[u32], answer: &mut Vec<f64>) -> Result<()> {
    let (device, plan) = match what {
        codes::ask::last_plan => {
            let device = objects::device(of)?;
            let Some(plan) = device.last_plan() else { return Ok(()) };
            (device, plan)
        }
        codes::ask::program_plan => {
            let (device, program) = objects::program(of)?;
            (device, program.plan().clone())
        }
        _ => (objects::device(of)?, objects::batch(of, tensors)?.plan()?),
    };
    answer.push(keep(Object::Plan(device, plan)).into());
    Ok(())
}

/// A plan in words.
#[inline(never)]
pub fn words(what: u32, handle: u32, kernel: u32) -> Result<String> {
    let (device, plan) = objects::plan(handle)?;
    if what == codes::words::source {
        // The text that a kernel of a plan is compiled from; nothing where there is none.
        return Ok(device.kernel_source(&plan, kernel as usize).unwrap_or_default());
    }
    // A plan, with 0 characters between: operations, buffers, bytes, its text, and a label for each kernel.
    let buffers = plan.temporaries.len() + plan.outputs.len();
    let (operations, bytes) = (plan.operations, plan.bytes_written());
    let mut words = format!("{operations}\0{buffers}\0{bytes}\0{plan}");
    for dispatch in &plan.dispatches {
        words += "\0";
        words += &dispatch.label;
    }
    Ok(words)
}
