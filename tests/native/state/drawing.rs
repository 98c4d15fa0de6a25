//! Tests random numbers in programs. Each run draws new numbers, and gradients use those of their run.

use super::found::{on, on_each_device};
use crate::suite::Place;
use pollster::block_on;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::nn::{Dropout, Generator, Layer, Linear, Module};
use warpweft::optim::{Optimizer, Sgd};
use warpweft::tensor::{Tensor, Variable};

on_each_device! {
    a_run_draws_what_calls_without_a_program_draw
    a_run_draws_in_the_order_of_the_program
    gradients_use_the_numbers_of_their_run
    a_fixed_seed_gives_the_same_numbers_in_all_runs
    a_seed_that_several_operations_use_is_drawn_once
    layers_may_be_created_in_a_program
    a_trained_program_draws_in_every_step
}

const COUNT: usize = 64;

fn read(x: &Tensor) -> Result<Vec<f32>> {
    block_on(x.read::<f32>())
}

fn generator(device: &Device) -> Generator {
    Generator::new(device, 7)
}

fn a_run_draws_what_calls_without_a_program_draw(device: &Device) -> Result<()> {
    let x = device.ones(&[COUNT])?;
    let (plain, own) = (generator(device), generator(device));
    let layer = Dropout::new(&plain, 0.5)?;
    let inner = Dropout::new(&own, 0.5)?;
    let build = move |x: &[Tensor]| Ok(vec![inner.forward(&x[0])?, inner.forward(&x[0])?]);
    let program = device.compile(&[(&[COUNT], DType::F32)], build)?;
    assert_eq!(own.drawn(), 0, "compiling draws nothing");
    let mut seen: Vec<Vec<f32>> = Vec::new();
    for run in 0..3 {
        for result in program.run(&[&x])? {
            let result = read(&result)?;
            assert_eq!(result, read(&layer.forward(&x)?)?, "run {run}");
            assert!(!seen.contains(&result), "run {run}");
            seen.push(result);
        }
    }
    assert_eq!(own.drawn(), 6);
    Ok(())
}

fn a_run_draws_in_the_order_of_the_program(device: &Device) -> Result<()> {
    let x = device.ones(&[COUNT])?;
    let two = |of: &Generator| Ok([Dropout::new(of, 0.5)?, Dropout::new(of, 0.25)?]);
    let (plain, own) = (generator(device), generator(device));
    let ([a, b], [c, d]) = (two(&plain)?, two(&own)?);
    let build = move |x: &[Tensor]| {
        // The result of this one is not used.
        drop(c.forward(&x[0])?);
        Ok(vec![d.forward(&c.forward(&x[0])?)?])
    };
    let program = device.compile(&[(&[COUNT], DType::F32)], build)?;
    for run in 0..2 {
        drop(a.forward(&x)?);
        let want = read(&b.forward(&a.forward(&x)?)?)?;
        assert_eq!(read(&program.run(&[&x])?[0])?, want, "run {run}");
        assert_eq!(own.drawn(), plain.drawn());
    }
    Ok(())
}

fn gradients_use_the_numbers_of_their_run(device: &Device) -> Result<()> {
    let inner = Dropout::new(&generator(device), 0.5)?;
    let build = move |x: &[Tensor]| Ok(vec![inner.forward(&x[0])?.square()]);
    let program = device.compile(&[(&[COUNT], DType::F32)], build)?;
    let x = device.ones(&[COUNT])?;
    let (first, second) = (program.run(&[&x])?.remove(0), program.run(&[&x])?.remove(0));
    for result in [second, first] {
        // A kept element is (2 x)^2, whose derivative is 8 x.
        let want: Vec<f32> = read(&result)?.iter().map(|y| 2.0 * y).collect();
        assert_eq!(read(&result.sum(())?.grad(&[&x])?[0])?, want);
    }
    Ok(())
}

fn a_fixed_seed_gives_the_same_numbers_in_all_runs(device: &Device) -> Result<()> {
    let inner = device.clone();
    let build = move |_: &[Tensor]| Ok(vec![inner.uniform(&[COUNT], 0.0, 1.0, 5)?]);
    let program = device.compile(&[(&[1], DType::F32)], build)?;
    let want = read(&device.uniform(&[COUNT], 0.0, 1.0, 5)?)?;
    for _ in 0..2 {
        assert_eq!(read(&program.run(&[&device.ones(&[1])?])?[0])?, want);
    }
    Ok(())
}

fn a_seed_that_several_operations_use_is_drawn_once(device: &Device) -> Result<()> {
    let (inner, own) = (device.clone(), generator(device));
    let draws = own.clone();
    let build = move |_: &[Tensor]| {
        let seed = draws.draw();
        let uniform = || inner.uniform(&[COUNT], 0.0, 1.0, seed);
        Ok(vec![uniform()?, uniform()?, inner.normal(&[COUNT], 0.0, 1.0, seed)?])
    };
    let program = device.compile(&[(&[1], DType::F32)], build)?;
    let plain = generator(device);
    for run in 0..2 {
        let results = program.run(&[&device.ones(&[1])?])?;
        let seed = plain.draw();
        let want = read(&device.uniform(&[COUNT], 0.0, 1.0, seed)?)?;
        assert_eq!(read(&results[0])?, want, "run {run}");
        assert_eq!(read(&results[1])?, want, "run {run}");
        let want = read(&device.normal(&[COUNT], 0.0, 1.0, seed)?)?;
        assert_eq!(read(&results[2])?, want, "run {run}");
        assert_eq!(own.drawn(), run + 1);
    }
    Ok(())
}

fn layers_may_be_created_in_a_program(device: &Device) -> Result<()> {
    let own = generator(device);
    let build = move |x: &[Tensor]| Ok(vec![Linear::new(&own, 3, 2)?.forward(&x[0])?]);
    let program = device.compile(&[(&[1, 3], DType::F32)], build)?;
    let x = device.ones(&[1, 3])?;
    let want = read(&Linear::new(&generator(device), 3, 2)?.forward(&x)?)?;
    for _ in 0..2 {
        assert_eq!(read(&program.run(&[&x])?[0])?, want);
    }
    Ok(())
}

fn a_trained_program_draws_in_every_step(device: &Device) -> Result<()> {
    // The parameter sums up the masks of all steps.
    let w = Variable::new(&device.zeros(&[COUNT])?);
    let mut optimizer = Optimizer::new(Sgd::new(1.0), std::slice::from_ref(&w))?;
    let (inner, own) = (w.clone(), Dropout::new(&generator(device), 0.5)?);
    assert!(own.parameters().is_empty());
    let build = move |x: &[Tensor]| Ok(vec![own.forward(&inner.value())?.mul(&x[0])?.sum(())?]);
    let program = device.compile(&[(&[COUNT], DType::F32)], build)?;
    let x = device.ones(&[COUNT])?;
    let plain = Dropout::new(&generator(device), 0.5)?;
    let mut want = vec![0.0; COUNT];
    for _ in 0..5 {
        optimizer.minimize(&program.run(&[&x])?.remove(0))?;
        for (sum, kept) in want.iter_mut().zip(read(&plain.forward(&x)?)?) {
            *sum -= kept;
        }
    }
    assert_eq!(read(&w.value())?, want);
    Ok(())
}
