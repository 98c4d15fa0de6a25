//! Programs: compiled once, run with other inputs.

use super::numbers::Numbers;
use super::objects::{self, keep, keep_tensors, Object};
use super::values::Function;
use super::{references, Answer, Thrown};
use crate::error::{Error, Result};
use crate::tensor::DType;
use std::rc::Rc;
use wasm_bindgen::prelude::*;

/// Compiles a program. Numbers: for each input its rank, type and extents. `build` is called with the inputs' handles
/// and gives the results'.
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
pub fn run(program: u32, inputs: &[u32], answer: &mut Vec<f64>) -> Result<()> {
    let (_, program) = objects::program(program)?;
    let inputs = objects::tensors(inputs)?;
    keep_tensors(&program.run(&references(&inputs))?, answer)
}
