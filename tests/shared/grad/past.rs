//! Tests the history that gradients need: after reading, after dropping, in batches and in programs.

use super::super::array::{random, Array};
use super::super::check::{near, said, Outcome, Suite};
use super::super::tolerance::Tolerance;
use warpweft::device::{Device, Stats};
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::tensor::Tensor;

pub fn cases(suite: &mut Suite) {
    constants(suite);
    read_before(suite);
    lost(suite);
    programs(suite);
    loops(suite);
}

/// Checks a gradient of small whole numbers.
async fn is(gradient: &Tensor, want: &[f64]) -> Outcome {
    let want = Array::new(gradient.shape(), want.to_vec());
    near("gradient", gradient.clone(), want, Tolerance::EXACT).run().await
}

/// Checks that the gradient is rejected because data was freed.
fn is_lost(gradients: Result<Vec<Tensor>>) -> Outcome {
    match gradients {
        Err(error)
            if error.kind() == ErrorKind::InvalidState && error.message().starts_with("grad:") =>
        {
            Ok(())
        }
        Err(error) => Err(format!("{:?} {error}", error.kind())),
        Ok(_) => Err("it gave a gradient".into()),
    }
}

fn one(device: &Device, value: f32) -> std::result::Result<Tensor, String> {
    device.tensor(&[value], &[]).map_err(said)
}

fn constants(suite: &mut Suite) {
    suite.steps("what does not go into it", |device| async move {
        let (x, y) = (one(&device, 3.0)?, device.ones(&[2, 2]).map_err(said)?);
        let gradients = x.square().grad(&[&y, &x, &x]).map_err(said)?;
        is(&gradients[0], &[0.0; 4]).await?;
        is(&gradients[1], &[6.0]).await?;
        is(&gradients[2], &[6.0]).await?;
        let own = x.grad(&[&x]).map_err(said)?;
        is(&own[0], &[1.0]).await
    });
    suite.steps("what does not vary", |device| async move {
        let x = device.tensor(&[1.5f32, -0.5], &[2]).map_err(said)?;
        let flat = [
            x.floor().add(&x.round()).map_err(said)?,
            x.gt(0.0).and_then(|x| x.cast(DType::F32)).map_err(said)?,
            x.cast(DType::I32).and_then(|x| x.cast(DType::F32)).map_err(said)?,
            x.sign(),
            x.detach().exp(),
        ];
        for y in flat {
            let gradients = y.sum(&[]).and_then(|y| y.grad(&[&x])).map_err(said)?;
            is(&gradients[0], &[0.0, 0.0]).await?;
        }
        Ok(())
    });
    suite.steps("by what lies between", |device| async move {
        let x = one(&device, 3.0)?;
        let y = x.square();
        let gradients = y.square().grad(&[&x, &y]).map_err(said)?;
        is(&gradients[0], &[108.0]).await?;
        is(&gradients[1], &[18.0]).await
    });
    suite.steps("detached on one side", |device| async move {
        let x = one(&device, 3.0)?;
        let y = x.mul(&x.detach()).map_err(said)?;
        is(&y.grad(&[&x]).map_err(said)?[0], &[3.0]).await?;
        near("value", x.detach(), Array::new(&[], vec![3.0]), Tolerance::EXACT).run().await
    });
    suite.steps("a long chain", |device| async move {
        let x = one(&device, 1.0)?;
        let mut y = x.clone();
        for _ in 0..3000 {
            y = y.add(&x).map_err(said)?;
        }
        is(&y.grad(&[&x]).map_err(said)?[0], &[3001.0]).await
    });
}

fn read_before(suite: &mut Suite) {
    suite.steps("after the loss was read", |device| async move {
        let x = device.tensor(&[1.0f32, 2.0], &[2]).map_err(said)?;
        let loss = x.square().square().sum(&[]).map_err(said)?;
        loss.item::<f32>().await.map_err(said)?;
        is(&loss.grad(&[&x]).map_err(said)?[0], &[4.0, 32.0]).await?;
        // A second time, from the history that the first gradient recorded again.
        is(&loss.grad(&[&x]).map_err(said)?[0], &[4.0, 32.0]).await
    });
    suite.steps("after all on the way was read", |device| async move {
        let x = device.tensor(&[1.0f32, 2.0], &[2]).map_err(said)?;
        let square = x.square();
        square.read::<f32>().await.map_err(said)?;
        let loss = square.square().sum(&[]).map_err(said)?;
        loss.item::<f32>().await.map_err(said)?;
        let gradients = loss.grad(&[&x, &square]).map_err(said)?;
        drop((loss, square));
        is(&gradients[0], &[4.0, 32.0]).await?;
        is(&gradients[1], &[2.0, 8.0]).await
    });
    suite.steps("after a flush", |device| async move {
        let x = one(&device, 3.0)?;
        let loss = x.square();
        device.submit().map_err(said)?;
        is(&loss.grad(&[&x]).map_err(said)?[0], &[6.0]).await
    });
    suite.steps("of a gradient that was read", |device| async move {
        let x = one(&device, 2.0)?;
        let first = x.square().mul(&x).and_then(|y| y.grad(&[&x])).map_err(said)?.remove(0);
        is(&first, &[12.0]).await?;
        is(&first.grad(&[&x]).map_err(said)?[0], &[12.0]).await
    });
}

fn lost(suite: &mut Suite) {
    suite.steps("what is gone is refused", |device| async move {
        let x = one(&device, 3.0)?;
        let square = x.square();
        square.read::<f32>().await.map_err(said)?;
        let loss = square.mul(2.0).map_err(said)?;
        loss.read::<f32>().await.map_err(said)?;
        drop(square);
        // The square was between the loss and x, and no handle holds its data.
        is(&loss.grad(&[&x]).map_err(said)?[0], &[12.0]).await?;
        for n in 0..70 {
            device.ones(&[1]).and_then(|x| x.mul(n)?.run()).map_err(said)?;
        }
        is_lost(loss.grad(&[&x]))?;
        is_lost(loss.exp().grad(&[&x]))?;
        is(&loss.detach().grad(&[&x]).map_err(said)?[0], &[0.0]).await?;
        // A newer tensor cannot be part of the lost history.
        let y = one(&device, 4.0)?;
        let both = loss.mul(&y).map_err(said)?;
        is(&both.grad(&[&y]).map_err(said)?[0], &[18.0]).await
    });
    suite.steps("an operand that is not held is kept", |device| async move {
        let (x, y) = (one(&device, 3.0)?, one(&device, 4.0)?);
        let loss = x.mul(&y.square()).map_err(said)?;
        loss.read::<f32>().await.map_err(said)?;
        drop(y);
        is(&loss.grad(&[&x]).map_err(said)?[0], &[16.0]).await
    });
    suite.steps("remembering holds no data", |device| async move {
        let x = device.ones(&[1000]).map_err(said)?.add(1.0).map_err(said)?;
        x.run().map_err(said)?;
        let y = x.square();
        y.run().map_err(said)?;
        let before = device.stats();
        drop(x);
        let after = device.stats();
        match after.used_bytes < before.used_bytes && after.nodes < before.nodes {
            true => Ok(()),
            false => Err(format!("{} bytes, {} nodes", after.used_bytes, after.nodes)),
        }
    });
}

/// Returns the weights, biases, an input and a target of a perceptron.
fn model(device: &Device) -> Result<Vec<Tensor>> {
    let shapes: [&[usize]; 6] = [&[12, 16], &[16], &[16, 3], &[3], &[8, 12], &[8, 3]];
    shapes.iter().zip(0..).map(|(shape, n)| random(shape, -0.5, 0.5, n).f32(device)).collect()
}

/// Computes a step of gradient descent. Returns the loss and the new weights.
fn step(x: &[Tensor]) -> Result<Vec<Tensor>> {
    let hidden = x[4].matmul(&x[0])?.add(&x[1])?.tanh();
    let result = hidden.matmul(&x[2])?.add(&x[3])?;
    let loss = result.sub(&x[5])?.square().mean(&[])?;
    let weights: Vec<&Tensor> = x[..4].iter().collect();
    let gradients = loss.grad(&weights)?;
    let mut results = vec![loss];
    for (weight, gradient) in weights.iter().zip(&gradients) {
        results.push(weight.sub(&gradient.mul(0.1)?)?);
    }
    Ok(results)
}

fn programs(suite: &mut Suite) {
    suite.steps("a training step as a program makes nothing new", |device| async move {
        let mut state = model(&device).map_err(said)?;
        let shapes: Vec<(Vec<usize>, DType)> =
            state.iter().map(|x| (x.shape().to_vec(), x.dtype())).collect();
        let inputs: Vec<(&[usize], DType)> = shapes.iter().map(|(s, d)| (&s[..], *d)).collect();
        let program = device.compile(&inputs, step).map_err(said)?;
        let (mut first, mut last, mut settled) = (0.0, 0.0, device.stats());
        let last_step = 99;
        for n in 0..=last_step {
            // The history of earlier weights is gone.
            if n == 75 {
                settled = device.stats();
            }
            let inputs: Vec<&Tensor> = state.iter().collect();
            let mut results = program.run(&inputs).map_err(said)?;
            let loss = results.remove(0);
            state.splice(..4, results);
            if n == 0 || n == last_step {
                last = loss.item::<f32>().await.map_err(said)?;
            }
            if n == 0 {
                first = last;
            }
        }
        flat(settled, device.stats())?;
        match last < 0.5 * first {
            true => Ok(()),
            false => Err(format!("the loss went from {first} to {last}")),
        }
    });
    suite.steps("a program's result", |device| async move {
        let program = device
            .compile(&[(&[], DType::F32)], |x| Ok(vec![x[0].square(), x[0].exp()]))
            .map_err(said)?;
        let x = one(&device, 3.0)?;
        let y = program.run(&[&x]).map_err(said)?.remove(0);
        // 2 x^2 * 2 x.
        is(&y.square().grad(&[&x]).map_err(said)?[0], &[108.0]).await?;
        is(&y.square().grad(&[&y]).map_err(said)?[0], &[18.0]).await?;
        is(&y.mul(&x).and_then(|z| z.grad(&[&y])).map_err(said)?[0], &[3.0]).await?;
        is(&y.mul(&x).and_then(|z| z.grad(&[&x])).map_err(said)?[0], &[27.0]).await?;
        is(&y.detach().mul(&x).and_then(|z| z.grad(&[&x])).map_err(said)?[0], &[9.0]).await?;
        let other = one(&device, 2.0)?;
        is(&y.mul(&other).and_then(|z| z.grad(&[&other])).map_err(said)?[0], &[9.0]).await
    });
}

/// Checks that nothing was created between two statistics, and that no more memory is used.
fn flat(before: Stats, after: Stats) -> Outcome {
    let held =
        |s: Stats| (s.plans, s.pipelines, s.buffers, s.bind_groups, s.bytes, s.used_bytes, s.nodes);
    match held(before) == held(after) {
        true => Ok(()),
        false => Err(format!("{:?} became {:?}", held(before), held(after))),
    }
}

fn loops(suite: &mut Suite) {
    suite.steps("a training loop makes nothing new and forgets", |device| async move {
        let mut state = model(&device).map_err(said)?;
        let mut settled = device.stats();
        for n in 0..1000 {
            // Measured before a step, when no tensor of the previous step is alive, and the history of the first ones is gone.
            if n == 100 {
                settled = device.stats();
            }
            let mut results = step(&state).map_err(said)?;
            let mut batch = device.batch();
            for result in &results {
                batch.add(result).map_err(said)?;
            }
            batch.run().map_err(said)?;
            results.remove(0);
            state.splice(..4, results);
            // Waits, so that the host does not run too far ahead of the device.
            if n % 50 == 0 {
                device.synchronize().await.map_err(said)?;
            }
        }
        flat(settled, device.stats())
    });
}
