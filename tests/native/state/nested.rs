//! Tests programs that run inside the functions of other programs, whose operations, variables and draws become theirs.

use super::found::{on, on_each_device};
use crate::suite::Place;
use pollster::block_on;
use std::cell::RefCell;
use std::collections::BTreeMap;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::nn::{Dropout, Generator, Layer, Linear, Module};
use warpweft::optim::{Optimizer, Sgd};
use warpweft::tensor::{Dim, Tensor, Variable};

on_each_device! {
    an_inner_program_computes
    an_inner_program_returns_what_is_not_computed
    an_inner_program_reads_and_assigns_variables
    gradients_pass_an_inner_program
    an_inner_program_has_a_named_dimension
    an_inner_program_draws
    accumulating_inside_a_program_is_refused
    a_state_is_loaded_at_each_run
}

const SPEC: [(&[usize], DType); 1] = [(&[2], DType::F32)];

fn read(x: &Tensor) -> Result<Vec<f32>> {
    block_on(x.read::<f32>())
}

fn pair(device: &Device, a: f32, b: f32) -> Result<Tensor> {
    device.tensor(&[a, b], &[2])
}

fn an_inner_program_computes(device: &Device) -> Result<()> {
    let c = pair(device, 10.0, 20.0)?;
    let inner = device.compile(&SPEC, |x| Ok(vec![x[0].mul(&c)?, x[0].square()]))?;
    let outer = device.compile(&SPEC, |x| {
        let twice = inner.run(&[&inner.run(&[&x[0].add(1.0)?])?[1]])?;
        Ok(vec![twice[0].clone(), twice[1].clone(), x[0].neg()])
    })?;
    for start in [1.0, 3.0] {
        let results = outer.run(&[&pair(device, start, 0.0)?])?;
        let square = (start + 1.0) * (start + 1.0);
        assert_eq!(read(&results[0])?, [10.0 * square, 20.0]);
        assert_eq!(read(&results[1])?, [square * square, 1.0]);
        assert_eq!(read(&results[2])?, [-start, 0.0]);
    }
    Ok(())
}

fn an_inner_program_returns_what_is_not_computed(device: &Device) -> Result<()> {
    let v = Variable::new(&pair(device, 5.0, 6.0)?);
    let (own, c) = (v.clone(), pair(device, 7.0, 8.0)?);
    let inner = device
        .compile(&SPEC, |x| Ok(vec![x[0].clone(), own.value(), c.clone(), device.ones(&[2])?]))?;
    let outer = device.compile(&SPEC, |x| inner.run(&[&x[0].mul(2.0)?]))?;
    v.assign(&pair(device, 50.0, 60.0)?)?;
    let results = outer.run(&[&pair(device, 1.0, 2.0)?])?;
    let want = [[2.0, 4.0], [50.0, 60.0], [7.0, 8.0], [1.0, 1.0]];
    for (result, want) in results.iter().zip(want) {
        assert_eq!(read(result)?, want);
    }
    Ok(())
}

fn an_inner_program_reads_and_assigns_variables(device: &Device) -> Result<()> {
    let v = Variable::new(&pair(device, 1.0, 2.0)?);
    let own = v.clone();
    let inner = device.compile(&SPEC, |x| {
        own.assign(&own.value().add(&x[0])?)?;
        Ok(vec![own.value().mul(10.0)?])
    })?;
    let own = v.clone();
    let outer = device.compile(&SPEC, |x| {
        own.assign(&own.value().mul(2.0)?)?;
        let first = inner.run(&[&x[0]])?.remove(0);
        let second = inner.run(&[&x[0]])?.remove(0);
        Ok(vec![first, second, own.value()])
    })?;
    assert_eq!(read(&v.value())?, [1.0, 2.0]);
    let x = pair(device, 1.0, 1.0)?;
    let results = outer.run(&[&x])?;
    assert_eq!(read(&results[0])?, [30.0, 50.0]);
    assert_eq!(read(&results[1])?, [40.0, 60.0]);
    assert_eq!(read(&results[2])?, [4.0, 6.0]);
    assert_eq!(read(&v.value())?, [4.0, 6.0]);
    inner.run(&[&x])?;
    outer.run(&[&x])?;
    assert_eq!(read(&v.value())?, [12.0, 16.0]);
    Ok(())
}

fn gradients_pass_an_inner_program(device: &Device) -> Result<()> {
    let w = Variable::new(&pair(device, 1.0, 2.0)?);
    let mut optimizer = Optimizer::new(Sgd::new(0.5), std::slice::from_ref(&w))?;
    let own = w.clone();
    let inner = device.compile(&SPEC, |x| Ok(vec![x[0].mul(&own.value())?.square()]))?;
    let outer = device.compile(&SPEC, |x| Ok(vec![inner.run(&[&x[0].mul(2.0)?])?[0].sum(())?]))?;
    // (2 x w)^2 has the derivatives 8 x w^2 and 8 x^2 w.
    let x = pair(device, 1.0, 3.0)?;
    let loss = outer.run(&[&x])?.remove(0);
    assert_eq!(read(&loss.grad(&[&x])?[0])?, [8.0, 96.0]);
    optimizer.minimize(&loss)?;
    assert_eq!(read(&w.value())?, [-3.0, -70.0]);
    let own = w.clone();
    let within = device.compile(&SPEC, |x| {
        let loss = inner.run(&[&x[0]])?.remove(0).sum(())?;
        loss.grad(&[&x[0], &own.value()])
    })?;
    let slopes = within.run(&[&x])?;
    assert_eq!(read(&slopes[0])?, [18.0, 2.0 * 3.0 * 4900.0]);
    assert_eq!(read(&slopes[1])?, [-6.0, 2.0 * 9.0 * -70.0]);
    Ok(())
}

fn an_inner_program_has_a_named_dimension(device: &Device) -> Result<()> {
    let rows: [Dim; 2] = ["n".into(), 2.into()];
    let inner = device.compile_dynamic(&[(&rows, DType::F32)], |x| Ok(vec![x[0].mean(0)?]))?;
    let build = move |x: &[Tensor]| Ok(vec![inner.run(&[&x[0]])?.remove(0).mul(2.0)?]);
    let outer = device.compile_dynamic(&[(&rows, DType::F32)], build)?;
    for n in [1, 2, 3, 4, 2] {
        let x = device.full(&[n, 2], n as f64, DType::F32)?;
        assert_eq!(read(&outer.run(&[&x])?[0])?, [2.0 * n as f32; 2]);
    }
    Ok(())
}

fn an_inner_program_draws(device: &Device) -> Result<()> {
    const COUNT: usize = 64;
    let layer = Dropout::new(&Generator::new(device, 7), 0.5)?;
    let spec: [(&[usize], DType); 1] = [(&[COUNT], DType::F32)];
    let inner = device.compile(&spec, |x| Ok(vec![layer.forward(&x[0])?]))?;
    let outer = device.compile(&spec, |x| {
        Ok(vec![inner.run(&[&x[0]])?.remove(0), inner.run(&[&x[0]])?.remove(0)])
    })?;
    let plain = Dropout::new(&Generator::new(device, 7), 0.5)?;
    let x = device.ones(&[COUNT])?;
    for _ in 0..2 {
        for result in outer.run(&[&x])? {
            assert_eq!(read(&result)?, read(&plain.forward(&x)?)?);
        }
    }
    Ok(())
}

fn accumulating_inside_a_program_is_refused(device: &Device) -> Result<()> {
    let w = Variable::new(&pair(device, 1.0, 2.0)?);
    let optimizer = RefCell::new(Optimizer::new(Sgd::new(1.0), std::slice::from_ref(&w))?);
    device.compile(&SPEC, |x| {
        let loss = x[0].mul(&w.value())?.sum(())?;
        let error = optimizer.borrow_mut().accumulate(&loss).expect_err("it is refused");
        assert!(error.message().starts_with("accumulate: the value must not depend"), "{error}");
        Ok(vec![loss])
    })?;
    optimizer.borrow_mut().minimize(&w.value().sum(())?)?;
    assert_eq!(read(&w.value())?, [0.0, 1.0]);
    Ok(())
}

fn a_state_is_loaded_at_each_run(device: &Device) -> Result<()> {
    let layer = Linear::new(&Generator::new(device, 1), 2, 1)?;
    let zeros = layer
        .state_dict()
        .into_iter()
        .map(|(name, x)| Ok((name, x.mul(0)?)))
        .collect::<Result<BTreeMap<_, _>>>()?;
    let first = read(&layer.state_dict()["weight"])?;
    let program = device.compile(&SPEC, |x| {
        layer.load_state_dict(&zeros)?;
        Ok(vec![layer.forward(&x[0])?])
    })?;
    assert_eq!(read(&layer.state_dict()["weight"])?, first);
    for _ in 0..2 {
        assert_eq!(read(&program.run(&[&pair(device, 1.0, 2.0)?])?[0])?, [0.0]);
        let weight = &layer.parameters()[0];
        assert_eq!(read(&weight.value())?, [0.0, 0.0]);
        weight.assign(&weight.value().add(1)?.detach())?;
    }
    Ok(())
}
