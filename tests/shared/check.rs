//! A test case: tensors that are computed, and their expected values.

use super::array::{decode, Array};
use super::tolerance::Tolerance;
use std::cell::Cell;
use std::fmt::Write as _;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{Error, Result};
use warpweft::tensor::Tensor;

/// The result of a check: `Ok`, or a message about the failure.
pub type Outcome = std::result::Result<(), String>;

/// The body of a case. It runs on a device and returns a message if the case fails.
pub type Run = Rc<dyn Fn(Device) -> Pin<Box<dyn Future<Output = Outcome>>>>;

/// A test that every backend must pass.
pub struct Case {
    /// A unique name, `group/name`.
    pub name: String,
    pub run: Run,
    /// Whether the case is too large for a browser that computes on a CPU.
    pub big: bool,
    /// Whether the case needs a device with `f16`.
    pub half: bool,
}

/// A tensor and its expected values.
pub struct Check {
    pub what: String,
    pub tensor: Tensor,
    pub dtype: DType,
    pub want: Want,
}

/// The expected values of a tensor.
pub enum Want {
    /// These values, within a tolerance.
    Values(Array<f64>, Tolerance),
    /// Exactly these bits.
    Bits(Array<u32>),
    /// The values that a judge accepts.
    Judged(Array<f64>, Judge),
}

/// Accepts or rejects the n-th element. Also describes the point at which the element was computed.
pub struct Judge {
    accepts: Box<dyn Fn(usize, f64) -> bool>,
    describe: Box<dyn Fn(usize) -> String>,
}

/// Returns a check that the tensor has these values and dtype `f32`.
pub fn near(what: impl Into<String>, tensor: Tensor, want: Array<f64>, by: Tolerance) -> Check {
    typed(what, tensor, DType::F32, want, by)
}

/// Returns a check that the tensor has these values.
pub fn typed(
    what: impl Into<String>,
    tensor: Tensor,
    dtype: DType,
    want: Array<f64>,
    by: Tolerance,
) -> Check {
    Check { what: what.into(), tensor, dtype, want: Want::Values(want, by) }
}

/// Returns a check that the tensor has exactly these values.
pub fn exact(what: impl Into<String>, tensor: Tensor, dtype: DType, want: Array<f64>) -> Check {
    typed(what, tensor, dtype, want, Tolerance::EXACT)
}

/// Returns a check that the tensor has these bits.
pub fn same_bits(what: impl Into<String>, tensor: Tensor, dtype: DType, want: Array<u32>) -> Check {
    Check { what: what.into(), tensor, dtype, want: Want::Bits(want) }
}

/// Returns a check that `accepts` is true for every element of the tensor.
pub fn judged(
    what: impl Into<String>,
    tensor: Tensor,
    dtype: DType,
    want: Array<f64>,
    accepts: impl Fn(usize, f64) -> bool + 'static,
    describe: impl Fn(usize) -> String + 'static,
) -> Check {
    let judge = Judge { accepts: Box::new(accepts), describe: Box::new(describe) };
    Check { what: what.into(), tensor, dtype, want: Want::Judged(want, judge) }
}

impl Want {
    fn shape(&self) -> &[usize] {
        match self {
            Want::Values(want, _) | Want::Judged(want, _) => &want.shape,
            Want::Bits(want) => &want.shape,
        }
    }
}

thread_local! {
    static COMPARED: Cell<usize> = const { Cell::new(0) };
    static TOGETHER: Cell<bool> = const { Cell::new(false) };
}

/// Sets whether this thread computes all tensors of a case in one batch, or each one alone.
#[allow(dead_code)]
pub fn together(whether: bool) {
    TOGETHER.set(whether);
}

/// Computes the tensors in one batch, except those that carry an error.
fn run_together(device: &Device, checks: &[Check]) -> Outcome {
    let mut batch = device.batch();
    for check in checks.iter().filter(|check| check.tensor.error().is_none()) {
        // A case may compare tensors of other devices.
        if check.tensor.device().is_same(device) {
            batch.add(&check.tensor).map_err(said)?;
        }
    }
    batch.run().map_err(said)
}

/// Returns the number of tensors that this thread has compared.
#[allow(dead_code)]
pub fn compared() -> usize {
    COMPARED.get()
}

impl Check {
    /// Reads the tensor and compares its values.
    pub async fn run(self) -> Outcome {
        COMPARED.set(COMPARED.get() + 1);
        let Check { what, tensor, dtype, want } = self;
        let shape = want.shape();
        if let Some(error) = tensor.error() {
            return Err(format!("{what}: {error}"));
        }
        if tensor.shape() != shape || tensor.dtype() != dtype {
            let (got, is) = (tensor.shape(), tensor.dtype());
            return Err(format!("{what}: {is} {got:?} instead of {dtype} {shape:?}"));
        }
        let bytes = tensor.read_bytes().await.map_err(|error| format!("{what}: {error}"))?;
        match &want {
            Want::Values(want, by) => {
                let got = decode(dtype, &bytes);
                let wrong = |at: usize| !by.accepts(got[at], want.data[at]);
                differences(&what, want, &got, wrong, |v| format!("{v:e}"))
            }
            Want::Judged(want, judge) => {
                let got = decode(dtype, &bytes);
                let wrong = |at: usize| !(judge.accepts)(at, got[at]);
                let at = (0..got.len()).find(|&at| wrong(at)).map(|at| (judge.describe)(at));
                let what = format!("{what} {}", at.unwrap_or_default());
                differences(&what, want, &got, wrong, |v| format!("{v:e}"))
            }
            Want::Bits(want) => {
                let word = |c: &[u8]| c.iter().rev().fold(0u32, |w, &b| w << 8 | u32::from(b));
                let got: Vec<u32> = bytes.chunks_exact(dtype.size()).map(word).collect();
                let bits = (8 * dtype.size()) as u32;
                let wrong = |at: usize| got[at] != want.data[at] << (32 - bits) >> (32 - bits);
                differences(&what, want, &got, wrong, |v| format!("{v:#010x}"))
            }
        }
    }
}

/// Describes the first difference, with both values, and counts the differences.
fn differences<T: Copy>(
    what: &str,
    want: &Array<T>,
    got: &[T],
    wrong: impl Fn(usize) -> bool,
    show: impl Fn(T) -> String,
) -> Outcome {
    if got.len() != want.data.len() {
        return Err(format!("{what}: {} elements instead of {}", got.len(), want.data.len()));
    }
    let different: Vec<usize> = (0..got.len()).filter(|&i| wrong(i)).collect();
    let Some(&first) = different.first() else { return Ok(()) };
    let mut at = Vec::new();
    let mut rest = first;
    for &extent in want.shape.iter().rev() {
        at.insert(0, rest % extent);
        rest /= extent;
    }
    let mut message = String::new();
    let (count, all) = (different.len(), got.len());
    let _ = write!(
        message,
        "{what}: at {at:?} of {:?}: got {}, want {} ({count} of {all} differ)",
        want.shape,
        show(got[first]),
        show(want.data[first]),
    );
    Err(message)
}

/// The cases of a group.
pub struct Suite {
    group: &'static str,
    pub cases: Vec<Case>,
}

impl Suite {
    pub fn new(group: &'static str) -> Suite {
        Suite { group, cases: Vec::new() }
    }

    /// Adds a case that computes tensors, which are then compared.
    pub fn add(
        &mut self,
        name: impl AsRef<str>,
        build: impl Fn(&Device) -> Result<Vec<Check>> + 'static,
    ) -> &mut Case {
        let build = Rc::new(build);
        self.steps(name, move |device| {
            let build = build.clone();
            async move {
                let checks = build(&device).map_err(said)?;
                if checks.is_empty() {
                    return Err("it compares nothing".into());
                }
                if TOGETHER.get() {
                    run_together(&device, &checks)?;
                }
                for check in checks {
                    check.run().await?;
                }
                Ok(())
            }
        })
    }

    /// Adds a case that reads values while it runs.
    pub fn steps<F: Future<Output = Outcome> + 'static>(
        &mut self,
        name: impl AsRef<str>,
        run: impl Fn(Device) -> F + 'static,
    ) -> &mut Case {
        let name = format!("{}/{}", self.group, name.as_ref());
        let run: Run = Rc::new(move |device| Box::pin(run(device)));
        self.cases.push(Case { name, run, big: false, half: false });
        self.cases.last_mut().expect("it was just put there")
    }

    /// Adds a case that reads values while it runs, and that may fail with errors of the library.
    pub fn fallible<F: Future<Output = Result<()>> + 'static>(
        &mut self,
        name: impl AsRef<str>,
        run: impl Fn(Device) -> F + 'static,
    ) -> &mut Case {
        self.steps(name, move |device| {
            let ran = run(device);
            async move { ran.await.map_err(|error| error.to_string()) }
        })
    }
}

impl Case {
    pub fn big(&mut self) -> &mut Case {
        self.big = true;
        self
    }

    pub fn half(&mut self) -> &mut Case {
        self.half = true;
        self
    }
}

/// Converts an error to the message of a case.
pub fn said(error: Error) -> String {
    error.to_string()
}
