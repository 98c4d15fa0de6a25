//! Tests windows, pooling, resizing, and padding with existing elements.

use super::array::{each, integers, random, Array};
use super::check::{exact, near, typed, Suite};
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::{Filter, PadMode, Padding, PoolOptions, Resize, Sampling, Tensor};

/// The windows of a pooling: size, stride, padding and dilation of each axis, and whether the last window may extend beyond the
/// edge.
#[derive(Clone)]
pub struct Pool {
    size: Vec<usize>,
    stride: Vec<usize>,
    pads: Vec<(usize, usize)>,
    dilation: Vec<usize>,
    ceil: bool,
}

/// Applies `f` to the elements of each window inside the tensor, and to its number of positions within the padded tensor.
pub fn pooled(x: &Array<f64>, pool: &Pool, f: impl Fn(&[f64], usize) -> f64) -> Array<f64> {
    let axes = pool.size.len();
    let mut shape = x.shape[..2].to_vec();
    for i in 0..axes {
        let padded = x.shape[2 + i] + pool.pads[i].0 + pool.pads[i].1;
        let reach = pool.dilation[i] * (pool.size[i] - 1) + 1;
        let mut count = (padded - reach) / pool.stride[i] + 1;
        if pool.ceil && !(padded - reach).is_multiple_of(pool.stride[i]) {
            count += usize::from(count * pool.stride[i] < x.shape[2 + i] + pool.pads[i].0);
        }
        shape.push(count);
    }
    Array::from_fn(&shape, |at| {
        let (mut inside, mut places) = (Vec::new(), 0);
        each(&pool.size, |tap| {
            let mut from = at[..2].to_vec();
            let (mut here, mut padded) = (true, true);
            for i in 0..axes {
                let place = at[2 + i] * pool.stride[i] + tap[i] * pool.dilation[i];
                padded &= place < x.shape[2 + i] + pool.pads[i].0 + pool.pads[i].1;
                here &= place >= pool.pads[i].0 && place - pool.pads[i].0 < x.shape[2 + i];
                from.push(place.wrapping_sub(pool.pads[i].0));
            }
            places += usize::from(padded);
            if here {
                inside.push(x.at(&from));
            }
        });
        f(&inside, places)
    })
}

#[derive(Clone, Copy)]
pub enum Kind {
    Max,
    Average,
    AverageOfAll,
    L2,
}

/// Computes a kind of pooling by its definition.
pub fn meaning(x: &Array<f64>, pool: &Pool, kind: Kind) -> Array<f64> {
    let sum = |x: &[f64]| x.iter().sum::<f64>();
    pooled(x, pool, |window, places| match kind {
        Kind::Max => window.iter().copied().fold(f64::NEG_INFINITY, f64::max),
        Kind::Average => sum(window) / window.len() as f64,
        Kind::AverageOfAll => sum(window) / places as f64,
        Kind::L2 => window.iter().map(|x| x * x).sum::<f64>().sqrt(),
    })
}

fn options<const N: usize>(pool: &Pool) -> PoolOptions<N> {
    let list = |list: &[usize]| -> [usize; N] { list.try_into().expect("one for each axis") };
    PoolOptions {
        kernel_size: list(&pool.size),
        stride: list(&pool.stride),
        padding: Padding::Explicit(pool.pads[..].try_into().expect("one for each axis")),
        dilation: list(&pool.dilation),
        ceil_mode: pool.ceil,
        count_include_pad: false,
    }
}

/// Calls the library's pooling.
pub fn pool(x: &Tensor, pool: &Pool, kind: Kind) -> Result<Tensor> {
    fn ask<const N: usize>(x: &Tensor, pool: &Pool, kind: Kind) -> Result<Tensor> {
        let options = options::<N>(pool);
        match kind {
            Kind::Max => x.max_pool(options),
            Kind::Average => x.avg_pool(options),
            Kind::AverageOfAll => x.avg_pool(PoolOptions { count_include_pad: true, ..options }),
            Kind::L2 => x.l2_pool(options),
        }
    }
    match x.rank() {
        3 => ask::<1>(x, pool, kind),
        4 => ask::<2>(x, pool, kind),
        _ => ask::<3>(x, pool, kind),
    }
}

type Asked = (
    &'static [usize],
    &'static [usize],
    &'static [usize],
    &'static [(usize, usize)],
    &'static [usize],
    bool,
);

/// The input's shape, then sizes, strides, padding, dilations and whether the last window may extend beyond the edge.
pub const POOLS: &[Asked] = &[
    (&[1, 1, 5], &[2], &[2], &[(0, 0)], &[1], false),
    (&[2, 3, 33], &[3], &[2], &[(1, 1)], &[1], true),
    (&[1, 1, 4, 4], &[2, 2], &[2, 2], &[(0, 0), (0, 0)], &[1, 1], false),
    (&[2, 3, 7, 9], &[3, 3], &[1, 1], &[(0, 0), (0, 0)], &[1, 1], false),
    (&[2, 3, 7, 9], &[3, 2], &[2, 3], &[(1, 1), (0, 1)], &[1, 1], false),
    (&[1, 2, 7, 8], &[3, 3], &[2, 2], &[(1, 1), (1, 1)], &[1, 1], true),
    (&[1, 2, 9, 8], &[2, 3], &[2, 3], &[(0, 1), (1, 0)], &[3, 2], true),
    (&[1, 1, 6, 6], &[6, 6], &[1, 1], &[(0, 0), (0, 0)], &[1, 1], false),
    (&[0, 2, 4, 4], &[2, 2], &[2, 2], &[(0, 0), (0, 0)], &[1, 1], false),
    (&[1, 2, 4, 5, 6], &[2, 3, 2], &[2, 1, 2], &[(0, 0), (1, 1), (0, 0)], &[1, 1, 1], false),
    (&[1, 65, 33, 33], &[3, 3], &[2, 2], &[(1, 1), (1, 1)], &[1, 1], false),
];

pub fn windows(asked: &Asked) -> Pool {
    let &(_, size, stride, pads, dilation, ceil) = asked;
    Pool {
        size: size.to_vec(),
        stride: stride.to_vec(),
        pads: pads.to_vec(),
        dilation: dilation.to_vec(),
        ceil,
    }
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("pool");
    for asked in POOLS {
        suite.add(format!("{:?} in windows of {:?}", asked.0, asked.1), move |device| {
            let x = random(asked.0, -4.0, 4.0, 1);
            let (a, windows) = (x.f32(device)?, windows(asked));
            let kinds = [
                ("max", Kind::Max),
                ("average", Kind::Average),
                ("average of all", Kind::AverageOfAll),
                ("l2", Kind::L2),
            ];
            let check = |(name, kind)| {
                let by = match kind {
                    Kind::Max => Tolerance::EXACT,
                    _ => Tolerance { absolute: 2e-6, ..Tolerance::F32 },
                };
                Ok(near(name, pool(&a, &windows, kind)?, meaning(&x, &windows, kind), by))
            };
            kinds.into_iter().map(check).collect()
        });
    }
    unfolds(&mut suite);
    fused(&mut suite);
    adaptive(&mut suite);
    positions(&mut suite);
    resizes(&mut suite);
    samples(&mut suite);
    paddings(&mut suite);
    suite
}

fn unfolds(suite: &mut Suite) {
    const WINDOWS: &[(&[usize], usize, usize, usize, usize)] = &[
        (&[1], 0, 1, 1, 1),
        (&[7], 0, 3, 1, 1),
        (&[7], 0, 3, 2, 2),
        (&[4, 9], 1, 2, 3, 4),
        (&[9, 4], 0, 4, 1, 2),
        (&[2, 3, 33, 2], 2, 5, 7, 1),
        (&[2, 0, 5], 2, 2, 1, 1),
        (&[1, 1, 2, 1, 9, 1, 2], 4, 3, 2, 1),
    ];
    for &(shape, axis, size, step, dilation) in WINDOWS {
        let name = format!("unfold {shape:?} along {axis}: {size}, {step}, {dilation}");
        suite.add(name, move |device| {
            let x = random(shape, -4.0, 4.0, 2);
            let mut wide = shape.to_vec();
            wide[axis] = (shape[axis] - dilation * (size - 1) - 1) / step + 1;
            wide.push(size);
            let want = Array::from_fn(&wide, |at| {
                let mut from = at[..shape.len()].to_vec();
                from[axis] = at[axis] * step + at[shape.len()] * dilation;
                x.at(&from)
            });
            let got = x.f32(device)?.unfold(axis as isize, size, step, dilation)?;
            Ok(vec![near("unfold", got, want, Tolerance::EXACT)])
        });
    }
}

fn fused(suite: &mut Suite) {
    suite.add("between other work", |device| {
        let x = random(&[1, 3, 10, 12], -2.0, 2.0, 3);
        let windows = windows(&POOLS[3]);
        let a = x.f32(device)?.permute(&[0, 1, 3, 2])?;
        let turned = x.permute(&[0, 1, 3, 2]).map(f64::exp);
        let want = meaning(&turned, &windows, Kind::Max).map(|x| x * 2.0 + 1.0);
        let got = pool(&a.exp(), &windows, Kind::Max)?.mul(2)?.add(1)?;
        Ok(vec![near("max", got, want, Tolerance::F32)])
    });
    suite.add("a step beyond the input leaves one window", |device| {
        let x = random(&[1, 2, 5], -2.0, 2.0, 4);
        let want = Array::from_fn(&[1, 2, 1], |at| x.at(&[0, at[1], 0]).max(x.at(&[0, at[1], 1])));
        let mut checks = Vec::new();
        for stride in [5, usize::MAX / 2 + 1, usize::MAX] {
            let options =
                PoolOptions { stride: [stride], ceil_mode: true, ..PoolOptions::new([2]) };
            let got = x.f32(device)?.max_pool(options)?;
            checks.push(near(format!("steps of {stride}"), got, want.clone(), Tolerance::F32));
        }
        Ok(checks)
    });
    suite.add("the padding of NaN, infinities and whole numbers", |device| {
        let x = Array::new(&[1, 1, 4], vec![f64::NAN, -1.0, f64::NEG_INFINITY, -2.0]);
        let options = PoolOptions { padding: Padding::Explicit([(1, 1)]), ..PoolOptions::new([2]) };
        let got = x.f32(device)?.max_pool(options)?;
        let want = Array::new(&[1, 1, 3], vec![f64::NAN, -1.0, -2.0]);
        let whole = Array::new(&[1, 1, 3], vec![-7.0, -5.0, -9.0]);
        let most = whole.on(device, DType::I32)?.max_pool(options)?;
        let least = Array::new(&[1, 1, 2], vec![-7.0, -5.0]);
        Ok(vec![
            near("floats", got, want, Tolerance::EXACT),
            typed("integers", most, DType::I32, least, Tolerance::EXACT),
        ])
    });
}

fn adaptive(suite: &mut Suite) {
    const SIZES: &[(&[usize], &[usize])] = &[
        (&[2, 3, 8, 12], &[4, 3]),
        (&[2, 3, 7, 11], &[3, 5]),
        (&[1, 2, 5], &[8]),
        (&[1, 2, 5], &[1]),
        (&[3, 33], &[7]),
    ];
    for &(shape, sizes) in SIZES {
        suite.add(format!("{shape:?} averaged to {sizes:?}"), move |device| {
            let x = random(shape, -4.0, 4.0, 4);
            let first = shape.len() - sizes.len();
            let want = Array::from_fn(&[&shape[..first], sizes].concat(), |at| {
                let (mut sum, mut count) = (0.0, 0.0);
                let mut spans = vec![1; first];
                let mut starts = at[..first].to_vec();
                for (i, &size) in sizes.iter().enumerate() {
                    let (extent, part) = (shape[first + i], at[first + i]);
                    starts.push(part * extent / size);
                    spans.push(((part + 1) * extent).div_ceil(size) - part * extent / size);
                }
                each(&spans, |tap| {
                    let from: Vec<usize> = starts.iter().zip(tap).map(|(a, b)| a + b).collect();
                    sum += x.at(&from);
                    count += 1.0;
                });
                sum / count
            });
            let by = Tolerance { absolute: 2e-6, ..Tolerance::F32 };
            Ok(vec![near("averages", x.f32(device)?.adaptive_avg_pool(sizes)?, want, by)])
        });
    }
}

type Formula = fn(f64) -> f64;

/// A resampling filter of an axis: the weight of each element by its distance, whether it widens with the step (`antialias`),
/// and whether it ignores elements beyond the edges (`inside`).
struct Lens {
    first: f64,
    step: f64,
    weight: Formula,
    antialias: bool,
    inside: bool,
}

fn hat(x: f64) -> f64 {
    1.0 - x.abs().min(1.0)
}

/// Returns Keys's cubic convolution: 1 at 0, 0 at 1 and 2, with the slope `a` at 1.
fn cubic(a: f64, x: f64) -> f64 {
    let x = x.abs();
    match x {
        x if x < 1.0 => (a + 2.0) * x.powi(3) - (a + 3.0) * x.powi(2) + 1.0,
        x if x < 2.0 => a * (x.powi(3) - 5.0 * x.powi(2) + 8.0 * x - 4.0),
        _ => 0.0,
    }
}

fn steep(x: f64) -> f64 {
    cubic(-0.75, x)
}

fn soft(x: f64) -> f64 {
    cubic(-0.5, x)
}

/// Returns the weighted sums of the elements around each position. Beyond the edges, the outermost elements repeat, or nothing
/// counts.
fn seen(x: &Array<f64>, axis: usize, size: usize, lens: &Lens) -> Array<f64> {
    let mut shape = x.shape.clone();
    let extent = std::mem::replace(&mut shape[axis], size) as isize;
    let width = if lens.antialias { lens.step.abs().max(1.0) } else { 1.0 };
    Array::from_fn(&shape, |at| {
        let place = lens.first + at[axis] as f64 * lens.step;
        let (mut sum, mut all) = (0.0, 0.0);
        let reach = (2.0 * width) as isize + 2;
        for tap in place as isize - reach..=place as isize + reach {
            let weight = (lens.weight)((tap as f64 - place) / width);
            if weight == 0.0 || lens.inside && !(0..extent).contains(&tap) {
                continue;
            }
            let mut from = at.to_vec();
            from[axis] = tap.clamp(0, extent - 1) as usize;
            sum += weight * x.at(&from);
            all += weight;
        }
        if all == 0.0 {
            0.0
        } else {
            sum / all
        }
    })
}

/// All resize modes.
pub const MODES: [Resize; 8] = [
    Resize::Nearest,
    Resize::NearestExact,
    Resize::Linear,
    Resize::LinearCorners,
    Resize::Cubic,
    Resize::CubicCorners,
    Resize::LinearAntialias,
    Resize::CubicAntialias,
];

/// Returns the filter of a resize mode, if it has one.
fn lens(mode: Resize, extent: usize, size: usize) -> Option<Lens> {
    let (n, m) = (extent as f64, size as f64);
    let centred = Lens {
        first: 0.5 * n / m - 0.5,
        step: n / m,
        weight: steep,
        antialias: false,
        inside: false,
    };
    Some(match mode {
        Resize::Cubic => centred,
        Resize::CubicCorners => {
            let step = if size > 1 { (n - 1.0) / (m - 1.0) } else { 0.0 };
            Lens { first: 0.0, step, ..centred }
        }
        Resize::LinearAntialias => Lens { weight: hat, antialias: true, inside: true, ..centred },
        Resize::CubicAntialias => Lens { weight: soft, antialias: true, inside: true, ..centred },
        _ => return None,
    })
}

/// Resizes one axis. Without a filter, interpolates between the two elements around each position.
pub fn resized(x: &Array<f64>, axis: usize, size: usize, mode: Resize) -> Array<f64> {
    let mut shape = x.shape.clone();
    let extent = std::mem::replace(&mut shape[axis], size);
    if extent == size {
        return x.clone();
    }
    if let Some(lens) = lens(mode, extent, size) {
        return seen(x, axis, size, &lens);
    }
    Array::from_fn(&shape, |at| {
        let (i, n, m) = (at[axis] as f64, extent as f64, size as f64);
        let place = match mode {
            Resize::Nearest => (i * n / m + 1e-9).floor(),
            Resize::NearestExact => ((i + 0.5) * n / m + 1e-9).floor(),
            Resize::Linear => ((i + 0.5) * n / m - 0.5).max(0.0),
            Resize::LinearCorners => i * (n - 1.0) / (m - 1.0).max(1.0),
            _ => unreachable!("`seen` knows them"),
        };
        let low = (place + 1e-9).floor();
        let take = |place: f64| {
            let mut from = at.to_vec();
            from[axis] = (place as usize).min(extent - 1);
            x.at(&from)
        };
        let by = (place - low).max(0.0);
        take(low) * (1.0 - by) + if by > 0.0 { take(low + 1.0) * by } else { 0.0 }
    })
}

fn resizes(suite: &mut Suite) {
    const SIZES: &[(&[usize], &[usize])] = &[
        (&[1, 2, 4, 5], &[8, 10]),
        (&[2, 3, 7, 9], &[3, 4]),
        (&[1, 1, 5, 6], &[5, 13]),
        (&[2, 5], &[1]),
        (&[2, 1], &[5]),
        (&[3, 33], &[65]),
        (&[2, 3, 4], &[5, 3, 6]),
        (&[1, 257], &[100]),
    ];
    for &(shape, sizes) in SIZES {
        suite.add(format!("{shape:?} resized to {sizes:?}"), move |device| {
            let x = random(shape, -4.0, 4.0, 5);
            let a = x.f32(device)?;
            let mut checks = Vec::new();
            for mode in MODES {
                let first = shape.len() - sizes.len();
                let along = |x, (i, &size): (usize, &usize)| resized(&x, first + i, size, mode);
                let want = sizes.iter().enumerate().fold(x.clone(), along);
                let by = Tolerance { absolute: 4e-6, ..Tolerance::F32 };
                checks.push(near(format!("{mode:?}"), a.resize(sizes, mode)?, want, by));
            }
            Ok(checks)
        });
    }
}

fn samples(suite: &mut Suite) {
    type Asked = (&'static [usize], usize, usize, f64, f64);
    // The shape, the axis, its new extent, the first position and the step.
    const PLACES: &[Asked] = &[
        (&[5], 0, 9, 0.0, 0.5),
        (&[2, 7, 3], 1, 4, 1.25, -0.75),
        (&[33, 2], 0, 5, -3.0, 9.3),
        (&[1], 0, 3, -1.5, 1.0),
        (&[2, 1, 2, 1, 3, 1, 4, 1], 6, 3, 0.2, 1.4),
        (&[3, 257], 1, 65, 0.5, 3.9),
        (&[0, 4], 1, 2, 0.5, 2.0),
    ];
    for &(shape, axis, size, first, step) in PLACES {
        suite.add(format!("{shape:?} sampled along {axis} at {first}, {step}"), move |device| {
            let x = random(shape, -4.0, 4.0, 7);
            let a = x.f32(device)?;
            let by = Tolerance { absolute: 8e-6, ..Tolerance::F32 };
            let mut checks = Vec::new();
            for (antialias, inside) in [(false, false), (true, false), (false, true), (true, true)]
            {
                let filters: [(Filter, Formula); 3] = [
                    (Filter::Linear, hat),
                    (Filter::Cubic(-0.75), steep),
                    (Filter::Cubic(-0.5), soft),
                ];
                for (filter, weight) in filters {
                    let lens = Lens { first, step, weight, antialias, inside };
                    let by_it = Sampling { first, step, filter, antialias, inside };
                    let got = a.resample(axis as isize, size, by_it)?;
                    let what = format!("{filter:?} {antialias} {inside}");
                    checks.push(near(what, got, seen(&x, axis, size, &lens), by));
                }
            }
            let nearest: [(Filter, Formula); 4] = [
                (Filter::Floor, f64::floor),
                (Filter::Ceil, f64::ceil),
                (Filter::HalfDown, |x| -(0.5 - x).floor()),
                (Filter::HalfUp, |x| (x + 0.5).floor()),
            ];
            for (filter, round) in nearest {
                let mut wide = shape.to_vec();
                wide[axis] = size;
                let want = Array::from_fn(&wide, |at| {
                    let mut from = at.to_vec();
                    let place = round(first + at[axis] as f64 * step);
                    from[axis] = place.clamp(0.0, shape[axis] as f64 - 1.0) as usize;
                    x.at(&from)
                });
                let way = Sampling { first, step, filter, antialias: true, inside: false };
                let got = a.resample(axis as isize, size, way)?;
                checks.push(near(format!("{filter:?}"), got, want, Tolerance::EXACT));
            }
            Ok(checks)
        });
    }
    suite.add("samples next to NaN", |device| {
        let x = Array::new(&[4], vec![f64::NAN, 1.0, 2.0, f64::INFINITY]);
        let way = Sampling { inside: true, ..Sampling::centered(4, 4, Filter::Cubic(-0.5)) };
        let got = x.f32(device)?.resample(0, 4, way)?;
        Ok(vec![near("what has no weight does no harm", got, x, Tolerance::EXACT)])
    });
}

fn positions(suite: &mut Suite) {
    for asked in POOLS {
        suite.add(format!("positions: {:?} in windows of {:?}", asked.0, asked.1), move |device| {
            // Few different numbers, so that several elements are the largest.
            let x = integers(asked.0, -2, 2, 8);
            let windows = windows(asked);
            let plane = Array::from_fn(asked.0, |at| {
                at[2..]
                    .iter()
                    .zip(&asked.0[2..])
                    .fold(0.0, |sum, (&i, &n)| sum * n as f64 + i as f64)
            });
            // Encodes the largest value, and the first position that has it, as one number.
            let both = x.zip(&plane, |x, place| x * 1e6 - place);
            let want = meaning(&both, &windows, Kind::Max).map(|both| {
                let value = (both / 1e6).ceil();
                value * 1e6 - both
            });
            let check = |dtype| {
                let found = indices(&x.on(device, dtype)?, &windows)?;
                Ok(exact(format!("{dtype}"), found, DType::I32, want.clone()))
            };
            [DType::F32, DType::I32].into_iter().map(check).collect()
        });
    }
    suite.add("l2_pool of a window of zeros, and its gradient", |device| {
        let x = device.tensor(&[0.0f32, 0.0, 3.0, 4.0], &[1, 1, 4])?;
        let got = x.l2_pool(PoolOptions::new([2]))?;
        let gradient = got.sum(())?.grad(&[&x])?.remove(0);
        let slopes = Array::new(&[1, 1, 4], vec![0.0, 0.0, 0.6, 0.8]);
        Ok(vec![
            near("values", got, Array::new(&[1, 1, 2], vec![0.0, 5.0]), Tolerance::F32),
            near("gradient", gradient, slopes, Tolerance::F32),
        ])
    });
    suite.add("the position of NaN and in padding", |device| {
        let low = f64::NEG_INFINITY;
        let x = Array::new(&[1, 1, 6], vec![1.0, f64::NAN, 3.0, low, low, low]);
        let options = PoolOptions { padding: Padding::Explicit([(1, 1)]), ..PoolOptions::new([2]) };
        let got = x.f32(device)?.max_pool_indices(options)?;
        let want = Array::new(&[1, 1, 4], vec![0.0, 1.0, 3.0, 5.0]);
        Ok(vec![exact("positions", got, DType::I32, want)])
    });
}

/// Returns the positions that the library finds.
fn indices(x: &Tensor, pool: &Pool) -> Result<Tensor> {
    match x.rank() {
        3 => x.max_pool_indices(options::<1>(pool)),
        4 => x.max_pool_indices(options::<2>(pool)),
        _ => x.max_pool_indices(options::<3>(pool)),
    }
}

fn paddings(suite: &mut Suite) {
    type Padded = (&'static [usize], &'static [(usize, usize)]);
    const AMOUNTS: &[Padded] = &[
        (&[5], &[(2, 3)]),
        (&[5], &[(4, 4)]),
        (&[2, 3], &[(1, 0), (2, 2)]),
        (&[1, 2, 33], &[(0, 0), (1, 1), (31, 32)]),
        (&[3, 0], &[(1, 1), (0, 0)]),
        (&[], &[]),
    ];
    for &(shape, amounts) in AMOUNTS {
        suite.add(format!("{shape:?} padded by {amounts:?}"), move |device| {
            let x = integers(shape, -9, 9, 6);
            let wide: Vec<usize> = shape.iter().zip(amounts).map(|(d, (a, b))| a + d + b).collect();
            let want = |place: fn(isize, isize) -> isize| {
                Array::from_fn(&wide, |at| {
                    let from: Vec<usize> = (0..at.len())
                        .map(|i| {
                            place(at[i] as isize - amounts[i].0 as isize, shape[i] as isize)
                                as usize
                        })
                        .collect();
                    x.at(&from)
                })
            };
            let a = x.f32(device)?;
            let check = |name, mode, want| {
                Ok(near(name, a.pad_with(amounts, mode)?, want, Tolerance::EXACT))
            };
            let reflect = |i: isize, n: isize| {
                if i < 0 {
                    -i
                } else if i >= n {
                    2 * (n - 1) - i
                } else {
                    i
                }
            };
            Ok(vec![
                check("reflect", PadMode::Reflect, want(reflect))?,
                check("edge", PadMode::Edge, want(|i, n| i.clamp(0, n - 1)))?,
                check(
                    "symmetric",
                    PadMode::Symmetric,
                    want(|i, n| {
                        let i = i.rem_euclid(2 * n);
                        i.min(2 * n - 1 - i)
                    }),
                )?,
                check("wrap", PadMode::Wrap, want(|i, n| i.rem_euclid(n)))?,
            ])
        });
    }
}
