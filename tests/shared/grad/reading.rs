//! Tests programs that read values on the way and take gradients afterwards, and the memory that they use.

use super::super::array::Array;
use super::super::batches::ensure;
use super::super::check::{near, said, Outcome, Suite};
use super::super::tolerance::Tolerance;
use warpweft::device::{Device, Stats};
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::tensor::{Tensor, Variable};

pub fn cases(suite: &mut Suite) {
    orders(suite);
    training(suite);
    forgotten(suite);
    held(suite);
    rounds(suite, 200);
    rounds(suite, 10_000);
}

/// Checks a gradient of small whole numbers.
async fn is(gradient: &Tensor, want: &[f64]) -> Outcome {
    let want = Array::new(gradient.shape(), want.to_vec());
    near("gradient", gradient.clone(), want, Tolerance::EXACT).run().await
}

/// Checks that the gradient is rejected, and that the message names the operation.
fn is_lost(gradients: Result<Vec<Tensor>>, name: &str) -> Outcome {
    let error = gradients.err().ok_or("it gave a gradient")?;
    let fits = error.kind() == ErrorKind::InvalidState && error.message().starts_with("grad: ");
    ensure(fits && error.message().contains(name), format!("{:?} {error}", error.kind()))
}

fn vector(device: &Device, values: &[f32]) -> Result<Tensor> {
    device.tensor(values, &[values.len()])
}

/// Returns the squared distance of `x w` from a target that only the graph holds.
fn distance(device: &Device, w: &Tensor) -> Result<Tensor> {
    let product = vector(device, &[3.0, 4.0])?.mul(w)?;
    product.sub(&vector(device, &[1.0, 1.0])?)?.square().sum(&[])
}

fn orders(suite: &mut Suite) {
    suite.steps("the loss is read, and its data is not held", |device| async move {
        let w = vector(&device, &[1.0, 2.0]).map_err(said)?;
        let loss = distance(&device, &w).map_err(said)?;
        ensure(loss.item::<f32>().await.map_err(said)? == 53.0, "the loss")?;
        for _ in 0..2 {
            is(&loss.grad(&[&w]).map_err(said)?[0], &[12.0, 56.0]).await?;
        }
        is(&loss.add(1.0).and_then(|loss| loss.grad(&[&w])).map_err(said)?[0], &[12.0, 56.0]).await
    });
    suite.steps("a prediction is read, then the loss of it", |device| async move {
        let w = vector(&device, &[1.0, 2.0]).map_err(said)?;
        let predicted = {
            let x = vector(&device, &[3.0, 4.0]).map_err(said)?;
            let predicted = x.mul(&w).map_err(said)?;
            predicted.read::<f32>().await.map_err(said)?;
            predicted
        };
        let loss = predicted.square().sum(&[]).map_err(said)?;
        loss.item::<f32>().await.map_err(said)?;
        let gradients = loss.grad(&[&w, &predicted]).map_err(said)?;
        is(&gradients[0], &[18.0, 64.0]).await?;
        is(&gradients[1], &[6.0, 16.0]).await
    });
    suite.steps("a prediction is read and dropped before the loss runs", |device| async move {
        let w = vector(&device, &[1.0, 2.0]).map_err(said)?;
        let predicted = w.mul(3.0).map_err(said)?;
        predicted.read::<f32>().await.map_err(said)?;
        let loss = predicted.square().sum(&[]).map_err(said)?;
        drop(predicted);
        is(&loss.grad(&[&w]).map_err(said)?[0], &[18.0, 36.0]).await
    });
    suite.steps("a gradient is read and differentiated", |device| async move {
        let x = vector(&device, &[2.0]).map_err(said)?;
        let cube = x.square().mul(&x).and_then(|y| y.sum(&[])).map_err(said)?;
        cube.item::<f32>().await.map_err(said)?;
        let first = cube.grad(&[&x]).map_err(said)?.remove(0);
        is(&first, &[12.0]).await?;
        drop(cube);
        let second = first.sum(&[]).and_then(|g| g.grad(&[&x])).map_err(said)?.remove(0);
        is(&second, &[12.0]).await?;
        is(&second.sum(&[]).and_then(|g| g.grad(&[&x])).map_err(said)?[0], &[6.0]).await
    });
    suite.steps("data made ready before, and read", |device| async move {
        let w = vector(&device, &[1.0, 2.0]).map_err(said)?;
        // No held tensor is part of its history. The tensor is therefore a constant, although it is newer than the weights.
        let x = vector(&device, &[6.0, 8.0]).and_then(|x| x.mul(0.5)).map_err(said)?;
        x.read::<f32>().await.map_err(said)?;
        let loss = x.mul(&w).and_then(|y| y.square().sum(&[])).map_err(said)?;
        drop(x);
        loss.item::<f32>().await.map_err(said)?;
        is(&loss.grad(&[&w]).map_err(said)?[0], &[18.0, 64.0]).await
    });
    suite.steps("data made ready by a program", |device| async move {
        let w = vector(&device, &[1.0, 2.0]).map_err(said)?;
        let halve = device.compile(&[(&[2], DType::F32)], |x| Ok(vec![x[0].mul(0.5)?]));
        let halve = halve.map_err(said)?;
        let loss = || -> Result<Tensor> {
            let x = halve.run(&[&vector(&device, &[6.0, 8.0])?])?.remove(0);
            x.mul(&w)?.square().sum(&[])
        };
        let loss = loss().map_err(said)?;
        loss.item::<f32>().await.map_err(said)?;
        is(&loss.grad(&[&w]).map_err(said)?[0], &[18.0, 64.0]).await
    });
}

/// Takes steps of gradient descent on a parabola from 1 and 2, in plain numbers.
fn parabola(steps: usize) -> [f64; 2] {
    let (mut w, x) = ([1.0, 2.0], [3.0, 4.0]);
    for _ in 0..steps {
        for n in 0..2 {
            w[n] -= 0.01 * 2.0 * x[n] * (x[n] * w[n] - 1.0);
        }
    }
    w
}

async fn is_parabola(w: &Tensor, steps: usize) -> Outcome {
    let want = Array::new(&[2], parabola(steps).to_vec());
    near("weights", w.clone(), want, Tolerance { absolute: 1e-5, ..Tolerance::F32 }).run().await
}

fn flat(before: Stats, after: Stats) -> Outcome {
    let held = |s: Stats| (s.plans, s.bytes, s.used_bytes, s.nodes);
    ensure(held(before) == held(after), format!("{:?} became {:?}", held(before), held(after)))
}

fn training(suite: &mut Suite) {
    suite.steps("training that reads its loss, with tensors", |device| async move {
        let mut w = vector(&device, &[1.0, 2.0]).map_err(said)?;
        let mut settled = device.stats();
        for n in 0..30 {
            if n == 3 {
                settled = device.stats();
            }
            let loss = distance(&device, &w).map_err(said)?;
            loss.item::<f32>().await.map_err(said)?;
            let g = loss.grad(&[&w]).map_err(said)?.remove(0);
            w = g.mul(0.01).and_then(|step| w.sub(&step)).map_err(said)?;
            w.run().map_err(said)?;
        }
        flat(settled, device.stats())?;
        is_parabola(&w, 30).await
    });
    suite.steps("training that reads its loss, with variables", |device| async move {
        let x = vector(&device, &[3.0, 4.0]).map_err(said)?;
        let start = vector(&device, &[1.0, 2.0]).map_err(said)?;
        let w = Variable::new(&start);
        let mut settled = device.stats();
        for n in 0..KEPT + 30 {
            if n == KEPT + 3 {
                settled = device.stats();
            }
            let loss = || x.mul(&w.value())?.sub(1.0)?.square().sum(&[]);
            let loss: Tensor = loss().map_err(said)?;
            loss.item::<f32>().await.map_err(said)?;
            loss.backward(&[&w]).map_err(said)?;
            let gradient = w.take_gradient().ok_or("there is none")?;
            let step = gradient.mul(0.01).and_then(|step| w.value().sub(&step)).map_err(said)?;
            w.assign(&step).map_err(said)?;
            drop(step);
            device.submit().map_err(said)?;
            loss.item::<f32>().await.map_err(said)?;
        }
        flat(settled, device.stats())?;
        is_parabola(&w.value(), KEPT + 30).await
    });
    suite.steps("Newton's method that reads all it has", |device| async move {
        let (mut x, mut want) = (vector(&device, &[3.0]).map_err(said)?, 3.0f64);
        for _ in 0..8 {
            let y = x.square().square().sub(&x).and_then(|y| y.sum(&[])).map_err(said)?;
            y.item::<f32>().await.map_err(said)?;
            let first = y.grad(&[&x]).map_err(said)?.remove(0);
            first.read::<f32>().await.map_err(said)?;
            let second = first.sum(&[]).and_then(|g| g.grad(&[&x])).map_err(said)?.remove(0);
            second.read::<f32>().await.map_err(said)?;
            x = first.div(&second).and_then(|step| x.sub(&step)).map_err(said)?;
            x.read::<f32>().await.map_err(said)?;
            want -= (4.0 * want.powi(3) - 1.0) / (12.0 * want * want);
        }
        near("x", x, Array::new(&[1], vec![want]), Tolerance::F32).run().await
    });
}

/// A number of batches after which the history of a dropped value is gone.
const KEPT: usize = 70;

/// Runs as many batches as a dropped value keeps its history.
async fn outlast(device: &Device) -> Outcome {
    for n in 0..KEPT {
        let x = device.ones(&[1]).and_then(|x| x.mul(n as f32)).map_err(said)?;
        x.read::<f32>().await.map_err(said)?;
    }
    Ok(())
}

fn forgotten(suite: &mut Suite) {
    suite.steps("what was read and dropped keeps its history for a while", |device| async move {
        let w = vector(&device, &[1.0, 2.0]).map_err(said)?;
        let y = w.square();
        y.read::<f32>().await.map_err(said)?;
        // One factor of the loss is the weights themselves.
        let z = vector(&device, &[1.0, 1.0]).map_err(said)?;
        let loss = y.mul(&w).and_then(|p| p.mul(&z)?.sum(&[])).map_err(said)?;
        loss.item::<f32>().await.map_err(said)?;
        is(&loss.grad(&[&w]).map_err(said)?[0], &[3.0, 12.0]).await?;
        drop(y);
        is(&loss.grad(&[&w]).map_err(said)?[0], &[3.0, 12.0]).await?;
        outlast(&device).await?;
        is_lost(loss.grad(&[&w]), "square")?;
        is_lost(loss.grad(&[&w, &z]), "square")?;
        is_lost(loss.add(1.0).and_then(|loss| loss.grad(&[&w])), "square")?;
        // A newer tensor is not part of the lost history, and a detached loss needs none.
        is(&loss.grad(&[&z]).map_err(said)?[0], &[1.0, 8.0]).await?;
        is(&loss.detach().grad(&[&w]).map_err(said)?[0], &[0.0, 0.0]).await
    });
    suite.steps("a chain of what was read ends where it was dropped", |device| async move {
        let first = vector(&device, &[1.0]).map_err(said)?;
        let mut x = first.clone();
        for n in 1..=KEPT + 10 {
            x = x.mul(-1.0).map_err(said)?;
            x.read::<f32>().await.map_err(said)?;
            if n == 51 {
                is(&x.sum(&[]).and_then(|y| y.grad(&[&first])).map_err(said)?[0], &[-1.0]).await?;
            }
        }
        is_lost(x.sum(&[]).and_then(|y| y.grad(&[&first])), "mul")?;
        is(&x.square().sum(&[]).and_then(|y| y.grad(&[&x])).map_err(said)?[0], &[2.0]).await
    });
    suite.steps("a large value that was dropped takes little memory", |device| async move {
        let mut x = device.ones(&[1 << 20]).map_err(said)?;
        let first = x.clone();
        for _ in 0..20 {
            x = x.mul(0.5).map_err(said)?;
            x.run().map_err(said)?;
        }
        let used = device.stats().used_bytes >> 20;
        ensure(used <= 36, format!("{used} MiB for values of 4 MiB"))?;
        is_lost(x.sum(&[]).and_then(|y| y.grad(&[&first])), "mul")
    });
}

fn held(suite: &mut Suite) {
    suite.steps("data is kept for a gradient, and no longer", |device| async move {
        let used = || device.stats().used_bytes;
        let w = device.ones(&[1000]).and_then(|w| w.mul(2.0)).map_err(said)?;
        w.run().map_err(said)?;
        let before = used();
        let x = device.tensor(&[3.0f32; 1000], &[1000]).map_err(said)?;
        let each = used() - before;
        let y = x.mul(&w).and_then(|y| y.sum(&[])).map_err(said)?;
        y.run().map_err(said)?;
        drop(x);
        ensure(used() > before + each, "the gradient of y by w has lost x")?;
        is(&y.grad(&[&w]).map_err(said)?[0], &[3.0; 1000]).await?;
        drop(w);
        ensure(used() < before, format!("{} bytes for the history of a constant", used()))?;
        ensure(device.stats().nodes == 1, format!("{} nodes", device.stats().nodes))
    });
    suite.steps("what nothing held goes into keeps nothing", |device| async move {
        let used = || device.stats().used_bytes;
        let small = {
            let raw = device.tensor(&[3.0f32; 1000], &[1000]).map_err(said)?;
            let small = raw.mul(2.0).and_then(|x| x.sum(&[])).map_err(said)?;
            small.run().map_err(said)?;
            small
        };
        ensure(used() < 1000 && device.stats().nodes == 1, format!("{} bytes", used()))?;
        is(&small.grad(&[&small]).map_err(said)?[0], &[1.0]).await
    });
    suite.steps("losses that are kept hold no old weights", |device| async move {
        let x = vector(&device, &[3.0, 4.0]).map_err(said)?;
        let mut w = vector(&device, &[1.0, 2.0]).map_err(said)?;
        let (mut losses, mut counts) = (Vec::new(), Vec::new());
        for _ in 0..KEPT + 20 {
            let loss = x.mul(&w).and_then(|y| y.sub(1.0)?.square().sum(&[])).map_err(said)?;
            loss.item::<f32>().await.map_err(said)?;
            let g = loss.grad(&[&w]).map_err(said)?.remove(0);
            w = g.mul(0.01).and_then(|step| w.sub(&step)).map_err(said)?;
            device.submit().map_err(said)?;
            losses.push(loss);
            counts.push(device.stats().nodes);
        }
        let grown = counts[KEPT + 19] - counts[KEPT + 9];
        ensure(grown == 10, format!("{grown} nodes for 10 losses: {counts:?}"))
    });
}

/// Tests that loops of many rounds use constant memory.
fn rounds(suite: &mut Suite, count: usize) {
    let big = count > 1000;
    let step = |x: &Tensor| x.mul(0.5)?.add(1.0);
    suite
        .steps(
            format!("{count} rounds, each read, while the first is held"),
            move |device| async move {
                let first = vector(&device, &[4.0, 8.0]).map_err(said)?;
                let (mut x, mut settled) = (first.clone(), device.stats());
                for n in 0..count {
                    x = step(&x).map_err(said)?;
                    x.read::<f32>().await.map_err(said)?;
                    if n == KEPT {
                        settled = device.stats();
                    }
                }
                flat(settled, device.stats())?;
                is_lost(x.sum(&[]).and_then(|y| y.grad(&[&first])), "add")
            },
        )
        .big = big;
    suite
        .steps(
            format!("{count} rounds, each flushed, while the first is held"),
            move |device| async move {
                let first = vector(&device, &[4.0, 8.0]).map_err(said)?;
                let (mut x, mut settled) = (first.clone(), device.stats());
                for n in 0..count {
                    x = step(&x).map_err(said)?;
                    device.submit().map_err(said)?;
                    if n == KEPT {
                        settled = device.stats();
                    }
                    if n % 50 == 0 {
                        device.synchronize().await.map_err(said)?;
                    }
                }
                flat(settled, device.stats())?;
                drop(first);
                near("x", x, Array::new(&[2], vec![2.0; 2]), Tolerance::F32).run().await
            },
        )
        .big = big;
    suite
        .steps(
            format!("{count} rounds whose losses are detached and kept"),
            move |device| async move {
                let w = vector(&device, &[1.0, 2.0]).map_err(said)?;
                let (mut losses, mut before) = (Vec::new(), device.stats().nodes);
                for n in 0..count {
                    let loss = distance(&device, &w).map_err(said)?;
                    losses.push(loss.detach());
                    loss.grad(&[&w]).and_then(|g| g[0].run()).map_err(said)?;
                    drop(loss);
                    device.submit().map_err(said)?;
                    if n % 50 == 0 {
                        device.synchronize().await.map_err(said)?;
                    }
                    let nodes = device.stats().nodes;
                    ensure(n == 0 || nodes == before + 1, format!("{before} nodes, then {nodes}"))?;
                    before = nodes;
                }
                Ok(())
            },
        )
        .big = big;
}
