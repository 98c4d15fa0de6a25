//! Tests mixed precision: it learns the same as `f32`, and handles overflows by PyTorch's rule, exactly and on the device.

use super::{everywhere, noise};
use pollster::block_on;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::nn::*;
use warpweft::optim::*;
use warpweft::tensor::{ConvOptions, Tensor, Variable};

/// Runs `work` on devices with `f16`. On others, checks that the error reports its absence.
fn with_half(what: &str, work: impl Fn(&Device) -> Result<()>) {
    everywhere(what, |device| {
        if device.limits().f16 {
            return work(device);
        }
        let parameter = Variable::new(&device.ones(&[2])?);
        let refused = Optimizer::new(Sgd::new(0.1), &[parameter])?
            .mixed_precision(LossScale::default())
            .map(drop)
            .expect_err("there is no f16");
        assert_eq!(refused.kind(), ErrorKind::Unsupported, "{refused}");
        Ok(())
    });
}

/// Returns a network with norms, whose parameters are `f32`.
fn net(device: &Device) -> Result<Sequential> {
    let generator = Generator::new(device, 11);
    Ok(Sequential::new()
        .push(Linear::new(&generator, 3, 32)?)
        .push(LayerNorm::new(&generator, &[32])?)
        .push(|x: &Tensor| Ok(x.relu()))
        .push(Linear::new(&generator, 32, 32)?)
        .push(BatchNorm::new(&generator, 32)?)
        .push(|x: &Tensor| Ok(x.tanh()))
        .push(Linear::new(&generator, 32, 1)?))
}

/// Returns the loss after training in a dtype. Checks the cost of the last steps.
fn learnt(device: &Device, dtype: DType) -> Result<f32> {
    let model = net(device)?;
    let mut optimizer = Optimizer::new(Adam::new(0.01), &model.parameters())?.clip_norm(10.0);
    if dtype == DType::F16 {
        optimizer = optimizer.mixed_precision(LossScale::default())?;
    }
    let x = noise(300, 3);
    let y: Vec<f32> = x.chunks(3).map(|x| (2.0 * x[0]).sin() + x[1] * x[2]).collect();
    let (x, y) = (device.tensor(&x, &[100, 3])?, device.tensor(&y, &[100, 1])?);
    let mut last = 0.0;
    for step in 0..200 {
        let before = device.stats();
        let prediction = model.forward(&x.cast(dtype)?)?;
        assert_eq!(prediction.dtype(), dtype);
        let loss = prediction.cast(DType::F32)?.mse_loss(&y, LossReduction::Mean)?;
        optimizer.minimize(&loss)?;
        let after = device.stats();
        if step >= 2 {
            let grown = [after.submits - before.submits, after.plans - before.plans];
            assert_eq!(grown, [1, 0], "step {step} in {dtype}");
        }
        if step == 199 {
            last = block_on(loss.item::<f32>())?;
        }
    }
    assert!(model.parameters().iter().all(|parameter| parameter.dtype() == DType::F32));
    Ok(last)
}

#[test]
fn it_learns_what_f32_learns() {
    with_half("mixed precision", |device| {
        let (whole, half) = (learnt(device, DType::F32)?, learnt(device, DType::F16)?);
        println!("{}: loss {whole:.5} in f32, {half:.5} in f16", device.info().backend);
        assert!(whole < 0.02 && half < 0.02, "{whole} in f32, {half} in f16");
        Ok(())
    });
}

fn item(x: &Tensor) -> Result<f32> {
    block_on(x.item::<f32>())
}

#[test]
fn an_overflow_skips_the_step_and_halves_the_scale() {
    with_half("overflows", |device| {
        let w = Variable::new(&device.tensor(&[1.0f32], &[1])?);
        let rule = LossScale { init_scale: 1024.0, growth_interval: 3, ..LossScale::default() };
        let momentum = Sgd { lr: 0.1, momentum: 0.9, ..Sgd::default() };
        let mut optimizer =
            Optimizer::new(momentum, std::slice::from_ref(&w))?.mixed_precision(rule)?;
        // GradScaler's rule, for gradients of `x`. The large gradient overflows `f32` with the scale 1024, but not with 512.
        let (mut scale, mut good, large) = (1024.0f32, 0, 3.4e35);
        let steps = [1.0f32, large, 1.0, 1.0, 1.0, 1.0, large, large];
        for (step, x) in steps.into_iter().enumerate() {
            let overflows = !(x * scale).is_finite();
            assert_eq!(overflows, [1, 6].contains(&step));
            let before = (item(&w.value())?, optimizer.state_dict()?);
            let x = device.tensor(&[x], &[1])?;
            optimizer.minimize(&w.value().mul(&x)?)?;
            if overflows {
                (scale, good) = (scale / 2.0, 0);
                assert_eq!(item(&w.value())?.to_bits(), before.0.to_bits(), "step {step}");
                let after = optimizer.state_dict()?;
                let memory = [&before.1, &after].map(|state| item(&state["0.0.momentum_buffer"]));
                assert_eq!(memory[0].clone()?.to_bits(), memory[1].clone()?.to_bits());
            } else {
                good += 1;
                if good == 3 {
                    (scale, good) = (scale * 2.0, 0);
                }
                assert!(item(&w.value())? < before.0, "step {step}");
            }
            let found = item(&optimizer.loss_scale().expect("it has one"))?;
            assert_eq!(found, scale, "step {step}");
            let state = optimizer.state_dict()?;
            assert_eq!(block_on(state["good_steps"].item::<i32>())?, good);
        }
        // Saved state is loaded.
        let state = optimizer.state_dict()?;
        let fresh = || Optimizer::new(momentum, std::slice::from_ref(&w))?.mixed_precision(rule);
        let mut other = fresh()?;
        block_on(other.load_state_dict(&state))?;
        assert_eq!(item(&other.loss_scale().expect("it has one"))?, scale);
        let mut without = state.clone();
        without.remove("loss_scale");
        let error = block_on(fresh()?.load_state_dict(&without)).expect_err("it is missing");
        assert!(error.message().contains("the state must have `loss_scale`"), "{error}");
        Ok(())
    });
}

#[test]
fn gradients_left_by_hand_are_scaled_by_hand() {
    with_half("scaling by hand", |device| {
        let step = |by_hand: bool| -> Result<f32> {
            let w = Variable::new(&device.tensor(&[1.5f32], &[1])?);
            let mut optimizer = Optimizer::new(Sgd::new(0.25), std::slice::from_ref(&w))?
                .mixed_precision(LossScale { init_scale: 8.0, ..LossScale::default() })?;
            let loss = w.value().square();
            match by_hand {
                true => optimizer.scale_loss(&loss)?.backward(&[&w])?,
                false => optimizer.accumulate(&loss)?,
            }
            optimizer.step()?;
            item(&w.value())
        };
        // 1.5 - 0.25 * 3.
        assert_eq!((step(true)?, step(false)?), (0.75, 0.75));
        Ok(())
    });
}

#[test]
fn a_parameter_outside_the_loss_stays_under_a_scale() {
    with_half("scales and absent parameters", |device| {
        let w = Variable::new(&device.tensor(&[1.0f32], &[1])?);
        let other = Variable::new(&device.tensor(&[1.0f32], &[1])?);
        let momentum = Sgd { momentum: 0.5, ..Sgd::new(0.5) };
        let mut optimizer = Optimizer::new(momentum, &[w.clone(), other.clone()])?
            .mixed_precision(LossScale { init_scale: 1024.0, ..LossScale::default() })?;
        optimizer.minimize(&w.value().add(other.value())?.sum(())?)?;
        optimizer.minimize(&w.value().sum(())?)?;
        assert_eq!((item(&w.value())?, item(&other.value())?), (-0.25, 0.5));
        // A skipped step changes neither.
        optimizer.minimize(&w.value().mul(&device.tensor(&[3.4e35f32], &[1])?)?)?;
        assert_eq!((item(&w.value())?, item(&other.value())?), (-0.25, 0.5));
        assert_eq!(optimizer.steps(), 3);
        Ok(())
    });
}

/// Returns the values after steps with these gradients. Steps that overflow with a scale are left out.
fn after(
    device: &Device,
    rule: impl Rule + 'static,
    gradients: &[f32],
    scaled: bool,
) -> Result<Vec<f32>> {
    let w = Variable::new(&device.tensor(&[1.0f32, -2.0, 3.0, 0.5], &[2, 2])?);
    let mut optimizer = Optimizer::new(rule, std::slice::from_ref(&w))?;
    if scaled {
        let scale = LossScale { init_scale: 1024.0, ..LossScale::default() };
        optimizer = optimizer.mixed_precision(scale)?;
    }
    for gradient in gradients {
        if scaled || gradient.is_finite() {
            let x = device.full(&[2, 2], f64::from(*gradient), DType::F32)?;
            optimizer.minimize(&w.value().mul(&x)?.sum(())?)?;
        }
    }
    block_on(w.value().read::<f32>())
}

#[test]
fn steps_that_are_skipped_do_not_count() {
    with_half("steps that are skipped", |device| {
        // Skips the first step, one near the beginning, and two in the middle.
        let mut gradients = noise(40, 5);
        for step in [0, 2, 20, 21] {
            gradients[step] = f32::INFINITY;
        }
        let check = |name: &str, values: [Result<Vec<f32>>; 2]| {
            let [with, without] = values;
            let (with, without) = (with?, without?);
            let near = |(a, b): (&f32, &f32)| (a - b).abs() <= 2e-5 * b.abs().max(0.1);
            assert!(with.iter().zip(&without).all(near), "{name}: {with:?}, not {without:?}");
            Ok::<(), Error>(())
        };
        macro_rules! check {
            ($($rule:expr;)*) => {$(
                check(stringify!($rule), [true, false].map(|scaled| after(device, $rule, &gradients, scaled)))?;
            )*};
        }
        check! {
            Adam::new(0.1);
            Adam { betas: (0.0, 0.0), ..Adam::new(0.1) };
            AdamW { amsgrad: true, ..AdamW::new(0.1) };
            Adamax::new(0.1);
            NAdam::new(0.1);
            NAdam { momentum_decay: 0.0, ..NAdam::new(0.1) };
            NAdam { betas: (0.999, 0.999), momentum_decay: 10.0, ..NAdam::new(0.1) };
            RAdam::new(0.1);
            RAdam { betas: (0.9, 0.9), ..RAdam::new(0.1) };
            RAdam { betas: (0.9, 0.5), ..RAdam::new(0.1) };
            Sgd { momentum: 0.9, dampening: 0.5, ..Sgd::new(0.1) };
            Adagrad { lr_decay: 0.5, ..Adagrad::new(0.1) };
            Lamb::new(0.1);
            AdaBelief::new(0.1);
            Yogi::new(0.1);
            Asgd { t0: 5.0, lambd: 0.1, ..Asgd::new(0.1) };
        }
        // One gradient of 1 after a skipped step: the first step of Adam is its learning rate.
        let first = after(device, Adam::new(0.1), &[f32::INFINITY, 1.0], true)?;
        assert!((first[0] - 0.9).abs() < 1e-6, "{first:?}");
        Ok(())
    });
}

#[test]
fn steps_that_count_are_saved() {
    with_half("saved counts", |device| {
        let made = || {
            let w = Variable::new(&device.tensor(&[1.0f32], &[1])?);
            let optimizer = Optimizer::new(Adam::new(0.1), std::slice::from_ref(&w))?;
            Ok::<_, Error>((w, optimizer.mixed_precision(LossScale::default())?))
        };
        let step = |w: &Variable, optimizer: &mut Optimizer, x: f32| {
            optimizer.minimize(&w.value().mul(&device.tensor(&[x], &[1])?)?)
        };
        let (w, mut optimizer) = made()?;
        for x in [f32::INFINITY, 1.0, f32::INFINITY, 2.0] {
            step(&w, &mut optimizer, x)?;
        }
        let state = optimizer.state_dict()?;
        assert_eq!(block_on(state["steps"].read::<i32>())?, [4]);
        assert_eq!(block_on(state["taken_steps"].read::<i32>())?, [2]);
        let (other, mut loaded) = made()?;
        block_on(loaded.load_state_dict(&state))?;
        other.assign(&w.value().detach())?;
        step(&w, &mut optimizer, 3.0)?;
        step(&other, &mut loaded, 3.0)?;
        assert_eq!(item(&w.value())?.to_bits(), item(&other.value())?.to_bits());
        // An old state without a count of taken steps counts no step as skipped.
        let mut older = state.clone();
        older.remove("taken_steps");
        block_on(loaded.load_state_dict(&older))?;
        assert_eq!(block_on(loaded.state_dict()?["taken_steps"].read::<i32>())?, [4]);
        // Mixed precision that is enabled later continues the count.
        let w = Variable::new(&device.tensor(&[1.0f32], &[1])?);
        let mut optimizer = Optimizer::new(Adam::new(0.1), std::slice::from_ref(&w))?;
        step(&w, &mut optimizer, 1.0)?;
        let mut optimizer = optimizer.mixed_precision(LossScale::default())?;
        step(&w, &mut optimizer, 1.0)?;
        let more = Variable::new(&device.tensor(&[1.0f32], &[1])?);
        optimizer.add_group(Adam::new(0.1), std::slice::from_ref(&more))?;
        step(&more, &mut optimizer, 1.0)?;
        assert_eq!(block_on(optimizer.state_dict()?["taken_steps"].read::<i32>())?, [3, 1]);
        Ok(())
    });
}

#[test]
fn rules_that_make_no_sense_are_refused() {
    with_half("rules of scales", |device| {
        for rule in [
            LossScale { init_scale: 0.0, ..LossScale::default() },
            LossScale { growth_factor: f64::NAN, ..LossScale::default() },
            LossScale { backoff_factor: -0.5, ..LossScale::default() },
            LossScale { growth_interval: 0, ..LossScale::default() },
        ] {
            let w = Variable::new(&device.ones(&[1])?);
            let error: Error = Optimizer::new(Sgd::new(0.25), &[w])?
                .mixed_precision(rule)
                .map(drop)
                .expect_err("it is refused");
            assert_eq!(error.kind(), ErrorKind::InvalidArgument);
            assert!(error.message().starts_with("mixed_precision: "), "{error}");
        }
        let w = Variable::new(&device.ones(&[2])?);
        let mut optimizer = Optimizer::new(Sgd::new(0.25), std::slice::from_ref(&w))?
            .mixed_precision(LossScale::default())?;
        let error = optimizer.minimize(&w.value()).expect_err("it is two numbers");
        assert_eq!(error.kind(), ErrorKind::Shape);
        Ok(())
    });
}

#[test]
fn layers_compute_in_the_type_of_their_input() {
    with_half("layers in f16", |device| {
        let generator = Generator::new(device, 2);
        let conv = ConvOptions::default();
        let lstm = Lstm::new(&generator, 4, 4, RecurrentOptions::default())?;
        let sequences: Vec<Box<dyn Layer>> = vec![
            Box::new(Linear::new(&generator, 4, 4)?),
            Box::new(LayerNorm::new(&generator, &[4])?),
            Box::new(RmsNorm::new(&generator, &[4])?),
            Box::new(MultiheadAttention::new(&generator, 4, 2, 0.0)?),
            Box::new(lstm),
            Box::new(BatchNorm::new(&generator, 3)?),
            Box::new(GroupNorm::new(&generator, 3, 3)?),
            Box::new(InstanceNorm::affine(&generator, 3)?),
            Box::new(Conv1d::new(&generator, 3, 4, [3], conv)?),
        ];
        let x = device.tensor(&noise(24, 9), &[2, 3, 4])?.cast(DType::F16)?;
        for layer in sequences {
            let (half, whole) = (layer.forward(&x)?, layer.forward(&x.cast(DType::F32)?)?);
            assert_eq!((half.dtype(), whole.dtype()), (DType::F16, DType::F32));
            let (half, whole) = (block_on(half.read::<f32>())?, block_on(whole.read::<f32>())?);
            let near = |(a, b): (&f32, &f32)| (a - b).abs() < 1e-2 + 1e-2 * b.abs();
            assert!(half.iter().zip(&whole).all(near), "{}: {half:?}, {whole:?}", layer.kind());
        }
        Ok(())
    });
}

#[test]
fn the_norm_of_f16_gradients_is_clipped() {
    with_half("clipped f16 gradients", |device| {
        // The gradients are [3, 0] and [4]. Their norm of 5 becomes 1.
        let half = device.tensor(&[0.0f32, 0.0], &[2])?.cast(DType::F16)?;
        let (w, v) = (Variable::new(&half), Variable::new(&device.tensor(&[0.0f32], &[1])?));
        let mut optimizer = Optimizer::new(Sgd::new(1.0), &[w.clone(), v.clone()])?.clip_norm(1.0);
        let first = w.value().slice(0, 0..1)?.cast(DType::F32)?.mul(3.0)?;
        optimizer.minimize(&first.add(v.value().mul(4.0)?)?.sum(())?)?;
        let (w, v) = (w.value().cast(DType::F32)?, v.value());
        let found = [block_on(w.read::<f32>())?, block_on(v.read::<f32>())?].concat();
        for (found, want) in found.into_iter().zip([-0.6f32, 0.0, -0.8]) {
            assert!((found - want).abs() < 5e-4, "{found}, not {want}");
        }
        Ok(())
    });
}

#[test]
fn parameters_of_f16_train_with_small_gradients() {
    with_half("f16 parameters", |device| {
        // The squares of the last gradient underflow in f16, and so does the `eps` of Adam.
        let gradients = [1.0f32, 0.0, 2e-5];
        let w = Variable::new(&device.zeros((&[3], DType::F16))?);
        let mut optimizer = Optimizer::new(Adam::new(0.125), std::slice::from_ref(&w))?;
        let slopes = device.tensor(&gradients, &[3])?;
        for _ in 0..8 {
            optimizer.minimize(&w.value().cast(DType::F32)?.mul(&slopes)?.sum(())?)?;
        }
        // Constant gradients move a parameter by the learning rate in each step, whatever their size.
        let found = block_on(w.value().read::<f32>())?;
        for (found, want) in found.iter().zip([-1.0f32, 0.0, -1.0]) {
            assert!((found - want).abs() < 2e-3, "{found}, not {want}");
        }
        let state = optimizer.state_dict()?;
        assert_eq!(state["0.0.exp_avg_sq"].dtype(), DType::F32);
        let mut other = Optimizer::new(Adam::new(0.125), std::slice::from_ref(&w))?;
        block_on(other.load_state_dict(&state))?;
        other.minimize(&w.value().cast(DType::F32)?.mul(&slopes)?.sum(())?)?;
        let found = block_on(w.value().read::<f32>())?;
        assert!((found[0] + 1.125).abs() < 2e-3 && found[1] == 0.0, "{found:?}");
        Ok(())
    });
}
