//! Tests in-place updates of variables: when they happen, and that no result changes.

use super::array::{random, Array};
use super::batches::{ensure, nothing_new};
use super::check::{said, Outcome, Suite};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::nn::{Generator, Layer, Linear, Module};
use warpweft::optim::{Adam, Optimizer};
use warpweft::tensor::{Tensor, Variable};

/// Returns a variable of two rows, 0 to 5, whose value no other handle holds.
fn numbers(device: &Device) -> std::result::Result<Variable, String> {
    let values: Vec<f32> = (0..6).map(|n| n as f32).collect();
    Ok(Variable::new(&device.tensor(&values, &[2, 3]).map_err(said)?))
}

/// Returns the number of results that the last batch wrote in place.
fn in_place(device: &Device) -> usize {
    device.last_plan().map_or(0, |plan| plan.in_place.len())
}

async fn is(what: &str, tensor: &Tensor, want: &[f32]) -> Outcome {
    let got = tensor.read::<f32>().await.map_err(said)?;
    ensure(got == want, format!("{what}: {got:?}, not {want:?}"))
}

/// Assigns the result of `next` for the value, and submits.
fn step(device: &Device, variable: &Variable, next: impl Fn(&Tensor) -> Result<Tensor>) -> Outcome {
    variable.assign(&next(&variable.value()).map_err(said)?).map_err(said)?;
    device.submit().map_err(said)
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("in_place");
    suite.steps("a new value takes the place of the one before", taken);
    suite.steps("what is held stays", held);
    suite.steps("what is held and was made of it stays", made);
    suite.steps("other elements are read before they are written", elsewhere);
    suite.steps("variables that change places", exchanged);
    suite.steps("several assignments, one batch", several);
    suite.steps("a value that several results need", shared);
    suite.steps("values of programs", programs);
    suite.steps("gradients through a value that was replaced", replaced);
    suite.steps("a batch that is refused leaves the value", refused);
    suite.steps("a step of an optimiser takes no second memory", optimised);
    suite
}

async fn taken(device: Device) -> Outcome {
    let w = numbers(&device)?;
    let mut settled = device.stats();
    for n in 1..=8 {
        step(&device, &w, |value| value.mul(2.0)?.add(1.0))?;
        ensure(in_place(&device) == 1, format!("step {n} is not in place"))?;
        if n == 2 {
            settled = device.stats();
        }
    }
    nothing_new(settled, device.stats())?;
    ensure(device.stats().bytes == settled.bytes, "memory grows")?;
    let want = [0.0, 1.0, 2.0, 3.0, 4.0, 5.0].map(|x: f32| x * 256.0 + 255.0);
    is("eight steps", &w.value(), &want).await?;
    // Other dtypes.
    for dtype in [DType::I32, DType::U32, DType::Bool] {
        let w = Variable::new(&device.full(&[5], 1.0, dtype).map_err(said)?);
        device.submit().map_err(said)?;
        step(&device, &w, |value| match dtype {
            DType::Bool => Ok(value.logical_not()),
            _ => value.sub(1),
        })?;
        ensure(in_place(&device) == 1, format!("{dtype} is not in place"))?;
        let got = w.value().cast(DType::F32).map_err(said)?;
        is("1 less", &got, &[0.0; 5]).await?;
    }
    Ok(())
}

async fn held(device: Device) -> Outcome {
    let w = numbers(&device)?;
    let before = w.value();
    step(&device, &w, |value| value.add(10.0))?;
    ensure(in_place(&device) == 0, "what is held was overwritten")?;
    is("the value before", &before, &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).await?;
    drop(before);
    // A read that was begun earlier returns the previous value.
    let begun = w.value().read::<f32>();
    step(&device, &w, |value| value.neg().add(0.0))?;
    ensure(in_place(&device) == 1, "nothing holds it")?;
    let begun = begun.await.map_err(said)?;
    ensure(begun == [10.0, 11.0, 12.0, 13.0, 14.0, 15.0], "a read begun before")?;
    is("the value", &w.value(), &[-10.0, -11.0, -12.0, -13.0, -14.0, -15.0]).await
}

async fn made(device: Device) -> Outcome {
    let w = numbers(&device)?;
    // Smaller than the value: the same batch computes it.
    let rows = w.value().sum(1).map_err(said)?;
    let loss = rows.square().sum(()).map_err(said)?;
    w.assign(&w.value().mul(2.0).map_err(said)?).map_err(said)?;
    let before = device.stats().submits;
    device.submit().map_err(said)?;
    ensure(in_place(&device) == 1, "a smaller tensor keeps the value")?;
    is("the rows", &rows, &[3.0, 12.0]).await?;
    is("the loss", &loss, &[153.0]).await?;
    ensure(device.stats().submits == before + 1, "they were computed with the batch")?;
    is("the value", &w.value(), &[0.0, 2.0, 4.0, 6.0, 8.0, 10.0]).await?;
    // As large as the value: the previous value is kept, and this tensor is computed on request.
    let exp = w.value().add(1.0).map_err(said)?;
    let sum = exp.sum(()).map_err(said)?;
    w.assign(&w.value().mul(0.0).map_err(said)?).map_err(said)?;
    device.submit().map_err(said)?;
    ensure(in_place(&device) == 0, "a tensor as large lost its operand")?;
    is("the sum", &sum, &[36.0]).await?;
    is("what it was made of", &exp, &[1.0, 3.0, 5.0, 7.0, 9.0, 11.0]).await?;
    is("the value", &w.value(), &[0.0; 6]).await
}

/// An update of a 3 x 3 matrix.
type Next = fn(&Tensor) -> Result<Tensor>;

async fn elsewhere(device: Device) -> Outcome {
    let cases: [(&str, Next, [f32; 9]); 6] = [
        ("itself", |w| w.add(w), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0, 12.0, 14.0, 16.0]),
        ("shifted", |w| w.roll(1, 0)?.add(0.0), [6.0, 7.0, 8.0, 0.0, 1.0, 2.0, 3.0, 4.0, 5.0]),
        ("flipped", |w| w.flip(&[1])?.add(w), [2.0, 2.0, 2.0, 8.0, 8.0, 8.0, 14.0, 14.0, 14.0]),
        (
            "transposed",
            |w| w.transpose(0, 1)?.add(0.0),
            [0.0, 3.0, 6.0, 1.0, 4.0, 7.0, 2.0, 5.0, 8.0],
        ),
        ("a row", |w| w.sub(&w.slice(0, 1..2)?), [-3.0, -3.0, -3.0, 0.0, 0.0, 0.0, 3.0, 3.0, 3.0]),
        (
            "reduced",
            |w| w.sub(&w.sum(1)?.unsqueeze(-1)?),
            [-3.0, -2.0, -1.0, -9.0, -8.0, -7.0, -15.0, -14.0, -13.0],
        ),
    ];
    for (what, next, want) in cases {
        let values: Vec<f32> = (0..9).map(|n| n as f32).collect();
        let w = Variable::new(&device.tensor(&values, &[3, 3]).map_err(said)?);
        step(&device, &w, next)?;
        let alone = usize::from(what == "itself");
        ensure(in_place(&device) == alone, format!("{what}: {} in place", in_place(&device)))?;
        is(what, &w.value(), &want).await?;
    }
    Ok(())
}

async fn exchanged(device: Device) -> Outcome {
    let pair = || -> std::result::Result<(Variable, Variable), String> {
        Ok((
            numbers(&device)?,
            Variable::new(&device.full(&[2, 3], 7.0, DType::F32).map_err(said)?),
        ))
    };
    let (a, b) = pair()?;
    device.submit().map_err(said)?;
    let (first, second) = (a.value(), b.value());
    a.assign(&second).map_err(said)?;
    b.assign(&first).map_err(said)?;
    drop((first, second));
    device.submit().map_err(said)?;
    is("a", &a.value(), &[7.0; 6]).await?;
    is("b", &b.value(), &[0.0, 1.0, 2.0, 3.0, 4.0, 5.0]).await?;
    // Two variables that depend on each other, in one kernel.
    let (first, second) = (a.value(), b.value());
    a.assign(&second.add(1.0).map_err(said)?).map_err(said)?;
    b.assign(&first.add(2.0).map_err(said)?).map_err(said)?;
    drop((first, second));
    device.submit().map_err(said)?;
    is("a", &a.value(), &[1.0, 2.0, 3.0, 4.0, 5.0, 6.0]).await?;
    is("b", &b.value(), &[9.0; 6]).await?;
    // Two variables that depend on each other, one of them by rows.
    let (first, second) = (a.value(), b.value());
    a.assign(
        &second
            .add(&first.sum(1).and_then(|rows| rows.unsqueeze(-1)).map_err(said)?)
            .map_err(said)?,
    )
    .map_err(said)?;
    b.assign(&first.sub(&second).map_err(said)?).map_err(said)?;
    drop((first, second));
    device.submit().map_err(said)?;
    is("a", &a.value(), &[15.0, 15.0, 15.0, 24.0, 24.0, 24.0]).await?;
    is("b", &b.value(), &[-8.0, -7.0, -6.0, -5.0, -4.0, -3.0]).await
}

async fn several(device: Device) -> Outcome {
    let w = numbers(&device)?;
    for n in 1..=3 {
        w.assign(&w.value().add(f64::from(n)).map_err(said)?).map_err(said)?;
    }
    device.submit().map_err(said)?;
    ensure(in_place(&device) == 1, "the last of three values")?;
    is("three steps", &w.value(), &[6.0, 7.0, 8.0, 9.0, 10.0, 11.0]).await?;
    // Explicit batches and reads also compute the values of variables.
    w.assign(&w.value().mul(2.0).map_err(said)?).map_err(said)?;
    let other = device.ones(&[4]).and_then(|x| x.add(1.0)).map_err(said)?;
    device.batch().add(&other).and_then(|batch| batch.run()).map_err(said)?;
    ensure(in_place(&device) == 1, "by a batch")?;
    is("the other", &other, &[2.0; 4]).await?;
    is("by a batch", &w.value(), &[12.0, 14.0, 16.0, 18.0, 20.0, 22.0]).await?;
    // The update does not read the previous value.
    step(&device, &w, |value| value.device().full(&[2, 3], 3.0, DType::F32)?.add(1.0))?;
    is("another value", &w.value(), &[4.0; 6]).await?;
    // One row, and then all of them.
    let row = device.full(&[1, 3], 1.0, DType::F32).map_err(said)?;
    w.assign_slice(0, 1, &row).map_err(said)?;
    step(&device, &w, |value| value.mul(2.0))?;
    is("a row, and twice that", &w.value(), &[8.0, 8.0, 8.0, 2.0, 2.0, 2.0]).await?;
    w.assign(&w.value().mul(2.0).map_err(said)?).map_err(said)?;
    w.assign_slice(0, 0, &row).map_err(said)?;
    device.submit().map_err(said)?;
    is("twice that, and a row", &w.value(), &[1.0, 1.0, 1.0, 4.0, 4.0, 4.0]).await
}

async fn shared(device: Device) -> Outcome {
    let w = numbers(&device)?;
    let more = w.value().add(100.0).map_err(said)?;
    step(&device, &w, |value| value.neg().add(0.0))?;
    is("a result as large", &more, &[100.0, 101.0, 102.0, 103.0, 104.0, 105.0]).await?;
    is("the value", &w.value(), &[0.0, -1.0, -2.0, -3.0, -4.0, -5.0]).await?;
    // A matmul and a sum of the previous value, recorded after it was replaced.
    let before = w.value();
    w.assign(&before.add(1.0).map_err(said)?).map_err(said)?;
    let product = before.matmul(&before.transpose(0, 1).map_err(said)?).map_err(said)?;
    let sum = before.sum(()).map_err(said)?;
    drop(before);
    device.submit().map_err(said)?;
    is("a product", &product, &[5.0, 14.0, 14.0, 50.0]).await?;
    is("a sum", &sum, &[-15.0]).await?;
    is("the value", &w.value(), &[1.0, 0.0, -1.0, -2.0, -3.0, -4.0]).await
}

async fn programs(device: Device) -> Outcome {
    let w = numbers(&device)?;
    let shape: &[usize] = &[2, 3];
    let program = device.compile(&[(shape, DType::F32)], |x| Ok(vec![x[0].add(1.0)?]));
    let program = program.map_err(said)?;
    for _ in 0..3 {
        w.assign(&program.run(&[&w.value()]).map_err(said)?[0]).map_err(said)?;
        step(&device, &w, |value| value.mul(2.0))?;
    }
    is("of a program", &w.value(), &[14.0, 22.0, 30.0, 38.0, 46.0, 54.0]).await?;
    // A program keeps its constants.
    let kept = w.value();
    let keeps = device.compile(&[(shape, DType::F32)], |x| Ok(vec![x[0].add(&kept)?]));
    let keeps = keeps.map_err(said)?;
    drop(kept);
    step(&device, &w, |value| value.mul(0.0))?;
    ensure(in_place(&device) == 0, "a program keeps it")?;
    let got = keeps.run(&[&w.value()]).map_err(said)?;
    is("what it keeps", &got[0], &[14.0, 22.0, 30.0, 38.0, 46.0, 54.0]).await
}

async fn replaced(device: Device) -> Outcome {
    let x = device.tensor(&[1.0f32, 2.0, 3.0], &[3]).map_err(said)?;
    let loss = |w: &Tensor| w.mul(&x)?.square().sum(());
    let w = numbers(&device)?;
    let first = loss(&w.value()).map_err(said)?;
    step(&device, &w, |value| value.add(1.0))?;
    ensure(in_place(&device) == 0, "a gradient passes it")?;
    is("the loss", &first, &[338.0]).await?;
    let gradient = first.grad(&[&x]).map_err(said)?.remove(0);
    is("through a value that was replaced", &gradient, &[18.0, 68.0, 174.0]).await?;
    drop((first, gradient));
    step(&device, &w, |value| value.add(0.0))?;
    ensure(in_place(&device) == 1, "no gradient passes it any more")?;
    // While a handle holds the value, its gradient can be computed.
    let before = w.value();
    let second = loss(&before).map_err(said)?;
    step(&device, &w, |value| value.add(1.0))?;
    let gradients = second.grad(&[&before, &x]).map_err(said)?;
    is("by the value", &gradients[0], &[2.0, 16.0, 54.0, 8.0, 40.0, 108.0]).await?;
    is("by an operand", &gradients[1], &[34.0, 116.0, 270.0]).await?;
    // The gradient can also be computed before the assignment.
    let third = loss(&w.value()).map_err(said)?;
    let gradient = third.grad(&[&x]).map_err(said)?.remove(0);
    step(&device, &w, |value| value.add(1.0))?;
    is("asked for before", &gradient, &[58.0, 180.0, 390.0]).await
}

async fn refused(device: Device) -> Outcome {
    let w = Variable::new(&device.full(&[1000], 1.0, DType::F32).map_err(said)?);
    device.submit().map_err(said)?;
    step(&device, &w, |value| value.add(1.0))?;
    device.trim();
    device.set_memory_limit(Some(device.stats().used_bytes + 10_000));
    let asked = || {
        let large = w.value().expand(&[1000, 1000])?.transpose(0, 1)?.add(1.0)?;
        w.assign(&w.value().mul(3.0)?)?;
        Ok((large, device.submit().err()))
    };
    let asked = asked();
    device.set_memory_limit(None); // Unconditional, because other cases share the device.
    let (large, refused) = asked.map_err(said)?;
    let refused = refused.ok_or("it has no room")?;
    ensure(refused.kind() == ErrorKind::Memory, format!("it says {}", refused.message()))?;
    // The value was not computed. It is computed once there is enough memory.
    is("a result", &large.select(0, 0).map_err(said)?, &[3.0; 1000]).await?;
    drop(large);
    is("the value", &w.value(), &[6.0; 1000]).await
}

async fn optimised(device: Device) -> Outcome {
    let (rows, inputs, hidden) = (8, 64, 48);
    let generator = Generator::new(&device, 0);
    let model = Linear::new(&generator, inputs, hidden).map_err(said)?;
    let parameters = (inputs * hidden + hidden) as u64 * 4;
    let mut optimizer = Optimizer::new(Adam::new(0.01), &model.parameters()).map_err(said)?;
    let x = random(&[rows, inputs], -1.0, 1.0, 1).f32(&device).map_err(said)?;
    let target: Array<f64> = random(&[rows, hidden], -1.0, 1.0, 2);
    let target = target.f32(&device).map_err(said)?;
    let mut losses = Vec::new();
    let mut step = || -> Result<Tensor> {
        // The held tensors are smaller than the parameters.
        let scores = model.forward(&x)?;
        let loss = scores.sub(&target)?.square().mean(())?;
        optimizer.minimize(&loss)?;
        Ok(loss)
    };
    for n in 0..6 {
        let loss = step().map_err(said)?;
        let (stats, places) = (device.stats(), in_place(&device));
        // Parameters and two moments. The gradients are already freed. Sizes are rounded up.
        let held = 3 * parameters + (2 * rows * hidden + rows * inputs) as u64 * 4;
        let used = stats.used_bytes;
        // Kernels with fewer buffers update the parameters one after the other.
        if device.limits().buffers_per_kernel >= 8 {
            ensure(places == 3, format!("{places} in place in step {n}"))?;
            ensure(
                used <= held + held / 8 + 4096,
                format!("{used} bytes in step {n}, not {held}"),
            )?;
        }
        losses.push(loss.item::<f32>().await.map_err(said)?);
    }
    ensure(losses.windows(2).all(|pair| pair[1] < pair[0]), format!("it learns: {losses:?}"))
}
