//! Tests higher derivatives where functions switch branches, and their uses: Newton's method, curvatures of likelihoods, forces
//! between atoms.

use super::super::array::{random, Array};
use super::super::check::{near, said, Outcome, Suite};
use super::super::tolerance::Tolerance;
use super::super::{call::call, jets};
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::tensor::{Operand, Tensor};

pub fn cases(suite: &mut Suite) {
    rows(suite);
    powers(suite);
    suite.steps("Newton's method for a logistic regression", newton);
    gaussian(suite);
    lennard_jones(suite);
    padded(suite);
}

/// Returns the derivative of each element of `y` by the element of `x` at the same position.
fn slope(y: &Tensor, x: &Tensor) -> Result<Tensor> {
    Ok(y.sum(&[])?.grad(&[x])?.remove(0))
}

/// Rows and the operands by which they are differentiated in turn. The expected values come from Taylor arithmetic.
const SEVERAL: [(&str, [usize; 3]); 10] = [
    ("pow", [0, 0, 0]),
    ("pow", [0, 1, 0]),
    ("pow", [1, 0, 1]),
    ("hypot", [0, 0, 1]),
    ("hypot", [0, 1, 1]),
    ("atan2", [0, 1, 0]),
    ("atan2", [1, 1, 1]),
    ("div", [1, 0, 1]),
    ("maximum", [0, 1, 1]),
    ("copysign", [0, 0, 0]),
];

const ONE: &str =
    "abs square expm1 log1p sinh cosh tanh asinh erf erfc relu leaky_relu elu selu celu sigmoid \
    log_sigmoid silu hard_swish gelu gelu_tanh mish softplus softsign atan asin acos atanh erfinv \
    lgamma digamma logit hardshrink softshrink threshold";

fn rows(suite: &mut Suite) {
    for name in ONE.split_whitespace() {
        let places: &[f64] = match name {
            "lgamma" | "digamma" => {
                &[0.25, 0.5, 0.75, 1.0, 2.0, 3.5, 12.0, 100.0, -0.5, -1.25, -2.75]
            }
            "asin" | "acos" | "atanh" | "erfinv" => &[0.0, -0.0, 1e-10, 0.25, -0.5, 0.5, 0.75],
            "logit" => &[0.125, 0.25, 0.3125, 0.5, 0.625, 0.75, 0.9375],
            "log1p" => &[0.0, -0.0, 1e-10, -0.5, 0.5, 1.0, 30.0, 1e4],
            "expm1" | "sinh" | "cosh" => &[0.0, -0.0, 1e-10, 0.5, -0.5, 1.0, -1.0, 3.0],
            _ => &[
                0.0, -0.0, 1e-10, 0.5, -0.5, 1.0, -1.0, 3.0, -3.0, 12.0, 20.0, 30.0, -100.0, 1e4,
                -1e4,
            ],
        };
        let points: Vec<Vec<f64>> = places.iter().map(|&x| vec![x]).collect();
        along(suite, name, [0; 3], points);
    }
    for (name, order) in SEVERAL {
        let places = [0.0, 0.5, 1.0, 2.0, 3.0, 10.0];
        let pairs = places.iter().flat_map(|&x| places.map(|y| vec![x, y])).filter(|pair| {
            // At these points, some derivatives are infinite.
            (name, pair[0]) != ("pow", 0.0) && (name, pair[1]) != ("div", 0.0)
        });
        let mut points: Vec<Vec<f64>> = pairs.collect();
        if name == "pow" && order == [0; 3] {
            points.extend(
                [[0.0, 3.0], [0.0, 2.0], [0.0, 0.0], [-1.0, 2.0], [-3.0, 3.0]].map(Vec::from),
            );
        }
        along(suite, name, order, points);
    }
}

/// Compares the first, second and third derivative of a row along `order`, at all points at once.
fn along(suite: &mut Suite, name: &'static str, order: [usize; 3], points: Vec<Vec<f64>>) {
    suite.add(format!("the row {name} by {order:?}"), move |device| {
        let column = |n: usize| -> Array<f64> {
            Array::new(&[points.len()], points.iter().map(|point| point[n]).collect())
        };
        let mut operands = Vec::new();
        for n in 0..points[0].len() {
            operands.push(column(n).f32(device)?);
        }
        let rest: Vec<Operand> = operands[1..].iter().map(Operand::from).collect();
        let parameters: &[f64] = match name {
            "leaky_relu" => &[0.25],
            "elu" | "celu" => &[1.5],
            "hardshrink" | "softshrink" => &[0.5],
            "threshold" => &[0.5, -2.0],
            _ => &[],
        };
        let (mut y, mut checks) = (call(name, &operands[0], &rest, parameters)?, Vec::new());
        for count in 1..=3 {
            y = slope(&y, &operands[order[count - 1]])?;
            let want = points.iter().map(|point| {
                let all = [&point[..], parameters].concat();
                let part = jets::derivatives(name, &all, &order[..count]).expect(name);
                part[(1 << count) - 1]
            });
            let want = Array::new(&[points.len()], want.collect());
            // A GPU's exponentials are off by a few units, and cancellation increases the error.
            let tolerance = Tolerance { absolute: 1e-5, relative: 1e-4 };
            checks.push(near(format!("{count}"), y.clone(), want, tolerance));
        }
        Ok(checks)
    });
}

fn powers(suite: &mut Suite) {
    suite.add("x^3 twice and three times", |device| {
        let at = Array::new(&[5], vec![0.0, -0.0, 1.0, -1.0, 2.0]);
        let x = at.f32(device)?;
        let first = slope(&x.pow(3.0)?, &x)?;
        let second = slope(&first, &x)?;
        let third = slope(&second, &x)?;
        let close = Tolerance::F32;
        Ok(vec![
            near("first", first, at.map(|x| 3.0 * x * x), close),
            near("second", second, at.map(|x| 6.0 * x), close),
            near("third", third, at.map(|_| 6.0), close),
        ])
    });
    suite.add("x^y by y, at zeros and negative x", |device| {
        // The rule of PyTorch's `pow_backward_exponent`: x^y log(x), but 0 where x is 0 and y is not negative.
        let cases = [
            ([-2.0, 3.0], f64::NAN),
            ([-2.0, 0.0], f64::NAN),
            ([-1.0, -1.0], f64::NAN),
            ([0.0, 2.0], 0.0),
            ([0.0, 0.5], 0.0),
            ([0.0, 0.0], 0.0),
            ([-0.0, 3.0], 0.0),
            ([0.0, -1.0], f64::NEG_INFINITY),
            ([1.0, 5.0], 0.0),
            ([2.0, 3.0], 8.0 * std::f64::consts::LN_2),
        ];
        let count = cases.len();
        let column = |n: usize| Array::new(&[count], cases.iter().map(|case| case.0[n]).collect());
        let (x, y) = (column(0).f32(device)?, column(1).f32(device)?);
        let want = Array::new(&[count], cases.iter().map(|case| case.1).collect());
        Ok(vec![near("slopes", slope(&x.pow(&y)?, &y)?, want, Tolerance::F32)])
    });
    suite.add("x^2 twice", |device| {
        let at = Array::new(&[4], vec![0.0, 1.0, -1.0, 3.0]);
        let x = at.f32(device)?;
        let second = slope(&slope(&x.pow(2.0)?, &x)?, &x)?;
        Ok(vec![near("second", second, at.map(|_| 2.0), Tolerance::F32)])
    });
}

/// Runs Newton's method from zero weights, where every score is 0, until the gradient is 0.
async fn newton(device: Device) -> Outcome {
    const COUNT: usize = 40;
    let points = random(&[COUNT, 2], -1.0, 1.0, 3);
    let noise = random(&[COUNT], -1.0, 1.0, 4);
    let labels = Array::from_fn(&[COUNT], |at| {
        let row = [at[0], 0];
        let score = 2.0 * points.at(&row) - points.at(&[at[0], 1]) + 1.5 * noise.at(at);
        f64::from(u8::from(score > 0.0))
    });
    let (mut w, mut gradient) = ([0.0f64; 2], [f64::INFINITY; 2]);
    for _ in 0..8 {
        let step = || -> Result<(Tensor, Tensor)> {
            let (x, label) = (points.f32(&device)?, labels.f32(&device)?);
            let at = Array::new(&[2, 1], w.to_vec()).f32(&device)?;
            let scores = x.matmul(&at)?.reshape(&[COUNT])?;
            // Minus the logarithm of the probability of each label.
            let loss = scores.softplus().sub(&scores.mul(&label)?)?.sum(&[])?;
            let gradient = loss.grad(&[&at])?.remove(0);
            let mut rows = Vec::new();
            for n in 0..2 {
                let one = Array::new(
                    &[2, 1],
                    vec![f64::from(u8::from(n == 0)), f64::from(u8::from(n == 1))],
                );
                rows.push(gradient.vjp(&one.f32(&device)?, &[&at])?.remove(0));
            }
            Ok((gradient, Tensor::concat(&rows, 1)?))
        };
        let (slopes, hessian) = step().map_err(said)?;
        let slopes = slopes.read::<f32>().await.map_err(said)?;
        let h: Vec<f64> =
            hessian.read::<f32>().await.map_err(said)?.into_iter().map(f64::from).collect();
        gradient = [f64::from(slopes[0]), f64::from(slopes[1])];
        let determinant = h[0] * h[3] - h[1] * h[2];
        w[0] -= (h[3] * gradient[0] - h[1] * gradient[1]) / determinant;
        w[1] -= (h[0] * gradient[1] - h[2] * gradient[0]) / determinant;
    }
    let settled = gradient.iter().all(|g| g.abs() < 1e-4) && w.iter().all(|w| w.abs() < 20.0);
    match settled {
        true => Ok(()),
        false => Err(format!("the gradient at {w:?} is {gradient:?}")),
    }
}

fn gaussian(suite: &mut Suite) {
    // log(s) + ((x - m) / s)^2 / 2, with s^2 by `pow`, differentiated by m and by s.
    suite.add("curvatures of a normal likelihood", |device| {
        let points = [[0.0, 0.0, 1.0], [1.0, 0.0, 1.0], [2.0, 2.0, 0.5], [1.0, 3.0, 2.0]];
        let column = |n: usize| Array::new(&[4], points.iter().map(|point| point[n]).collect());
        let (x, m, s) = (column(0).f32(device)?, column(1).f32(device)?, column(2).f32(device)?);
        let distance = x.sub(&m)?.pow(2.0)?;
        let loss = s.log().add(&distance.div(&s.pow(2.0)?.mul(2.0)?)?)?;
        let (by_m, by_s) = (slope(&loss, &m)?, slope(&loss, &s)?);
        let want = |f: fn(f64, f64) -> f64| {
            Array::new(&[4], points.iter().map(|[x, m, s]| f(x - m, *s)).collect())
        };
        let close = Tolerance::F32;
        Ok(vec![
            near("m m", slope(&by_m, &m)?, want(|_, s| 1.0 / (s * s)), close),
            near("m s", slope(&by_m, &s)?, want(|d, s| 2.0 * d / (s * s * s)), close),
            near("s m", slope(&by_s, &m)?, want(|d, s| 2.0 * d / (s * s * s)), close),
            near(
                "s s",
                slope(&by_s, &s)?,
                want(|d, s| 3.0 * d * d / (s * s * s * s) - 1.0 / (s * s)),
                close,
            ),
        ])
    });
}

fn lennard_jones(suite: &mut Suite) {
    // 4 (r^-12 - r^-6): the force at r = 1, where every power is 1, and elsewhere.
    suite.add("the force between two atoms, and how it changes", |device| {
        let at = Array::new(&[5], vec![0.9, 1.0, 1.122_462_1, 1.5, 2.5]);
        let r = at.f32(device)?;
        let (six, twelve) = (r.pow(-6.0)?, r.pow(-12.0)?);
        let force = slope(&twelve.sub(&six)?.mul(4.0)?, &r)?.neg();
        let change = slope(&force, &r)?;
        let want = at.map(|r| 4.0 * (12.0 * r.powi(-13) - 6.0 * r.powi(-7)));
        let slopes = at.map(|r| 4.0 * (42.0 * r.powi(-8) - 156.0 * r.powi(-14)));
        let tolerance = Tolerance { absolute: 1e-3, relative: 2e-5 };
        Ok(vec![near("force", force, want, tolerance), near("change", change, slopes, tolerance)])
    });
}

fn padded(suite: &mut Suite) {
    // Rows of zeros fill up a batch. Their derivatives must be finite and correct.
    suite.add("curvature of a network over padded rows", |device| {
        let filled = random(&[3, 4], -1.0, 1.0, 5);
        let rows = filled.pad(&[(0, 2), (0, 0)], 0.0);
        let weights = random(&[4, 3], -1.0, 1.0, 6);
        let x = rows.f32(device)?;
        let w = weights.f32(device)?;
        let mut checks = Vec::new();
        type Layer = fn(&Tensor) -> Tensor;
        let layers: [(&str, Layer); 6] = [
            ("softplus", Tensor::softplus),
            ("silu", Tensor::silu),
            ("gelu", Tensor::gelu),
            ("gelu_tanh", Tensor::gelu_tanh),
            ("tanh", Tensor::tanh),
            ("mish", Tensor::mish),
        ];
        for (name, layer) in layers {
            // By each input: the sum over the hidden units of f''(x w) w^2.
            let hidden = layer(&x.matmul(&w)?);
            let first = slope(&hidden, &x)?;
            let second = slope(&first, &x)?;
            let scores = Array::from_fn(&[5, 3], |at| {
                (0..4).map(|n| rows.at(&[at[0], n]) * weights.at(&[n, at[1]])).sum()
            });
            let curved =
                scores.map(|score| jets::derivatives(name, &[score], &[0, 0]).expect(name)[3]);
            let want = Array::from_fn(&[5, 4], |at| {
                let term = |unit: usize| {
                    let sum: f64 = (0..4).map(|n| weights.at(&[n, unit])).sum();
                    curved.at(&[at[0], unit]) * weights.at(&[at[1], unit]) * sum
                };
                (0..3).map(term).sum()
            });
            checks.push(near(name, second, want, Tolerance { absolute: 1e-4, relative: 1e-4 }));
        }
        Ok(checks)
    });
}
