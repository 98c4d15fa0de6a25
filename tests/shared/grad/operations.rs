//! Tests gradients of operations that are not rows of the pointwise table, and of their combinations.

use super::super::array::{integers, place, random, Array};
use super::super::attention::{attend, window_mask};
use super::super::check::{typed, Suite};
use super::super::conv2d::convolve;
use super::super::matmul::product;
use super::super::norm::{layer_norm, log_softmax, rms_norm, rows, softmax};
use super::super::reduce::{logsumexp, variance};
use super::super::tolerance::Tolerance;
use super::{holds, twice};
use warpweft::dtype::DType;
use warpweft::tensor::{
    AttentionOptions, Axes, Conv2dOptions, NormOptions, Padding, RmsNormOptions, Tensor,
};

/// Returns numbers between -1 and 1, different for each seed.
fn r(shape: &[usize], seed: u32) -> Array<f64> {
    random(shape, -1.0, 1.0, seed)
}

fn add(a: &Array<f64>, b: &Array<f64>) -> Array<f64> {
    a.zip(b, |a, b| a + b)
}

fn mul(a: &Array<f64>, b: &Array<f64>) -> Array<f64> {
    a.zip(b, |a, b| a * b)
}

fn sum(x: &[f64]) -> f64 {
    x.iter().sum()
}

fn most(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

fn least(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::INFINITY, f64::min)
}

pub fn cases(suite: &mut Suite) {
    broadcasting(suite);
    movement(suite);
    joining(suite);
    choosing(suite);
    reductions(suite);
    derived(suite);
    products(suite);
    convolutions(suite);
    attentions(suite);
    second(suite);
    halves(suite);
}

fn broadcasting(suite: &mut Suite) {
    const SHAPES: &[[&[usize]; 2]] = &[
        [&[3, 4], &[3, 4]],
        [&[3, 4], &[4]],
        [&[3, 4], &[3, 1]],
        [&[3, 4], &[]],
        [&[1, 4], &[3, 1]],
        [&[2, 1, 4], &[5, 1]],
        [&[1], &[2, 3]],
        [&[1, 1, 1], &[]],
    ];
    for &[a, b] in SHAPES {
        let name = |what: &str| format!("{what} {a:?} {b:?}");
        holds(
            suite,
            name("sum of"),
            vec![r(a, 1), r(b, 2)],
            |x| x[0].add(&x[1]),
            |x| add(&x[0], &x[1]),
        );
        holds(
            suite,
            name("product of"),
            vec![r(a, 3), r(b, 4)],
            |x| x[0].mul(&x[1]),
            |x| mul(&x[0], &x[1]),
        );
    }
    holds(
        suite,
        "one tensor twice",
        vec![r(&[5], 5)],
        |x| x[0].mul(&x[0])?.sub(&x[0]),
        |x| x[0].map(|x| x * x - x),
    );
    holds(
        suite,
        "numbers",
        vec![r(&[5], 6)],
        |x| x[0].mul(3)?.add(1)?.div(7),
        |x| x[0].map(|x| (x * 3.0 + 1.0) / 7.0),
    );
}

fn movement(suite: &mut Suite) {
    let x = || vec![r(&[2, 3, 4], 7)];
    holds(suite, "reshape", x(), |x| x[0].reshape(&[4, 6]), |x| x[0].reshape(&[4, 6]));
    holds(suite, "permute", x(), |x| x[0].permute(&[2, 0, 1]), |x| x[0].permute(&[2, 0, 1]));
    holds(suite, "transpose", x(), |x| x[0].transpose(0, -1), |x| x[0].permute(&[2, 1, 0]));
    let narrow = || vec![r(&[3, 1], 8)];
    holds(suite, "expand", narrow(), |x| x[0].expand(&[2, 3, 4]), |x| x[0].expand(&[2, 3, 4]));
    holds(suite, "slice", x(), |x| x[0].slice(2, 1..3), |x| x[0].slice(2, 1, 2, 1));
    let long = || vec![r(&[3, 11, 2], 9)];
    for step in [2, 3, 7, 20] {
        holds(
            suite,
            format!("slice in steps of {step}"),
            long(),
            move |x| x[0].slice_step(1, 1..10, step),
            move |x| x[0].slice(1, 1, 9usize.div_ceil(step), step as isize),
        );
    }
    holds(suite, "flip", x(), |x| x[0].flip(&[0, 2]), |x| x[0].flip(&[0, 2]));
    holds(
        suite,
        "slice of a flip in steps",
        long(),
        |x| x[0].flip(&[1])?.slice_step(1, 2..11, 4),
        |x| x[0].flip(&[1]).slice(1, 2, 3, 4),
    );
    holds(
        suite,
        "slice at rank 8",
        vec![r(&[1, 2, 1, 5, 1, 2, 1, 1], 10)],
        |x| x[0].slice_step(3, ..5, 2),
        |x| x[0].slice(3, 0, 3, 2),
    );
    let amounts = [(1, 2), (0, 0), (3, 0)];
    holds(suite, "pad", x(), move |x| x[0].pad(&amounts, 0.5), move |x| x[0].pad(&amounts, 0.5));
    let part = || vec![r(&[2, 3, 4], 21), r(&[2, 2, 4], 22)];
    holds(
        suite,
        "slice_scatter",
        part(),
        |x| x[0].slice_scatter(1, 1, &x[1].square())?.mul(&x[0]),
        |x| {
            let placed = x[0].slice_scatter(1, 1, &x[1].map(|x| x * x));
            Array::from_fn(&[2, 3, 4], |at| placed.at(at) * x[0].at(at))
        },
    );
    holds(
        suite,
        "tile",
        x(),
        |x| x[0].tile(&[2, 1, 3]),
        |x| Array::from_fn(&[4, 3, 12], |at| x[0].at(&[at[0] % 2, at[1], at[2] % 4])),
    );
    let upper = |x: &[Array<f64>]| {
        Array::from_fn(&[4, 5], |at| if at[1] > at[0] { x[0].at(at) } else { 0.0 })
    };
    holds(suite, "triu", vec![r(&[4, 5], 11)], |x| x[0].triu(1), upper);
    holds(
        suite,
        "a chain of views",
        x(),
        |x| x[0].flip(&[1])?.reshape(&[6, 4])?.transpose(0, 1)?.slice(0, 1..3),
        |x| x[0].flip(&[1]).reshape(&[6, 4]).permute(&[1, 0]).slice(0, 1, 2, 1),
    );
}

fn joining(suite: &mut Suite) {
    let parts = || vec![r(&[2, 3], 12), r(&[2, 1], 13), r(&[2, 4], 14)];
    holds(
        suite,
        "concat",
        parts(),
        |x| Tensor::concat(&[&x[0], &x[1], &x[2]], 1),
        |x| Array::concat(x, 1),
    );
    holds(
        suite,
        "concat of one twice",
        vec![r(&[2, 3], 15)],
        |x| Tensor::concat(&[&x[0], &x[0]], 0),
        |x| Array::concat(&[x[0].clone(), x[0].clone()], 0),
    );
    let same = || vec![r(&[2, 3], 16), r(&[2, 3], 17)];
    holds(
        suite,
        "stack",
        same(),
        |x| Tensor::stack(&[&x[0], &x[1]], 1),
        |x| {
            let one = |x: &Array<f64>| x.reshape(&[2, 1, 3]);
            Array::concat(&[one(&x[0]), one(&x[1])], 1)
        },
    );
    holds(
        suite,
        "split",
        vec![r(&[2, 7], 18)],
        |x| {
            let parts = x[0].split(&[3, 4], 1)?;
            parts[0].mul(&parts[1].slice(1, 1..4)?)
        },
        |x| mul(&x[0].slice(1, 0, 3, 1), &x[0].slice(1, 4, 3, 1)),
    );
}

/// Returns the elements of `x` along an axis at `index`, with 0 outside.
fn gathered(x: &Array<f64>, axis: usize, index: &Array<f64>) -> Array<f64> {
    let (before, after) = (x.shape[..axis].to_vec(), x.shape[axis + 1..].to_vec());
    let shape = [&before[..], &index.shape, &after].concat();
    Array::from_fn(&shape, |at| {
        let inner = axis + index.shape.len();
        let Some(position) = place(index.at(&at[axis..inner]), x.shape[axis]) else { return 0.0 };
        x.at(&[&at[..axis], &[position], &at[inner..]].concat())
    })
}

fn choosing(suite: &mut Suite) {
    const SHAPES: &[(&[usize], usize, &[usize])] = &[
        (&[6, 4], 0, &[9]),
        (&[6, 4], 0, &[2, 3]),
        (&[6, 4], 1, &[5]),
        (&[7], 0, &[4]),
        (&[2, 5, 3], 1, &[4]),
        (&[2, 5, 3], 1, &[]),
        (&[2, 3, 5], 2, &[2, 2]),
    ];
    for &(shape, axis, index) in SHAPES {
        for dtype in [DType::I32, DType::U32] {
            // Some indices are out of range.
            let at = integers(index, 0, shape[axis] as i32, 19);
            let here = at.clone();
            holds(
                suite,
                format!("index_select {shape:?} axis {axis} index {index:?} {dtype}"),
                vec![r(shape, 20)],
                move |x| x[0].index_select(axis as isize, &here.on(x[0].device(), dtype)?),
                move |x| gathered(&x[0], axis, &at),
            );
        }
    }
    holds(
        suite,
        "where_cond",
        vec![r(&[3, 4], 21), r(&[4], 22)],
        |x| x[0].gt(0.1)?.where_cond(&x[0].square(), &x[1]),
        |x| x[0].zip(&x[1], |a, b| if a > 0.1 { a * a } else { b }),
    );
    holds(
        suite,
        "select of what is infinite",
        vec![Array::new(&[4], vec![0.0, 1.0, 2.0, 0.0])],
        |x| x[0].gt(0.5)?.where_cond(&x[0], &x[0].mul(2)?),
        |x| x[0].map(|x| if x > 0.5 { x } else { 2.0 * x }),
    );
    suite.add("dropout", |device| {
        let x = random(&[50], 1.0, 2.0, 23).f32(device)?;
        // Dropout of ones returns the mask.
        let mask = device.ones(&[50])?.dropout(0.5, 7)?;
        let apart = x.dropout(0.5, 7)?.sum(&[])?.grad(&[&x])?[0].sub(&mask)?;
        let zeros = Array::new(&[50], vec![0.0; 50]);
        Ok(vec![typed("from the mask", apart, DType::F32, zeros, Tolerance::EXACT)])
    });
}

fn reductions(suite: &mut Suite) {
    type Reduce =
        (&'static str, fn(&Tensor, &[isize]) -> warpweft::error::Result<Tensor>, fn(&[f64]) -> f64);
    const ALL: &[Reduce] = &[
        ("sum", |x, axes| x.sum(Axes::from(axes).keepdim(true)), sum),
        ("mean", |x, axes| x.mean(Axes::from(axes).keepdim(true)), |x| sum(x) / x.len() as f64),
        ("max", |x, axes| x.max(Axes::from(axes).keepdim(true)), most),
        ("min", |x, axes| x.min(Axes::from(axes).keepdim(true)), least),
        ("prod", |x, axes| x.prod(Axes::from(axes).keepdim(true)), |x| x.iter().product()),
        ("var", |x, axes| x.var(Axes::from(axes).keepdim(true), 1.0), |x| variance(x, 1.0)),
    ];
    const AXES: &[(&[usize], &[usize])] = &[
        (&[7], &[0]),
        (&[3, 5], &[1]),
        (&[5, 3], &[0]),
        (&[2, 3, 4], &[0, 2]),
        (&[2, 3, 4], &[1]),
        (&[2, 3, 2], &[0, 1, 2]),
    ];
    for &(name, build, meaning) in ALL {
        for &(shape, axes) in AXES {
            let signed: Vec<isize> = axes.iter().map(|&a| a as isize).collect();
            holds(
                suite,
                format!("{name} {shape:?} over {axes:?}"),
                vec![random(shape, -2.0, 2.0, 24)],
                move |x| build(&x[0], &signed),
                move |x| x[0].reduce(axes, meaning),
            );
        }
    }
    let zeros =
        Array::new(&[3, 4], vec![2.0, 0.0, -3.0, 0.5, 0.0, 1.0, 0.0, 4.0, 0.0, 0.0, 0.0, 1.0]);
    holds(
        suite,
        "prod with zeros",
        vec![zeros],
        |x| x[0].prod(&[1]),
        |x| x[0].reduce(&[1], |x| x.iter().product()).squeeze(&[1]),
    );
    holds(
        suite,
        "prod of many",
        vec![random(&[2, 100], 0.9, 1.1, 25)],
        |x| x[0].prod(&[1]),
        |x| x[0].reduce(&[1], |x| x.iter().product()).squeeze(&[1]),
    );
    holds(
        suite,
        "a long sum",
        vec![r(&[70_000], 26)],
        |x| x[0].square().sum(&[]),
        |x| Array::new(&[], vec![x[0].data.iter().map(|x| x * x).sum()]),
    );
}

fn derived(suite: &mut Suite) {
    let x = || vec![random(&[4, 9], -3.0, 3.0, 27)];
    let over = |x: &Array<f64>, f: fn(&[f64]) -> f64| x.reduce(&[1], f).squeeze(&[1]);
    let each = |x: &Array<f64>, f: fn(&[f64]) -> Vec<f64>| rows(x, &[1], f);
    holds(suite, "softmax", x(), |x| x[0].softmax(1), move |x| each(&x[0], softmax));
    holds(suite, "log_softmax", x(), |x| x[0].log_softmax(1), move |x| each(&x[0], log_softmax));
    holds(suite, "softmax of columns", x(), |x| x[0].softmax(0), |x| rows(&x[0], &[0], softmax));
    holds(suite, "logsumexp", x(), |x| x[0].logsumexp(&[1]), move |x| over(&x[0], logsumexp));
    holds(
        suite,
        "std",
        x(),
        |x| x[0].std(&[1], 1.0),
        move |x| over(&x[0], |x| variance(x, 1.0).sqrt()),
    );
    holds(
        suite,
        "norm_l1",
        x(),
        |x| x[0].norm_l1(&[1]),
        move |x| over(&x[0], |x| x.iter().map(|x| x.abs()).sum()),
    );
    holds(
        suite,
        "norm_l2",
        x(),
        |x| x[0].norm_l2(&[1]),
        move |x| over(&x[0], |x| x.iter().map(|x| x * x).sum::<f64>().sqrt()),
    );
    holds(
        suite,
        "norm_linf",
        x(),
        |x| x[0].norm_linf(&[1]),
        move |x| over(&x[0], |x| x.iter().fold(0.0, |m, x| x.abs().max(m))),
    );
    let affine = || vec![random(&[4, 9], -3.0, 3.0, 28), r(&[9], 29), r(&[9], 30)];
    holds(
        suite,
        "layer_norm",
        affine(),
        |x| {
            x[0].layer_norm(
                &[1],
                NormOptions { weight: Some(&x[1]), bias: Some(&x[2]), ..Default::default() },
            )
        },
        move |x| add(&mul(&each(&x[0], layer_norm), &x[1]), &x[2]),
    );
    holds(
        suite,
        "rms_norm",
        affine()[..2].to_vec(),
        |x| x[0].rms_norm(&[1], RmsNormOptions { weight: Some(&x[1]), eps: 1e-6 }),
        move |x| mul(&each(&x[0], rms_norm), &x[1]),
    );
    // If all elements are equal, the derivative does not exist. It is defined as 0.
    suite.add("norms of nothing", |device| {
        let x = device.zeros(&[3, 4])?;
        let zeros = || Array::new(&[3, 4], vec![0.0; 12]);
        let mut checks = Vec::new();
        for (name, loss) in [("norm_l2", x.norm_l2(&[1])?), ("std", x.std(&[1], 1.0)?)] {
            let gradient = loss.sum(&[])?.grad(&[&x])?.remove(0);
            checks.push(typed(name, gradient, DType::F32, zeros(), Tolerance::EXACT));
        }
        Ok(checks)
    });
}

fn products(suite: &mut Suite) {
    const SHAPES: &[[&[usize]; 2]] = &[
        [&[3, 4], &[4, 5]],
        [&[1, 1], &[1, 1]],
        [&[33, 17], &[17, 40]],
        [&[2, 3, 4], &[2, 4, 5]],
        [&[2, 3, 4], &[4, 5]],
        [&[3, 4], &[2, 4, 5]],
        [&[2, 1, 3, 4], &[5, 4, 2]],
        [&[1, 3, 4], &[2, 4, 5]],
        [&[2, 3, 4], &[1, 4, 5]],
    ];
    for &[a, b] in SHAPES {
        holds(
            suite,
            format!("matmul {a:?} {b:?}"),
            vec![r(a, 31), r(b, 32)],
            |x| x[0].matmul(&x[1]),
            |x| product(&x[0], &x[1]),
        );
    }
    holds(
        suite,
        "matmul of vectors",
        vec![r(&[4], 33), r(&[4, 5], 34)],
        |x| x[0].matmul(&x[1]),
        |x| product(&x[0].reshape(&[1, 4]), &x[1]).reshape(&[5]),
    );
    holds(
        suite,
        "dot",
        vec![r(&[9], 35), r(&[9], 36)],
        |x| x[0].dot(&x[1]),
        |x| Array::new(&[], vec![sum(&mul(&x[0], &x[1]).data)]),
    );
    holds(
        suite,
        "outer",
        vec![r(&[3], 37), r(&[4], 38)],
        |x| x[0].outer(&x[1]),
        |x| mul(&x[0].reshape(&[3, 1]), &x[1]),
    );
    holds(
        suite,
        "matmul of views",
        vec![r(&[5, 4], 39), r(&[5, 3], 40)],
        |x| x[0].transpose(0, 1)?.matmul(&x[1].flip(&[0])?),
        |x| product(&x[0].permute(&[1, 0]), &x[1].flip(&[0])),
    );
}

fn convolutions(suite: &mut Suite) {
    type Window = ([usize; 4], [usize; 4], [usize; 2], [(usize, usize); 2], [usize; 2], usize);
    const NO: [(usize, usize); 2] = [(0, 0); 2];
    const SHAPES: &[Window] = &[
        ([1, 1, 4, 4], [1, 1, 3, 3], [1, 1], NO, [1, 1], 1),
        ([2, 3, 5, 6], [4, 3, 3, 2], [1, 1], NO, [1, 1], 1),
        ([2, 3, 4, 4], [5, 3, 1, 1], [1, 1], NO, [1, 1], 1),
        ([1, 2, 7, 8], [3, 2, 3, 3], [2, 2], NO, [1, 1], 1),
        ([1, 2, 8, 6], [3, 2, 2, 4], [3, 1], [(0, 1), (2, 1)], [1, 1], 1),
        ([2, 2, 4, 4], [3, 2, 3, 3], [1, 1], [(1, 1), (1, 1)], [1, 1], 1),
        ([1, 2, 7, 9], [2, 2, 3, 3], [1, 1], NO, [2, 3], 1),
        ([2, 4, 4, 4], [6, 2, 3, 3], [1, 1], [(1, 1), (0, 2)], [1, 1], 2),
        ([1, 4, 5, 5], [4, 1, 3, 3], [2, 1], [(1, 1), (1, 1)], [1, 1], 4),
        ([1, 1, 2, 2], [1, 1, 2, 2], [1, 1], [(3, 3), (3, 3)], [1, 1], 1),
        ([1, 1, 2, 3], [2, 1, 1, 1], [9, 2], [(10, 0), (4, 5)], [1, 1], 1),
        ([2, 6, 9, 8], [3, 2, 3, 2], [2, 3], [(2, 1), (0, 2)], [2, 1], 3),
        // Sums over enough pixels to be computed in parts.
        ([3, 2, 25, 21], [8, 2, 3, 3], [1, 1], [(1, 1), (1, 1)], [1, 1], 1),
        ([7, 4, 23, 19], [16, 2, 3, 2], [2, 1], [(1, 0), (0, 1)], [1, 2], 2),
        ([5, 6, 16, 17], [6, 1, 2, 3], [1, 1], NO, [1, 1], 6),
    ];
    for (n, &(x, w, stride, pads, dilation, groups)) in SHAPES.iter().enumerate() {
        let options = Conv2dOptions { stride, padding: Padding::Explicit(pads), dilation, groups };
        holds(
            suite,
            format!("conv2d {n}: {x:?} {w:?}"),
            vec![r(&x, 41), r(&w, 42)],
            move |x| x[0].conv2d(&x[1], None, options),
            move |x| convolve(&x[0], &x[1], stride, pads, dilation, groups),
        );
    }
    holds(
        suite,
        "conv2d with a bias",
        vec![r(&[1, 2, 4, 4], 43), r(&[3, 2, 2, 2], 44), r(&[3], 45)],
        |x| x[0].conv2d(&x[1], Some(&x[2]), Conv2dOptions::default()),
        |x| {
            let bare = convolve(&x[0], &x[1], [1, 1], NO, [1, 1], 1);
            add(&bare, &x[2].reshape(&[3, 1, 1]))
        },
    );
}

fn attentions(suite: &mut Suite) {
    let heads = |heads: usize, queries: usize, keys: usize| {
        vec![r(&[2, 4, queries, 3], 46), r(&[2, heads, keys, 3], 47), r(&[2, heads, keys, 5], 48)]
    };
    let plain = AttentionOptions { scale: Some(0.7), ..Default::default() };
    let causal = AttentionOptions { is_causal: true, ..plain };
    holds(
        suite,
        "attention",
        heads(4, 3, 6),
        move |x| x[0].attention(&x[1], &x[2], plain),
        |x| attend(&x[0], &x[1], &x[2], false, None, 0.7),
    );
    let some = AttentionOptions { kv_length: Some(4), is_causal: true, ..plain };
    holds(
        suite,
        "attention, some of the keys, causal",
        heads(2, 3, 6),
        move |x| x[0].attention(&x[1], &x[2], some),
        |x| attend(&x[0], &x[1].slice(2, 0, 4, 1), &x[2].slice(2, 0, 4, 1), true, None, 0.7),
    );
    let near = AttentionOptions { window: Some(3), ..plain };
    holds(
        suite,
        "attention, a sliding window",
        heads(4, 5, 6),
        move |x| x[0].attention(&x[1], &x[2], near),
        |x| {
            let mask = window_mask(5, 6, 3).expand(&[2, 4, 5, 6]);
            attend(&x[0], &x[1], &x[2], false, Some(&mask), 0.7)
        },
    );
    holds(
        suite,
        "attention, causal, heads in groups",
        heads(2, 5, 5),
        move |x| x[0].attention(&x[1], &x[2], causal),
        |x| attend(&x[0], &x[1], &x[2], true, None, 0.7),
    );
    holds(
        suite,
        "attention, queries that see nothing",
        heads(1, 5, 3),
        move |x| x[0].attention(&x[1], &x[2], causal),
        |x| attend(&x[0], &x[1], &x[2], true, None, 0.7),
    );
    let mut masked = heads(4, 3, 6);
    masked.push(r(&[4, 3, 6], 49));
    holds(
        suite,
        "attention, by its mask too",
        masked,
        |x| {
            let options =
                AttentionOptions { attn_mask: Some(&x[3]), scale: Some(0.7), ..Default::default() };
            x[0].attention(&x[1], &x[2], options)
        },
        |x| attend(&x[0], &x[1], &x[2], false, Some(&x[3].expand(&[2, 4, 3, 6])), 0.7),
    );
    holds(
        suite,
        "attention, a bool mask",
        heads(4, 3, 6),
        |x| {
            let seen = x[0].device().iota(&[3, 6], 1)?.fmod(3)?.ne(1)?;
            let options =
                AttentionOptions { attn_mask: Some(&seen), scale: Some(0.7), ..Default::default() };
            x[0].attention(&x[1], &x[2], options)
        },
        |x| {
            let hidden = |at: &[usize]| if at[3] % 3 == 1 { f64::NEG_INFINITY } else { 0.0 };
            let mask = Array::from_fn(&[2, 4, 3, 6], hidden);
            attend(&x[0], &x[1], &x[2], false, Some(&mask), 0.7)
        },
    );
    holds(
        suite,
        "attention of one tensor",
        vec![r(&[1, 2, 4, 3], 50)],
        move |x| x[0].attention(&x[0], &x[0], causal),
        |x| attend(&x[0], &x[0], &x[0], true, None, 0.7),
    );
}

fn second(suite: &mut Suite) {
    let total = |x: Array<f64>| sum(&x.data);
    twice(
        suite,
        "twice: a polynomial",
        vec![r(&[5], 51)],
        |x| x[0].square().mul(&x[0])?.sum(&[]),
        move |x| total(x[0].map(|x| x.powi(3))),
    );
    twice(
        suite,
        "twice: rows",
        vec![r(&[5], 52), r(&[5], 53)],
        |x| x[0].tanh().mul(&x[1].sigmoid())?.add(&x[0].gelu())?.sum(&[]),
        move |x| {
            let gelu = |x: f64| x * 0.5 * (1.0 + erf(x / 2f64.sqrt()));
            total(x[0].zip(&x[1], |x, y| x.tanh() / (1.0 + (-y).exp()) + gelu(x)))
        },
    );
    twice(
        suite,
        "twice: softmax",
        vec![r(&[2, 5], 54), r(&[2, 5], 55)],
        |x| x[0].softmax(1)?.mul(&x[1])?.sum(&[]),
        move |x| total(mul(&rows(&x[0], &[1], softmax), &x[1])),
    );
    twice(
        suite,
        "twice: matmul",
        vec![r(&[3, 4], 56), r(&[4, 2], 57)],
        |x| x[0].matmul(&x[1])?.square().sum(&[]),
        move |x| total(product(&x[0], &x[1]).map(|x| x * x)),
    );
    twice(
        suite,
        "twice: conv2d",
        vec![r(&[1, 2, 4, 4], 58), r(&[2, 2, 2, 2], 59)],
        |x| {
            x[0].conv2d(&x[1], None, Conv2dOptions { stride: [2, 1], ..Default::default() })?
                .square()
                .sum(&[])
        },
        move |x| total(convolve(&x[0], &x[1], [2, 1], [(0, 0); 2], [1, 1], 1).map(|x| x * x)),
    );
    let zeros = Array::new(&[4], vec![2.0, 0.0, -1.5, 0.0]);
    twice(
        suite,
        "twice: prod with zeros",
        vec![zeros],
        |x| x[0].prod(&[]),
        |x| x[0].data.iter().product(),
    );
    let options = AttentionOptions { is_causal: true, scale: Some(0.7), ..Default::default() };
    twice(
        suite,
        "twice: attention",
        vec![r(&[1, 2, 3, 2], 60), r(&[1, 1, 3, 2], 61)],
        move |x| x[0].attention(&x[1], &x[1], options)?.square().sum(&[]),
        move |x| total(attend(&x[0], &x[1], &x[1], true, None, 0.7).map(|x| x * x)),
    );
}

/// Returns the error function by its series, for small arguments.
fn erf(x: f64) -> f64 {
    let (mut sum, mut term) = (x, x);
    for n in 1..40 {
        term *= -x * x / f64::from(n);
        sum += term / f64::from(2 * n + 1);
    }
    sum * std::f64::consts::FRAC_2_SQRT_PI
}

fn halves(suite: &mut Suite) {
    let case = suite.add("halves and casts", |device| {
        let (x, w) = (r(&[4, 6], 62), r(&[6, 3], 63));
        let (a, b) = (x.on(device, DType::F16)?, w.f32(device)?);
        let y = a.matmul(&b.cast(DType::F16)?)?.relu().cast(DType::F32)?;
        let gradients = y.sum(&[])?.grad(&[&a, &b])?;
        let (x, w) = (x.rounded(DType::F16), w.rounded(DType::F16));
        let on = product(&x, &w).map(|y| f64::from(u8::from(y > 0.0)));
        let by_x = product(&on, &w.permute(&[1, 0]));
        let by_w = product(&x.permute(&[1, 0]), &on);
        let near = Tolerance { absolute: 1e-2, relative: 1e-2 };
        let mut gradients = gradients.into_iter();
        let mut next = || gradients.next().expect("two gradients");
        Ok(vec![
            typed("by halves", next(), DType::F16, by_x, near),
            typed("by what was cast", next(), DType::F32, by_w, near),
        ])
    });
    case.half();
}
