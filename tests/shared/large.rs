//! Tests sizes at the limits of dispatches and buffers.

use super::array::{integers, Array};
use super::check::{exact, near, said, Suite};
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::tensor::Axes;

pub fn cases() -> Suite {
    let mut suite = Suite::new("large");
    // One dimension of a dispatch has at most 65,535 workgroups of 256 threads.
    for n in [65_535 * 256 - 1, 65_535 * 256, 65_535 * 256 + 1, 65_536 * 256 + 1] {
        suite
            .steps(format!("a map over {n}"), move |device| async move {
                let error = said;
                let count = device.iota(&[n], 0).map_err(error)?;
                let got: Vec<i32> = count
                    .mul(3)
                    .and_then(|x| x.add(1))
                    .map_err(error)?
                    .read()
                    .await
                    .map_err(error)?;
                let wrong = got.iter().enumerate().find(|&(i, &x)| x != 3 * i as i32 + 1);
                match wrong {
                    _ if got.len() != n => Err(format!("{} elements", got.len())),
                    Some((at, x)) => Err(format!("at {at}: got {x}, want {}", 3 * at + 1)),
                    None => Ok(()),
                }
            })
            .big();
    }
    suite
        .add("a read and a write of 2^24 + 1", |device| {
            let n = (1 << 24) + 1;
            let x = device.iota(&[n], 0)?.bitwise_and(255)?.cast(DType::F32)?;
            x.run()?;
            let sum = x.mul(2.0)?.slice(0, (n - 300) as isize..n as isize)?;
            let want = Array::from_fn(&[300], |at| ((n - 300 + at[0]) & 255) as f64 * 2.0);
            Ok(vec![near("its end", sum, want, Tolerance::EXACT)])
        })
        .big();
    rows(&mut suite);
    positions(&mut suite);
    beyond(&mut suite);
    suite
}

/// Tests positions that `f32` cannot distinguish.
fn positions(suite: &mut Suite) {
    const N: usize = (1 << 24) + 3;
    suite
        .add("positions around 2^24", |device| {
            let whole = |values: &[usize]| {
                Array::new(&[values.len()], values.iter().map(|&v| v as f64).collect())
            };
            let at = whole(&[N - 1, N - 2, N - 3, 0, N - 4]);
            let count = device.iota(&[N], 0)?;
            count.run()?;
            let index = at.on(device, DType::I32)?;
            let one = |x: f64| Array::new(&[], vec![x]);
            let ones = device.full(&[N], 1.0, DType::I32)?;
            let last = count.eq((N - 1) as f64)?.cast(DType::F32)?;
            let seven = Array::new(&[1], vec![7.0]).on(device, DType::I32)?;
            let place = whole(&[N - 1]).on(device, DType::I32)?;
            let brought =
                ones.scatter_add(0, &place, &seven)?.slice(0, N as isize - 2..N as isize)?;
            let sums = ones.cumsum(0)?.index_select(0, &index)?;
            let i32 = DType::I32;
            Ok(vec![
                exact("index_select", count.index_select(0, &index)?, i32, at.clone()),
                exact("sum", ones.sum(&[])?, i32, one(N as f64)),
                exact("argmax", last.argmax(0)?, i32, one((N - 1) as f64)),
                exact("max", count.max(&[])?, i32, one((N - 1) as f64)),
                exact("flip", count.flip(&[0])?.index_select(0, &index)?, i32, {
                    at.map(|at| (N - 1) as f64 - at)
                }),
                exact("cumsum", sums, i32, at.map(|at| at + 1.0)),
                exact("scatter_add", brought, i32, Array::new(&[2], vec![1.0, 8.0])),
            ])
        })
        .big();
}

/// Tests tensors that are too large for a kernel. The error names both sizes, but a view that fits is computed. A device
/// without this limit computes the whole tensor.
fn beyond(suite: &mut Suite) {
    suite
        .steps("tensors above what one binding takes", |device| async move {
            let most = device.limits().binding_bytes;
            let n = ((128 << 20) / 4) + 1;
            let takes = 4 * n as u64 <= most;
            let told = |what: &str, outcome: Result<()>| match outcome {
                Ok(()) if takes => Ok(()),
                Err(error) if !takes && error.kind() == ErrorKind::Limit => {
                    let message = error.message();
                    let named = message.contains(&(4 * n).to_string());
                    let both = named && message.contains(&most.to_string());
                    both.then_some(()).ok_or_else(|| format!("{what}: {message}"))
                }
                other => Err(format!("{what}: {other:?}")),
            };
            let data = device.tensor(&vec![1.0f32; n], &[n]);
            told("tensor", data.and_then(|x| x.run()))?;
            let x = device.iota(&[n], 0).map_err(said)?.bitwise_and(1).map_err(said)?;
            told("run", x.run())?;
            told("reading", x.read_range::<i32>(0, 1).await.map(drop))?;
            // The tensor is never stored in memory.
            let sum = x.sum(&[]).map_err(said)?.item::<i32>().await.map_err(said)?;
            let end = x.mul(5).and_then(|x| x.add(2)).and_then(|x| x.slice(0, -3..n as isize));
            let end = end.map_err(said)?.read::<i32>().await.map_err(said)?;
            let odd = |i: usize| (i & 1) as i32;
            let want = [odd(n - 3), odd(n - 2), odd(n - 1)].map(|x| x * 5 + 2);
            if sum as usize != n / 2 || end != want {
                return Err(format!("the sum is {sum}, the end {end:?} instead of {want:?}"));
            }
            Ok(())
        })
        .big();
}

/// Tests more rows, tiles and batches than one dimension of a dispatch has workgroups.
fn rows(suite: &mut Suite) {
    const MANY: usize = 65_600;
    suite.add("many rows", |device| {
        let x = integers(&[MANY, 3], -9, 9, 1);
        let a = x.f32(device)?;
        let sum = x.reduce(&[1], |x| x.iter().sum::<f64>());
        let spread = a.sub(&a.sum(Axes::from(1).keepdim(true))?)?;
        Ok(vec![
            near("sum", a.sum(&[1])?, sum.squeeze(&[1]), Tolerance::EXACT),
            near("x - sum", spread, x.zip(&sum, |x, s| x - s), Tolerance::EXACT),
        ])
    });
    suite
        .add("many rows of 70", |device| {
            let x = integers(&[MANY, 70], -9, 9, 2);
            let want = x.reduce(&[1], |x| x.iter().sum::<f64>()).squeeze(&[1]);
            Ok(vec![near("sum", x.f32(device)?.sum(&[1])?, want, Tolerance::EXACT)])
        })
        .big();
    suite.add("many products", |device| {
        let (x, y) = (integers(&[MANY, 2, 2], -9, 9, 3), integers(&[2, 2], -9, 9, 4));
        let got = x.f32(device)?.matmul(&y.f32(device)?)?;
        Ok(vec![near("products", got, super::matmul::product(&x, &y), Tolerance::EXACT)])
    });
    suite.add("a tall product", |device| {
        let (x, y) = (integers(&[MANY, 3], -9, 9, 5), integers(&[3, 2], -9, 9, 6));
        let got = x.f32(device)?.matmul(&y.f32(device)?)?;
        Ok(vec![near("product", got, super::matmul::product(&x, &y), Tolerance::EXACT)])
    });
}
