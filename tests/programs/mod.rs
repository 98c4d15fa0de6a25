//! Whole programs as users write them, each with the same computation in plain `f64`. They do not wait between steps unless the
//! next step needs a value. Reads are started in order, and awaited at the end.
//!
//! Each program runs for half, one and four times its steps. The values must be right, and the costs may grow only linearly
//! with the steps and are compared with eager execution. `counts` defines the costs and the bounds. Natively,
//! `WARPWEFT_PROGRAM=part[,steps]` selects programs by a part of their name, and the number of steps.

pub mod counts;
pub mod grids;
pub mod learning;
pub mod linear;
pub mod models;
pub mod plain;
pub mod sequences;
pub mod statistics;
pub mod training;

use crate::shared::array::{decode, Array};
use crate::shared::check::said;
use counts::{Counts, Known, KNOWN, SHORTER};
use std::collections::BTreeSet;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::Tensor;

/// Programs that belong together.
pub struct Theme {
    pub name: &'static str,
    pub programs: fn() -> Vec<Program>,
}

/// Passes the list of all themes to a macro. The name of a theme is the name of its module.
macro_rules! with_themes {
    ($macro:ident) => {
        $macro! { grids learning linear models sequences statistics training }
    };
}
pub(crate) use with_themes;

macro_rules! themes {
    ($($name:ident)*) => {
        /// All themes.
        pub const THEMES: &[Theme] =
            &[$(Theme { name: stringify!($name), programs: $name::programs }),*];
    };
}
with_themes!(themes);

type Waiting<T> = Pin<Box<dyn Future<Output = Result<Vec<T>>>>>;

/// A program: the values that it reads after a number of steps, and the expected values.
pub struct Program {
    /// A unique name.
    pub name: &'static str,
    /// The usual number of steps.
    pub steps: usize,
    /// The tolerance of each number, absolute below 1 and relative above.
    near: f64,
    run: Rc<dyn Fn(Device, usize) -> Waiting<f64>>,
    want: fn(usize) -> Vec<f64>,
}

/// Returns a program with its usual number of steps, its tolerance, and the same computation in plain `f64`.
pub fn program<F: Future<Output = Result<Vec<f64>>> + 'static>(
    name: &'static str,
    steps: usize,
    near: f64,
    run: impl Fn(Device, usize) -> F + 'static,
    want: fn(usize) -> Vec<f64>,
) -> Program {
    let run = Rc::new(move |device, steps| -> Waiting<f64> { Box::pin(run(device, steps)) });
    Program { name, steps, near, run, want }
}

/// The reads of a program. Each starts when it is requested, and is awaited at the end.
#[derive(Default)]
pub struct Reads {
    started: Vec<(DType, Waiting<u8>)>,
}

impl Reads {
    /// Starts to read a whole tensor.
    pub fn take(&mut self, tensor: &Tensor) {
        self.started.push((tensor.dtype(), Box::pin(tensor.read_bytes())));
    }

    /// Returns all numbers that were read, in order.
    pub async fn all(self) -> Result<Vec<f64>> {
        let mut numbers = Vec::new();
        for (dtype, read) in self.started {
            numbers.extend(decode(dtype, &read.await?));
        }
        Ok(numbers)
    }
}

/// Returns a tensor of these numbers.
pub fn up(device: &Device, numbers: &[f64], shape: &[usize]) -> Result<Tensor> {
    Array::new(shape, numbers.to_vec()).f32(device)
}

/// The result of a program on a device.
#[derive(Default)]
pub struct Report {
    /// The failures.
    pub failures: Vec<String>,
    /// The counts, and the bounds that they exceed.
    pub table: Vec<String>,
}

/// The sizes at which a program runs: its usual number of steps times the first number, divided by the second.
pub const SIZES: [(usize, usize); 3] = [(1, 2), (1, 1), (4, 1)];

/// Runs a program at the first sizes of [`SIZES`] on one device, and eagerly at the first two on the other.
pub async fn check(
    place: &str,
    program: &Program,
    devices: [&Device; 2],
    (steps, sizes): (usize, usize),
) -> Report {
    let mut report = Report::default();
    let shorter = SHORTER.iter().find(|(name, _)| *name == program.name);
    let steps = shorter.map_or(steps, |&(_, most)| steps.min(most));
    if steps < program.steps {
        let usual = program.steps;
        report.table.push(format!("{place}: {}: {steps} steps, not {usual}", program.name));
    }
    let steps: Vec<usize> = SIZES.iter().map(|(times, by)| steps * times / by).collect();
    if let Err(what) = measured(place, program, devices, &steps[..sizes], &mut report).await {
        report.failures.push(format!("{}: {what}", program.name));
    }
    report
}

async fn measured(
    place: &str,
    program: &Program,
    [lazy, eager]: [&Device; 2],
    sizes: &[usize],
    report: &mut Report,
) -> std::result::Result<(), String> {
    let is =
        |known: &&Known| known.programs.contains(&program.name) && known.places.contains(&place);
    let most = KNOWN.iter().filter(is).map(|known| known.sizes).min().unwrap_or(sizes.len());
    let (sizes, left_out) = sizes.split_at(most.min(sizes.len()));
    for steps in left_out {
        report.table.push(format!("{place}: {}: {steps} steps NOT RUN: too long", program.name));
    }
    eager.run_eagerly(true);
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for &steps in sizes {
        ours.push(one(program, lazy, steps).await.map_err(|e| format!("{steps} steps: {e}"))?);
        if theirs.len() < 2 {
            let each = one(program, eager, steps).await;
            theirs.push(each.map_err(|e| format!("{steps} steps eagerly: {e}"))?);
        }
    }
    let exceeded = counts::exceeded(&ours, &theirs);
    report.table.push(format!("{place}: {}: {}", program.name, counts::row(&ours, &theirs)));
    for (quantity, what) in &exceeded {
        report.table.push(format!("{place}: {}: {quantity}: {what}", program.name));
    }
    let got: BTreeSet<&str> = exceeded.iter().map(|(quantity, _)| *quantity).collect();
    let known: BTreeSet<&str> =
        KNOWN.iter().filter(is).flat_map(|known| known.quantities.iter().copied()).collect();
    for (quantity, what) in exceeded.iter().filter(|(quantity, _)| !known.contains(quantity)) {
        report.failures.push(format!("{}: {quantity}: {what}", program.name));
    }
    // Only four times as many steps show all exceptions.
    for quantity in known.difference(&got).filter(|_| sizes.len() == SIZES.len()) {
        report
            .failures
            .push(format!("{}: {quantity} is known to exceed, and does not", program.name));
    }
    Ok(())
}

/// Runs a program, compares the values that it reads, and counts its costs.
async fn one(
    program: &Program,
    device: &Device,
    steps: usize,
) -> std::result::Result<Counts, String> {
    let before = device.stats();
    let got = (program.run)(device.clone(), steps).await.map_err(said)?;
    let counts = Counts::between(before, device);
    let want = (program.want)(steps);
    if got.len() != want.len() {
        return Err(format!("{} numbers instead of {}", got.len(), want.len()));
    }
    let far = |(got, want): (&f64, &f64)| {
        // A NaN is never near.
        let near = (got - want).abs() <= program.near * want.abs().max(1.0);
        !near
    };
    match got.iter().zip(&want).position(far) {
        Some(at) => {
            let count = got.iter().zip(&want).filter(|pair| far(*pair)).count();
            let (got, want, all) = (got[at], want[at], got.len());
            Err(format!("number {at}: got {got:e}, want {want:e} ({count} of {all} differ)"))
        }
        None => Ok(counts),
    }
}
