//! The JavaScript face, without logic: tensors by number, operations by code, numbers checked. The methods that people
//! call, with their documentation, are in `www/src`. Errors are thrown as text, kind and message on two lines.

mod apply;
mod codes;
mod numbers;
mod objects;
mod tasks;
mod values;

use crate::device::Device;
use crate::error::{Error, ErrorKind, Result};
use crate::tensor::{pointwise as apply_row, DType, Pointwise, Tensor, Value};
use codes::Code;
use numbers::{dtype_code, Numbers};
use objects::{keep, keep_tensor, keep_tensors, Object};
use std::rc::Rc;
use tasks::start;
use values::{copy, Bytes, Function};
use wasm_bindgen::prelude::*;

/// What is thrown.
pub struct Thrown(JsValue);

impl From<Error> for Thrown {
    fn from(error: Error) -> Thrown {
        let mut text = error.kind().name().to_string();
        text += "\n";
        text += error.message();
        Thrown(JsValue::from_str(&text))
    }
}

impl From<Thrown> for JsValue {
    fn from(thrown: Thrown) -> JsValue {
        thrown.0
    }
}

type Answer<T> = std::result::Result<T, Thrown>;

// A panic of the small build has no text.
#[cfg(debug_assertions)]
#[wasm_bindgen(start)]
fn show_panics() {
    console_error_panic_hook::set_once();
}

/// What this build's table and codes are; JavaScript compares it with its own.
#[wasm_bindgen]
pub fn fingerprint() -> u32 {
    let mut hash = codes::CODES_FINGERPRINT;
    for row in Pointwise::ALL {
        hash = codes::fingerprint(hash, row.row().name, row.row().arity());
    }
    hash
}

/// Opens the device that this core is for: what there is, JavaScript has looked at. `settle` gets what [`start`] says.
#[wasm_bindgen]
pub fn open(low_power: bool, settle: Function) {
    let opened = Device::only(low_power);
    start(settle, async move { Ok(keep(Object::Device(opened.await?)).into()) });
}

/// Backend, name, vendor, kind and driver of a device, each with a 0 character after it.
#[wasm_bindgen]
pub fn about(device: u32) -> Answer<String> {
    let device = objects::device(device)?;
    let info = device.info();
    let mut words = String::new();
    for word in [info.backend, &info.name, &info.vendor, info.kind.name(), &info.driver] {
        words += word;
        words += "\0";
    }
    Ok(words)
}

/// The limits of a device, then its counters.
#[wasm_bindgen]
pub fn figures(device: u32) -> Answer<Vec<f64>> {
    let device = objects::device(device)?;
    let (limits, stats) = (device.limits(), device.stats());
    Ok(vec![
        limits.buffers_per_kernel as f64,
        limits.binding_bytes as f64,
        f64::from(limits.workgroups),
        f64::from(limits.workgroup_size),
        f64::from(limits.workgroup_bytes),
        f64::from(u8::from(limits.f16)),
        stats.plans as f64,
        stats.pipelines as f64,
        stats.buffers as f64,
        stats.bind_groups as f64,
        stats.submits as f64,
        stats.kernels as f64,
        stats.bytes as f64,
        stats.used_bytes as f64,
        stats.pooled_bytes as f64,
        stats.peak_bytes as f64,
        stats.nodes as f64,
    ])
}

/// Gives a device's unused memory back.
#[wasm_bindgen]
pub fn trim(device: u32) -> Answer<()> {
    objects::device(device)?.trim();
    Ok(())
}

/// Submits what is recorded on a device.
#[wasm_bindgen]
pub fn flush(device: u32) -> Answer<()> {
    Ok(objects::device(device)?.flush()?)
}

/// Settles when a device has done what was submitted.
#[wasm_bindgen]
pub fn sync(device: u32, settle: Function) -> Answer<()> {
    let done = objects::device(device)?.sync();
    start(settle, async move { done.await.map(|()| JsValue::UNDEFINED) });
    Ok(())
}

/// A tensor of elements as devices store them. Numbers: the type, and the shape.
#[wasm_bindgen]
pub fn upload(device: u32, data: &Bytes, numbers: &[f64]) -> Answer<u32> {
    let device = objects::device(device)?;
    let mut numbers = Numbers::new("tensor", numbers);
    let (dtype, shape) = (numbers.dtype()?, numbers.sizes()?);
    let length = data.length() as usize;
    let mut bytes = Vec::new();
    if bytes.try_reserve_exact(length).is_err() {
        let message = format!("tensor: no room for {length} bytes in WebAssembly's memory");
        return Err(Error::new(ErrorKind::Memory, message).into());
    }
    bytes.resize(length, 0);
    copy(&mut bytes, data);
    Ok(keep_tensor(device.tensor_from_bytes(dtype, &bytes, &shape)?)?)
}

fn code(number: u32) -> Result<Code> {
    let known = Code::ALL.get(number as usize).copied();
    known.ok_or_else(|| Error::data(format!("warpweft: there is no operation {number}")))
}

/// Creates a tensor on a device.
#[wasm_bindgen]
pub fn create(operation: u32, device: u32, numbers: &[f64]) -> Answer<u32> {
    let device = objects::device(device)?;
    Ok(keep_tensor(apply::create(code(operation)?, &device, numbers)?)?)
}

/// Applies an operation to tensors.
#[wasm_bindgen]
pub fn apply(operation: u32, handles: &[u32], numbers: &[f64]) -> Answer<u32> {
    Ok(keep_tensor(apply::apply(code(operation)?, handles, numbers)?)?)
}

/// Applies a row of the table. A handle of 0 takes the next of `numbers`; parameters follow.
#[wasm_bindgen]
pub fn pointwise(row: u32, handles: &[u32], numbers: &[f64]) -> Answer<u32> {
    let row = Pointwise::ALL.get(row as usize).copied();
    let row = row.ok_or_else(|| Error::data("warpweft: there is no such row"))?;
    let mut numbers = Numbers::new(row.row().name, numbers);
    let operands = objects::operands(handles)?;
    let mut values = Vec::with_capacity(row.row().arity());
    for operand in &operands {
        values.push(match operand {
            Some(tensor) => Value::Tensor(tensor),
            None => Value::Number(numbers.real()?),
        });
    }
    for _ in row.row().parameters {
        values.push(Value::Number(numbers.real()?));
    }
    Ok(keep_tensor(apply_row(row, &values)?)?)
}

/// The gradients of a tensor by others, weighted with a seed if its handle is not 0; their handles.
#[wasm_bindgen]
pub fn grad(of: u32, seed: u32, handles: &[u32]) -> Answer<Vec<u32>> {
    let of = objects::tensor(of)?;
    let wrt = objects::tensors(handles)?;
    let wrt = references(&wrt);
    let gradients = match seed {
        0 => of.grad(&wrt)?,
        seed => of.vjp(&objects::tensor(seed)?, &wrt)?,
    };
    Ok(keep_tensors(&gradients)?)
}

fn references(tensors: &[Tensor]) -> Vec<&Tensor> {
    let mut list = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        list.push(tensor);
    }
    list
}

/// A tensor's type and extents.
#[wasm_bindgen]
pub fn describe(tensor: u32) -> Answer<Vec<u32>> {
    let tensor = objects::tensor(tensor)?;
    let mut facts = vec![dtype_code(tensor.dtype())];
    for &extent in tensor.shape() {
        facts.push(extent as u32);
    }
    Ok(facts)
}

/// Submits what a tensor needs; settles with so many of its elements from one on, as the device stores them.
#[wasm_bindgen]
pub fn read(tensor: u32, from: f64, length: f64, settle: Function) -> Answer<()> {
    let tensor = objects::tensor(tensor)?;
    let range = [from, length];
    let mut numbers = Numbers::new("read", &range);
    let bytes = tensor.read_bytes_range(numbers.size()?, numbers.size()?);
    start(settle, async move { Ok(Bytes::new(&bytes.await?).into()) });
    Ok(())
}

/// Submits what a tensor needs.
#[wasm_bindgen]
pub fn run(tensor: u32) -> Answer<()> {
    Ok(objects::tensor(tensor)?.run()?)
}

/// Frees an object, and with a device all that lives on it.
#[wasm_bindgen]
pub fn dispose(handle: u32) {
    objects::drop_object(handle);
}

/// Submits tensors together, or (with `only_plan`) gives the plan of that.
#[wasm_bindgen]
pub fn batch(device: u32, handles: &[u32], only_plan: bool) -> Answer<u32> {
    let device = objects::device(device)?;
    let mut batch = device.batch();
    for tensor in objects::tensors(handles)? {
        batch.add(&tensor)?;
    }
    if only_plan {
        return Ok(keep(Object::Plan(device, batch.plan()?)));
    }
    batch.run()?;
    Ok(0)
}

/// Compiles a program. Numbers: for each input its rank, type and extents. `build` is called with the inputs' handles
/// and gives the results'.
#[wasm_bindgen]
pub fn compile(device: u32, numbers: &[f64], build: &Function) -> Answer<u32> {
    let device = objects::device(device)?;
    let inputs = program_inputs(numbers)?;
    let mut types: Vec<(&[usize], DType)> = Vec::with_capacity(inputs.len());
    for (shape, dtype) in &inputs {
        types.push((shape, *dtype));
    }
    let mut thrown = None;
    let program = device.compile(&types, |inputs| {
        match build.build(&JsValue::UNDEFINED, keep_tensors(inputs)?) {
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

/// Runs a program; the results' handles.
#[wasm_bindgen]
pub fn run_program(program: u32, handles: &[u32]) -> Answer<Vec<u32>> {
    let (_, program) = objects::program(program)?;
    let inputs = objects::tensors(handles)?;
    let inputs = references(&inputs);
    Ok(keep_tensors(&program.run(&inputs)?)?)
}

/// The plan of a program.
#[wasm_bindgen]
pub fn program_plan(program: u32) -> Answer<u32> {
    let (device, program) = objects::program(program)?;
    Ok(keep(Object::Plan(device, program.plan().clone())))
}

/// The plan of a device's last submission; 0 if there was none.
#[wasm_bindgen]
pub fn last_plan(device: u32) -> Answer<u32> {
    let device = objects::device(device)?;
    let plan = device.last_plan();
    Ok(plan.map_or(0, |plan| keep(Object::Plan(device, plan))))
}

/// A plan in words, with 0 characters between them: operations, buffers and bytes as numbers, its text, and a label for
/// each kernel.
#[wasm_bindgen]
pub fn plan_words(plan: u32) -> Answer<String> {
    let (_, plan) = objects::plan(plan)?;
    let buffers = plan.temporaries.len() + plan.outputs.len();
    let (operations, bytes) = (plan.operations, plan.bytes_written());
    let mut words = format!("{operations}\0{buffers}\0{bytes}\0{plan}");
    for dispatch in &plan.dispatches {
        words += "\0";
        words += &dispatch.label;
    }
    Ok(words)
}

/// The text that a kernel of a plan is compiled from, where there is one.
#[wasm_bindgen]
pub fn plan_source(plan: u32, kernel: u32) -> Answer<Option<String>> {
    let (device, plan) = objects::plan(plan)?;
    Ok(device.kernel_source(&plan, kernel as usize))
}
