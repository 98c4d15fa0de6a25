//! The JavaScript face, without logic: tensors by number, operations by code, numbers checked. The methods that people
//! call, with their documentation, are in `www/src`. Errors are thrown as text, kind and message on two lines.

mod apply;
mod codes;
mod extras;
mod gradients;
mod numbers;
mod objects;
mod plans;
mod programs;
mod tasks;
mod tuning;
mod values;

use crate::device::Device;
use crate::error::{need_room, Error, Result};
use crate::tensor::{pointwise as apply_row, Operand, Pointwise, Tensor};
use codes::{Code, FIRST_ROW};
use numbers::{dtype_code, Numbers};
use objects::{keep, keep_tensor, Object};
use tasks::start;
use values::{Bytes, Function};
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

/// A panic says its text and place on the console before it traps.
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

/// Does something that ends later, and gives `settle` what [`start`] says.
#[wasm_bindgen]
pub fn later(what: u32, handle: u32, from: f64, length: f64, settle: Function) -> Answer<()> {
    match what {
        // Opens the device that this core is for: what there is, JavaScript has looked at.
        codes::later::open => {
            let opened = Device::only(handle != 0);
            start(settle, async move { Ok(keep(Object::Device(opened.await?)).into()) });
        }
        // Resolves when a device has done what was submitted.
        codes::later::sync => {
            let done = objects::device(handle)?.sync();
            start(settle, async move { done.await.map(|()| JsValue::UNDEFINED) });
        }
        // Submits what a tensor needs; resolves to so many of its elements from one on, as the device stores them.
        codes::later::read => {
            let tensor = objects::tensor(handle)?;
            let range = [from, length];
            let mut numbers = Numbers::new("read", &range);
            let bytes = tensor.read_bytes_range(numbers.size()?, numbers.size()?);
            start(settle, async move { Ok(Bytes::new(&bytes.await?).into()) });
        }
        // Measures which kernels are fastest on a device; resolves to their number.
        codes::later::tune => start(settle, tuning::tune(handle)?),
        _ => return Err(unknown(what)),
    }
    Ok(())
}

/// A tensor of elements as devices store them. Numbers: the type, and the shape.
#[wasm_bindgen]
pub fn upload(device: u32, data: &Bytes, numbers: &[f64]) -> Answer<u32> {
    let device = objects::device(device)?;
    let mut numbers = Numbers::new("tensor", numbers);
    let (dtype, shape) = (numbers.dtype()?, numbers.sizes()?);
    need_room("tensor", data.length().into())?;
    Ok(keep_tensor(device.tensor_from_bytes(&data.all(), &shape, dtype)?)?)
}

/// Applies an operation: to tensors, or (where the first handle is a device's) to create one. Numbers from
/// [`FIRST_ROW`] on are the rows of the table; there a handle of 0 takes the next of `numbers`, and parameters follow.
#[wasm_bindgen]
pub fn apply(operation: u32, handles: &[u32], numbers: &[f64]) -> Answer<u32> {
    let row = operation.checked_sub(FIRST_ROW).and_then(|row| Pointwise::ALL.get(row as usize));
    let made = match (row, Code::ALL.get(operation as usize)) {
        (Some(&row), _) => pointwise(row, handles, numbers)?,
        (None, Some(&code)) => match handles {
            [first] if objects::is_device(*first) => {
                apply::create(code, &objects::device(*first)?, numbers)?
            }
            _ => apply::apply(code, handles, numbers)?,
        },
        _ => return Err(unknown(operation)),
    };
    Ok(keep_tensor(made)?)
}

fn unknown(number: u32) -> Thrown {
    Error::data(format!("warpweft: there is no operation {number}")).into()
}

fn pointwise(row: Pointwise, handles: &[u32], numbers: &[f64]) -> Result<Tensor> {
    let mut numbers = Numbers::new(row.row().name, numbers);
    let operands = objects::operands(handles)?;
    let mut values = Vec::with_capacity(row.row().arity());
    for operand in &operands {
        values.push(match operand {
            Some(tensor) => Operand::Tensor(tensor.clone()),
            None => Operand::Number(numbers.real()?),
        });
    }
    for _ in row.row().parameters {
        values.push(Operand::Number(numbers.real()?));
    }
    apply_row(row, &values)
}

/// Asks for something that is there at once. The first handle is what is asked, and handles are among the answers.
#[wasm_bindgen]
pub fn ask(what: u32, handles: &[u32]) -> Answer<Vec<f64>> {
    let (&first, rest) = handles.split_first().ok_or_else(|| unknown(what))?;
    let mut answer = Vec::new();
    match what {
        codes::ask::describe => describe(&objects::tensor(first)?, &mut answer),
        codes::ask::figures => figures(&objects::device(first)?, &mut answer),
        // Gives a device's unused memory back.
        codes::ask::trim => objects::device(first)?.trim(),
        // Submits what is recorded on a device.
        codes::ask::flush => objects::device(first)?.flush()?,
        // A variable's value.
        codes::ask::keep => objects::tensor(first)?.keep(),
        // Submits what a tensor needs.
        codes::ask::run => objects::tensor(first)?.run()?,
        // The plan of a device's last submission, of a program, or of tensors together.
        codes::ask::last_plan | codes::ask::program_plan | codes::ask::plan_batch => {
            plans::plan(what, first, rest, &mut answer)?;
        }
        // Runs a program; the results.
        codes::ask::run_program => programs::run(first, rest, &mut answer)?,
        // The gradients of a tensor, weighted with a seed if its handle is not 0, by the others.
        codes::ask::grad => gradients::gradients(first, rest, &mut answer)?,
        // The number of the kernels that a device runs, after others were chosen where a number is given.
        codes::ask::variants => tuning::variants(first, rest, &mut answer)?,
        // Submits tensors together.
        codes::ask::run_batch => objects::batch(first, rest)?.run()?,
        _ => return Err(unknown(what)),
    }
    Ok(answer)
}

/// A tensor's type and extents.
fn describe(tensor: &Tensor, answer: &mut Vec<f64>) {
    answer.push(dtype_code(tensor.dtype()).into());
    for &extent in tensor.shape() {
        answer.push(extent as f64);
    }
}

/// The limits of a device, then its counters.
fn figures(device: &Device, answer: &mut Vec<f64>) {
    let (limits, stats) = (device.limits(), device.stats());
    answer.extend_from_slice(&[
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
    ]);
}

fn references(tensors: &[Tensor]) -> Vec<&Tensor> {
    let mut list = Vec::with_capacity(tensors.len());
    for tensor in tensors {
        list.push(tensor);
    }
    list
}

/// Frees an object, and with a device all that lives on it.
#[wasm_bindgen]
pub fn dispose(handle: u32) {
    objects::drop_object(handle);
}

/// Compiles a program. Numbers: for each input its rank, type and extents. `build` is called with the inputs' handles
/// and gives the results'.
#[wasm_bindgen]
pub fn compile(device: u32, numbers: &[f64], build: &Function) -> Answer<u32> {
    programs::compile(device, numbers, build)
}

/// Something in words.
#[wasm_bindgen]
pub fn words(what: u32, handle: u32, kernel: u32) -> Answer<String> {
    if what == codes::words::device {
        let mut words = String::new();
        // Backend, name, vendor, kind and driver of a device, each with a 0 character after it.
        let device = objects::device(handle)?;
        let info = device.info();
        for word in [info.backend, &info.name, &info.vendor, info.kind.name(), &info.driver] {
            words += word;
            words += "\0";
        }
        return Ok(words);
    }
    Ok(plans::words(what, handle, kernel)?)
}
