//! Tests sampling at the positions of a grid, and adaptive pooling, against the definitions in `f64`.

use super::array::{integers, random, Array};
use super::check::{exact, near, Suite};
use super::grad::holds;
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::tensor::{GridSampleOptions, SampleMode, SamplePadding};

pub fn cases() -> Suite {
    let mut suite = Suite::new("sampling");
    grids(&mut suite);
    parts(&mut suite);
    suite
}

const MODES: [SampleMode; 2] = [SampleMode::Bilinear, SampleMode::Nearest];
const PADDINGS: [SamplePadding; 3] =
    [SamplePadding::Zeros, SamplePadding::Border, SamplePadding::Reflection];

/// Converts a position from -1 to 1 to elements of an axis. Moves it inside, except for zero padding.
fn place(at: f64, extent: usize, padding: SamplePadding, align: bool) -> f64 {
    let n = extent as f64;
    let x = if align { (at + 1.0) / 2.0 * (n - 1.0) } else { ((at + 1.0) * n - 1.0) / 2.0 };
    let (low, high) = if align { (0.0, n - 1.0) } else { (-0.5, n - 0.5) };
    match padding {
        SamplePadding::Zeros => x,
        SamplePadding::Border => x.clamp(0.0, n - 1.0),
        SamplePadding::Reflection if low == high => 0.0,
        SamplePadding::Reflection => {
            // Reflected at one edge after the other until it is inside.
            let mut x = x;
            while !(low..=high).contains(&x) {
                x = if x < low { 2.0 * low - x } else { 2.0 * high - x };
            }
            x.clamp(0.0, n - 1.0)
        }
        other => unreachable!("a test of {other:?}"),
    }
}

/// Samples `[batch, channels, ...]` at the positions `[batch, ..., axes]`.
fn sampled(
    x: &Array<f64>,
    grid: &Array<f64>,
    mode: SampleMode,
    padding: SamplePadding,
    align: bool,
) -> Array<f64> {
    let axes = x.shape.len() - 2;
    let shape = [&x.shape[..2], &grid.shape[1..axes + 1]].concat();
    Array::from_fn(&shape, |at| {
        let places: Vec<f64> = (0..axes)
            .map(|axis| {
                let mut from = vec![at[0]];
                from.extend(&at[2..]);
                from.push(axes - 1 - axis);
                place(grid.at(&from), x.shape[2 + axis], padding, align)
            })
            .collect();
        let mut sum = 0.0;
        for corner in 0..1 << axes {
            let (mut weight, mut from, mut inside) = (1.0, vec![at[0], at[1]], true);
            for (axis, &place) in places.iter().enumerate() {
                let high = corner >> axis & 1 == 1;
                let here = match mode {
                    SampleMode::Nearest => {
                        weight *= f64::from(u8::from(!high));
                        place.round_ties_even()
                    }
                    SampleMode::Bilinear => {
                        let low = place.floor();
                        weight *= if high { place - low } else { 1.0 - (place - low) };
                        low + f64::from(u8::from(high))
                    }
                    SampleMode::Bicubic => unreachable!("`cubic` has it"),
                    other => unreachable!("a test of {other:?}"),
                };
                inside &= here >= 0.0 && here < x.shape[2 + axis] as f64;
                from.push(here.max(0.0) as usize);
            }
            if inside && weight != 0.0 {
                sum += weight * x.at(&from);
            }
        }
        sum
    })
}

/// Returns the weight of an element at a distance in cubic convolution (Keys 1981).
fn cubic_share(distance: f64) -> f64 {
    let (x, a) = (distance.abs(), -0.75);
    match x {
        x if x <= 1.0 => (a + 2.0) * x.powi(3) - (a + 3.0) * x.powi(2) + 1.0,
        x if x < 2.0 => a * (x.powi(3) - 5.0 * x.powi(2) + 8.0 * x - 4.0),
        _ => 0.0,
    }
}

/// Samples images by cubic convolution. Each position beyond the edges is moved inside.
fn cubic(x: &Array<f64>, grid: &Array<f64>, padding: SamplePadding, align: bool) -> Array<f64> {
    let (height, width) = (x.shape[2], x.shape[3]);
    let shape = [&x.shape[..2], &grid.shape[1..3]].concat();
    // The position of an element from -1 to 1, which `place` moves inside.
    let back = |at: f64, extent: usize| match (align, extent) {
        (true, 1) => 0.0,
        (true, n) => at / (n as f64 - 1.0) * 2.0 - 1.0,
        (false, n) => (2.0 * at + 1.0) / n as f64 - 1.0,
    };
    let inside = |at: f64, extent: usize| -> Option<usize> {
        let found = match (padding, align && extent == 1) {
            (SamplePadding::Zeros, _) => at,
            (_, true) => 0.0,
            _ => place(back(at, extent), extent, padding, align).round(),
        };
        (found >= 0.0 && found < extent as f64).then_some(found as usize)
    };
    Array::from_fn(&shape, |at| {
        let to = |axis: usize, extent: usize| {
            place(grid.at(&[at[0], at[2], at[3], axis]), extent, SamplePadding::Zeros, align)
        };
        let (across, down) = (to(0, width), to(1, height));
        let mut sum = 0.0;
        for row in -1..3 {
            for column in -1..3 {
                let (i, j) = (down.floor() + f64::from(row), across.floor() + f64::from(column));
                if let (Some(i_in), Some(j_in)) = (inside(i, height), inside(j, width)) {
                    let share = cubic_share(down - i) * cubic_share(across - j);
                    sum += share * x.at(&[at[0], at[1], i_in, j_in]);
                }
            }
        }
        sum
    })
}

fn grids(suite: &mut Suite) {
    let shapes: [(&[usize], &[usize]); 4] = [
        (&[2, 3, 4, 5], &[2, 3, 7, 2]),
        (&[1, 1, 1, 1], &[1, 2, 2, 2]),
        (&[1, 2, 9, 3], &[1, 1, 33, 2]),
        (&[2, 2, 3, 4, 2], &[2, 2, 3, 2, 3]),
    ];
    for (n, (picture, grid)) in shapes.into_iter().enumerate() {
        suite.add(format!("grid_sample of {picture:?}"), move |device| {
            let x = random(picture, -1.0, 1.0, 1);
            let places = random(grid, -1.7, 1.7, 2 + n as u32);
            let (a, b) = (x.f32(device)?, places.f32(device)?);
            let mut checks = Vec::new();
            for mode in MODES {
                for padding in PADDINGS {
                    for align in [false, true] {
                        let got = a.grid_sample(
                            &b,
                            GridSampleOptions { mode, padding_mode: padding, align_corners: align },
                        )?;
                        let want = sampled(&x, &places, mode, padding, align);
                        let what = format!("{mode:?} {padding:?} {align}");
                        let by = Tolerance { absolute: 1e-5, relative: 0.0 };
                        checks.push(near(what, got, want, by));
                    }
                }
            }
            Ok(checks)
        });
    }
    for (picture, grid) in shapes.into_iter().take(3) {
        suite.add(format!("grid_sample of {picture:?}, bicubic"), move |device| {
            let x = random(picture, -1.0, 1.0, 1);
            let places = random(grid, -1.7, 1.7, 9);
            let (a, b) = (x.f32(device)?, places.f32(device)?);
            let mut checks = Vec::new();
            for padding in PADDINGS {
                for align in [false, true] {
                    let got = a.grid_sample(
                        &b,
                        GridSampleOptions {
                            mode: SampleMode::Bicubic,
                            padding_mode: padding,
                            align_corners: align,
                        },
                    )?;
                    let by = Tolerance { absolute: 2e-5, relative: 0.0 };
                    let want = cubic(&x, &places, padding, align);
                    checks.push(near(format!("{padding:?} {align}"), got, want, by));
                }
            }
            Ok(checks)
        });
    }
    holds(
        suite,
        "the gradient of grid_sample, bicubic",
        vec![random(&[1, 2, 3, 4], -1.0, 1.0, 5), random(&[1, 2, 3, 2], -1.6, 1.6, 6)],
        |x| {
            x[0].grid_sample(
                &x[1],
                GridSampleOptions {
                    mode: SampleMode::Bicubic,
                    padding_mode: SamplePadding::Border,
                    ..Default::default()
                },
            )
        },
        |x| cubic(&x[0], &x[1], SamplePadding::Border, false),
    );
    for padding in PADDINGS {
        for align in [false, true] {
            // Moves positions away from elements, where the gradient has a kink.
            let away = |x: f64| x + 0.003;
            holds(
                suite,
                format!("the gradient of grid_sample, {padding:?} {align}"),
                vec![
                    random(&[1, 2, 3, 4], -1.0, 1.0, 5),
                    random(&[1, 2, 3, 2], -1.6, 1.6, 6).map(away),
                ],
                move |x| {
                    x[0].grid_sample(
                        &x[1],
                        GridSampleOptions {
                            padding_mode: padding,
                            align_corners: align,
                            ..Default::default()
                        },
                    )
                },
                move |x| sampled(&x[0], &x[1], SampleMode::Bilinear, padding, align),
            );
        }
    }
    suite.add("grid_sample of nothing", |device| {
        let (x, grid) = (device.zeros(&[1, 2, 3, 4])?, device.zeros(&[1, 0, 3, 2])?);
        let got = x.grid_sample(&grid, GridSampleOptions::default())?;
        Ok(vec![near("nothing", got, Array::new(&[1, 2, 0, 3], vec![]), Tolerance::EXACT)])
    });
}

/// Divides each of the last axes into parts. The parts overlap if the extent is not a multiple of their number.
fn pooled(x: &Array<f64>, sizes: &[usize], reduce: &dyn Fn(&[f64]) -> f64) -> Array<f64> {
    let first = x.shape.len() - sizes.len();
    let shape = [&x.shape[..first], sizes].concat();
    Array::from_fn(&shape, |at| {
        let (mut part, mut start) = (vec![1; first], at[..first].to_vec());
        for (axis, &size) in sizes.iter().enumerate() {
            let extent = x.shape[first + axis];
            let from = at[first + axis] * extent / size;
            start.push(from);
            part.push(((at[first + axis] + 1) * extent).div_ceil(size) - from);
        }
        let inside = Array::from_fn(&part, |place| {
            let from: Vec<usize> = place.iter().zip(&start).map(|(p, s)| p + s).collect();
            x.at(&from)
        });
        reduce(&inside.data)
    })
}

fn mean(x: &[f64]) -> f64 {
    x.iter().sum::<f64>() / x.len() as f64
}

fn most(x: &[f64]) -> f64 {
    x.iter().copied().fold(f64::NEG_INFINITY, f64::max)
}

/// Returns the position of the first largest element, or of NaN, in each plane.
fn places(x: &Array<f64>, sizes: &[usize]) -> Array<f64> {
    let plane: usize = x.shape[x.shape.len() - sizes.len()..].iter().product();
    let numbered = Array::new(&x.shape, (0..x.data.len()).map(|at| at as f64).collect());
    pooled(&numbered, sizes, &|inside| {
        let mut best = inside[0] as usize;
        for &at in inside {
            let (new, old) = (x.data[at as usize], x.data[best]);
            if new > old || new.is_nan() && !old.is_nan() {
                best = at as usize;
            }
        }
        (best % plane) as f64
    })
}

fn parts(suite: &mut Suite) {
    let choices: [(&[usize], &[usize]); 9] = [
        (&[2, 3, 7], &[3]),
        (&[3, 7], &[7]),
        (&[2, 3, 7], &[10]),
        (&[1, 2, 7, 9], &[3, 4]),
        (&[1, 2, 8, 6], &[4, 3]),
        (&[2, 5, 6], &[1, 1]),
        (&[1, 2, 5, 3, 7], &[2, 3, 4]),
        (&[1, 1, 33, 31], &[5, 40]),
        (&[1, 1, 1, 1], &[3, 2]),
    ];
    for (shape, sizes) in choices {
        suite.add(format!("{shape:?} in parts of {sizes:?}"), move |device| {
            let x = random(shape, -1.0, 1.0, 7);
            let a = x.f32(device)?;
            let whole = integers(shape, -99, 99, 8);
            let numbers = whole.on(device, DType::I32)?.adaptive_max_pool(sizes)?;
            let by = Tolerance { absolute: 1e-6, relative: 1e-6 };
            let (at, of_numbers) =
                (a.adaptive_max_pool_indices(sizes)?, whole.on(device, DType::I32)?);
            let of_numbers = of_numbers.adaptive_max_pool_indices(sizes)?;
            Ok(vec![
                exact("places", at, DType::I32, places(&x, sizes)),
                exact("places of integers", of_numbers, DType::I32, places(&whole, sizes)),
                near("mean", a.adaptive_avg_pool(sizes)?, pooled(&x, sizes, &mean), by),
                near(
                    "largest",
                    a.adaptive_max_pool(sizes)?,
                    pooled(&x, sizes, &most),
                    Tolerance::EXACT,
                ),
                exact("of integers", numbers, DType::I32, pooled(&whole, sizes, &most)),
            ])
        });
    }
    for (name, largest) in [("means", false), ("largest", true)] {
        holds(
            suite,
            format!("the gradient of {name} of parts"),
            // The elements differ by more than the step of a finite difference.
            vec![Array::from_fn(&[2, 5, 7], |at| {
                ((at[0] * 35 + at[1] * 7 + at[2]) * 29 % 71) as f64 / 16.0
            })],
            move |x| {
                if largest {
                    x[0].adaptive_max_pool(&[3, 4])
                } else {
                    x[0].adaptive_avg_pool(&[3, 4])
                }
            },
            move |x| pooled(&x[0], &[3, 4], if largest { &most } else { &mean }),
        );
    }
    suite.add("a NaN among the largest of parts", |device| {
        let x = Array::new(&[5], vec![1.0, f64::NAN, 3.0, -2.0, 0.0]);
        let want = Array::new(&[2], vec![f64::NAN, 3.0]);
        let at = x.f32(device)?.adaptive_max_pool_indices(&[2])?;
        let low = Array::new(&[3], vec![f64::NEG_INFINITY; 3]);
        let low_at = low.f32(device)?.adaptive_max_pool_indices(&[2])?;
        Ok(vec![
            near("NaN", x.f32(device)?.adaptive_max_pool(&[2])?, want, Tolerance::EXACT),
            exact("its place", at, DType::I32, Array::new(&[2], vec![1.0, 2.0])),
            exact("places of -Inf", low_at, DType::I32, Array::new(&[2], vec![0.0, 1.0])),
        ])
    });
}
