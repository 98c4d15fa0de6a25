//! Faults that were found by hand, with one small test each. Every test states the right values, and runs on the CPU and on a
//! GPU or a software GPU.
//!
//! `docs/state.md` has the rules behind the values.

use crate::suite::{absent, Place};
use pollster::block_on;
use std::collections::BTreeMap;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::nn::{Generator, Layer, Linear, LossReduction, Module};
use warpweft::optim::{Adam, Lion, LossScale, NAdam, Optimizer, Rule, Sgd, WeightAverage};
use warpweft::tensor::{Dim, Tensor, Variable};
use warpweft::train::{DataLoader, Dataset, Trainer};

/// Runs a test on one kind of device.
pub fn on(place: Place, name: &str, work: fn(&Device) -> Result<()>) {
    match place.open() {
        Ok(device) => work(&device).unwrap_or_else(|error| panic!("{name}: {error}")),
        Err(error) => absent(place, name, &error),
    }
}

macro_rules! on_each_device {
    ($($name:ident)*) => {
        mod on_cpu {
            use super::{on, Place};
            $( #[test] fn $name() { on(Place::Cpu, stringify!($name), super::$name); } )*
        }
        mod on_wgpu {
            use super::{on, Place};
            $( #[test] fn $name() { on(Place::Wgpu, stringify!($name), super::$name); } )*
        }
    };
}

pub(super) use on_each_device;

on_each_device! {
    a_loss_from_before_another_assignment_has_its_gradients
    a_loss_from_before_another_assignment_can_be_minimized
    creating_an_optimizer_keeps_gradients
    variables_of_one_tensor_have_gradients_of_their_own
    the_gradient_by_a_variable_is_not_that_by_the_tensor
    assigned_parts_of_a_flat_variable_pass_gradients
    gradients_pass_a_program_to_a_captured_leaf
    gradients_pass_a_program_to_a_captured_view
    gradients_pass_a_program_to_its_inputs
    gradients_pass_a_program_to_a_value_of_a_variable
    gradients_pass_a_program_to_a_parameter
    gradients_pass_a_program_to_a_variable_that_it_reads
    gradients_pass_a_program_with_a_named_dimension
    gradients_pass_a_program_of_an_eager_device
    gradients_pass_between_the_results_of_a_program
    programs_read_variables_when_they_run
    programs_with_named_dimensions_read_variables_when_they_run
    loading_into_a_trainer_keeps_the_model_usable
    loading_into_a_trainer_with_lion_keeps_the_model_usable
    loading_into_a_trainer_with_nadam_keeps_the_model_usable
    loading_into_a_trainer_with_an_average_keeps_the_model_usable
    loading_into_a_trainer_in_mixed_precision_keeps_the_model_usable
    evaluating_after_loading_works
    a_batch_of_your_own_does_not_move_the_position
    a_checkpoint_holds_accumulated_gradients
    a_tensor_that_was_assigned_after_another_can_be_read
    a_slice_can_be_assigned_while_the_value_is_held
    two_variables_can_be_swapped
    a_condition_keeps_the_value_that_was_assigned
    an_optimizer_makes_no_zeros_of_a_history_that_is_gone
    a_gradient_has_derivatives_by_a_transposed_operand
    a_gradient_has_derivatives_by_slices_that_are_rows_of_one_tensor
    two_variables_can_be_swapped_after_a_slice_was_assigned
    an_average_can_be_swapped_after_an_assignment
    an_average_of_parameters_of_another_optimizer_is_refused
    names_of_a_state_do_not_depend_on_types
    looking_for_what_is_not_finite_twice
    looking_for_what_is_not_finite_after_reading
    a_minimize_that_fails_changes_nothing
}

fn read(tensor: &Tensor) -> Result<Vec<f32>> {
    block_on(tensor.read::<f32>())
}

#[track_caller]
pub fn near(got: &Tensor, want: &[f32]) {
    let got = read(got).unwrap_or_else(|error| panic!("want {want:?}, got the error: {error}"));
    let close = |(g, w): (&f32, &f32)| (g - w).abs() <= 1e-5 + 1e-4 * w.abs();
    let same = got.len() == want.len() && got.iter().zip(want).all(close);
    assert!(same, "got {got:?}, want {want:?}");
}

pub fn data(device: &Device, values: &[f32]) -> Result<Tensor> {
    device.tensor(values, &[values.len()])
}

pub fn variable(device: &Device, values: &[f32]) -> Result<Variable> {
    Ok(Variable::new(&data(device, values)?))
}

/// Returns two parameters, and gradient descent with a learning rate of 1.
fn two_parameters(device: &Device) -> Result<(Variable, Variable, Optimizer)> {
    let (w, u) = (variable(device, &[1.0, 2.0, 3.0])?, variable(device, &[4.0, 5.0, 6.0])?);
    let optimizer = Optimizer::new(Sgd::new(1.0), &[w.clone(), u.clone()])?;
    Ok((w, u, optimizer))
}

fn a_loss_from_before_another_assignment_has_its_gradients(device: &Device) -> Result<()> {
    let (w, u, _optimizer) = two_parameters(device)?;
    let y = w.value().square();
    u.assign(&data(device, &[7.0, 8.0, 9.0])?)?;
    near(&y.sum(())?.grad(&[&w.value()])?[0], &[2.0, 4.0, 6.0]);
    Ok(())
}

fn a_loss_from_before_another_assignment_can_be_minimized(device: &Device) -> Result<()> {
    let (w, u, mut optimizer) = two_parameters(device)?;
    let y = w.value().square();
    u.assign(&data(device, &[7.0, 8.0, 9.0])?)?;
    optimizer.minimize(&y.sum(())?.add(&u.value().sum(())?)?)?;
    near(&w.value(), &[-1.0, -2.0, -3.0]);
    near(&u.value(), &[6.0, 7.0, 8.0]);
    Ok(())
}

fn creating_an_optimizer_keeps_gradients(device: &Device) -> Result<()> {
    let (w, u) = (variable(device, &[1.0, 2.0, 3.0])?, variable(device, &[4.0, 5.0, 6.0])?);
    let y = w.value().square();
    let mut optimizer = Optimizer::new(Sgd::new(1.0), &[w.clone(), u.clone()])?;
    optimizer.minimize(&y.sum(())?.add(&u.value().sum(())?)?)?;
    near(&w.value(), &[-1.0, -2.0, -3.0]);
    near(&u.value(), &[3.0, 4.0, 5.0]);
    Ok(())
}

fn variables_of_one_tensor_have_gradients_of_their_own(device: &Device) -> Result<()> {
    let z = data(device, &[1.0, 2.0])?;
    let (a, b) = (Variable::new(&z), Variable::new(&z));
    let loss = a.value().mul(2)?.add(&b.value().mul(3)?)?.sum(())?;
    loss.backward(&[&a, &b])?;
    near(&a.gradient().expect("one of a"), &[2.0, 2.0]);
    near(&b.gradient().expect("one of b"), &[3.0, 3.0]);
    near(&loss.grad(&[&z])?[0], &[5.0, 5.0]);
    Ok(())
}

fn the_gradient_by_a_variable_is_not_that_by_the_tensor(device: &Device) -> Result<()> {
    let z = data(device, &[1.0, 2.0])?;
    let a = Variable::new(&z);
    let loss = a.value().mul(2)?.add(&z.mul(3)?)?.sum(())?;
    let gradients = loss.grad(&[&a.value(), &z])?;
    near(&gradients[0], &[2.0, 2.0]);
    near(&gradients[1], &[5.0, 5.0]);
    Ok(())
}

/// Tests the flat variable in which an optimizer stores its parameters, and which users cannot see.
fn assigned_parts_of_a_flat_variable_pass_gradients(device: &Device) -> Result<()> {
    let (w, _u, _optimizer) = two_parameters(device)?;
    let z = data(device, &[1.0, 2.0, 3.0])?;
    w.assign(&z.mul(2)?)?;
    let loss = w.value().square().sum(())?;
    near(&loss.grad(&[&z])?[0], &[8.0, 16.0, 24.0]);
    near(&loss.grad(&[&w.value()])?[0], &[4.0, 8.0, 12.0]);
    Ok(())
}

/// Runs `x -> [2 x, c^2]`, and checks the gradients of the second result by `wrt`, where `c` is `[1, 2]`.
fn captured(device: &Device, c: &Tensor, wrt: &Tensor) -> Result<()> {
    let constant = c.clone();
    let build = move |x: &[Tensor]| Ok(vec![x[0].mul(2)?, constant.square()]);
    let program = device.compile(&[(&[2], DType::F32)], build)?;
    let x = data(device, &[5.0, 6.0])?;
    for _ in 0..2 {
        let results = program.run(&[&x])?;
        near(&results[1], &[1.0, 4.0]);
        near(&results[1].sum(())?.grad(&[wrt])?[0], &[2.0, 4.0]);
    }
    // Both kinds of operands in one operation.
    let constant = c.clone();
    let build = move |x: &[Tensor]| Ok(vec![x[0].mul(&constant)?]);
    let program = device.compile(&[(&[2], DType::F32)], build)?;
    let loss = program.run(&[&x])?.remove(0).sum(())?;
    near(&loss.grad(&[wrt])?[0], &[5.0, 6.0]);
    Ok(())
}

fn gradients_pass_a_program_to_a_captured_leaf(device: &Device) -> Result<()> {
    let c = data(device, &[1.0, 2.0])?;
    captured(device, &c, &c)
}

fn gradients_pass_a_program_to_a_captured_view(device: &Device) -> Result<()> {
    let base = device.tensor(&[1.0f32, 7.0, 2.0, 8.0], &[2, 2])?;
    let c = base.transpose(0, 1)?.slice(0, 0..1)?.reshape(&[2])?;
    captured(device, &c, &c)?;
    let constant = c.clone();
    let build = move |x: &[Tensor]| Ok(vec![x[0].mul(&constant)?]);
    let program = device.compile(&[(&[2], DType::F32)], build)?;
    let loss = program.run(&[&data(device, &[5.0, 6.0])?])?.remove(0).sum(())?;
    near(&loss.grad(&[&base])?[0], &[5.0, 0.0, 6.0, 0.0]);
    Ok(())
}

fn gradients_pass_a_program_to_its_inputs(device: &Device) -> Result<()> {
    let c = data(device, &[1.0, 2.0])?;
    let build = move |x: &[Tensor]| Ok(vec![x[0].mul(2)?, x[0].mul(&c)?.square()]);
    let program = device.compile(&[(&[2], DType::F32)], build)?;
    let x = data(device, &[5.0, 6.0])?;
    let input = x.mul(1)?;
    let results = program.run(&[&input])?;
    near(&results[0].sum(())?.grad(&[&x])?[0], &[2.0, 2.0]);
    near(&results[1].sum(())?.grad(&[&x])?[0], &[10.0, 48.0]);
    Ok(())
}

fn gradients_pass_a_program_to_a_value_of_a_variable(device: &Device) -> Result<()> {
    let v = variable(device, &[1.0, 2.0])?;
    captured(device, &v.value(), &v.value())
}

fn gradients_pass_a_program_to_a_parameter(device: &Device) -> Result<()> {
    let (v, u) = (variable(device, &[1.0, 2.0])?, variable(device, &[3.0])?);
    let _optimizer = Optimizer::new(Adam::new(0.1), &[u, v.clone()])?;
    captured(device, &v.value(), &v.value())
}

fn gradients_pass_a_program_to_a_variable_that_it_reads(device: &Device) -> Result<()> {
    for has_optimizer in [false, true] {
        let (v, u) = (variable(device, &[1.0, 2.0])?, variable(device, &[3.0])?);
        let optimizer = || Optimizer::new(Sgd::new(0.1), &[u.clone(), v.clone()]);
        let _optimizer = if has_optimizer { Some(optimizer()?) } else { None };
        let inner = v.clone();
        let build = move |x: &[Tensor]| Ok(vec![x[0].mul(&inner.value())?]);
        let program = device.compile(&[(&[2], DType::F32)], build)?;
        let x = data(device, &[5.0, 6.0])?;
        let loss = program.run(&[&x])?.remove(0).sum(())?;
        near(&loss.grad(&[&v.value()])?[0], &[5.0, 6.0]);
        near(&loss.grad(&[&x])?[0], &[1.0, 2.0]);
        loss.backward(&[&v])?;
        near(&v.take_gradient().expect("backward left one"), &[5.0, 6.0]);
    }
    Ok(())
}

fn gradients_pass_a_program_with_a_named_dimension(device: &Device) -> Result<()> {
    let (v, c) = (variable(device, &[1.0, 2.0])?, data(device, &[3.0, 4.0])?);
    let (inner, constant) = (v.clone(), c.clone());
    let build =
        move |x: &[Tensor]| Ok(vec![x[0].mul(&inner.value())?.add(&x[0].mul(&constant)?)?]);
    let rows: [Dim; 2] = ["n".into(), 2.into()];
    let program = device.compile_dynamic(&[(&rows, DType::F32)], build)?;
    for n in [1, 2, 3, 4, 2] {
        let x = device.ones(&[n, 2])?;
        let loss = program.run(&[&x])?.remove(0).sum(())?;
        let gradients = loss.grad(&[&v.value(), &c, &x])?;
        near(&gradients[0], &[n as f32; 2]);
        near(&gradients[1], &[n as f32; 2]);
        near(&gradients[2], &[4.0, 6.0].repeat(n));
    }
    Ok(())
}

fn gradients_pass_a_program_of_an_eager_device(device: &Device) -> Result<()> {
    device.run_eagerly(true);
    let c = data(device, &[1.0, 2.0])?;
    captured(device, &c, &c)?;
    gradients_pass_a_program_to_its_inputs(device)?;
    gradients_pass_a_program_to_a_variable_that_it_reads(device)
}

fn gradients_pass_between_the_results_of_a_program(device: &Device) -> Result<()> {
    let (c, x) = (data(device, &[1.0, 2.0])?, data(device, &[3.0, 4.0])?);
    for eager in [false, true] {
        device.run_eagerly(eager);
        let program = device.compile(&[(&[2], DType::F32)], |x| {
            let double = c.mul(2)?;
            Ok(vec![double.clone(), double.mul(&x[0])?, c.detach()])
        })?;
        let results = program.run(&[&x])?;
        near(&results[1].sum(())?.grad(&[&results[0]])?[0], &[3.0, 4.0]);
        // A tensor that is a result twice, and an operand of a third result, all known when the program is compiled.
        let program = device.compile(&[(&[2], DType::F32)], |x| {
            let known = c.detach();
            Ok(vec![known.clone(), known.clone(), known.mul(&x[0])?])
        })?;
        let results = program.run(&[&x])?;
        near(&results[0].sum(())?.grad(&[&results[1]])?[0], &[1.0, 1.0]);
        near(&results[2].sum(())?.grad(&[&results[0]])?[0], &[3.0, 4.0]);
    }
    device.run_eagerly(false);
    Ok(())
}

fn programs_read_variables_when_they_run(device: &Device) -> Result<()> {
    let w = variable(device, &[1.0])?;
    let inner = w.clone();
    let build = move |x: &[Tensor]| Ok(vec![x[0].mul(&inner.value())?, inner.value()]);
    let program = device.compile(&[(&[2], DType::F32)], build)?;
    let x = data(device, &[1.0, 2.0])?;
    near(&program.run(&[&x])?[0], &[1.0, 2.0]);
    w.assign(&data(device, &[10.0])?)?;
    let results = program.run(&[&x])?;
    near(&results[0], &[10.0, 20.0]);
    near(&results[1], &[10.0]);
    Ok(())
}

fn programs_with_named_dimensions_read_variables_when_they_run(device: &Device) -> Result<()> {
    let w = variable(device, &[1.0])?;
    let inner = w.clone();
    let build = move |x: &[Tensor]| Ok(vec![x[0].mul(&inner.value())?]);
    let program = device.compile_dynamic(&[(&["n".into()], DType::F32)], build)?;
    let run = |n: usize| Ok(program.run(&[&device.ones(&[n])?])?.remove(0));
    near(&run(2)?, &[1.0; 2]);
    near(&run(3)?, &[1.0; 3]);
    w.assign(&data(device, &[10.0])?)?;
    for n in [2, 3, 4, 5, 2] {
        near(&run(n)?, &vec![10.0; n]);
    }
    Ok(())
}

type Net = Trainer<Linear>;

/// Returns a layer that learns `y = 3 x` from eight examples, four at a time.
fn trainer(device: &Device, rule: impl Rule + 'static, scale: Option<LossScale>) -> Result<Net> {
    let model = Linear::new(&Generator::new(device, 1), 1, 1)?;
    let mut optimizer = Optimizer::new(rule, &model.parameters())?;
    if let Some(scale) = scale {
        optimizer = optimizer.mixed_precision(scale)?;
    }
    let loader = DataLoader::new(&examples(device)?, 4)?;
    let forward =
        |model: &Linear, x: &Tensor, y: &Tensor| model.forward(x)?.mse_loss(y, LossReduction::Mean);
    Ok(Trainer::new(model, optimizer, loader, forward)?.epochs(5))
}

fn examples(device: &Device) -> Result<Dataset> {
    let x = device.tensor(&[-1.0f32, -0.5, 0.25, 0.5, 0.75, 1.0, 1.25, 1.5], &[8, 1])?;
    Dataset::new(&x, &x.mul(3)?)
}

fn values(model: &Linear) -> Result<Vec<Vec<f32>>> {
    model.parameters().iter().map(|parameter| read(&parameter.value())).collect()
}

/// Saves and loads after two steps. The next two steps must equal the two that followed the save, and the model must work at
/// any time.
fn save_and_load(device: &Device, mut trainer: Net) -> Result<()> {
    let x = device.tensor(&[1.0f32, 2.0], &[2, 1])?;
    // Immediately, before and after the first step.
    for _ in 0..2 {
        let file = block_on(trainer.save(&BTreeMap::new()))?;
        block_on(trainer.load(&file))?;
        read(&trainer.model.forward(&x)?)?;
        block_on(trainer.next_step())?;
    }
    for _ in 0..2 {
        block_on(trainer.next_step())?;
    }
    let file = block_on(trainer.save(&BTreeMap::new()))?;
    let before = values(&trainer.model)?;
    let answer = read(&trainer.model.forward(&x)?)?;
    for _ in 0..2 {
        block_on(trainer.next_step())?;
    }
    let after = values(&trainer.model)?;
    for _ in 0..2 {
        block_on(trainer.load(&file))?;
        near(&trainer.model.forward(&x)?, &answer);
        assert_eq!(values(&trainer.model)?, before);
        assert_eq!(trainer.steps(), 4);
        for _ in 0..2 {
            block_on(trainer.next_step())?;
        }
        assert_eq!(values(&trainer.model)?, after);
    }
    Ok(())
}

fn loading_into_a_trainer_keeps_the_model_usable(device: &Device) -> Result<()> {
    save_and_load(device, trainer(device, Adam::new(0.1), None)?)?;
    save_and_load(device, trainer(device, Sgd::new(0.1), None)?)
}

fn loading_into_a_trainer_with_lion_keeps_the_model_usable(device: &Device) -> Result<()> {
    save_and_load(device, trainer(device, Lion::new(0.1), None)?)
}

fn loading_into_a_trainer_with_nadam_keeps_the_model_usable(device: &Device) -> Result<()> {
    save_and_load(device, trainer(device, NAdam::new(0.1), None)?)
}

fn loading_into_a_trainer_with_an_average_keeps_the_model_usable(device: &Device) -> Result<()> {
    let mut trainer = trainer(device, Sgd::new(0.1), None)?;
    let x = device.tensor(&[1.0f32, 2.0], &[2, 1])?;
    let average = WeightAverage::new(&trainer.optimizer, 0.5)?;
    block_on(trainer.next_step())?;
    average.update()?;
    let file = block_on(trainer.save(&BTreeMap::new()))?;
    let answer = read(&trainer.model.forward(&x)?)?;
    block_on(trainer.next_step())?;
    average.update()?;
    average.swap()?;
    block_on(trainer.load(&file))?;
    near(&trainer.model.forward(&x)?, &answer);
    // Loaded values are swapped with a new average before they are computed.
    block_on(trainer.load(&file))?;
    let average = WeightAverage::new(&trainer.optimizer, 0.5)?;
    for _ in 0..2 {
        average.swap()?;
        device.submit()?;
    }
    near(&trainer.model.forward(&x)?, &answer);
    Ok(())
}

fn loading_into_a_trainer_in_mixed_precision_keeps_the_model_usable(device: &Device) -> Result<()> {
    if !device.limits().f16 {
        return Ok(());
    }
    let scale = LossScale { init_scale: 8.0, growth_interval: 2, ..LossScale::default() };
    save_and_load(device, trainer(device, Adam::new(0.1), Some(scale))?)
}

fn evaluating_after_loading_works(device: &Device) -> Result<()> {
    for mut trainer in [
        trainer(device, Sgd::new(0.1), None)?,
        trainer(device, Adam::new(0.1), None)?,
        trainer(device, Lion::new(0.1), None)?,
    ] {
        let loader = DataLoader::new(&examples(device)?, 4)?;
        block_on(trainer.next_step())?;
        let before = block_on(trainer.evaluate(&loader))?;
        let file = block_on(trainer.save(&BTreeMap::new()))?;
        block_on(trainer.load(&file))?;
        assert_eq!(block_on(trainer.evaluate(&loader))?, before);
        block_on(trainer.next_step())?;
        block_on(trainer.load(&file))?;
        assert_eq!(block_on(trainer.evaluate(&loader))?, before);
        let answer = read(&trainer.model.forward(examples(device)?.features())?)?;
        assert!(answer.iter().all(|value| value.is_finite()));
    }
    Ok(())
}

fn a_batch_of_your_own_does_not_move_the_position(device: &Device) -> Result<()> {
    let losses = |own: bool| -> Result<Vec<f32>> {
        // With a learning rate of 0, the loss identifies the batch.
        let mut trainer = trainer(device, Sgd::new(0.0), None)?;
        let mut losses = Vec::new();
        for n in 0..4 {
            if own && n == 1 {
                let x = device.ones(&[2, 1])?;
                block_on(trainer.step(&x, &x))?;
                // Loading restores the position from the file.
                let file = block_on(trainer.save(&BTreeMap::new()))?;
                block_on(trainer.load(&file))?;
            }
            let step = block_on(trainer.next_step())?.expect("five epochs are not over");
            losses.push(block_on(step.loss.item::<f32>())?);
        }
        Ok(losses)
    };
    assert_eq!(losses(true)?, losses(false)?);
    Ok(())
}

fn a_checkpoint_holds_accumulated_gradients(device: &Device) -> Result<()> {
    let run = |loads: bool| -> Result<Vec<Vec<f32>>> {
        let mut trainer = trainer(device, Sgd::new(0.1), None)?;
        let x = device.tensor(&[1.0f32, 2.0], &[2, 1])?;
        trainer.optimizer.accumulate(&trainer.model.forward(&x)?.square().sum(())?)?;
        let file = block_on(trainer.save(&BTreeMap::new()))?;
        if loads {
            trainer.optimizer.accumulate(&trainer.model.forward(&x)?.sum(())?)?;
            trainer.optimizer.step()?;
            block_on(trainer.load(&file))?;
        }
        trainer.optimizer.step()?;
        values(&trainer.model)
    };
    assert_eq!(run(true)?, run(false)?);
    Ok(())
}

fn a_tensor_that_was_assigned_after_another_can_be_read(device: &Device) -> Result<()> {
    let x = data(device, &[-1.0, 2.0, 0.5])?;
    let (first, second) = (x.relu(), x.tanh());
    let v = Variable::new(&first);
    v.assign(&v.value().mul(0.5)?)?;
    first.run()?;
    v.assign(&second)?;
    let tanh = [-1.0f32, 2.0, 0.5].map(f32::tanh);
    near(&second, &tanh);
    near(&v.value(), &tanh);
    near(&first, &[0.0, 2.0, 0.5]);
    Ok(())
}

fn a_slice_can_be_assigned_while_the_value_is_held(device: &Device) -> Result<()> {
    let v = variable(device, &[1.0, 2.0, 3.0])?;
    v.assign_slice(0, 0, &data(device, &[7.0])?)?;
    let held = v.value();
    v.assign(&held.mul(2)?)?;
    near(&v.value(), &[14.0, 4.0, 6.0]);
    near(&held, &[7.0, 2.0, 3.0]);
    Ok(())
}

fn a_condition_keeps_the_value_that_was_assigned(device: &Device) -> Result<()> {
    let (x, z) = (data(device, &[3.0, 4.0])?, data(device, &[5.0, 6.0])?);
    let v = variable(device, &[1.0, -1.0])?;
    let y = v.value().mul(2)?.gt(0)?.where_cond(&x, &z)?;
    device.submit()?;
    v.assign(&v.value().sub(10)?.detach())?;
    near(&v.value(), &[-9.0, -11.0]);
    near(&y.sum(())?.grad(&[&x])?[0], &[1.0, 0.0]);
    near(&y, &[3.0, 6.0]);
    Ok(())
}

fn an_optimizer_makes_no_zeros_of_a_history_that_is_gone(device: &Device) -> Result<()> {
    let v = variable(device, &[1.0, 2.0])?;
    let sum = v.value().mul(0.5)?.add(1)?;
    let u = Variable::new(&sum);
    read(&sum)?;
    drop(sum);
    let _optimizer = Optimizer::new(Sgd::new(1.0), std::slice::from_ref(&u))?;
    match u.value().sum(())?.grad(&[&v.value()]) {
        Ok(gradients) => near(&gradients[0], &[0.5, 0.5]),
        Err(error) => assert!(error.message().contains("was dropped"), "{error}"),
    }
    Ok(())
}

/// Tests that the gradient of `x y` by `x`, which is `y` transposed, depends on the `y` that was passed.
fn a_gradient_has_derivatives_by_a_transposed_operand(device: &Device) -> Result<()> {
    let x = data(device, &[1.0; 6])?.reshape([2, 3])?;
    let y = data(device, &[1.0; 6])?.reshape([2, 3])?.transpose(0, 1)?;
    let gradient = &x.matmul(&y)?.sum(())?.grad(&[&x])?[0];
    near(&gradient.sum(())?.grad(&[&y])?[0], &[2.0; 6]);
    Ok(())
}

/// Tests that the gradient of a weight that is used in many steps is one matmul over the rows of all steps.
fn a_gradient_has_derivatives_by_slices_that_are_rows_of_one_tensor(device: &Device) -> Result<()> {
    let sequence = data(device, &[1.0; 12 * 16])?.reshape([12, 1, 16])?;
    let weight = data(device, &[1.0; 16 * 8])?.reshape([16, 8])?;
    let mut steps = Vec::new();
    let mut sum = data(device, &[0.0])?;
    for step in 0..12 {
        let input = sequence.slice(0, step..step + 1)?.reshape([1, 16])?;
        sum += input.matmul(&weight)?.sum(())?;
        steps.push(input);
    }
    let gradient = &sum.grad(&[&weight])?[0];
    // Each number of a step is added to eight columns of the gradient.
    for derivative in gradient.sum(())?.grad(&steps.iter().collect::<Vec<_>>())? {
        near(&derivative, &[8.0; 16]);
    }
    Ok(())
}

fn two_variables_can_be_swapped(device: &Device) -> Result<()> {
    let x = data(device, &[1.0, 2.0])?;
    let (a, b) = (Variable::new(&x.tanh()), Variable::new(&x.square()));
    let (squares, tanhs) = ([1.0, 4.0], [1.0f32.tanh(), 2.0f32.tanh()]);
    for n in 0..4 {
        let (first, second) = (a.value(), b.value());
        a.assign(&second)?;
        b.assign(&first)?;
        drop((first, second));
        if n % 2 == 1 {
            device.submit()?;
        }
    }
    near(&a.value(), &tanhs);
    near(&b.value(), &squares);
    // Assigned by operations, while other operations that use both are pending.
    let sum = a.value().add(&b.value())?;
    let (first, second) = (a.value(), b.value());
    a.assign(&second.mul(1)?)?;
    b.assign(&first.mul(1)?)?;
    drop((first, second));
    near(&b.value(), &tanhs);
    near(&a.value(), &squares);
    near(&sum, &[squares[0] + tanhs[0], squares[1] + tanhs[1]]);
    Ok(())
}

fn two_variables_can_be_swapped_after_a_slice_was_assigned(device: &Device) -> Result<()> {
    let a = variable(device, &[1.0, 2.0, 3.0])?;
    a.assign_slice(0, 0, &data(device, &[7.0])?)?;
    let b = Variable::new(&a.value().mul(2)?.detach());
    let (first, second) = (a.value(), b.value());
    a.assign(&second)?;
    b.assign(&first)?;
    drop((first, second));
    device.submit()?;
    near(&a.value(), &[14.0, 4.0, 6.0]);
    near(&b.value(), &[7.0, 2.0, 3.0]);
    Ok(())
}

fn an_average_can_be_swapped_after_an_assignment(device: &Device) -> Result<()> {
    let w = variable(device, &[1.0, 2.0])?;
    let optimizer = Optimizer::new(Sgd::new(0.1), std::slice::from_ref(&w))?;
    w.assign(&data(device, &[3.0, 4.0])?)?;
    let average = WeightAverage::new(&optimizer, 0.5)?;
    average.swap()?;
    device.submit()?;
    near(&w.value(), &[3.0, 4.0]);
    Ok(())
}

fn an_average_of_parameters_of_another_optimizer_is_refused(device: &Device) -> Result<()> {
    let w = variable(device, &[1.0, 2.0])?;
    let first = Optimizer::new(Sgd::new(0.1), std::slice::from_ref(&w))?;
    let average = WeightAverage::new(&first, 0.5)?;
    average.update()?;
    let _second = Optimizer::new(Sgd::new(0.1), std::slice::from_ref(&w))?;
    for refused in [average.update(), average.swap()] {
        assert_eq!(refused.map_err(|error| error.kind()), Err(ErrorKind::InvalidState));
    }
    near(&w.value(), &[1.0, 2.0]);
    Ok(())
}

fn names_of_a_state_do_not_depend_on_types(device: &Device) -> Result<()> {
    if !device.limits().f16 {
        return Ok(());
    }
    let one = |dtype| Ok(Variable::new(&device.ones(&[1])?.cast(dtype)?));
    let all = [one(DType::F32)?, one(DType::F16)?, one(DType::F32)?];
    let mut optimizer = Optimizer::new(Sgd { momentum: 0.9, ..Sgd::new(0.1) }, &all)?;
    let mut loss = device.zeros(&[1])?;
    for (n, variable) in all.iter().enumerate() {
        loss = loss.add(&variable.value().cast(DType::F32)?.mul(n as f64 + 1.0)?)?;
    }
    optimizer.minimize(&loss)?;
    let state = optimizer.state_dict()?;
    for (n, want) in [1.0, 2.0, 3.0].into_iter().enumerate() {
        let mut own = state.iter().filter(|(name, _)| name.starts_with(&format!("0.{n}.")));
        near(own.next().expect("a momentum").1, &[want]);
    }
    Ok(())
}

/// Returns a mean of logarithms, one of which is the logarithm of 0.
fn infinite(device: &Device) -> Result<(Tensor, Variable)> {
    let x = device.tensor(&[1.0f32, 1.0, 0.0, 0.0], &[2, 2])?;
    let w = Variable::new(&device.tensor(&[2.0f32, 1.0, 1.0, 3.0], &[2, 2])?);
    Ok((x.matmul(&w.value())?.log().mean(())?, w))
}

fn looking_for_what_is_not_finite_twice(device: &Device) -> Result<()> {
    let (loss, _w) = infinite(device)?;
    for _ in 0..2 {
        let found = block_on(loss.find_non_finite())?.expect("the logarithm of 0");
        assert_eq!(found.op, "log");
    }
    Ok(())
}

fn looking_for_what_is_not_finite_after_reading(device: &Device) -> Result<()> {
    let (loss, _w) = infinite(device)?;
    assert_eq!(block_on(loss.item::<f32>())?, f32::NEG_INFINITY);
    for _ in 0..2 {
        let found = block_on(loss.find_non_finite())?.expect("the logarithm of 0");
        assert_eq!(found.op, "log");
    }
    Ok(())
}

fn a_minimize_that_fails_changes_nothing(device: &Device) -> Result<()> {
    let rows: Vec<f32> = (0..64 * 64).map(|n| ((n * 37 % 101) as f32 - 50.0) / 100.0).collect();
    let mut all = Vec::new();
    for fails in [true, false] {
        let weight = Variable::new(&device.tensor(&rows, &[64, 64])?);
        let mut optimizer = Optimizer::new(Adam::new(0.1), std::slice::from_ref(&weight))?;
        let x = device.tensor(&rows, &[64, 64])?;
        let loss = |weight: &Variable| x.matmul(&weight.value())?.tanh().square().mean(());
        optimizer.minimize(&loss(&weight)?)?;
        let state = |optimizer: &Optimizer| -> Result<Vec<Vec<u8>>> {
            optimizer.state_dict()?.values().map(|x| block_on(x.read_bytes())).collect()
        };
        let (values, remembered) = (read(&weight.value())?, state(&optimizer)?);
        let next = loss(&weight)?;
        if fails {
            device.trim();
            device.set_memory_limit(Some(device.stats().used_bytes + 1_000));
            let failed = optimizer.minimize(&next);
            device.set_memory_limit(None);
            let error = failed.expect_err("there is no memory");
            assert_eq!(error.kind(), ErrorKind::Memory);
            assert_eq!(optimizer.steps(), 1);
            assert_eq!(read(&weight.value())?, values);
            assert_eq!(state(&optimizer)?, remembered);
        }
        optimizer.minimize(&next)?;
        assert_eq!(optimizer.steps(), 2);
        all.push((read(&weight.value())?, state(&optimizer)?));
    }
    assert_eq!(all[0], all[1]);
    Ok(())
}
