//! Tests numerical properties that hold on every backend: long sums, statistics of large numbers, NaN and infinity, remainders.
//!
//! Expected values are computed in `f64` from the `f32` numbers that the tensors contain.

use super::array::{random, word, Array};
use super::check::{exact, near, said, Suite};
use super::tolerance::Tolerance;
use warpweft::backend::DeviceKind;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::ErrorKind;
use warpweft::tensor::{
    AttentionOptions, ConvOptions, FftNorm, FftOptions, NormOptions, PoolOptions, Scan, Tensor,
};

pub fn cases() -> Suite {
    let mut suite = Suite::new("numerics");
    long_sums(&mut suite);
    long_products(&mut suite);
    statistics(&mut suite);
    constant_rows(&mut suite);
    not_finite(&mut suite);
    remainders(&mut suite);
    counted(&mut suite);
    edges(&mut suite);
    suite
}

const BLOCKS: Tolerance = Tolerance { absolute: 0.0, relative: 4e-6 };
const PRODUCTS: Tolerance = Tolerance { absolute: 0.0, relative: 1e-5 };
/// The error that `exp` and `log` add on GPUs.
const LOGARITHM: Tolerance = Tolerance { absolute: 2e-6, relative: 4e-6 };

fn on_cpu(device: &Device) -> bool {
    device.info().kind == DeviceKind::Cpu
}

fn tenth() -> f64 {
    f64::from(0.1f32)
}

/// Returns an array whose elements are all `value`.
fn filled(shape: &[usize], value: f64) -> Array<f64> {
    Array::from_fn(shape, |_| value)
}

/// Tests sums of equal numbers, whose rounding errors all have the same sign.
fn long_sums(suite: &mut Suite) {
    let shapes: [&'static [usize]; 7] = [
        &[10_000],
        &[4, 10_000],
        &[3, 9_999],
        &[10_000, 4],
        &[10_000, 3],
        &[70, 5, 2_000],
        &[300_000],
    ];
    for shape in shapes {
        for axis in 0..shape.len() {
            let n = shape[axis] as f64;
            if n < 1000.0 {
                continue;
            }
            suite.add(format!("sums of {shape:?} along {axis}"), move |device| {
                let x = device.full(shape, tenth(), DType::F32)?;
                let mut rest = shape.to_vec();
                rest.remove(axis);
                let at = axis as isize;
                let of = |value: f64| filled(&rest, value);
                let same = |value: f64| filled(shape, value);
                Ok(vec![
                    near("sum", x.sum(at)?, of(n * tenth()), BLOCKS),
                    near("mean", x.mean(at)?, of(tenth()), BLOCKS),
                    near("norm", x.norm_l2(at)?, of(n.sqrt() * tenth()), BLOCKS),
                    near("logsumexp", x.logsumexp(at)?, of(tenth() + n.ln()), LOGARITHM),
                    near("softmax", x.softmax(at)?, same(1.0 / n), BLOCKS),
                    near("log_softmax", x.log_softmax(at)?, same(-n.ln()), LOGARITHM),
                ])
            });
        }
    }
    suite.add("running sums", |device| {
        let x = device.full(&[10_000], tenth(), DType::F32)?;
        let want = Array::from_fn(&[10_000], |at| (at[0] + 1) as f64 * tenth());
        Ok(vec![near("cumsum", x.cumsum(0)?, want, BLOCKS)])
    });
    let case = suite.add("sums of a million", |device| {
        let x = device.full(&[65, 1_000_000], tenth(), DType::F32)?;
        Ok(vec![near("sum", x.sum(1)?, filled(&[65], 1e6 * tenth()), BLOCKS)])
    });
    case.big();
    suite.add("a mean of equal numbers", |device| {
        let x = device.full(&[4_096], 1_000_005.0, DType::F32)?;
        // WGSL does not require that a quotient is rounded correctly.
        let by = match on_cpu(device) {
            true => Tolerance::EXACT,
            false => Tolerance { absolute: 0.0, relative: 5e-7 },
        };
        Ok(vec![near("mean", x.mean(())?, filled(&[], 1_000_005.0), by)])
    });
}

/// Tests matmuls with long sums, convolutions of many channels, and attention with many keys.
fn long_products(suite: &mut Suite) {
    for (m, k, n) in [(1, 10_000, 1), (3, 10_000, 5), (70, 5_000, 70), (200, 3_000, 130)] {
        // Large tiles on a GPU add up sums of more than 4,096 products in blocks.
        let by = if k > 4_096 { PRODUCTS } else { Tolerance { relative: 1e-4, ..PRODUCTS } };
        suite.add(format!("products [{m}, {k}] [{k}, {n}]"), move |device| {
            let (x, y) = (device.full(&[m, k], tenth(), DType::F32)?, device.ones(&[k, n])?);
            let want = filled(&[m, n], k as f64 * tenth());
            let turned = y.transpose(0, 1)?.matmul(&x.transpose(0, 1)?)?;
            Ok(vec![
                near("matmul", x.matmul(&y)?, want.clone(), by),
                near("turned", turned, want.permute(&[1, 0]), by),
            ])
        });
    }
    let case = suite.add("products of very long rows", |device| {
        let (m, k, n) = (20, 100_000, 33);
        let (x, y) = (device.full(&[m, k], tenth(), DType::F32)?, device.ones(&[k, n])?);
        let want = filled(&[m, n], k as f64 * tenth());
        Ok(vec![near("matmul", x.matmul(&y)?, want, PRODUCTS)])
    });
    case.big();
    suite.add("convolutions and pooling", |device| {
        let x = device.full(&[1, 512, 3, 3], tenth(), DType::F32)?;
        let y = x.conv2d(&device.ones(&[2, 512, 3, 3])?, None, ConvOptions::default())?;
        let plane = device.full(&[1, 1, 100, 100], tenth(), DType::F32)?;
        let pooled = plane.avg_pool(PoolOptions::new([100, 100]))?;
        Ok(vec![
            near("conv2d", y, filled(&[1, 2, 1, 1], 4_608.0 * tenth()), PRODUCTS),
            near("avg_pool", pooled, filled(&[1, 1, 1, 1], tenth()), BLOCKS),
        ])
    });
    suite.add("attention with many keys", |device| {
        let (q, k) = (device.ones(&[1, 1, 6, 8])?, device.zeros(&[1, 1, 10_000, 8])?);
        let v = device.full(&[1, 1, 10_000, 8], tenth(), DType::F32)?;
        let options = AttentionOptions::default();
        let few = q.slice(2, 0..1)?.attention(&k, &v, options)?;
        Ok(vec![
            near("six", q.attention(&k, &v, options)?, filled(&[1, 1, 6, 8], tenth()), PRODUCTS),
            near("one", few, filled(&[1, 1, 1, 8], tenth()), PRODUCTS),
        ])
    });
}

/// Returns the mean and the population variance of numbers, exactly.
fn moments(row: &[f64]) -> (f64, f64) {
    let count = row.len() as f64;
    let mean = row.iter().sum::<f64>() / count;
    (mean, row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count)
}

/// Tests statistics of numbers that are far from 0 compared with their differences.
fn statistics(suite: &mut Suite) {
    suite.add("statistics around 10,000", |device| {
        let (rows, columns) = (5, 3_000);
        let x = random(&[rows, columns], 9_999.0, 10_001.0, 3).rounded(DType::F32);
        let of = |f: &dyn Fn(f64, f64) -> f64| {
            x.reduce(&[1], |row| {
                let (mean, variance) = moments(row);
                f(mean, variance)
            })
            .squeeze(&[1])
        };
        let free = columns as f64 / (columns - 1) as f64;
        let deviation = of(&|_, variance| (variance + 1e-5).sqrt()).reshape(&[rows, 1]);
        let mean = of(&|mean, _| mean).reshape(&[rows, 1]);
        let normal = x.zip(&mean, |x, m| x - m).zip(&deviation, |x, d| x / d);
        let by = |relative| Tolerance { absolute: 0.0, relative };
        let t = x.f32(device)?;
        Ok(vec![
            near("mean", t.mean(1)?, of(&|mean, _| mean), by(3e-7)),
            near("var", t.var(1, 1.0)?, of(&|_, variance| variance * free), by(1e-5)),
            near("std", t.std(1, 0.0)?, of(&|_, variance| variance.sqrt()), by(1e-5)),
            near(
                "layer_norm",
                t.layer_norm(1, NormOptions::default())?,
                normal,
                Tolerance { absolute: 1e-3, relative: 0.0 },
            ),
        ])
    });
    suite.add("a variance with one element that is far", |device| {
        let x =
            Array::from_fn(&[1, 4_096], |at| if at[1] == 77 { 1e6 } else { (at[1] % 3) as f64 });
        let t = x.f32(device)?;
        let (mean, variance) = moments(&x.data);
        let by = Tolerance { absolute: 0.0, relative: 1e-5 };
        Ok(vec![
            near("mean", t.mean(1)?, filled(&[1], mean), by),
            near("var", t.var(1, 0.0)?, filled(&[1], variance), by),
        ])
    });
}

/// Tests rows of equal elements, which have no variance.
fn constant_rows(suite: &mut Suite) {
    for value in [12_345.678, 0.1, 1_000_005.0, -3e7, 65_519.9] {
        suite.add(format!("rows of {value}"), move |device| {
            let mut checks = Vec::new();
            for columns in [1, 7, 768, 4_096, 5_000] {
                let shape = [3, columns];
                let x = device.full(&shape, value, DType::F32)?;
                let zeros = filled(&shape, 0.0);
                let (none, planes) = (filled(&[3], 0.0), x.reshape(&[1, 3, columns])?);
                let wanted = device.full(&shape, value, DType::F32)?;
                let slope = wanted.std(1, 0.0)?.sum(())?.grad(&[&wanted])?.remove(0);
                let upright = device.full(&[columns, 3], value, DType::F32)?;
                let flat = zeros.reshape(&[1, 3, columns]);
                let all: [(&str, Tensor, Array<f64>); 8] = [
                    ("layer_norm", x.layer_norm(1, NormOptions::default())?, zeros.clone()),
                    ("instance_norm", planes.instance_norm(NormOptions::default())?, flat.clone()),
                    ("group_norm", planes.group_norm(1, NormOptions::default())?, flat),
                    ("var", x.var(1, 0.0)?, none.clone()),
                    ("std", x.std(1, 0.0)?, none.clone()),
                    ("the gradient of std", slope, zeros),
                    ("var of columns", upright.var(0, 0.0)?, none),
                    ("cov", x.cov(0.0)?, filled(&[3, 3], 0.0)),
                ];
                for (what, tensor, want) in all {
                    checks.push(exact(format!("{what} of {columns}"), tensor, DType::F32, want));
                }
            }
            Ok(checks)
        });
    }
}

/// Returns the value of `x - x` or `x * 0`.
fn vanished(x: f64) -> f64 {
    if x.is_finite() {
        0.0
    } else {
        f64::NAN
    }
}

/// A tensor of numbers, and the function that computes each of its values from a number.
type Mapped = (&'static str, Tensor, fn(f64) -> f64);

/// Tests that infinity and NaN propagate.
fn not_finite(suite: &mut Suite) {
    for count in [8usize, 7, 3] {
        suite.add(format!("NaN and infinity among {count}"), move |device| {
            let all = [f64::INFINITY, 1.0, f64::NAN, -2.0, f64::NEG_INFINITY, 0.0, 5.0, f64::NAN];
            let want = Array::new(&[count], all[..count].to_vec());
            let x = want.f32(device)?;
            let zeros = device.zeros(&[count])?;
            let minus = x.neg();
            let all: [Mapped; 14] = [
                ("x - x", x.sub(&x)?, vanished),
                ("x + -x", x.add(&minus)?, vanished),
                ("-x + x", minus.add(&x)?, vanished),
                ("x * zeros", x.mul(&zeros)?, |x| x * 0.0),
                ("zeros * x", zeros.mul(&x)?, |x| x * 0.0),
                ("x * 0", x.mul(0.0)?, |x| x * 0.0),
                ("x * -0", x.mul(-0.0)?, |x| x * -0.0),
                ("fma(x, zeros, 1)", x.fma(&zeros, 1.0)?, |x| x * 0.0 + 1.0),
                ("fma(x, 0, 1)", x.fma(0.0, 1.0)?, |x| x * 0.0 + 1.0),
                ("x / x", x.div(&x)?, |x| if x == 0.0 { f64::NAN } else { vanished(x) + 1.0 }),
                ("zeros / x", zeros.div(&x)?, |x| 0.0 / x),
                ("x - x + 1", x.sub(&x)?.add(1.0)?, |x| vanished(x) + 1.0),
                ("(x * 0) + x", x.mul(0.0)?.add(&x)?, |x| x * 0.0 + x),
                ("x * zeros + 2", x.mul(&zeros)?.add(2.0)?, |x| x * 0.0 + 2.0),
            ];
            let checks = all.map(|(what, tensor, f)| near(what, tensor, want.map(f), BLOCKS));
            Ok(checks.into_iter().collect())
        });
    }
    suite.add("softmax of infinities", |device| {
        let x = Array::new(&[3, 1], vec![f64::NEG_INFINITY, 2.0, f64::INFINITY]);
        let want = Array::new(&[3, 1], vec![f64::NAN, 1.0, f64::NAN]);
        let logs = Array::new(&[3, 1], vec![f64::NAN, 0.0, f64::NAN]);
        let rows = device.full(&[2, 5], f64::NEG_INFINITY, DType::F32)?;
        let t = x.f32(device)?;
        Ok(vec![
            near("of one", t.softmax(1)?, want, BLOCKS),
            near("logarithm", t.log_softmax(1)?, logs, BLOCKS),
            near("of a row", rows.softmax(1)?, filled(&[2, 5], f64::NAN), BLOCKS),
            near("of a column", rows.softmax(0)?, filled(&[2, 5], f64::NAN), BLOCKS),
        ])
    });
}

/// Tests that remainders are exact for any size of the quotient: C's `fmodf` and Python's `%`.
fn remainders(suite: &mut Suite) {
    for dtype in [DType::F32, DType::F16] {
        let case = suite.add(format!("remainders of large quotients, {dtype}"), move |device| {
            let (low, high) = if dtype == DType::F16 { (-10, 15) } else { (-60, 120) };
            // Numbers of all magnitudes and both signs.
            let number = |seed: u32, n: usize| {
                let fraction = 1.0 + f64::from(word(seed, n) >> 9) / f64::from(1 << 23);
                let exponent = low + (word(seed + 1, n) % (high - low) as u32) as i32;
                let sign = if word(seed + 2, n) & 1 == 0 { 1.0 } else { -1.0 };
                sign * fraction * f64::from(exponent).exp2()
            };
            let column = |seed: u32| {
                let values = (0..1000).map(|n| number(seed, n)).collect();
                Array::new(&[1000], values).rounded(dtype)
            };
            let (x, y) = (column(1), column(5));
            let (a, b) = (x.on(device, dtype)?, y.on(device, dtype)?);
            let floor = |x: f64, y: f64| {
                let rest = x % y;
                let apart = rest != 0.0 && (rest < 0.0) != (y < 0.0);
                if apart {
                    rest + y
                } else {
                    rest
                }
            };
            let wide = device.arange(1000.0)?.mul(16_777.0)?.cast(dtype)?;
            let places = Array::new(&[1000], (0..1000).map(|n| f64::from(n) * 16_777.0).collect());
            let tenth = f64::from(0.1f32);
            let places = places.rounded(dtype).map(|x| x % tenth).rounded(dtype);
            Ok(vec![
                exact("fmod", a.fmod(&b)?, dtype, x.zip(&y, |x, y| x % y)),
                exact("remainder", a.remainder(&b)?, dtype, x.zip(&y, floor).rounded(dtype)),
                exact("by a number", wide.fmod(0.1)?, dtype, places),
            ])
        });
        if dtype == DType::F16 {
            case.half();
        }
    }
}

/// Tests reductions of dtypes without arithmetic. They count as in NumPy and PyTorch.
fn counted(suite: &mut Suite) {
    for dtype in [DType::Bool, DType::U8, DType::I8, DType::I16, DType::U16] {
        suite.add(format!("sums of {dtype}"), move |device| {
            let (low, high) = dtype.range().unwrap_or_default();
            let x = Array::from_fn(&[3, 700], |at| if at[1] % 7 == at[0] { low } else { high });
            let few = Array::from_fn(&[2, 5], |at| if at[1] == 2 { low } else { 1.0 });
            let (t, s) = (x.on(device, dtype)?, few.on(device, dtype)?);
            let row = |x: &Array<f64>, f: fn(&[f64]) -> f64| x.reduce(&[1], f).squeeze(&[1]);
            let sum: fn(&[f64]) -> f64 = |row| row.iter().sum();
            let most: fn(&[f64]) -> f64 = |row| row.iter().copied().fold(f64::MIN, f64::max);
            let least: fn(&[f64]) -> f64 = |row| row.iter().copied().fold(f64::MAX, f64::min);
            let product = |x: i32, y: f64| x.wrapping_mul(y as i32);
            let times = |row: &[f64]| f64::from(row.iter().copied().fold(1, product));
            let running = |combine: &dyn Fn(f64, f64) -> f64| {
                let mut before = f64::NAN;
                Array::from_fn(&[2, 5], |at| {
                    let own = few.at(at);
                    before = if at[1] == 0 { own } else { combine(before, own) };
                    before
                })
            };
            let first = |x: &Array<f64>, value: f64| {
                x.reduce(&[1], |row| row.iter().position(|&x| x == value).unwrap_or(0) as f64)
                    .squeeze(&[1])
            };
            let int = DType::I32;
            let before = |value: f64| few.slice(1, 0, 4, 1).pad(&[(0, 0), (1, 0)], value);
            let late = |start: f64, combine: fn(f64, f64) -> f64| {
                let mut last = start;
                Array::from_fn(&[2, 5], |at| {
                    last = if at[1] == 0 { start } else { combine(last, before(start).at(at)) };
                    last
                })
            };
            let exclusive = Scan::from(1).exclusive(true);
            Ok(vec![
                exact("sum", t.sum(1)?, int, row(&x, sum)),
                exact("sum of all", t.sum(())?, int, filled(&[], x.data.iter().sum())),
                exact("prod", s.prod(1)?, int, few.reduce(&[1], times).squeeze(&[1])),
                exact("max", t.max(1)?, dtype, row(&x, most)),
                exact("min", t.min(1)?, dtype, row(&x, least)),
                exact("argmax", t.argmax(1)?, int, first(&x, high)),
                exact("argmin", t.argmin(1)?, int, first(&x, low)),
                exact("cumsum", s.cumsum(1)?, int, running(&|x, y| x + y)),
                exact("cumprod", s.cumprod(1)?, int, running(&|x, y| x * y)),
                exact("cummax", s.cummax(1)?, dtype, running(&f64::max)),
                exact("cummin", s.cummin(1)?, dtype, running(&f64::min)),
                exact("maxima before", s.cummax(exclusive)?, dtype, late(low, f64::max)),
                exact("minima before", s.cummin(exclusive)?, dtype, late(high, f64::min)),
            ])
        });
    }
    suite.add("of nothing", |device| {
        let x = Array::<f64>::new(&[0, 3], Vec::new()).on(device, DType::U8)?;
        let b = Array::<f64>::new(&[0, 3], Vec::new()).on(device, DType::Bool)?;
        let of = |value| filled(&[3], value);
        Ok(vec![
            exact("sum", x.sum(0)?, DType::I32, of(0.0)),
            exact("prod", b.prod(0)?, DType::I32, of(1.0)),
            exact("max", x.max(0)?, DType::U8, of(0.0)),
            exact("min", x.min(0)?, DType::U8, of(255.0)),
            exact("max of bool", b.max(0)?, DType::Bool, of(0.0)),
            exact("min of bool", b.min(0)?, DType::Bool, of(1.0)),
        ])
    });
}

/// Tests edge cases that PyTorch defines.
fn edges(suite: &mut Suite) {
    suite.add("positions of a number", |device| {
        let x = device.full(&[], 7.0, DType::F32)?;
        let at = |shape: &[usize], place: f64| filled(shape, place).on(device, DType::I32);
        Ok(vec![
            exact("by a vector", x.index_select(0, &at(&[1], 0.0)?)?, DType::F32, filled(&[], 7.0)),
            exact("by a number", x.index_select(-1, &at(&[], 0.0)?)?, DType::F32, filled(&[], 7.0)),
            exact(
                "from the end",
                x.index_select(0, &at(&[1], -1.0)?)?,
                DType::F32,
                filled(&[], 7.0),
            ),
        ])
    });
    suite.steps("several positions of a number", |device| async move {
        let x = device.full(&[], 7.0, DType::F32).map_err(said)?;
        let index = filled(&[2], 0.0).on(&device, DType::I32).map_err(said)?;
        match x.index_select(0, &index) {
            Err(error) if error.kind() == ErrorKind::Shape => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
    suite.add("dropout of everything", |device| {
        let x = Array::new(&[4], vec![1.0, f64::INFINITY, f64::NAN, -3.0]).f32(device)?;
        let y = x.dropout(1.0, 5)?;
        let finite = device.ones(&[4])?;
        let slope = finite.dropout(1.0, 5)?.sum(())?.grad(&[&finite])?.remove(0);
        Ok(vec![
            exact("zeros", y, DType::F32, filled(&[4], 0.0)),
            exact("their gradient", slope, DType::F32, filled(&[4], 0.0)),
        ])
    });
    suite.add("axes of transforms", |device| {
        // One wave along each axis of [4, 8] in turn. The last axis has the real and imaginary parts.
        let wave = |axis: usize, n: usize| {
            Array::from_fn(&[4, 8, 2], move |at| {
                let angle = std::f64::consts::TAU * at[axis] as f64 / n as f64;
                if at[2] == 0 {
                    angle.cos()
                } else {
                    angle.sin()
                }
            })
        };
        let peak = |axis: usize, n: f64| {
            Array::from_fn(&[4, 8, 2], move |at| if at[axis] == 1 && at[2] == 0 { n } else { 0.0 })
        };
        let by = Tolerance { absolute: 1e-4, relative: 0.0 };
        let usual = FftNorm::Backward;
        let (rows, columns) = (wave(0, 4).f32(device)?, wave(1, 8).f32(device)?);
        Ok(vec![
            near(
                "0",
                rows.fft(FftOptions { axis: 0, norm: usual, ..Default::default() })?,
                peak(0, 4.0),
                by,
            ),
            near(
                "-2",
                rows.fft(FftOptions { axis: -2, norm: usual, ..Default::default() })?,
                peak(0, 4.0),
                by,
            ),
            near(
                "1",
                columns.fft(FftOptions { axis: 1, norm: usual, ..Default::default() })?,
                peak(1, 8.0),
                by,
            ),
            near(
                "-1",
                columns.fft(FftOptions { norm: usual, ..Default::default() })?,
                peak(1, 8.0),
                by,
            ),
        ])
    });
}
