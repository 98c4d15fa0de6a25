//! Tests training steps with variables: their values and their costs.

use super::array::{random, Array};
use super::attention::attend;
use super::batches::{ensure, nothing_new};
use super::check::{said, Outcome, Suite};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::optim::{Optimizer, Sgd};
use warpweft::tensor::{AttentionOptions, Tensor, Variable};

const RATE: f64 = 0.1;
const SHAPES: [(&[usize], &[usize]); 3] = [(&[6, 16], &[16]), (&[16, 12], &[12]), (&[12, 3], &[3])];

/// Returns the number of steps of the long run: `WARPWEFT_STEPS`, or 200.
fn steps() -> usize {
    std::env::var("WARPWEFT_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(200)
}

fn start() -> Vec<Array<f64>> {
    let layer = |(n, (w, b)): (usize, &(&[usize], &[usize]))| {
        [random(w, -0.5, 0.5, 2 * n as u32), random(b, -0.5, 0.5, 2 * n as u32 + 1)]
    };
    SHAPES.iter().enumerate().flat_map(layer).collect()
}

fn variables(device: &Device) -> Result<Vec<Variable>> {
    start().iter().map(|value| Ok(Variable::new(&value.f32(device)?))).collect()
}

/// Returns the mean squared error of a three-layer network.
fn loss(x: &Tensor, target: &Tensor, model: &[Tensor]) -> Result<Tensor> {
    let one = x.matmul(&model[0])?.add(&model[1])?.tanh();
    let two = one.matmul(&model[2])?.add(&model[3])?.tanh();
    let distance = two.matmul(&model[4])?.add(&model[5])?.sub(target)?;
    distance.square().mean(&[])
}

/// Records a step, and submits it.
fn step(device: &Device, x: &Tensor, target: &Tensor, model: &[Variable]) -> Result<Tensor> {
    let values: Vec<Tensor> = model.iter().map(Variable::value).collect();
    let loss = loss(x, target, &values)?;
    loss.backward(&model.iter().collect::<Vec<_>>())?;
    for variable in model {
        let gradient = variable.take_gradient().expect("backward left one");
        variable.assign(&variable.value().sub(&gradient.mul(RATE)?)?)?;
    }
    device.submit()?;
    Ok(loss)
}

/// Computes the same step in `f64`. Returns the loss and changes the values.
fn reference(x: &Array<f64>, target: &Array<f64>, model: &mut [Array<f64>]) -> f64 {
    let product = |a: &Array<f64>, b: &Array<f64>| {
        Array::from_fn(&[a.shape[0], b.shape[1]], |at| {
            (0..a.shape[1]).map(|k| a.at(&[at[0], k]) * b.at(&[k, at[1]])).sum()
        })
    };
    let mut layers = vec![x.clone()];
    for n in 0..3 {
        let sum = product(&layers[n], &model[2 * n]).zip(&model[2 * n + 1], |a, b| a + b);
        layers.push(if n < 2 { sum.map(f64::tanh) } else { sum });
    }
    let distance = layers[3].zip(target, |a, b| a - b);
    let count = distance.data.len() as f64;
    let mut back = distance.map(|d| 2.0 * d / count);
    for n in (0..3).rev() {
        if n < 2 {
            back = back.zip(&layers[n + 1], |g, y| g * (1.0 - y * y));
        }
        let weights = product(&layers[n].permute(&[1, 0]), &back);
        let bias = back.reduce(&[0], |column| column.iter().sum::<f64>()).squeeze(&[0]);
        back = product(&back, &model[2 * n].permute(&[1, 0]));
        model[2 * n] = model[2 * n].zip(&weights, |w, g| w - RATE * g);
        model[2 * n + 1] = model[2 * n + 1].zip(&bias, |b, g| b - RATE * g);
    }
    distance.data.iter().map(|d| d * d).sum::<f64>() / count
}

fn data() -> (Array<f64>, Array<f64>) {
    let x = random(&[20, 6], -1.0, 1.0, 50);
    let target = Array::from_fn(&[20, 3], |at| x.at(&[at[0], at[1]]) * x.at(&[at[0], at[1] + 1]));
    (x, target)
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("variables");
    suite.steps("a network learns as in 64 bits", |device| async move {
        let (x, target) = data();
        let (a, t) = (x.f32(&device).map_err(said)?, target.f32(&device).map_err(said)?);
        let (model, mut wanted) = (variables(&device).map_err(said)?, start());
        for n in 0..30 {
            let got = step(&device, &a, &t, &model).map_err(said)?;
            let got = f64::from(got.item::<f32>().await.map_err(said)?);
            let want = reference(&x, &target, &mut wanted);
            ensure((got - want).abs() < 1e-5, format!("the loss of step {n}: {got}, not {want}"))?;
        }
        for (variable, want) in model.iter().zip(&wanted) {
            let got: Vec<f32> = variable.value().read().await.map_err(said)?;
            let near = |(g, w): (&f32, &f64)| (f64::from(*g) - w).abs() < 1e-5;
            ensure(got.iter().zip(&want.data).all(near), format!("values of {:?}", want.shape))?;
        }
        Ok(())
    });
    suite.steps("a step is one submission, and makes nothing new", |device| async move {
        let (x, target) = data();
        let (a, t) = (x.f32(&device).map_err(said)?, target.f32(&device).map_err(said)?);
        let model = variables(&device).map_err(said)?;
        let mut settled = device.stats();
        let first =
            step(&device, &a, &t, &model).map_err(said)?.item::<f32>().await.map_err(said)?;
        let mut last = first;
        for n in 0..steps() {
            let before = device.stats();
            let loss = step(&device, &a, &t, &model).map_err(said)?;
            ensure(
                device.stats().submits == before.submits + 1,
                format!("submissions of step {n}"),
            )?;
            if n == 0 {
                settled = device.stats();
            }
            if n == 5 {
                // New and previous values alternate between the same buffers.
                (settled.bind_groups, settled.used_bytes) =
                    (device.stats().bind_groups, device.stats().used_bytes);
            }
            if n % 50 == 49 {
                last = loss.item::<f32>().await.map_err(said)?;
                nothing_new(settled, device.stats())?;
                let (before, after) = (settled, device.stats());
                ensure(
                    before.nodes == after.nodes,
                    format!("{} nodes, then {}", before.nodes, after.nodes),
                )?;
                ensure(
                    before.bytes == after.bytes,
                    format!("{} bytes, then {}", before.bytes, after.bytes),
                )?;
                ensure(before.used_bytes == after.used_bytes, "used bytes grow")?;
            }
        }
        ensure(last < 0.9 * first, format!("it did not learn: {first}, then {last}"))
    });
    suite.steps("gradients add up until they are taken", |device| async move {
        let w = Variable::new(&device.tensor(&[3.0f32, -1.0], &[2]).map_err(said)?);
        for _ in 0..2 {
            w.value().square().sum(&[]).and_then(|loss| loss.backward(&[&w])).map_err(said)?;
        }
        let gradient = w.take_gradient().ok_or("there is none")?;
        ensure(w.take_gradient().is_none(), "it was not taken")?;
        ensure(gradient.read::<f32>().await.map_err(said)? == [12.0, -4.0], "the gradient")
    });
    suite.steps("what was taken before stays", |device| async move {
        let w = Variable::new(&device.tensor(&[1.0f32, 2.0], &[2]).map_err(said)?);
        let before = w.value();
        let double = before.mul(2.0).map_err(said)?;
        w.assign(&double).map_err(said)?;
        w.assign(&w.value().add(1.0).map_err(said)?).map_err(said)?;
        ensure(before.read::<f32>().await.map_err(said)? == [1.0, 2.0], "the first value")?;
        ensure(w.value().read::<f32>().await.map_err(said)? == [3.0, 5.0], "the last value")
    });
    suite.steps("keys and values of a decoder, one plan for all positions", |d| cached(d, false));
    suite.steps("keys and values of a decoder, written in place", |d| cached(d, true));
    suite.steps("what is needed otherwise is not written in place", copied);
    suite.steps("a variable can be assigned products of its own value", masked);
    suite.steps("a variable keeps its shape and type", refused);
    suite.steps("a gradient in a program does not end unnoticed at what it captures", captured);
    suite.steps("an earlier value through another variable is that variable's", passed_on);
    suite.steps("a step leaves what reached its parameters through another variable", not_used_up);
    suite
}

/// Tests a mask that keeps a part of the history of earlier values. The value by which a gradient is taken is not part of it.
async fn masked(device: Device) -> Outcome {
    let values = |values: &[f32]| device.tensor(values, &[3]).map_err(said);
    let u = Variable::new(&values(&[1.0, 2.0, 3.0])?);
    let w = Variable::new(&values(&[1.0, 2.0, 3.0])?);
    let mask = values(&[1.0, 2.0, 1.0])?;
    for _ in 0..3 {
        let masked = w.value().mul(&mask).map_err(said)?;
        w.assign(&masked).map_err(said)?;
        drop(masked);
        w.value().read::<f32>().await.map_err(said)?;
    }
    let loss = w.value().mul(&u.value()).and_then(|x| x.sum(())).map_err(said)?;
    loss.backward(&[&w, &u]).map_err(said)?;
    for (variable, want) in [(&w, [1.0f32, 2.0, 3.0]), (&u, [1.0, 16.0, 3.0])] {
        let gradient = variable.take_gradient().ok_or("no gradient")?;
        let got = gradient.read::<f32>().await.map_err(said)?;
        ensure(got == want, format!("{got:?}, not {want:?}"))?;
    }
    Ok(())
}

/// Tests programs that capture a tensor. The tensor is a constant in the program, so a gradient by a variable in its history is
/// rejected.
async fn captured(device: Device) -> Outcome {
    let v = Variable::new(&device.tensor(&[1.0f32, 2.0], &[2]).map_err(said)?);
    let w = Variable::new(&v.value().mul(3.0).map_err(said)?);
    let other = Variable::new(&device.tensor(&[5.0f32, 6.0], &[2]).map_err(said)?);
    let x = device.ones(&[2]).map_err(said)?;
    // Runs a program that returns the gradient of `(of(x) + v) x` by `v`.
    let run = |of: &dyn Fn(&Tensor) -> Result<Tensor>| -> Result<Tensor> {
        let program = device.compile(&[(&[2], DType::F32)], |x| {
            let loss = of(&x[0])?.add(&v.value())?.mul(&x[0])?.sum(())?;
            loss.grad(&[&x[0], &v.value()])
        })?;
        Ok(program.run(&[&x])?.remove(1))
    };
    let square = v.value().square();
    let through = w.value().square();
    let (held, fixed) = (v.value(), square.detach());
    let unrelated = other.value().square();
    for (name, tensor) in [("square", &square), ("through", &through), ("value", &held)] {
        let error = run(&|_| Ok(tensor.clone())).err().ok_or(format!("{name} is no error"))?;
        let says =
            error.kind() == ErrorKind::InvalidState && error.message().contains("variable 1 [2]");
        ensure(says, format!("{name}: it says {}", error.message()))?;
    }
    for tensor in [&fixed, &unrelated] {
        let gradient = run(&|_| Ok(tensor.clone())).map_err(said)?;
        ensure(gradient.read::<f32>().await.map_err(said)? == [1.0, 1.0], "a constant")?;
    }
    // Computed inside the program, the tensor passes gradients.
    let gradient = run(&|_| Ok(v.value().square())).map_err(said)?;
    ensure(gradient.read::<f32>().await.map_err(said)? == [3.0, 5.0], "inside")?;
    // The gradient by the value that was read outside the program is known.
    let program = device.compile(&[(&[2], DType::F32)], |_| square.sum(())?.grad(&[&held]));
    let gradient = program.and_then(|program| program.run(&[&x])).map_err(said)?.remove(0);
    ensure(gradient.read::<f32>().await.map_err(said)? == [2.0, 4.0], "by a tensor")?;
    // `backward` is rejected, too.
    let program = device.compile(&[(&[2], DType::F32)], |x| {
        square.sum(())?.backward(&[&v])?;
        Ok(vec![x[0].clone()])
    });
    let error = program.err().ok_or("backward is no error")?;
    ensure(
        error.message().contains("a tensor from outside"),
        format!("it says {}", error.message()),
    )?;
    // After the variable has another value, the tensor belongs to an earlier value.
    v.assign(&device.tensor(&[7.0f32, 8.0], &[2]).map_err(said)?).map_err(said)?;
    let gradient = run(&|_| Ok(square.clone())).map_err(said)?;
    ensure(gradient.read::<f32>().await.map_err(said)? == [1.0, 1.0], "an earlier value")
}

/// Tests that a value belongs to the variable that it was assigned to, even after that variable was assigned again.
async fn passed_on(device: Device) -> Outcome {
    let values = |values: [f32; 2]| device.tensor(&values, &[2]).map_err(said);
    for is_assigned_again in [false, true] {
        let w = Variable::new(&values([1.0, 2.0])?);
        let u = Variable::new(&w.value());
        let triple = u.value().mul(3.0).map_err(said)?;
        let double = w.value().mul(2.0).map_err(said)?;
        let sum = |of: &Tensor| of.add(&w.value()).and_then(|x| x.sum(())).map_err(said);
        // While the parameter has the value, the gradient includes the path through the assignment.
        sum(&triple)?.backward(&[&w]).map_err(said)?;
        let gradient = w.take_gradient().ok_or("no gradient")?;
        let got = gradient.read::<f32>().await.map_err(said)?;
        ensure(got == [4.0, 4.0], "through the assignment")?;
        w.assign(&values([5.0, 6.0])?).map_err(said)?;
        if is_assigned_again {
            u.assign(&values([7.0, 8.0])?).map_err(said)?;
        }
        sum(&triple)?.backward(&[&w]).map_err(said)?;
        let gradient = w.take_gradient().ok_or("no gradient")?;
        let got = gradient.read::<f32>().await.map_err(said)?;
        ensure(got == [1.0, 1.0], "by the latest value")?;
        let error = sum(&double)?.backward(&[&w]).err().ok_or("an earlier value is no error")?;
        let says = error.message().contains("before variable 0 [2] was assigned");
        ensure(says, format!("it says {}", error.message()))?;
    }
    Ok(())
}

/// Tests that a step does not consume a loss of another variable's value. Its gradients stay available.
async fn not_used_up(device: Device) -> Outcome {
    let x = device.tensor(&[1.0f32, -2.0], &[2]).map_err(said)?;
    let w = Variable::new(&x.square());
    let u = Variable::new(&w.value());
    let mut optimizer = Optimizer::new(Sgd::new(1.0), std::slice::from_ref(&w)).map_err(said)?;
    let loss = |of: &Variable| of.value().square().sum(()).map_err(said);
    let (through, own) = (loss(&u)?, loss(&w)?);
    optimizer.minimize(&through).map_err(said)?;
    ensure(w.value().read::<f32>().await.map_err(said)? == [-1.0, -4.0], "a step")?;
    let gradient = through.grad(&[&x]).map_err(said)?.remove(0);
    ensure(gradient.read::<f32>().await.map_err(said)? == [4.0, -32.0], "a gradient after it")?;
    ensure(optimizer.minimize(&own).is_err(), "a loss of the earlier value")?;
    let own = loss(&w)?;
    optimizer.minimize(&own).map_err(said)?;
    ensure(own.backward(&[&w]).is_err(), "a loss that was used up")?;
    let gradient = own.grad(&[&w.value()]);
    let error = gradient.err().ok_or("a used up loss has zeros by the new value")?;
    ensure(error.message().contains("must not be used up"), error.message())?;
    let later = device.zeros(&[2]).map_err(said)?;
    let gradient = own.grad(&[&later]).map_err(said)?.remove(0);
    ensure(gradient.read::<f32>().await.map_err(said)? == [0.0, 0.0], "a later tensor")
}

async fn refused(device: Device) -> Outcome {
    let w = Variable::new(&device.zeros(&[2, 3]).map_err(said)?);
    let kind =
        |value: Result<Tensor>| value.and_then(|value| w.assign(&value)).err().map(|e| e.kind());
    ensure(kind(device.zeros(&[3, 2])) == Some(ErrorKind::Shape), "a shape")?;
    ensure(kind(device.full(&[2, 3], 0.0, DType::I32)) == Some(ErrorKind::DType), "a type")?;
    let failed = device.full(&[2, 3], 0.0, DType::I32).map(|whole| whole.exp());
    ensure(kind(failed) == Some(ErrorKind::DType), "an error")?;
    let loss = device.zeros(&[2]).map_err(said)?;
    let error = loss.backward(&[&w]).err().ok_or("a gradient of two numbers")?;
    ensure(error.message().starts_with("backward:"), format!("it says {}", error.message()))
}

async fn copied(device: Device) -> Outcome {
    let rows = |value: f64| device.full(&[1, 3], value, DType::F32).map_err(said);
    let w = Variable::new(&device.tensor(&[1.0f32; 6], &[2, 3]).map_err(said)?);
    let set = |n: isize, value: f64| w.assign_slice(0, n, &rows(value)?).map_err(said);
    let in_place = || device.last_plan().map_or(0, |plan| plan.in_place.len());
    // A tensor that was read from the variable is unchanged.
    let taken = w.value();
    set(0, 2.0)?;
    device.submit().map_err(said)?;
    ensure(in_place() == 0, "a taken tensor was written")?;
    ensure(taken.read::<f32>().await.map_err(said)? == [1.0; 6], "what was taken")?;
    drop(taken);
    set(1, 3.0)?;
    device.submit().map_err(said)?;
    ensure(in_place() == 1, "nothing else needs it")?;
    // A recorded computation of the value is unchanged, too.
    let sum = w.value().sum(&[]).map_err(said)?;
    set(0, 4.0)?;
    device.submit().map_err(said)?;
    ensure(sum.item::<f32>().await.map_err(said)? == 15.0, "a sum of the value before")?;
    // A read that was begun earlier returns the previous value.
    let begun = w.value().read::<f32>();
    set(0, 9.0)?;
    device.submit().map_err(said)?;
    ensure(begun.await.map_err(said)? == [4.0, 4.0, 4.0, 3.0, 3.0, 3.0], "a read begun before")?;
    set(0, 4.0)?;
    // Copies its row to the next row.
    let row = w.value().slice(0, 0..1).map_err(said)?;
    w.assign_slice(0, 1, &row).map_err(said)?;
    drop(row);
    ensure(w.value().read::<f32>().await.map_err(said)? == [4.0; 6], "its own row")?;
    // Two assignments at once.
    set(0, 5.0)?;
    set(1, 6.0)?;
    let want = [5.0, 5.0, 5.0, 6.0, 6.0, 6.0];
    ensure(w.value().read::<f32>().await.map_err(said)? == want, "two rows")?;
    let kind = |result: Result<()>| result.err().map(|error| error.kind());
    let wide = device.zeros(&[1, 4]).map_err(said)?;
    ensure(kind(w.assign_slice(0, 0, &wide)) == Some(ErrorKind::Shape), "a wide row")?;
    ensure(kind(w.assign_slice(0, 2, &rows(0.0)?)) == Some(ErrorKind::Shape), "behind the end")?;
    ensure(kind(w.assign_slice(0, -3, &rows(0.0)?)) == Some(ErrorKind::Shape), "before it")?;
    let whole = device.full(&[1, 3], 0.0, DType::I32).map_err(said)?;
    ensure(kind(w.assign_slice(0, 0, &whole)) == Some(ErrorKind::DType), "another type")
}

/// Decodes a sequence position by position. Keys and values are stored in two variables with room for all positions.
async fn cached(device: Device, in_place: bool) -> Outcome {
    const ROOM: usize = 40;
    let (heads, kv_heads, size) = (4, 2, 16);
    let data = |heads: usize, seed: u32| random(&[1, heads, ROOM, size], -1.0, 1.0, seed);
    let (q, k, v) = (data(heads, 1), data(kv_heads, 2), data(kv_heads, 3));
    let want = attend(&q, &k, &v, true, None, 0.25);
    let zeros = || device.zeros(&[1, kv_heads, ROOM, size]);
    let keys = Variable::new(&zeros().map_err(said)?);
    let values = Variable::new(&zeros().map_err(said)?);
    let step = |n: usize| -> Result<Tensor> {
        let row = |of: &Array<f64>| of.slice(2, n, 1, 1).f32(&device);
        let position = device.tensor(&[n as i32], &[])?;
        let places = device.iota(&[ROOM], 0)?;
        let here = places.eq(&position)?.unsqueeze(-1)?;
        if in_place {
            keys.assign_slice(2, n as isize, &row(&k)?)?;
            values.assign_slice(2, n as isize - ROOM as isize, &row(&v)?)?;
        } else {
            keys.assign(&here.where_cond(&row(&k)?, &keys.value())?)?;
            values.assign(&here.where_cond(&row(&v)?, &values.value())?)?;
        }
        let mask = places.le(&position)?.reshape(&[1, 1, 1, ROOM])?;
        let options = match in_place {
            true => AttentionOptions { kv_length: Some(n + 1), ..Default::default() },
            false => AttentionOptions { attn_mask: Some(&mask), ..Default::default() },
        };
        let result = row(&q)?.attention(&keys.value(), &values.value(), options)?;
        device.submit()?;
        Ok(result)
    };
    let mut settled = device.stats();
    for n in 0..ROOM {
        let before = device.stats();
        let got: Vec<f32> = step(n).map_err(said)?.read().await.map_err(said)?;
        let after = device.stats();
        ensure(after.submits == before.submits + 1, format!("submissions of position {n}"))?;
        let places = device.last_plan().map_or(0, |plan| plan.in_place.len());
        ensure(places == 2 * usize::from(n > 0), format!("{places} in place at {n}"))?;
        let want = want.slice(2, n, 1, 1);
        let near = |(g, w): (&f32, &f64)| (f64::from(*g) - w).abs() < 1e-5;
        ensure(
            got.iter().zip(&want.data).all(near),
            format!("position {n}: {got:?}, not {want:?}"),
        )?;
        match n {
            // At first the caches are zeros that are not yet stored.
            0 | 1 => settled = after,
            // New and previous caches alternate between the same buffers.
            2..=20 => settled.bind_groups = after.bind_groups,
            _ => nothing_new(settled, after)?,
        }
    }
    Ok(())
}
