//! Tests eager execution: operations that run one by one as they are recorded.

use super::array::Array;
use super::batches::ensure;
use super::check::{near, said, Outcome, Suite};
use super::tolerance::Tolerance;
use std::future::Future;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::tensor::{Tensor, Variable};

/// Adds a case that runs while its device executes eagerly.
fn eagerly<F: Future<Output = Outcome> + 'static>(
    suite: &mut Suite,
    name: &str,
    run: impl Fn(Device) -> F + Copy + 'static,
) {
    suite.steps(format!("eagerly, {name}"), move |device| async move {
        device.run_eagerly(true);
        let outcome = run(device.clone()).await;
        device.run_eagerly(false);
        outcome
    });
}

async fn is(tensor: &Tensor, want: &[f64]) -> Outcome {
    let want = Array::new(tensor.shape(), want.to_vec());
    near("it", tensor.clone(), want, Tolerance::F32).run().await
}

pub fn cases(suite: &mut Suite) {
    eagerly(suite, "each operation is a submission", |device| async move {
        let x = device.tensor(&[1.0f32, -2.0], &[2]).map_err(said)?;
        let before = device.stats();
        let y = x.relu().add(1.0).and_then(|y| y.mul(&x)).map_err(said)?;
        let after = device.stats();
        let ran = (after.submits - before.submits, after.kernels - before.kernels);
        ensure(ran == (3, 3), format!("{ran:?} submissions and kernels"))?;
        is(&y, &[2.0, -2.0]).await?;
        ensure(device.stats().submits == after.submits, "reading computed again")?;
        device.run_eagerly(false);
        let z = y.square();
        ensure(device.stats().submits == after.submits, "it still runs eagerly")?;
        is(&z, &[4.0, 4.0]).await
    });
    eagerly(suite, "gradients pass what no handle holds", |device| async move {
        let x = device.tensor(&[1.0f32, 2.0], &[2]).map_err(said)?;
        let loss = x.square().square().sum(()).map_err(said)?;
        let first = loss.grad(&[&x]).map_err(said)?.remove(0);
        is(&first, &[4.0, 32.0]).await?;
        let second = first.sum(()).and_then(|sum| sum.grad(&[&x])).map_err(said)?.remove(0);
        is(&second, &[12.0, 48.0]).await
    });
    eagerly(suite, "a loop holds no more at its end", |device| async move {
        let x = device.tensor(&[1.0f32, 2.0], &[2]).map_err(said)?;
        let w = Variable::new(&x.zeros_like());
        let mut settled = None;
        for step in 0..20 {
            let loss = w.value().sub(&x).and_then(|off| off.square().sum(())).map_err(said)?;
            loss.backward(&[&w]).map_err(said)?;
            let gradient = w.take_gradient().expect("backward left one");
            let next = gradient.mul(0.25).and_then(|g| w.value().sub(&g)).map_err(said)?;
            w.assign(&next).map_err(said)?;
            drop((loss, next, gradient));
            device.submit().map_err(said)?;
            let stats = device.stats();
            if step == 5 {
                settled = Some((stats.nodes, stats.used_bytes));
            }
            let now = (stats.nodes, stats.used_bytes);
            let same = settled.is_none_or(|settled| settled == now);
            ensure(same, format!("{now:?} nodes and bytes after {settled:?}"))?;
        }
        is(&w.value(), &[1.0, 2.0]).await
    });
    eagerly(suite, "what is compiled waits for its inputs", |device| async move {
        let k = device.tensor(&[2.0f32], &[1]).map_err(said)?;
        let before = device.stats().submits;
        let build = |x: &[Tensor]| Ok(vec![x[0].mul(&k)?.add(1.0)?]);
        let program = device.compile(&[(&[1], DType::F32)], build).map_err(said)?;
        ensure(device.stats().submits == before, "it ran without inputs")?;
        let x = device.tensor(&[3.0f32], &[1]).map_err(said)?;
        is(&program.run(&[&x]).map_err(said)?[0], &[7.0]).await
    });
    eagerly(suite, "what fails leaves nothing", |device| async move {
        let x = device.tensor(&[1.0f32, 2.0], &[2]).map_err(said)?;
        let nodes = device.stats().nodes;
        ensure(x.reshape([3]).is_err(), "it has three elements")?;
        ensure(x.matmul(&device.zeros(&[3]).map_err(said)?).is_err(), "it is a product")?;
        ensure(device.stats().nodes == nodes, "nodes are left")
    });
}
