//! Tests programs that assign variables, on the CPU and on a GPU or a software GPU.

use super::found::{data, near, on, on_each_device, variable};
use crate::suite::Place;
use pollster::block_on;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::nn::{BatchNorm, Generator, Layer, Module};
use warpweft::optim::{Optimizer, Sgd};
use warpweft::tensor::Tensor;

on_each_device! {
    programs_assign_variables_when_they_run
    programs_write_variables_in_place
    programs_assign_parameters
    running_averages_are_part_of_a_program
    a_long_loop_of_runs_stays_flat
}

fn programs_assign_variables_when_they_run(device: &Device) -> Result<()> {
    let (w, u) = (variable(device, &[1.0, 2.0])?, variable(device, &[3.0, 4.0])?);
    let build = |x: &[Tensor]| {
        w.assign(&w.value().add(&x[0])?)?;
        w.assign(&w.value().mul(2)?)?;
        u.assign(&x[0])?;
        Ok(vec![w.value().add(&u.value())?, u.value()])
    };
    let program = device.compile(&[(&[2], DType::F32)], build)?;
    near(&w.value(), &[1.0, 2.0]);
    let x = data(device, &[10.0, 20.0])?;
    let results = program.run(&[&x])?;
    near(&results[0], &[32.0, 64.0]);
    near(&results[1], &[10.0, 20.0]);
    near(&w.value(), &[22.0, 44.0]);
    w.assign(&data(device, &[0.0, 1.0])?)?;
    near(&program.run(&[&x])?[0], &[30.0, 62.0]);
    near(&w.value(), &[20.0, 42.0]);
    near(&u.value(), &[10.0, 20.0]);
    // Gradients pass to the input through both.
    let gradient = w.value().mul(&u.value())?.sum(())?.grad(&[&x])?;
    near(&gradient[0], &[2.0 * 10.0 + 20.0, 2.0 * 20.0 + 42.0]);
    Ok(())
}

fn programs_write_variables_in_place(device: &Device) -> Result<()> {
    let (cache, count) = (variable(device, &[0.0; 8])?, variable(device, &[0.0])?);
    let build = |x: &[Tensor]| {
        cache.assign(&cache.value().mul(0.5)?.add(&x[0])?.detach())?;
        count.assign(&count.value().add(1)?.detach())?;
        Ok(vec![x[0].mul(2)?])
    };
    let program = device.compile(&[(&[8], DType::F32)], build)?;
    let x = data(device, &[1.0; 8])?;
    let mut expected = 0.0;
    let mut run = |held: Option<&Tensor>| {
        expected = expected * 0.5 + 1.0;
        let results = program.run(&[&x])?;
        let in_place = program.plan()?.in_place.len();
        near(&results[0], &[2.0; 8]);
        near(&cache.value(), &[expected; 8]);
        assert_eq!(in_place, if held.is_some() { 1 } else { 2 }, "variables written in place");
        Ok(())
    };
    for _ in 0..3 {
        run(None)?;
    }
    // A value that is held does not change.
    let held = cache.value();
    run(Some(&held))?;
    run(None)?;
    near(&held, &[1.75; 8]);
    drop(held);
    run(None)?;
    near(&count.value(), &[6.0]);
    Ok(())
}

fn programs_assign_parameters(device: &Device) -> Result<()> {
    let (w, u) = (variable(device, &[1.0, 2.0])?, variable(device, &[3.0, 4.0])?);
    let mut sgd = Optimizer::new(Sgd::new(1.0), &[w.clone(), u.clone()])?;
    let clip = device.compile(&[(&[], DType::F32)], |most| {
        w.assign(&w.value().minimum(&most[0])?.detach())?;
        Ok(vec![w.value()])
    })?;
    for most in [1.5, 1.25] {
        near(&clip.run(&[&data(device, &[most])?.reshape(())?])?[0], &[1.0, most]);
        near(&u.value(), &[3.0, 4.0]);
    }
    sgd.minimize(&w.value().mul(&u.value())?.sum(())?)?;
    near(&w.value(), &[-2.0, -2.75]);
    near(&u.value(), &[2.0, 2.75]);
    Ok(())
}

fn running_averages_are_part_of_a_program(device: &Device) -> Result<()> {
    let norms = [0, 1].map(|_| BatchNorm::new(&Generator::new(device, 1), 2));
    let [eager, compiled] = norms;
    let (eager, compiled) = (eager?, compiled?);
    let build = |x: &[Tensor]| Ok(vec![compiled.forward(&x[0])?]);
    let program = device.compile(&[(&[4, 2], DType::F32)], build)?;
    for n in 0..4 {
        let rows: Vec<f32> = (0..8).map(|i| ((i * i + n * 3) % 7) as f32).collect();
        let x = device.tensor(&rows, &[4, 2])?;
        near(&program.run(&[&x])?[0], &block_on(eager.forward(&x)?.read::<f32>())?);
    }
    for norm in [&eager, &compiled] {
        norm.set_training(false);
    }
    let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0], &[2, 2])?;
    near(&compiled.forward(&x)?, &block_on(eager.forward(&x)?.read::<f32>())?);
    Ok(())
}

/// Tests ten thousand runs that are not awaited, with inputs of five lengths, failed calls, values that are held for a while,
/// and optimizer steps on the same variable.
fn a_long_loop_of_runs_stays_flat(device: &Device) -> Result<()> {
    let (sum, weight) = (variable(device, &[0.0])?, variable(device, &[1.0, 1.0])?);
    let mut sgd = Optimizer::new(Sgd::new(0.0), std::slice::from_ref(&weight))?;
    let (total, scale) = (sum.clone(), weight.clone());
    let build = move |x: &[Tensor]| {
        total.assign(&total.value().add(&x[0].sum(0)?)?.detach())?;
        scale.assign(&scale.value().maximum(&x[0].max(0)?)?.detach())?;
        Ok(vec![x[0].mul(&total.value())?])
    };
    let program = device.compile_dynamic(&[(&["n".into()], DType::F32)], build)?;
    let (mut expected, mut held, mut early) = (0, None, None);
    for n in 0..10_000usize {
        let length = 1 + n % 5;
        program.run(&[&device.ones(&[length])?])?;
        expected += length;
        match n % 100 {
            10 => held = Some(sum.value()),
            12 => held = None,
            50 => {
                let refused = program.run(&[&device.ones(&[2, 2])?]).map(drop);
                assert_eq!(refused.expect_err("two axes").kind(), ErrorKind::Shape);
            }
            70 => sgd.minimize(&weight.value().sum(())?)?,
            _ => {}
        }
        if n == 999 {
            near(&sum.value(), &[expected as f32]);
            let stats = device.stats();
            early = Some((stats.plans, stats.used_bytes, stats.peak_bytes, stats.nodes));
        }
    }
    drop(held);
    near(&sum.value(), &[expected as f32]);
    near(&weight.value(), &[1.0, 1.0]);
    let stats = device.stats();
    let late = (stats.plans, stats.used_bytes, stats.peak_bytes, stats.nodes);
    assert_eq!(Some(late), early, "plans, bytes in use, most bytes, nodes");
    Ok(())
}
