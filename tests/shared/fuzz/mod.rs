//! Random programs. Every backend and every plan must give the results of plain arrays, however operations are fused, split and
//! moved. Programs of whole numbers must be exact, others must be within the rounding error. Gradients of smooth programs must
//! match central differences. Each program also runs with random handle lifetimes, reads in between and variables, lazily and
//! eagerly. A failing program is shrunk until no smaller program fails, and is printed as a test.
//!
//! `WARPWEFT_FUZZ=programs[,seed]` sets the number of programs and the first seed, natively.

pub mod generator;
pub mod lifetimes;
pub mod meaning;
pub mod shrink;
pub mod step;

use super::array::Array;
use super::check::{judged, near, said, Check, Outcome, Suite};
use super::tolerance::Tolerance;
use meaning::Program;
use std::future::Future;
use std::panic::{catch_unwind, AssertUnwindSafe};
use std::pin::pin;
use std::task::Poll;
use step::{record, Kind, Op};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::Tensor;

/// The default number of programs.
const COUNT: u32 = 60;

/// Returns the number of programs and the first seed.
fn asked() -> (u32, u32) {
    let Ok(asked) = std::env::var("WARPWEFT_FUZZ") else { return (COUNT, 0) };
    let number = |word: &str| word.trim().parse::<u32>().expect("WARPWEFT_FUZZ=programs[,seed]");
    match asked.split_once(',') {
        Some((count, seed)) => (number(count), number(seed)),
        None => (number(&asked), 0),
    }
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("fuzz");
    let (count, first) = asked();
    for seed in first..first.saturating_add(count) {
        suite.steps(format!("program {seed}"), move |device| async move {
            let program = made(seed);
            match failure(&device, &program, true).await {
                Ok(()) => Ok(()),
                Err(what) => Err(told(&device, program, what).await),
            }
        });
    }
    suite
}

/// Runs program `seed` as one batch, for callers that compare several machines.
#[cfg(not(target_arch = "wasm32"))]
pub async fn run(device: &Device, seed: u32) -> Outcome {
    failure(device, &made(seed), false).await
}

fn made(seed: u32) -> Program {
    generator::program(seed, [Kind::Whole, Kind::Float, Kind::Smooth][seed as usize % 3])
}

/// Shrinks a failing program, and returns the failure of the smallest one.
pub async fn told(device: &Device, program: Program, what: String) -> String {
    let fails = async |program: &Program| failure(device, program, true).await.is_err();
    let small = shrink::shrink(program, fails).await;
    let text = shrink::text(&small);
    match failure(device, &small, true).await {
        Ok(()) => format!("{what}; and then not any more:\n{text}"),
        Err(then) => format!("{what}\n  the smallest program of {:?}: {then}\n{text}", small.kind),
    }
}

/// The ways to run a program with random lifetimes: a description, a seed, and whether each operation runs eagerly.
const LIVES: [(&str, u32, bool); 3] =
    [("held by chance", 1, false), ("held by other chance", 2, false), ("eagerly", 2, true)];

/// Runs a program in one batch. If `all` is set, also runs it step by step and checks its gradient.
pub async fn failure(device: &Device, program: &Program, all: bool) -> Outcome {
    let wanted = Wanted::new(program).ok_or("the program does not fit together")?;
    // An earlier failure may have left eager execution on.
    device.run_eagerly(false);
    watched(async {
        let (fused, _) = tensors(device, program)?;
        let mut batch = device.batch();
        for &result in &program.results {
            batch.add(&fused[result]).map_err(said)?;
        }
        batch.run().map_err(said)?;
        for &result in &program.results {
            let what = format!("in one batch, a{result}");
            wanted.check(what, program.kind, &fused[result], result).run().await?;
        }
        if !all {
            return Ok(());
        }
        let (mut single, mut held): (Vec<Tensor>, Vec<Tensor>) = Default::default();
        for (number, step) in program.steps.iter().enumerate() {
            let of: Vec<&Tensor> = step.of.iter().map(|&of| &single[of]).collect();
            single.push(record(device, &step.op, &of, &mut held).map_err(said)?);
            let what = format!("step by step, a{number}");
            wanted.check(what, program.kind, &single[number], number).run().await?;
        }
        drop(fused);
        if program.kind == Kind::Smooth {
            gradients("in one batch", program, &tensors(device, program)?.0).await?;
            gradients("step by step", program, &single).await?;
            drop((single, held));
            after_reading(device, program).await?;
        }
        compiled(device, program, &wanted).await?;
        for (what, seed, eager) in LIVES {
            device.run_eagerly(eager);
            let outcome = lifetimes::lived(what, device, program, &wanted, seed).await;
            device.run_eagerly(false);
            outcome?;
        }
        Ok(())
    })
    .await
}

/// Returns the tensors of all steps, none of them computed, and the indices that they take.
fn tensors(
    device: &Device,
    program: &Program,
) -> std::result::Result<(Vec<Tensor>, Vec<Tensor>), String> {
    let (mut tensors, mut held): (Vec<Tensor>, Vec<Tensor>) = Default::default();
    for step in &program.steps {
        let of: Vec<&Tensor> = step.of.iter().map(|&of| &tensors[of]).collect();
        tensors.push(record(device, &step.op, &of, &mut held).map_err(said)?);
    }
    Ok((tensors, held))
}

/// Checks a compiled program whose results are the results twice, and its inputs.
async fn compiled(device: &Device, program: &Program, wanted: &Wanted) -> Outcome {
    let inputs = program.inputs();
    let shapes: Vec<&[usize]> = inputs.iter().map(|&n| &wanted.values[n].shape[..]).collect();
    let types: Vec<(&[usize], DType)> = shapes.into_iter().map(|s| (s, DType::F32)).collect();
    let results = [&program.results[..], &program.results, &inputs].concat();
    let build = |given: &[Tensor]| {
        let mut given = given.iter();
        let (mut tensors, mut held): (Vec<Tensor>, Vec<Tensor>) = Default::default();
        for step in &program.steps {
            let of: Vec<&Tensor> = step.of.iter().map(|&of| &tensors[of]).collect();
            let tensor = match &step.op {
                Op::Input(_) => given.next().expect("one for each").clone(),
                op => record(device, op, &of, &mut held)?,
            };
            tensors.push(tensor);
        }
        Ok(results.iter().map(|&n| tensors[n].clone()).collect())
    };
    let compiled = device.compile(&types, build).map_err(said)?;
    let given: Result<Vec<Tensor>> = inputs.iter().map(|&n| wanted.values[n].f32(device)).collect();
    let given = given.map_err(said)?;
    let got = compiled.run(&given.iter().collect::<Vec<_>>()).map_err(said)?;
    for (&number, tensor) in results.iter().zip(&got) {
        let what = format!("compiled, a{number}");
        wanted.check(what, program.kind, tensor, number).run().await?;
    }
    Ok(())
}

/// Reports a panic as a failure, on platforms where panics can be caught.
async fn watched(work: impl Future<Output = Outcome>) -> Outcome {
    let mut work = pin!(work);
    std::future::poll_fn(|context| {
        let polled = catch_unwind(AssertUnwindSafe(|| work.as_mut().poll(context)));
        polled.unwrap_or_else(|_| Poll::Ready(Err("it panicked".into())))
    })
    .await
}

/// The expected values of all steps, and the allowed error of each.
struct Wanted {
    values: Vec<Array<f64>>,
    allowed: Vec<Array<f64>>,
}

/// The number of times that a program is computed with noise.
const NOISES: u32 = 3;
/// The factor on the differences that noise causes, because they are only a sample.
const SAMPLED: f64 = 8.0;

impl Wanted {
    fn new(program: &Program) -> Option<Wanted> {
        let values = program.values(None)?;
        let mut allowed: Vec<Array<f64>> = values.iter().map(|v| v.map(|_| 0.0)).collect();
        for seed in 0..NOISES {
            // If the noise makes a program invalid, the program is skipped.
            let noisy = program.values(Some(seed))?;
            for ((allowed, noisy), value) in allowed.iter_mut().zip(noisy).zip(&values) {
                let off = noisy.zip(value, |n, v| SAMPLED * (n - v).abs());
                *allowed = allowed.zip(&off, f64::max);
            }
        }
        Some(Wanted { values, allowed })
    }

    fn check(&self, what: String, kind: Kind, tensor: &Tensor, number: usize) -> Check {
        let (value, allowed) = (self.values[number].clone(), self.allowed[number].data.clone());
        if kind == Kind::Whole {
            return near(what, tensor.clone(), value, Tolerance::EXACT);
        }
        // The tolerance of the step, and the propagated errors of earlier steps.
        let (want, said) = (value.data.clone(), allowed.clone());
        let accepts = move |at: usize, got: f64| {
            let own =
                Tolerance { absolute: Tolerance::F32.absolute + allowed[at], ..Tolerance::F32 };
            own.accepts(got, want[at])
        };
        let describe = move |at: usize| format!("(+- {:e})", said[at]);
        judged(what, tensor.clone(), DType::F32, value, accepts, describe)
    }
}

/// The number of elements of an input by which the gradient is checked.
const PLACES: usize = 4;

/// Half the distance of a central difference.
const STEP: f64 = 1e-4;

/// Returns the sum of the squares of the program's last result, with `noise` if it is given.
fn loss(program: &Program, noise: Option<u32>) -> Option<f64> {
    let values = program.values(noise)?;
    let last = &values[*program.results.last()?];
    Some(last.data.iter().map(|v| v * v).sum())
}

/// Returns the derivative of the loss by an element of an input.
fn slope(program: &Program, input: usize, place: usize, noise: Option<u32>) -> Option<f64> {
    let at = |by: f64| {
        let mut moved = program.clone();
        if let Op::Input(array) = &mut moved.steps[input].op {
            array.data[place] += by;
        }
        loss(&moved, noise)
    };
    Some((at(STEP)? - at(-STEP)?) / (2.0 * STEP))
}

/// Checks gradients after values were read: of the loss while only the inputs are held, and of a value on the way.
async fn after_reading(device: &Device, program: &Program) -> Outcome {
    let [first, .., last] = program.results[..] else { return Ok(()) };
    let (all, held) = tensors(device, program)?;
    let loss = all[last].square().sum(&[]).map_err(said)?;
    let middle = all[first].clone();
    let of: Vec<Tensor> = program.inputs().iter().map(|&n| all[n].clone()).collect();
    drop((all, held));
    middle.read::<f32>().await.map_err(said)?;
    loss.item::<f32>().await.map_err(said)?;
    slopes("after reading", program, &loss, &of.iter().collect::<Vec<_>>()).await
}

async fn gradients(what: &str, program: &Program, tensors: &[Tensor]) -> Outcome {
    let Some(&last) = program.results.last() else { return Ok(()) };
    let of: Vec<&Tensor> = program.inputs().iter().map(|&n| &tensors[n]).collect();
    let loss = tensors[last].square().sum(&[]).map_err(said)?;
    slopes(what, program, &loss, &of).await
}

/// Checks that the gradients of the loss by the inputs match differences.
async fn slopes(what: &str, program: &Program, loss: &Tensor, of: &[&Tensor]) -> Outcome {
    let inputs = program.inputs();
    let found = loss.grad(of).map_err(|error| format!("{what}, the gradient: {error}"))?;
    let mut batch = loss.device().batch();
    for gradient in &found {
        batch.add(gradient).map_err(said)?;
    }
    batch.run().map_err(said)?;
    for (&input, gradient) in inputs.iter().zip(found) {
        let got: Vec<f32> = gradient.read().await.map_err(said)?;
        let largest = got.iter().fold(0.0, |most: f64, v| most.max(f64::from(v.abs())));
        for place in (0..got.len()).step_by(got.len().div_ceil(PLACES).max(1)) {
            let Some(want) = slope(program, input, place, None) else { continue };
            let mut allowed: f64 = 1e-4 + 1e-4 * largest;
            for noise in 0..NOISES {
                let noisy = slope(program, input, place, Some(noise)).unwrap_or(want);
                allowed += SAMPLED * (noisy - want).abs();
            }
            let got = f64::from(got[place]);
            // A NaN is never near.
            let near = (got - want).abs() <= allowed;
            if !near {
                return Err(format!(
                    "{what}, the gradient by a{input}, element {place}: got {got:e}, want {want:e} (+- {allowed:e})"
                ));
            }
        }
    }
    Ok(())
}
