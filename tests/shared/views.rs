//! Tests several users of one view. Each may require that the view is materialized, and all must see the result.

use super::array::{random, Array};
use super::check::{near, said, Outcome, Suite};
use super::conv2d::convolve;
use super::matmul::product;
use super::tolerance::Tolerance;
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::tensor::{Conv2dOptions, Tensor};

pub fn cases() -> Suite {
    let mut suite = Suite::new("views");
    gated(&mut suite);
    convolved(&mut suite);
    suite.steps("gradients of a tensordot by an input and the seed", tensordot);
    results(&mut suite);
    suite
}

fn sigmoid(x: f64) -> f64 {
    1.0 / (1.0 + (-x).exp())
}

type View = fn(&Tensor) -> Result<Tensor>;
type Meaning = fn(&Array<f64>) -> Array<f64>;

/// Views of a 2 x 3 x 4 tensor as matrices of 4 columns. A matmul cannot read them without a division in each load.
const VIEWS: [(&str, View, Meaning); 5] = [
    (
        "merged heads",
        |h| h.permute(&[1, 0, 2])?.reshape(&[6, 4]),
        |h| h.permute(&[1, 0, 2]).reshape(&[6, 4]),
    ),
    (
        "patches",
        |h| h.unfold(1, 2, 1, 1)?.permute(&[1, 0, 3, 2])?.reshape(&[8, 4]),
        |h| {
            let window = |at: &[usize]| h.at(&[at[1], at[0] + at[2], at[3]]);
            Array::from_fn(&[2, 2, 2, 4], window).reshape(&[8, 4])
        },
    ),
    (
        "rolled",
        |h| h.roll(1, 2)?.reshape(&[6, 4]),
        |h| {
            Array::from_fn(&[2, 3, 4], |at| h.at(&[at[0], at[1], (at[2] + 3) % 4])).reshape(&[6, 4])
        },
    ),
    (
        "tiled",
        |h| h.tile(&[1, 2, 1])?.reshape(&[12, 4]),
        |h| Array::from_fn(&[2, 6, 4], |at| h.at(&[at[0], at[1] % 3, at[2]])).reshape(&[12, 4]),
    ),
    (
        "work on merged heads",
        |h| Ok(h.permute(&[1, 0, 2])?.reshape(&[6, 4])?.tanh().exp()),
        |h| h.permute(&[1, 0, 2]).reshape(&[6, 4]).map(|x| x.tanh().exp()),
    ),
];

fn gated(suite: &mut Suite) {
    for (name, view, meaning) in VIEWS {
        suite.add(format!("products of {name}"), move |device| {
            let h = random(&[2, 3, 4], -1.0, 1.0, 1);
            let (a, b) = (random(&[4, 5], -1.0, 1.0, 2), random(&[4, 5], -1.0, 1.0, 3));
            let x = view(&h.f32(device)?)?;
            let (p, q) = (x.matmul(&a.f32(device)?)?, x.matmul(&b.f32(device)?)?);
            let m = meaning(&h);
            let want = product(&m, &a).map(sigmoid).zip(&product(&m, &b), |p, q| p * q);
            let three = p.add(&q)?.mul(&x.matmul(&a.f32(device)?)?.tanh())?;
            let sum = product(&m, &a).zip(&product(&m, &b), |p, q| p + q);
            let wanted = sum.zip(&product(&m, &a), |s, p| s * p.tanh());
            Ok(vec![
                near("two", p.sigmoid().mul(&q)?, want, Tolerance::F32),
                near("three", three, wanted, Tolerance::F32),
            ])
        });
    }
    suite.add("both sides of a product", |device| {
        let h = random(&[2, 3, 4], -1.0, 1.0, 1);
        let turned = h.permute(&[1, 0, 2]).reshape(&[6, 4]);
        let x = h.f32(device)?.permute(&[1, 0, 2])?.reshape(&[6, 4])?;
        let want = product(&turned, &turned.permute(&[1, 0]));
        let outer = product(&turned.permute(&[1, 0]), &turned);
        let inner = x.transpose(0, 1)?.matmul(&x)?;
        Ok(vec![
            near("x xT", x.matmul(&x.transpose(0, 1)?)?, want, Tolerance::F32),
            near("xT x", inner, outer, Tolerance::F32),
        ])
    });
}

fn convolved(suite: &mut Suite) {
    suite.add("two convolutions of a view", |device| {
        let x = random(&[2, 5, 3, 4], -1.0, 1.0, 4);
        let (v, w) = (random(&[2, 6, 2, 2], -1.0, 1.0, 5), random(&[2, 6, 2, 2], -1.0, 1.0, 6));
        // Joins the channels with a part of the rows.
        let at = x.permute(&[0, 2, 1, 3]).reshape(&[2, 6, 2, 5]);
        let view = x.f32(device)?.permute(&[0, 2, 1, 3])?.reshape(&[2, 6, 2, 5])?;
        let conv = |w: &Array<f64>| view.conv2d(&w.f32(device)?, None, Conv2dOptions::default());
        let want = |w| convolve(&at, w, [1, 1], [(0, 0); 2], [1, 1], 1);
        let got = conv(&v)?.sigmoid().mul(&conv(&w)?)?;
        let want = want(&v).map(sigmoid).zip(&want(&w), |p, q| p * q);
        Ok(vec![near("gated", got, want, Tolerance::F32)])
    });
}

/// Tests products of views: of `a` over its axes 0 and 2, of `b` over its axes 1 and 0.
async fn tensordot(device: Device) -> Outcome {
    let (x, y) = (random(&[3, 5, 4], -1.0, 1.0, 7), random(&[4, 3, 2], -1.0, 1.0, 8));
    let seed = random(&[5, 2], -1.0, 1.0, 9);
    let found = || -> Result<(Tensor, Vec<Tensor>)> {
        let (a, b, s) = (x.f32(&device)?, y.f32(&device)?, seed.f32(&device)?);
        let left = a.permute(&[1, 0, 2])?.reshape(&[5, 12])?;
        let right = b.permute(&[1, 0, 2])?.reshape(&[12, 2])?;
        let dot = left.matmul(&right)?;
        let first = dot.square().vjp(&s, &[&a, &b])?;
        let mut all = first[0].square().sum(&[])?.add(&first[1].square().sum(&[])?)?;
        all = all.mul(0.5)?;
        let mut gradients = all.grad(&[&s, &a, &b])?;
        gradients.extend(first);
        let mut batch = device.batch();
        for gradient in &gradients {
            batch.add(gradient)?;
        }
        batch.run()?;
        Ok((dot, gradients))
    };
    let (dot, gradients) = found().map_err(said)?;
    let left = x.permute(&[1, 0, 2]).reshape(&[5, 12]);
    let right = y.permute(&[1, 0, 2]).reshape(&[12, 2]);
    let value = product(&left, &right);
    near("value", dot, value.clone(), Tolerance::F32).run().await?;
    // The gradients by x and y, and the derivative of half the sum of their squares by the seed.
    let g = value.zip(&seed, |v, s| 2.0 * v * s);
    let by_left = product(&g, &right.permute(&[1, 0]));
    let by_right = product(&left.permute(&[1, 0]), &g);
    let by_g = product(&by_left, &right).zip(&product(&left, &by_right), |p, q| p + q);
    let by_seed = by_g.zip(&value, |d, v| 2.0 * d * v);
    let wide = Tolerance { absolute: 1e-4, ..Tolerance::F32 };
    near("by the seed", gradients[0].clone(), by_seed, wide).run().await?;
    let back = by_left.reshape(&[5, 3, 4]).permute(&[1, 0, 2]);
    near("by x", gradients[3].clone(), back, wide).run().await?;
    let back = by_right.reshape(&[3, 4, 2]).permute(&[1, 0, 2]);
    near("by y", gradients[4].clone(), back, wide).run().await
}

/// Tests results that others are computed from, where no kernel can write both.
fn results(suite: &mut Suite) {
    suite.steps("a result of which nothing is read by another", |device| async move {
        let x = random(&[3], -1.0, 1.0, 10);
        let build = || {
            let y = x.f32(&device)?.exp();
            let none = y.slice(0, 1..1)?;
            let joined = Tensor::concat(&[none.clone(), x.f32(&device)?.neg()], 0)?;
            Ok([y, none, joined])
        };
        for other in [1, 2] {
            let all = build().map_err(said)?;
            let mut batch = device.batch();
            batch.add(&all[other]).and_then(|batch| batch.add(&all[0])?.run()).map_err(said)?;
            let [y, none, joined] = all;
            near("exp", y, x.map(f64::exp), Tolerance::F32).run().await?;
            near("none", none, Array::new(&[0], Vec::new()), Tolerance::EXACT).run().await?;
            near("joined", joined, x.map(|x| -x), Tolerance::F32).run().await?;
        }
        Ok(())
    });
    suite.steps("more results than a kernel has buffers", |device| async move {
        let (x, y) = (random(&[3], -1.0, 1.0, 11), random(&[3], -1.0, 1.0, 12));
        let count = device.limits().buffers_per_kernel.min(64);
        for count in count - 3..count + 2 {
            let build = || {
                let mut all = vec![x.f32(&device)?];
                for _ in 0..count {
                    all.push(all[all.len() - 1].add(1.0)?);
                }
                all.push(all[count].mul(&y.f32(&device)?)?);
                let mut batch = device.batch();
                for tensor in &all {
                    batch.add(tensor)?;
                }
                batch.run()?;
                Ok(all)
            };
            let mut all: Vec<Tensor> = build().map_err(said)?;
            let last = all.pop().ok_or("none")?;
            let sum = x.map(|x| x + count as f64);
            let wide = Tolerance { absolute: 1e-5, ..Tolerance::F32 };
            near("the last", last, sum.zip(&y, |s, y| s * y), wide).run().await?;
            for (n, tensor) in all.into_iter().enumerate() {
                near(format!("sum {n}"), tensor, x.map(|x| x + n as f64), wide).run().await?;
            }
        }
        Ok(())
    });
}
