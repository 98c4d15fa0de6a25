//! Tests that a statistic has the same value however it is read: whole or in part, alone or in one kernel with others. Compares
//! every reduction, norm and loss with `f64`, for numbers whose squares and sums exceed the range of `f16`.

use super::array::{integers, random, Array};
use super::check::{near, typed, Check, Suite};
use super::norm::{layer_norm, log_softmax, rms_norm, rows, softmax};
use super::tolerance::Tolerance;
use std::rc::Rc;
use std::slice::from_ref;
use warpweft::backend::DeviceKind;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::nn::{
    BatchNorm, BinaryCrossEntropyOptions, BinaryCrossEntropyWithLogitsOptions, GaussianNllOptions,
    Generator, Layer, Module, NllOptions,
};
use warpweft::nn::{CrossEntropyOptions, LossReduction, PoissonNllOptions, TripletMarginOptions};
use warpweft::tensor::{AttentionOptions, NormOptions, PoolOptions, RmsNormOptions, Tensor};

pub fn cases() -> Suite {
    let mut suite = Suite::new("readings");
    let all: [fn() -> Vec<Statistic>; 5] = [reductions, norms, pairs, numbers, classes];
    for (number, statistic) in all.iter().flat_map(|some| some()).enumerate() {
        let statistic = Rc::new(Statistic { number, ..statistic });
        for dtype in [DType::F32, DType::F16] {
            let own = statistic.clone();
            let name = format!("{}, {dtype}", own.name);
            let case = suite.add(name, move |device| own.checks(device, dtype));
            if dtype == DType::F16 {
                case.half();
            }
            if statistic.big {
                case.big();
            }
        }
    }
    running(&mut suite);
    suite
}

type Compute = dyn Fn(&[Tensor]) -> Result<Tensor>;
type Want = dyn Fn(&[Array<f64>]) -> Array<f64>;

/// A statistic of inputs, and its value.
struct Statistic {
    name: String,
    inputs: Vec<Array<f64>>,
    compute: Box<Compute>,
    want: Box<Want>,
    by: Tolerance,
    big: bool,
    /// The index of the statistic in the list of all.
    number: usize,
}

/// The error that GPUs add to sums of numbers of one sign, to a root and to an exponential.
const BY: Tolerance = Tolerance { absolute: 4e-6, relative: 1e-5 };

fn statistic(
    name: &str,
    inputs: &[Array<f64>],
    compute: impl Fn(&[Tensor]) -> Result<Tensor> + 'static,
    want: impl Fn(&[Array<f64>]) -> Array<f64> + 'static,
) -> Statistic {
    let (compute, want) = (Box::new(compute), Box::new(want));
    Statistic {
        name: name.to_string(),
        inputs: inputs.to_vec(),
        compute,
        want,
        by: BY,
        big: false,
        number: 0,
    }
}

/// A way to read a result: a name, an operation on the tensor, and the same operation on the expected values.
type Reading = (&'static str, fn(&Tensor) -> Result<Tensor>, fn(&Array<f64>) -> Array<f64>);

const READINGS: [Reading; 7] = [
    ("whole", |y| Ok(y.clone()), Array::clone),
    ("sliced", |y| y.slice(-1, 0..3), |y| y.slice(y.shape.len() - 1, 0, 3, 1)),
    (
        "selected",
        |y| y.select(-1, 1),
        |y| y.slice(y.shape.len() - 1, 1, 1, 1).squeeze(&[y.shape.len() - 1]),
    ),
    (
        "chosen",
        |y| y.index_select(-1, &y.device().tensor(&[2, 0], &[2])?),
        |y| y.slice(y.shape.len() - 1, 2, 2, -2),
    ),
    ("padded", |y| y.pad(&pads(y.rank()), 1.0), |y| y.pad(&pads(y.shape.len()), 1.0)),
    ("used", |y| y.mul(0.5)?.add(1.0), |y| y.map(|y| y * 0.5 + 1.0)),
    ("reversed", |y| y.flip(&[-1])?.mul(2.0), |y| y.flip(&[y.shape.len() - 1]).map(|y| y * 2.0)),
];

/// Returns padding of the last axis: one element before, two after.
fn pads(rank: usize) -> Vec<(usize, usize)> {
    let mut pads = vec![(0, 0); rank];
    pads[rank - 1] = (1, 2);
    pads
}

impl Statistic {
    fn checks(&self, device: &Device, dtype: DType) -> Result<Vec<Check>> {
        let inputs: Vec<Array<f64>> = self.inputs.iter().map(|x| x.rounded(dtype)).collect();
        let (mut stored, mut halved) = (Vec::new(), Vec::new());
        for x in &inputs {
            stored.push(x.on(device, dtype)?);
            halved.push(x.map(|x| x * 0.5).rounded(dtype).on(device, dtype)?);
        }
        let mut want = (self.want)(&inputs).rounded(dtype);
        // A scalar is read as a row of equal elements.
        let single = want.shape.is_empty();
        if single {
            want = want.expand(&[3]);
        }
        let compute = |inputs: &[Tensor]| {
            let y = (self.compute)(inputs)?;
            if single {
                y.expand(&[3])
            } else {
                Ok(y)
            }
        };
        let kept = compute(&stored)?;
        let mut checks = Vec::new();
        for (n, (name, read, of)) in self.asked(device, dtype) {
            let (how, y) = match n {
                0 => ("alone", compute(&stored)?),
                1 => {
                    let doubled: Result<Vec<Tensor>> = halved.iter().map(|x| x.mul(2.0)).collect();
                    ("of what is computed", compute(&doubled?)?)
                }
                _ => ("with others", kept.clone()),
            };
            // The statistic is rounded, and the result of the reading is rounded again.
            let by = Tolerance { relative: 2.0 * self.by.relative, ..self.by };
            let by = by.stored(dtype).stored(dtype);
            let want = of(&want).rounded(dtype);
            checks.push(typed(format!("{name} {how}"), read(&y)?, dtype, want, by));
        }
        Ok(checks)
    }

    /// Returns the readings to test: alone, of computed inputs, and of one tensor. A GPU compiles a kernel for each one, so it
    /// tests only some, and others for the next statistic.
    fn asked(&self, device: &Device, dtype: DType) -> Vec<(usize, Reading)> {
        let all: Vec<(usize, Reading)> =
            (0..3).flat_map(|way| READINGS.map(|reading| (way, reading))).collect();
        let few = match (device.info().kind, dtype) {
            (DeviceKind::Cpu, _) => return all,
            (_, DType::F16) => 3,
            _ => 1,
        };
        // This step visits all of them.
        (0..few).map(|n| all[(few * self.number + n) * 8 % all.len()]).collect()
    }
}

/// Returns small numbers, and 795 once in each row. Its square exceeds the largest `f16`.
fn spiked() -> Array<f64> {
    Array::from_fn(&[4, 768], |at| match at[1] == 5 + at[0] {
        true => 795.0,
        false => (at[1] % 7) as f64 * 0.1,
    })
}

/// Returns numbers of magnitude 300, and 22,550 in one row.
fn loud() -> Array<f64> {
    Array::from_fn(&[3, 64], |at| match at {
        [1, 9] => 22_550.0,
        _ => 300.0 * if (at[0] + at[1]) % 3 == 0 { -1.0 } else { 1.0 },
    })
}

/// Applies `f` to each row along an axis, and removes the axis.
fn along(axis: usize, f: fn(&[f64]) -> f64) -> impl Fn(&[Array<f64>]) -> Array<f64> {
    move |x| x[0].reduce(&[axis], f).squeeze(&[axis])
}

/// Applies `f` to each row along an axis.
fn each(axis: usize, f: fn(&[f64]) -> Vec<f64>) -> impl Fn(&[Array<f64>]) -> Array<f64> {
    move |x| rows(&x[0], &[axis], f)
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

/// Returns the population variance.
fn variance(x: &[f64]) -> f64 {
    let middle = mean(x);
    mean(&x.iter().map(|x| (x - middle).powi(2)).collect::<Vec<_>>())
}

fn power(x: &[f64], p: f64) -> f64 {
    x.iter().map(|x| x.abs().powf(p)).sum::<f64>()
}

fn log_sum(x: &[f64]) -> f64 {
    let most = x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    most + x.iter().map(|x| (x - most).exp()).sum::<f64>().ln()
}

/// Returns the sums of each number and all numbers before it.
fn running_sums(x: &[f64]) -> Vec<f64> {
    let mut sum = 0.0;
    x.iter()
        .map(|x| {
            sum += x;
            sum
        })
        .collect()
}

type One = fn(&Tensor, isize) -> Result<Tensor>;
type OfRow = fn(&[f64]) -> f64;

fn reductions() -> Vec<Statistic> {
    let all: [(&str, One, OfRow); 14] = [
        ("sum", |x, axis| x.sum(axis), |x| x.iter().sum()),
        ("mean", |x, axis| x.mean(axis), mean),
        ("max", |x, axis| x.max(axis), |x| x.iter().copied().fold(f64::MIN, f64::max)),
        ("min", |x, axis| x.min(axis), |x| x.iter().copied().fold(f64::MAX, f64::min)),
        ("var", |x, axis| x.var(axis, 0.0), variance),
        ("std", |x, axis| x.std(axis, 0.0), |x| variance(x).sqrt()),
        (
            "std of samples",
            |x, axis| x.std(axis, 1.0),
            |x| (variance(x) * x.len() as f64 / (x.len() - 1) as f64).sqrt(),
        ),
        ("norm_l1", |x, axis| x.norm_l1(axis), |x| power(x, 1.0)),
        ("norm_l2", |x, axis| x.norm_l2(axis), |x| power(x, 2.0).sqrt()),
        (
            "norm_linf",
            |x, axis| x.norm_linf(axis),
            |x| x.iter().fold(0.0, |most, x| most.max(x.abs())),
        ),
        ("norm 0", |x, axis| x.norm(0.0, axis), |x| x.iter().filter(|x| **x != 0.0).count() as f64),
        ("norm 3", |x, axis| x.norm(3.0, axis), |x| power(x, 3.0).cbrt()),
        ("logsumexp", |x, axis| x.logsumexp(axis), log_sum),
        (
            "trapezoid",
            |x, axis| x.trapezoid(0.5, axis),
            |x| x.windows(2).map(|pair| 0.25 * (pair[0] + pair[1])).sum(),
        ),
    ];
    let mut statistics = Vec::new();
    for (name, compute, want) in all {
        for (what, x, axis) in [("spiked", spiked(), 1), ("loud", loud(), 0), ("loud", loud(), 1)] {
            let name = format!("{name} of {what} along {axis}");
            let compute = move |x: &[Tensor]| compute(&x[0], axis as isize);
            statistics.push(statistic(&name, &[x], compute, along(axis, want)));
        }
    }
    let tenths = Array::from_fn(&[3, 500], |at| 1.0 + ((at[0] + at[1]) % 3) as f64 * 0.01);
    let product = along(1, |x| x.iter().product());
    statistics.push(statistic("prod", &[tenths], |x| x[0].prod(1), product));
    let x = random(&[3, 700], 30.0, 90.0, 1);
    let sums = each(1, running_sums);
    statistics.push(statistic("cumsum", &[x], |x| x[0].cumsum(1), sums));
    let x = Array::from_fn(&[1, 1, 40, 60], |at| ((at[2] * 60 + at[3]) % 700) as f64);
    let of_all = |f: fn(&[f64]) -> f64| {
        move |x: &[Array<f64>]| {
            let parts = [(0, 0), (0, 30), (20, 0), (20, 30)];
            let part = |(y, from)| x[0].slice(2, y, 20, 1).slice(3, from, 30, 1);
            Array::new(&[4], parts.map(|at| f(&part(at).data)).to_vec())
        }
    };
    let pool = PoolOptions::new([20, 30]);
    statistics.extend([
        statistic(
            "avg_pool",
            from_ref(&x),
            move |x| x[0].avg_pool(pool)?.reshape(&[4]),
            of_all(mean),
        ),
        statistic(
            "l2_pool",
            from_ref(&x),
            move |x| x[0].l2_pool(pool)?.reshape(&[4]),
            of_all(|x| power(x, 2.0).sqrt()),
        ),
        statistic(
            "adaptive_avg_pool",
            &[x],
            |x| x[0].adaptive_avg_pool(&[2, 2])?.reshape(&[4]),
            of_all(mean),
        ),
    ]);
    statistics
}

/// Returns the options of a norm whose weight is the second input, and whose bias is the third.
fn scale_and_shift(x: &[Tensor]) -> NormOptions<'_> {
    NormOptions { weight: Some(&x[1]), bias: Some(&x[2]), ..Default::default() }
}

fn norms() -> Vec<Statistic> {
    let mut statistics = Vec::new();
    for (what, x) in [("spiked", spiked()), ("loud", loud())] {
        for axis in [1usize, 0] {
            let at = axis as isize;
            let name = |name: &str| format!("{name} of {what} along {axis}");
            let x = from_ref(&x);
            statistics.extend([
                statistic(&name("softmax"), x, move |x| x[0].softmax(at), each(axis, softmax)),
                statistic(
                    &name("log_softmax"),
                    x,
                    move |x| x[0].log_softmax(at),
                    each(axis, log_softmax),
                ),
                statistic(
                    &name("layer_norm"),
                    x,
                    move |x| x[0].layer_norm(at, NormOptions::default()),
                    each(axis, layer_norm),
                ),
                statistic(
                    &name("rms_norm"),
                    x,
                    move |x| x[0].rms_norm(at, RmsNormOptions { eps: 1e-6, ..Default::default() }),
                    each(axis, rms_norm),
                ),
            ]);
        }
    }
    let full = Array::from_fn(&[1, 64], |_| 300.0);
    let root = |x: &[Tensor]| x[0].rms_norm(1, RmsNormOptions { eps: 1e-6, ..Default::default() });
    statistics.push(statistic("rms_norm of 300", &[full], root, each(1, rms_norm)));
    let channels = spiked().reshape(&[1, 4, 768]);
    let (weight, bias) = (random(&[4], 0.5, 2.0, 2), random(&[4], -1.0, 1.0, 3));
    let scaled = |normal: Array<f64>, x: &[Array<f64>]| {
        let column = |at: usize| x[at].reshape(&[4, 1]);
        normal.zip(&column(1), |x, w| x * w).zip(&column(2), |x, b| x + b)
    };
    let all = [channels, weight, bias];
    statistics.extend([
        statistic(
            "instance_norm",
            &all,
            |x| x[0].instance_norm(scale_and_shift(x)),
            move |x| scaled(rows(&x[0], &[2], layer_norm), x),
        ),
        statistic(
            "group_norm",
            &all,
            |x| x[0].group_norm(2, scale_and_shift(x)),
            move |x| {
                let apart = rows(&x[0].reshape(&[2, 2 * 768]), &[1], layer_norm);
                scaled(apart.reshape(&[1, 4, 768]), x)
            },
        ),
        statistic(
            "the gradient of rms_norm",
            &[spiked(), random(&[768], -2.0, 2.0, 5)],
            slope,
            |x| {
                let y = rows(&x[0], &[1], rms_norm);
                let weighed = y.zip(&x[1], |y, w| y * w).reduce(&[1], mean);
                let root = x[0].reduce(&[1], |x| (mean_square(x) + 1e-6).sqrt());
                let apart = y.zip(&weighed, |y, m| y * m);
                let columns = x[1].expand(&x[0].shape);
                columns.zip(&apart, |w, a| w - a).zip(&root, |d, r| d / r)
            },
        ),
    ]);
    let statistics_of = [random(&[4], 0.0, 9.0, 6), random(&[4], 9.0, 60_000.0, 7)];
    let inputs = [&all[..], &statistics_of[..]].concat();
    statistics.push(statistic(
        "batch_norm",
        &inputs,
        |x| x[0].batch_norm(&x[3], &x[4], scale_and_shift(x)),
        move |x| {
            let apart = x[0].zip(&x[3].reshape(&[4, 1]), |x, m| x - m);
            let root = x[4].reshape(&[4, 1]).map(|v| (v + 1e-5).sqrt());
            scaled(apart.zip(&root, |x, d| x / d), x)
        },
    ));
    let logits = random(&[2, 128_256], -0.1, 0.1, 4);
    let mut long =
        statistic("softmax of a vocabulary", &[logits], |x| x[0].softmax(1), each(1, softmax));
    // Near 8e-6, `f16` values are 6e-8 apart.
    (long.big, long.by) = (true, Tolerance { absolute: 0.0, ..BY });
    statistics.push(long);
    statistics
}

fn mean_square(x: &[f64]) -> f64 {
    power(x, 2.0) / x.len() as f64
}

/// Returns the derivative of the sum of `rms_norm(x) * w` by `x`.
fn slope(x: &[Tensor]) -> Result<Tensor> {
    let x = [x[0].detach(), x[1].clone()];
    Ok(x[0]
        .rms_norm(1, RmsNormOptions { eps: 1e-6, ..Default::default() })?
        .mul(&x[1])?
        .sum(())?
        .grad(&[&x[0]])?
        .remove(0))
}

type Loss = fn(&[Tensor], LossReduction) -> Result<Tensor>;

/// Returns a loss without reduction, and its mean and sum.
fn losses(
    name: &str,
    inputs: &[Array<f64>],
    loss: Loss,
    want: impl Fn(&[Array<f64>]) -> Array<f64> + Copy + 'static,
) -> [Statistic; 3] {
    let all = |x: &Array<f64>, f: fn(&[f64]) -> f64| Array::new(&[], vec![f(&x.data)]);
    let of = |reduction| move |x: &[Tensor]| loss(x, reduction);
    [
        statistic(&format!("{name}: none"), inputs, of(LossReduction::None), want),
        statistic(&format!("{name}: mean"), inputs, of(LossReduction::Mean), move |x| {
            all(&want(x), mean)
        }),
        statistic(&format!("{name}: sum"), inputs, of(LossReduction::Sum), move |x| {
            all(&want(x), |x| x.iter().sum())
        }),
    ]
}

fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

/// Returns losses of pairs of numbers.
fn pairs() -> Vec<Statistic> {
    let shape = [4, 40];
    let (x, target) = (random(&shape, -300.0, 300.0, 11), random(&shape, -300.0, 300.0, 12));
    let apart = |x: &[Array<f64>]| x[0].zip(&x[1], |x, y| (x - y).abs());
    let both = [x.clone(), target];
    let sign = integers(&shape, 0, 1, 13).map(|sign| 2.0 * sign - 1.0);
    let signed = [x.clone(), sign.clone()];
    let chance = [random(&shape, 0.01, 0.99, 14), random(&shape, 0.0, 1.0, 15)];
    let score = [x.clone(), chance[1].clone()];
    let counts = [random(&shape, -2.0, 8.0, 16), integers(&shape, 0, 90, 17)];
    let logs = [random(&shape, -9.0, 0.0, 18), random(&shape, 0.001, 0.9, 19)];
    let spread = [&both[..], &[random(&shape, 0.5, 900.0, 20)]].concat();
    let three = [&both[..], &[sign]].concat();
    let all = [
        losses(
            "mse_loss",
            &both,
            |x, by| x[0].mse_loss(&x[1], by),
            move |x| apart(x).map(|d| d * d),
        ),
        losses("l1_loss", &both, |x, by| x[0].l1_loss(&x[1], by), apart),
        losses(
            "smooth_l1_loss",
            &both,
            |x, by| x[0].smooth_l1_loss(&x[1], 300.0, by),
            move |x| apart(x).map(|d| if d < 300.0 { d * d / 600.0 } else { d - 150.0 }),
        ),
        losses(
            "huber_loss",
            &both,
            |x, by| x[0].huber_loss(&x[1], 300.0, by),
            move |x| apart(x).map(|d| if d < 300.0 { d * d / 2.0 } else { 300.0 * (d - 150.0) }),
        ),
        losses(
            "gaussian_nll_loss",
            &spread,
            |x, reduction| {
                let options = GaussianNllOptions { reduction, ..Default::default() };
                x[0].gaussian_nll_loss(&x[1], &x[2], options)
            },
            move |x| apart(x).zip(&x[2], |d, v| 0.5 * (v.ln() + d * d / v)),
        ),
        losses(
            "poisson_nll_loss",
            &counts,
            |x, reduction| {
                let options = PoissonNllOptions { reduction, ..Default::default() };
                x[0].poisson_nll_loss(&x[1], options)
            },
            |x| x[0].zip(&x[1], |x, t| x.exp() - t * x),
        ),
        losses(
            "kl_div",
            &logs,
            |x, by| x[0].kl_div(&x[1], false, by),
            |x| x[0].zip(&x[1], |x, t| t * (t.ln() - x)),
        ),
        losses(
            "binary_cross_entropy",
            &chance,
            |x, reduction| {
                let options = BinaryCrossEntropyOptions { reduction, ..Default::default() };
                x[0].binary_cross_entropy(&x[1], options)
            },
            |x| x[0].zip(&x[1], |x, t| -t * x.ln() - (1.0 - t) * (1.0 - x).ln()),
        ),
        losses(
            "binary_cross_entropy_with_logits",
            &score,
            |x, reduction| {
                let options =
                    BinaryCrossEntropyWithLogitsOptions { reduction, ..Default::default() };
                x[0].binary_cross_entropy_with_logits(&x[1], options)
            },
            |x| x[0].zip(&x[1], |x, t| softplus(x) - t * x),
        ),
        losses(
            "soft_margin_loss",
            &signed,
            |x, by| x[0].soft_margin_loss(&x[1], by),
            |x| x[0].zip(&x[1], |x, t| softplus(-t * x)),
        ),
        losses(
            "hinge_embedding_loss",
            &signed,
            |x, by| x[0].hinge_embedding_loss(&x[1], 1.0, by),
            |x| x[0].zip(&x[1], |x, t| if t == 1.0 { x } else { (1.0 - x).max(0.0) }),
        ),
        losses(
            "margin_ranking_loss",
            &three,
            |x, by| x[0].margin_ranking_loss(&x[1], &x[2], 2.0, by),
            |x| {
                let apart = x[0].zip(&x[1], |x, y| x - y);
                apart.zip(&x[2], |d, t| (2.0 - t * d).max(0.0))
            },
        ),
    ];
    all.into_iter().flatten().collect()
}

fn inner(x: &[f64], y: &[f64]) -> f64 {
    x.iter().zip(y).map(|(x, y)| x * y).sum()
}

fn cosine(x: &[f64], y: &[f64]) -> f64 {
    inner(x, y) / (inner(x, x) * inner(y, y)).sqrt()
}

fn distance(x: &[f64], y: &[f64], more: f64) -> f64 {
    x.iter().zip(y).map(|(x, y)| (x - y + more).powi(2)).sum::<f64>().sqrt()
}

/// Applies `f` to each pair of a row of `x` and a row of `y`.
fn crossed(x: &Array<f64>, y: &Array<f64>, f: fn(&[f64], &[f64]) -> f64) -> Array<f64> {
    let row = |a: &Array<f64>, at: usize| a.slice(0, at, 1, 1).data;
    Array::from_fn(&[x.shape[0], y.shape[0]], |at| f(&row(x, at[0]), &row(y, at[1])))
}

/// Applies `f` to rows with the same index.
fn matched(x: &Array<f64>, y: &Array<f64>, f: fn(&[f64], &[f64]) -> f64) -> Array<f64> {
    let all = crossed(x, y, f);
    Array::from_fn(&[x.shape[0]], |at| all.at(&[at[0], at[0]]))
}

/// Returns statistics and losses of vectors, and sums of products.
fn numbers() -> Vec<Statistic> {
    let shape = [4, 48];
    let vectors = |seed| random(&shape, -300.0, 300.0, seed);
    let (x, y, z) = (vectors(21), vectors(22), vectors(23));
    let both = [x.clone(), y.clone()];
    let signs = Array::new(&[4], vec![1.0, -1.0, 1.0, -1.0]);
    let labelled = [x.clone(), y.clone(), signs];
    let spiked = spiked();
    let row = |at: usize| spiked.slice(0, at, 1, 1).reshape(&[768]);
    let mut statistics = vec![
        statistic(
            "cosine_similarity",
            &both,
            |x| x[0].cosine_similarity(&x[1], -1, 1e-8),
            |x| matched(&x[0], &x[1], cosine),
        ),
        statistic(
            "cdist",
            &both,
            |x| x[0].cdist(&x[1], 2.0),
            |x| crossed(&x[0], &x[1], |x, y| distance(x, y, 0.0)),
        ),
        statistic(
            "cov",
            from_ref(&spiked),
            |x| x[0].cov(0.0),
            |x| crossed(&x[0], &x[0], |x, y| inner(x, y) / x.len() as f64 - mean(x) * mean(y)),
        ),
        statistic(
            "dot",
            &[row(0), row(1)],
            |x| x[0].dot(&x[1]),
            |x| Array::new(&[], vec![inner(&x[0].data, &x[1].data)]),
        ),
        statistic(
            "einsum",
            &both,
            |x| Tensor::einsum("ik,ik->i", &[x[0].mul(0.1)?, x[1].clone()]),
            |x| matched(&x[0].map(|x| x * 0.1), &x[1], inner),
        ),
        statistic(
            "matmul",
            &[x.map(|x| x * 0.1), y.clone()],
            |x| x[0].matmul(&x[1].transpose(0, 1)?),
            |x| crossed(&x[0], &x[1], inner),
        ),
    ];
    let values = random(&[1, 1, 3_000, 8], 1.0, 9.0, 24);
    let inputs = [Array::from_fn(&[1, 1, 4, 8], |_| 1.0), values.map(|_| 0.0), values];
    statistics.push(statistic(
        "attention",
        &inputs,
        |x| x[0].attention(&x[1], &x[2], AttentionOptions::default()),
        |x| x[2].reduce(&[2], mean).expand(&[1, 1, 4, 8]),
    ));
    statistics.extend(losses(
        "cosine_embedding_loss",
        &labelled,
        |x, by| x[0].cosine_embedding_loss(&x[1], &x[2], 0.0, by),
        |x| {
            let near = matched(&x[0], &x[1], cosine);
            near.zip(&x[2], |c, t| if t == 1.0 { 1.0 - c } else { c.max(0.0) })
        },
    ));
    statistics.extend(losses(
        "triplet_margin_loss",
        &[x, y, z],
        |x, reduction| {
            let options = TripletMarginOptions { reduction, ..Default::default() };
            x[0].triplet_margin_loss(&x[1], &x[2], options)
        },
        |x| {
            let to = |y: &Array<f64>| matched(&x[0], y, |x, y| distance(x, y, 1e-6));
            to(&x[1]).zip(&to(&x[2]), |near, far| (near - far + 1.0).max(0.0))
        },
    ));
    statistics
}

fn targets(x: &Tensor) -> Result<Tensor> {
    places(x.shape()[0], x.shape()[1]).on(x.device(), DType::I32)
}

/// Returns a class for each row.
fn places(rows: usize, classes: usize) -> Array<f64> {
    Array::from_fn(&[rows], |at| ((at[0] * 7 + 3) % classes) as f64)
}

/// Returns minus the elements at the classes of the rows.
fn chosen(x: &Array<f64>) -> Array<f64> {
    let place = places(x.shape[0], x.shape[1]);
    Array::from_fn(&[x.shape[0]], |at| -x.at(&[at[0], place.at(at) as usize]))
}

/// Returns losses of class scores.
fn classes() -> Vec<Statistic> {
    fn entropy(x: &Tensor, target: &Tensor, reduction: LossReduction) -> Result<Tensor> {
        x.cross_entropy(target, CrossEntropyOptions { reduction, ..Default::default() })
    }
    let by_class: Loss = |x, reduction| entropy(&x[0], &targets(&x[0])?, reduction);
    let logs = |x: &[Array<f64>]| rows(&x[0], &[1], log_softmax);
    let scores = random(&[5, 40], -300.0, 300.0, 31);
    let chances = rows(&random(&[5, 40], -2.0, 2.0, 32), &[1], softmax);
    let mut statistics = Vec::new();
    let wanted = move |x: &[Array<f64>]| chosen(&logs(x));
    statistics.extend(losses("cross_entropy", from_ref(&scores), by_class, wanted));
    statistics.extend(losses(
        "cross_entropy of chances",
        &[scores.clone(), chances],
        |x, by| entropy(&x[0], &x[1], by),
        move |x| {
            logs(x).zip(&x[1], |log, t| -log * t).reduce(&[1], |x| x.iter().sum()).squeeze(&[1])
        },
    ));
    statistics.extend(losses(
        "nll_loss",
        &[scores],
        |x, by| x[0].nll_loss(&targets(&x[0])?, NllOptions { reduction: by, ..Default::default() }),
        |x| chosen(&x[0]),
    ));
    let near = random(&[3, 128_256], -0.01, 0.01, 33);
    for mut statistic in losses("cross_entropy of a vocabulary", &[near], by_class, wanted) {
        statistic.big = true;
        statistics.push(statistic);
    }
    statistics
}

/// Tests the running statistics of a layer. The variance of the batch exceeds the largest `f16`.
fn running(suite: &mut Suite) {
    let case = suite.add("running statistics of halves", |device| {
        let x = random(&[64, 3, 5], -900.0, 900.0, 41).rounded(DType::F16);
        let layer = BatchNorm::new(&Generator::new(device, 1), 3)?;
        layer.train();
        layer.forward(&x.on(device, DType::F16)?)?;
        let of = |f: &dyn Fn(&[f64]) -> f64| x.reduce(&[0, 2], f).reshape(&[3]);
        let (count, by) = (64.0 * 5.0, BY);
        let wanted = of(&|x| 0.9 + 0.1 * variance(x) * count / (count - 1.0));
        Ok(vec![
            near("mean", layer.running_mean.value(), of(&|x| 0.1 * mean(x)), by),
            near("variance", layer.running_var.value(), wanted, by),
        ])
    });
    case.half();
}
