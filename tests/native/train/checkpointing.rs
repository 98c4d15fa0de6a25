//! Tests parts that are recomputed for gradients: the same numbers with less memory.

use super::everywhere;
use crate::suite::Place;
use pollster::block_on;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::nn::*;
use warpweft::optim::*;
use warpweft::tensor::{Tensor, Variable};

const LAYERS: usize = 24;
const WIDTH: usize = 32;
const ROWS: usize = 2048;

/// Returns `count` layers, each followed by `tanh`.
fn layers(generator: &Generator, count: usize) -> Result<Sequential> {
    let mut part = Sequential::new();
    for _ in 0..count {
        part = part.push(Linear::new(generator, WIDTH, WIDTH)?).push(|x: &Tensor| Ok(x.tanh()));
    }
    Ok(part)
}

/// Returns the layers in parts of six, each checkpointed or not.
fn deep(device: &Device, checkpointed: bool) -> Result<Sequential> {
    let generator = Generator::new(device, 7);
    let mut model = Sequential::new();
    for _ in 0..LAYERS / 6 {
        let part = layers(&generator, 6)?;
        model = match checkpointed {
            true => model.push(Checkpoint::new(part)),
            false => model.push(part),
        };
    }
    Ok(model)
}

/// Takes two steps of gradient descent. Returns all values, the peak of memory, and the submissions and plans of the second
/// step.
fn train(place: Place, checkpointed: bool) -> Result<(Vec<Vec<f32>>, u64, [u64; 2])> {
    let device = place.open().expect("it was there before");
    let model = deep(&device, checkpointed)?;
    let mut optimizer = Optimizer::new(Sgd::new(0.5), &model.parameters())?;
    let x = device.uniform(&[ROWS, WIDTH], -1.0, 1.0, 3)?;
    let mut grown = [0; 2];
    for _ in 0..4 {
        let before = device.stats();
        let loss = model.forward(&x)?.sub(0.5)?.square().mean(())?;
        optimizer.minimize(&loss)?;
        let after = device.stats();
        grown = [after.submits - before.submits, after.plans - before.plans];
    }
    let mut values = Vec::new();
    for value in model.state_dict().into_values() {
        values.push(block_on(value.read::<f32>())?);
    }
    Ok((values, device.stats().peak_bytes, grown))
}

#[test]
fn a_deep_net_takes_less_memory_and_learns_the_same() {
    for place in [Place::Cpu, Place::Wgpu] {
        if let Err(error) = place.open() {
            crate::suite::absent(place, "checkpoints", &error);
            continue;
        }
        let (want, before, _) = train(place, false).expect("it trains");
        let (got, after, grown) = train(place, true).expect("it trains");
        println!("{}: {before} bytes without, {after} with", place.name());
        assert!(after * 10 < before * 6, "{}: {after} of {before} bytes", place.name());
        assert_eq!(grown, [1, 0], "a step is one submission, and plans nothing anew");
        for (got, want) in got.iter().zip(&want) {
            let near = |(got, want): (&f32, &f32)| (got - want).abs() <= 1e-6 + 1e-5 * want.abs();
            assert!(got.iter().zip(want).all(near), "{}: {got:?}, not {want:?}", place.name());
        }
    }
}

/// Computes gradients with a program. Returns them, and the peak of memory.
fn gradients_of_a_program(place: Place, checkpointed: bool) -> Result<(Vec<Vec<f32>>, u64)> {
    let device = place.open().expect("it was there before");
    let model = deep(&device, checkpointed)?;
    let program = device.compile(&[(&[ROWS, WIDTH], DType::F32)], |x| {
        let loss = model.forward(&x[0])?.sub(0.5)?.square().mean(())?;
        let values: Vec<Tensor> = model.parameters().iter().map(Variable::value).collect();
        loss.grad(&values.iter().collect::<Vec<_>>())
    })?;
    let gradients = program.run(&[&device.uniform(&[ROWS, WIDTH], -1.0, 1.0, 3)?])?;
    let read = block_on(device.read::<f32>(&gradients.iter().collect::<Vec<_>>()))?;
    Ok((read, device.stats().peak_bytes))
}

#[test]
fn a_deep_net_takes_less_memory_in_a_program() {
    for place in [Place::Cpu, Place::Wgpu] {
        if let Err(error) = place.open() {
            crate::suite::absent(place, "checkpoints in programs", &error);
            continue;
        }
        let (want, before) = gradients_of_a_program(place, false).expect("it runs");
        let (got, after) = gradients_of_a_program(place, true).expect("it runs");
        println!("{}: {before} bytes without, {after} with", place.name());
        assert!(after * 10 < before * 6, "{}: {after} of {before} bytes", place.name());
        for (got, want) in got.iter().zip(&want) {
            let near = |(got, want): (&f32, &f32)| (got - want).abs() <= 1e-6 + 1e-5 * want.abs();
            assert!(got.iter().zip(want).all(near), "{}: {got:?}, not {want:?}", place.name());
        }
    }
}

/// Returns `sin(w x)^2 + x`.
fn part(x: &Tensor, w: &Tensor) -> Result<Tensor> {
    x.mul(w)?.sin().square().add(x)
}

#[test]
fn gradients_pass_checkpoints_inside_and_beside_each_other() {
    everywhere("checkpoints", |device| {
        let (x, w) = (device.tensor(&[1.5f32], &[1])?, device.tensor(&[0.5f32], &[1])?);
        let inner = |x: &Tensor| x.checkpoint(|x| part(x, &w));
        let twice = x.checkpoint(|x| inner(x)?.mul(2)?.checkpoint(|x| part(x, &w)))?;
        let [by_x, by_w] = &twice.grad(&[&x, &w])?[..] else { unreachable!() };
        let again = by_x.grad(&[&x])?.remove(0);
        // The expected derivatives in `f64`, from differences.
        let part = |x: f64, w: f64| (w * x).sin().powi(2) + x;
        let all = |x: f64, w: f64| part(2.0 * part(x, w), w);
        let d = 1e-4;
        let want = [
            (all(1.5 + d, 0.5) - all(1.5 - d, 0.5)) / (2.0 * d),
            (all(1.5, 0.5 + d) - all(1.5, 0.5 - d)) / (2.0 * d),
            (all(1.5 + d, 0.5) - 2.0 * all(1.5, 0.5) + all(1.5 - d, 0.5)) / (d * d),
        ];
        let got = block_on(device.read::<f32>(&[by_x, by_w, &again]))?.concat();
        for (got, want) in got.iter().zip(want) {
            assert!(
                (f64::from(*got) - want).abs() < 1e-4 * want.abs().max(1.0),
                "{got}, not {want}"
            );
        }
        // A value from inside the part is the same as without a checkpoint.
        let mut seen = None;
        let y = x.checkpoint(|x| {
            let square = x.square();
            seen = Some(square.clone());
            Ok(square.exp())
        })?;
        let square = seen.expect("the work was done");
        let got = block_on(y.grad(&[&square])?[0].item::<f32>())?;
        assert!((f64::from(got) - 2.25f64.exp()).abs() < 1e-4, "{got}");
        // A part that returns its input, and a part that does not depend on it.
        assert_eq!(block_on(x.checkpoint(|x| Ok(x.clone()))?.grad(&[&x])?[0].item::<f32>())?, 1.0);
        assert_eq!(block_on(x.checkpoint(|_| Ok(w.exp()))?.grad(&[&x])?[0].item::<f32>())?, 0.0);
        Ok(())
    });
}

#[test]
fn dropout_drops_the_same_again() {
    everywhere("checkpointed dropout", |device| {
        let x = Variable::new(&device.ones(&[1000])?);
        let generator = Generator::new(device, 5);
        let part = Checkpoint::new(Dropout::new(&generator, 0.5)?);
        let y = part.forward(&x.value())?;
        y.sum(())?.backward(&[&x])?;
        let gradient = x.take_gradient().expect("backward left one");
        let read = block_on(device.read::<f32>(&[&y, &gradient]))?;
        assert_eq!(read[0], read[1]);
        let kept = read[0].iter().filter(|y| **y > 0.0).count();
        assert!((400..600).contains(&kept), "{kept} of 1000");
        Ok(())
    });
}
