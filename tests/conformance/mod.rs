//! External conformance vectors, which run on any device. `tests/native/run_conformance.rs` runs them natively, and
//! `tests/browser/main.rs` in browsers.
//!
//! `vectors` reads them, `webnn` and `onnx` map their operators to `Tensor` calls, `limits` compares, `exceptions` lists known
//! differences, `report` counts.

pub mod args;
pub mod exceptions;
pub mod indices;
pub mod limits;
pub mod onnx;
pub mod report;
pub mod vectors;
pub mod webnn;

use args::{Environment, Operand, Stop};
use exceptions::Exception;
use limits::Limit;
use report::{Outcome, Report};
use std::collections::HashMap;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use vectors::{Case, Content, Data, Kind};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::tensor::Tensor;

/// The vectors that are part of the repository, written by `onnx_cases.py`.
pub const OWN: (&str, &[u8]) = (include_str!("onnx.json"), include_bytes!("onnx.bin"));

/// The sets of vectors outside the repository, by file name without `.json` and `.bin`.
pub const FILES: &[&str] = &["webnn", "webnn_newer"];

/// The number of cases that are recorded before the first of them is read. Reading waits for the device, but recording does
/// not.
const AHEAD: usize = 32;

/// The number of elements of a filled tensor that are compared, as in web-platform-tests. Some tensors have millions.
const FILLED: usize = 1000;

/// The most elements of an input whose values are known while operators are recorded.
const KNOWN: usize = 64;

type Reading = Pin<Box<dyn Future<Output = warpweft::error::Result<Vec<u8>>>>>;

/// A pending output: its description, its allowed error, and its bytes.
struct Pending<'a> {
    want: &'a Data,
    dtype: DType,
    limit: Limit,
    reading: Reading,
}

/// Runs every case on a device, which the report calls `place`. With `lenient`, listed cases may pass.
pub async fn run(
    device: &Device,
    place: &str,
    cases: &[Case],
    exceptions: &[Exception],
    lenient: bool,
) -> Report {
    let mut report = Report { lenient, ..Report::new(place) };
    for chunk in cases.chunks(AHEAD) {
        let begun: Vec<_> = chunk.iter().map(|case| (case, begin(device, case))).collect();
        for (case, begun) in begun {
            let outcome = match begun {
                Ok(pending) => finish(pending).await,
                Err(stop) => Outcome::from(stop),
            };
            report.add(case, outcome, exceptions);
        }
    }
    report
}

/// Records a case's operators and submits its outputs.
fn begin<'a>(device: &Device, case: &'a Case) -> Result<Vec<Pending<'a>>, Stop> {
    let mut environment: Environment = HashMap::new();
    if case.half() && !device.limits().f16 {
        return Err(Stop::Foreign("f16: this device has none".into()));
    }
    for data in &case.inputs {
        environment.insert(data.name.clone(), upload(device, data)?);
    }
    let mut sum = Some(0.0);
    for operator in &case.operators {
        let limit = match &*case.suite {
            "onnx" => onnx::apply(device, operator, &mut environment)?,
            _ => webnn::apply(device, operator, &mut environment)?,
        };
        sum = sum.zip(limit).map(|(sum, limit)| sum + limit);
    }
    let limit = match (case.limit, sum) {
        (Some(limit), _) => limit,
        (None, Some(ulps)) => Limit::Ulps(ulps),
        (None, None) => return Err(Stop::Wrong("the vectors give it no limit, nor do we".into())),
    };
    let mut pending = Vec::new();
    for want in &case.outputs {
        let found = environment.get(&want.name);
        let operand =
            found.ok_or_else(|| Stop::Wrong(format!("nothing computed {}", want.name)))?;
        pending.push(start(want, operand, limit)?);
    }
    Ok(pending)
}

/// Checks an output's dtype and shape, and starts to read it.
fn start<'a>(want: &'a Data, operand: &Operand, limit: Limit) -> Result<Pending<'a>, Stop> {
    let tensor = &operand.tensor;
    if let Some(error) = tensor.error() {
        return Err(Stop::Wrong(error.to_string()));
    }
    if tensor.shape() != want.shape || !want.kind.holds(tensor.dtype()) {
        let (is, got) = (tensor.dtype(), tensor.shape());
        let wanted = (want.kind.name(), &want.shape);
        let message = format!("{}: {is} {got:?} instead of {} {:?}", want.name, wanted.0, wanted.1);
        return Err(Stop::Wrong(message));
    }
    let count = match want.content {
        Content::Filled(_) => tensor.numel().min(FILLED),
        Content::Bytes(_) => tensor.numel(),
    };
    let reading = Box::pin(tensor.read_bytes_range(0, count));
    Ok(Pending { want, dtype: tensor.dtype(), limit, reading })
}

/// Reads a case's outputs and compares them.
async fn finish(pending: Vec<Pending<'_>>) -> Outcome {
    let mut outcome = Outcome::Passed;
    for Pending { want, dtype, limit, reading } in pending {
        let compared = match reading.await {
            Ok(bytes) => limit.compare(want, dtype, &bytes),
            Err(error) => Err(error.to_string()),
        };
        if let (Err(what), Outcome::Passed) = (compared, &outcome) {
            outcome = Outcome::Failed(format!("{}: {what}", want.name));
        }
    }
    outcome
}

/// Uploads an input. Integer types that the library does not have are stored in `i32` if their values fit.
fn upload(device: &Device, data: &Data) -> Result<Operand, Stop> {
    let dtype = data.kind.held();
    let tensor: Tensor = match &data.content {
        Content::Filled(value) => device.full(&data.shape, *value, dtype)?,
        Content::Bytes(bytes) if data.kind == Kind::Bool => {
            let truths: Vec<bool> = bytes.iter().map(|&byte| byte != 0).collect();
            device.tensor(&truths, &data.shape)?
        }
        Content::Bytes(bytes) if data.kind.size() == dtype.size() => {
            device.tensor_from_bytes(bytes, &data.shape, dtype)?
        }
        Content::Bytes(bytes) => {
            let mut words = Vec::new();
            for wide in data.kind.integers(bytes) {
                let fits = i32::try_from(data.kind.cut(wide));
                let name = data.kind.name();
                words.push(fits.map_err(|_| {
                    Stop::Foreign(format!("{name}: values that 32 bits do not hold"))
                })?);
            }
            device.tensor(&words, &data.shape)?
        }
    };
    let known = match &data.content {
        Content::Bytes(bytes) if tensor.numel() <= KNOWN => {
            Some(Rc::new(limits::known(data.kind, bytes)))
        }
        _ => None,
    };
    Ok(Operand { tensor, kind: data.kind, known })
}
