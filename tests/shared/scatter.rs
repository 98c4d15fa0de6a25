//! Tests scattering to the positions in indices, compared with loops.

use super::array::{each, integers, place, Array};
use super::check::{exact, near, Check, Suite};
use super::tolerance::Tolerance;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::{Reduction, ScatterNdOptions, ScatterReduction, Tensor};

/// Combines an existing element with a new one.
pub type Combine = fn(f64, f64) -> f64;

/// The reductions, and the functions that combine two numbers.
pub const WAYS: [(Option<Reduction>, Combine); 5] = [
    (None, |_, b| b),
    (Some(Reduction::Sum), |a, b| a + b),
    (Some(Reduction::Prod), |a, b| a * b),
    (Some(Reduction::Max), f64::max),
    (Some(Reduction::Min), f64::min),
];

/// Scatters one element after the other. Indices out of range are skipped.
pub fn scattered(
    x: &Array<f64>,
    axis: usize,
    index: &Array<f64>,
    source: &Array<f64>,
    combine: Combine,
) -> Array<f64> {
    let mut result = x.clone();
    each(&index.shape, |at| {
        if let Some(position) = place(index.at(at), x.shape[axis]) {
            let mut to = at.to_vec();
            to[axis] = position;
            let flat = to.iter().zip(&x.shape).fold(0, |sum, (c, d)| sum * d + c);
            result.data[flat] = combine(result.data[flat], source.at(at));
        }
    });
    result
}

fn apply(
    x: &Tensor,
    axis: isize,
    index: &Tensor,
    source: &Tensor,
    op: Option<Reduction>,
) -> Result<Tensor> {
    match op {
        None => x.scatter(axis, index, source),
        Some(Reduction::Sum) => x.scatter_add(axis, index, source),
        Some(op) => x.scatter_reduce(axis, index, source, op),
    }
}

/// Compares all reductions on whole numbers, which are exact in any order.
fn ways(
    device: &Device,
    shape: &[usize],
    axis: usize,
    count: usize,
    dtype: DType,
) -> Result<Vec<Check>> {
    let mut wide = shape.to_vec();
    wide[axis] = count;
    let x = integers(shape, -3, 3, 1);
    let source = integers(&wide, -2, 2, 2);
    // Many indices are equal, and some are out of range.
    let index = integers(&wide, -3, shape[axis] as i32 + 1, 3);
    let (a, i, s) =
        (x.on(device, dtype)?, index.on(device, DType::I32)?, source.on(device, dtype)?);
    let mut checks = Vec::new();
    for (op, combine) in WAYS {
        // Products of many factors exceed the numbers that `f32` represents exactly.
        if op == Some(Reduction::Prod) && count > 40 {
            continue;
        }
        let want = scattered(&x, axis, &index, &source, combine);
        checks.push(exact(format!("{op:?}"), apply(&a, axis as isize, &i, &s, op)?, dtype, want));
    }
    Ok(checks)
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("scatter");
    shapes(&mut suite);
    types(&mut suite);
    not_finite(&mut suite);
    ties(&mut suite);
    sorted(&mut suite);
    index_adds(&mut suite);
    coordinates(&mut suite);
    masks(&mut suite);
    suite
}

fn shapes(suite: &mut Suite) {
    const SHAPES: &[(&[usize], usize, usize)] = &[
        (&[1], 0, 1),
        (&[5], 0, 9),
        (&[5], 0, 0),
        (&[0], 0, 3),
        (&[33], 0, 31),
        (&[3, 4], 1, 6),
        (&[3, 4], 0, 2),
        (&[2, 65], 1, 33),
        (&[2, 3, 4], 1, 5),
        (&[257], 0, 40),
        (&[1, 2, 1, 3, 1, 2, 1, 1], 3, 4),
    ];
    for &(shape, axis, count) in SHAPES {
        suite.add(format!("{shape:?} axis {axis}, {count}"), move |device| {
            ways(device, shape, axis, count, DType::F32)
        });
    }
}

fn types(suite: &mut Suite) {
    suite.add("i32", |device| ways(device, &[3, 7], 1, 12, DType::I32));
    let case = suite.add("f16", |device| ways(device, &[3, 7], 1, 12, DType::F16));
    case.half();
    suite.add("bool", |device| {
        let (x, source) = (integers(&[9], 0, 1, 4), integers(&[20], 0, 1, 5));
        let index = integers(&[20], 0, 8, 6);
        let (a, s) = (x.on(device, DType::Bool)?, source.on(device, DType::Bool)?);
        let i = index.on(device, DType::U32)?;
        let want = |combine: Combine| scattered(&x, 0, &index, &source, combine);
        Ok(vec![
            exact("replaced", a.scatter(0, &i, &s)?, DType::Bool, want(|_, b| b)),
            exact("any", a.scatter_reduce(0, &i, &s, Reduction::Any)?, DType::Bool, want(f64::max)),
            exact("all", a.scatter_reduce(0, &i, &s, Reduction::All)?, DType::Bool, want(f64::min)),
        ])
    });
}

fn not_finite(suite: &mut Suite) {
    suite.add("NaN and infinities stay where they are brought", |device| {
        let x = Array::new(&[4], vec![1.0; 4]);
        let source = Array::new(&[4], vec![f64::NAN, f64::INFINITY, 2.0, 3.0]);
        let index = Array::new(&[4], vec![0.0, 2.0, 3.0, 9.0]);
        let (a, s, i) = (x.f32(device)?, source.f32(device)?, index.on(device, DType::I32)?);
        let mut checks = Vec::new();
        for (op, combine) in [WAYS[0], WAYS[1], WAYS[2]] {
            let want = scattered(&x, 0, &index, &source, combine);
            checks.push(near(format!("{op:?}"), apply(&a, 0, &i, &s, op)?, want, Tolerance::EXACT));
        }
        Ok(checks)
    });
}

/// Tests that equal largest or smallest elements share the gradient equally, as in PyTorch.
fn ties(suite: &mut Suite) {
    suite.add("gradients of equal elements", |device| {
        let index = device.tensor(&[0i32, 0, 1, 1, 1, 2], &[6])?;
        let weight = device.tensor(&[3.0f32, 2.0, 5.0, 7.0], &[4])?;
        let mut checks = Vec::new();
        for (op, sign) in [(Reduction::Max, 1.0f32), (Reduction::Min, -1.0)] {
            let signed = |x: &[f32]| x.iter().map(|x| x * sign).collect::<Vec<f32>>();
            let x = device.tensor(&signed(&[4.0, 1.0, 9.0, 6.0]), &[4])?;
            let source = device.tensor(&signed(&[4.0, 4.0, 7.0, 7.0, 3.0, 2.0]), &[6])?;
            let mut check = |what: &str, way: ScatterReduction, want: [&[f64]; 3]| -> Result<()> {
                let result = x.scatter_reduce(0, &index, &source, way)?;
                let gradients = result.mul(&weight)?.sum(())?.grad(&[&x, &source])?;
                for (n, got) in [&result, &gradients[0], &gradients[1]].into_iter().enumerate() {
                    let factor = if n == 0 { f64::from(sign) } else { 1.0 };
                    let want = want[n].iter().map(|x| x * factor).collect();
                    let want = Array::new(got.shape(), want);
                    checks.push(near(
                        format!("{what} {op:?} {n}"),
                        got.clone(),
                        want,
                        Tolerance::F32,
                    ));
                }
                Ok(())
            };
            check(
                "with the previous",
                op.into(),
                [&[4.0, 7.0, 9.0, 6.0], &[1.0, 0.0, 5.0, 7.0], &[1.0, 1.0, 1.0, 1.0, 0.0, 0.0]],
            )?;
            check(
                "without",
                ScatterReduction::from(op).include_self(false),
                [&[4.0, 7.0, 2.0, 6.0], &[0.0, 0.0, 0.0, 7.0], &[1.5, 1.5, 1.0, 1.0, 0.0, 5.0]],
            )?;
        }
        Ok(checks)
    });
}

/// Tests more than 2^26 elements times indices.
fn sorted(suite: &mut Suite) {
    let case = suite.add("many, by sorting", |device| ways(device, &[9000], 0, 8000, DType::F32));
    case.big();
    let case =
        suite.add("many rows, by sorting", |device| ways(device, &[40, 1500], 1, 1200, DType::F32));
    case.big();
    let case = suite.add("index_add of many, by sorting", |device| {
        added(device, &[3000, 9], 0, 2600).map(|check| vec![check])
    });
    case.big();
}

fn added(device: &Device, shape: &[usize], axis: usize, count: usize) -> Result<Check> {
    let mut wide = shape.to_vec();
    wide[axis] = count;
    let (x, source) = (integers(shape, -9, 9, 7), integers(&wide, -9, 9, 8));
    let index = integers(&[count], -4, shape[axis] as i32 + 1, 9);
    let spread = Array::from_fn(&wide, |at| index.data[at[axis]]);
    let want = scattered(&x, axis, &spread, &source, |a, b| a + b);
    let (i, s) = (index.on(device, DType::I32)?, source.f32(device)?);
    let got = x.f32(device)?.index_add(axis as isize, &i, &s)?;
    Ok(near(format!("{shape:?} axis {axis}"), got, want, Tolerance::EXACT))
}

fn index_adds(suite: &mut Suite) {
    suite.add("index_add", |device| {
        const SHAPES: &[(&[usize], usize, usize)] = &[
            (&[5], 0, 7),
            (&[5, 3], 0, 7),
            (&[5, 3], 1, 7),
            (&[2, 5, 3], 1, 4),
            (&[4, 3], 0, 0),
            (&[33, 65], 0, 31),
        ];
        SHAPES.iter().map(|&(shape, axis, count)| added(device, shape, axis, count)).collect()
    });
}

fn coordinates(suite: &mut Suite) {
    const SHAPES: &[(&[usize], &[usize], usize)] = &[
        (&[5], &[3], 1),
        (&[4, 5], &[6], 2),
        (&[4, 5], &[6], 1),
        (&[3, 4, 5], &[2, 3], 2),
        (&[3, 4], &[], 2),
        (&[3, 4, 2], &[0], 2),
    ];
    for &(shape, places, axes) in SHAPES {
        suite.add(format!("coordinates {shape:?} {places:?} {axes}"), move |device| {
            let x = integers(shape, -9, 9, 10);
            let index = integers(&[places, &[axes]].concat(), -4, 5, 11);
            let source = integers(&[places, &shape[axes..]].concat(), -9, 9, 12);
            let flat = |place: &[usize]| {
                let mut flat = Some(0);
                for (axis, &extent) in shape[..axes].iter().enumerate() {
                    let at = super::array::place(index.at(&[place, &[axis]].concat()), extent);
                    flat = flat.and_then(|flat| Some(flat * extent + at?));
                }
                flat
            };
            let rest: usize = shape[axes..].iter().product();
            let within = |at: &[usize]| {
                let columns = at[places.len()..].iter().zip(&shape[axes..]);
                columns.fold(0, |sum, (c, d)| sum * d + c)
            };
            let gathered = Array::from_fn(&source.shape, |at| {
                flat(&at[..places.len()]).map_or(0.0, |row| x.data[row * rest + within(at)])
            });
            let a = x.f32(device)?;
            let (i, s) = (index.on(device, DType::I32)?, source.f32(device)?);
            let mut checks = vec![near("gather_nd", a.gather_nd(&i)?, gathered, Tolerance::EXACT)];
            for (op, combine) in [WAYS[0], WAYS[1], WAYS[3]] {
                let mut want = x.clone();
                each(&source.shape, |at| {
                    if let Some(row) = flat(&at[..places.len()]) {
                        let to = &mut want.data[row * rest + within(at)];
                        *to = combine(*to, source.at(at));
                    }
                });
                checks.push(near(
                    format!("{op:?}"),
                    a.scatter_nd(&i, &s, ScatterNdOptions { reduction: op })?,
                    want,
                    Tolerance::EXACT,
                ));
            }
            Ok(checks)
        });
    }
}

fn masks(suite: &mut Suite) {
    suite.add("masked_fill", |device| {
        let x = integers(&[3, 5], -9, 9, 13);
        let mask = integers(&[5], 0, 1, 14);
        let m = mask.on(device, DType::Bool)?;
        let filled = |value: f64| x.zip(&mask, |x, m| if m == 1.0 { value } else { x });
        let lowest = f64::NEG_INFINITY;
        Ok(vec![
            near("f32", x.f32(device)?.masked_fill(&m, lowest)?, filled(lowest), Tolerance::EXACT),
            exact("i32", x.on(device, DType::I32)?.masked_fill(&m, 7.0)?, DType::I32, filled(7.0)),
        ])
    });
    suite.add("masked_fill by a mask of higher rank", |device| {
        let (x, mask) = (integers(&[2, 1], -9, 9, 15), integers(&[3, 1, 4], 0, 1, 16));
        let (a, m) = (x.f32(device)?, mask.on(device, DType::Bool)?);
        let of = |hit: f64, miss: &dyn Fn(usize) -> f64| {
            Array::from_fn(&[3, 2, 4], |at| match mask.at(&[at[0], 0, at[2]]) {
                1.0 => hit,
                _ => miss(at[1]),
            })
        };
        let filled = a.masked_fill(&m, 7.0)?;
        let gradient = filled.sum(())?.grad(&[&a])?.remove(0);
        // Each element occurs as often as the mask has a 0.
        let kept = mask.data.iter().filter(|&&m| m == 0.0).count() as f64;
        let value = Array::new(&[4], vec![7.0; 4]).f32(device)?;
        let by_tensor = a.masked_fill(&m, &value)?;
        let want = of(7.0, &|row| x.at(&[row, 0]));
        Ok(vec![
            near("by a number", filled, want.clone(), Tolerance::EXACT),
            near("by a tensor", by_tensor, want, Tolerance::EXACT),
            near("gradient", gradient, Array::new(&[2, 1], vec![kept; 2]), Tolerance::EXACT),
        ])
    });
}
