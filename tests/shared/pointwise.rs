//! Tests every row of the pointwise table on every dtype that it takes: at extreme values, at random values, and at NaN.

use super::array::{encode, word, Array};
use super::call::call;
use super::check::{judged, near, same_bits, Check, Suite};
use super::reference::{self, Reference};
use super::tolerance::{agrees, allowance, Tolerance};
use warpweft::backend::DeviceKind;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::op::pointwise::TABLE;
use warpweft::op::{Row, Types};
use warpweft::tensor::{Operand, Tensor};

/// Magnitudes at which rows over floats are tested, with both signs.
const EXTREMES: [f32; 13] =
    [0.0, 1e-30, 1e-4, 0.3, 1.0, 3.0, 10.0, 30.0, 88.0, 89.0, 100.0, 1e4, 1e30];

/// Words at which integers overflow or change sign.
const WORDS: [u32; 19] = [
    0,
    1,
    2,
    3,
    7,
    31,
    32,
    33,
    255,
    65_535,
    65_536,
    0x0100_0001,
    0x7fff_fffe,
    0x7fff_ffff,
    0x8000_0000,
    0x8000_0001,
    0xffff_0000,
    0xffff_fffd,
    0xffff_ffff,
];

/// The number of random points for each row and dtype.
const RANDOM: usize = 500;

pub fn cases() -> Suite {
    let mut suite = Suite::new("pointwise");
    for row in TABLE {
        for dtype in [DType::F32, DType::F16] {
            if let (true, Some(reference)) = (takes(row, dtype), reference::float(row.name)) {
                let case = suite.add(format!("{} {dtype}", row.name), move |device| {
                    floats(device, row, dtype, reference)
                });
                if dtype == DType::F16 {
                    case.half();
                }
            }
        }
        for dtype in [DType::I32, DType::U32, DType::Bool] {
            if let (true, Some(f)) = (takes(row, dtype), reference::integer(row.name)) {
                suite.add(format!("{} {dtype}", row.name), move |device| {
                    integers(device, row, dtype, f)
                });
            }
        }
    }
    quotients(&mut suite);
    unlike_the_others(&mut suite);
    conventions(&mut suite);
    suite
}

fn types(row: &Row, dtype: DType) -> Vec<DType> {
    let mut types = vec![dtype; row.operands.len()];
    if row.types == Types::Select {
        types[0] = DType::Bool;
    }
    types
}

fn takes(row: &Row, dtype: DType) -> bool {
    row.dtype(&types(row, dtype)).is_ok()
}

/// Returns all combinations of `values` as operands: the n-th list has the n-th operands.
fn grid<T: Copy>(values: &[T], operands: usize) -> Vec<Vec<T>> {
    let count = values.len().pow(operands as u32);
    let digit = |at: usize, n: usize| at / values.len().pow(n as u32) % values.len();
    (0..operands).map(|n| (0..count).map(|at| values[digit(at, n)]).collect()).collect()
}

/// Applies the row's method to columns of operands.
fn apply(row: &Row, operands: &[Tensor], parameters: &[f64]) -> Result<Tensor> {
    let rest: Vec<Operand> = operands[1..].iter().map(Operand::from).collect();
    call(row.name, &operands[0], &rest, parameters)
}

fn floats(device: &Device, row: &Row, dtype: DType, reference: Reference) -> Result<Vec<Check>> {
    let usual: Vec<f64> = row.parameters.iter().map(|p| f64::from(p.1 as f32)).collect();
    let mut checks = Vec::new();
    if dtype == DType::F32 {
        let extremes: Vec<f64> =
            EXTREMES.iter().flat_map(|&x| [f64::from(x), -f64::from(x)]).collect();
        let columns = grid(&extremes, row.operands.len());
        checks.push(compare(device, row, dtype, reference, "extremes", columns, &usual)?);
    }
    let range = |n: usize| *row.domain.get(n).or(row.domain.last()).expect("a domain");
    let random = |n: usize, at: usize| {
        let (low, high) = range(n);
        let unit = f64::from(word(n as u32 + 1, at)) / 4_294_967_296.0;
        f64::from((low + (high - low) * unit) as f32)
    };
    // Numbers are parameters of a kernel, so each round uses different ones.
    for round in 0..if row.parameters.is_empty() { 1 } else { 3 } {
        let columns = (0..row.operands.len())
            .map(|n| (0..RANDOM).map(|at| random(n, at + RANDOM * round)).collect())
            .collect();
        let parameters: Vec<f64> =
            (0..usual.len()).map(|n| random(row.operands.len() + n, round)).collect();
        checks.push(compare(device, row, dtype, reference, "domain", columns, &parameters)?);
    }
    Ok(checks)
}

/// Compares the row at points with its reference.
fn compare(
    device: &Device,
    row: &Row,
    dtype: DType,
    reference: Reference,
    what: &str,
    columns: Vec<Vec<f64>>,
    parameters: &[f64],
) -> Result<Check> {
    let types = types(row, dtype);
    let (mut operands, mut points) = (Vec::new(), vec![Vec::new(); columns[0].len()]);
    for (column, &dtype) in columns.iter().zip(&types) {
        let truth = |&x: &f64| f64::from(u8::from(x > 0.5));
        let column = match dtype {
            DType::Bool => column.iter().map(truth).collect(),
            _ => Array::new(&[column.len()], column.clone()).rounded(dtype).data,
        };
        points.iter_mut().zip(&column).for_each(|(point, &x)| point.push(x));
        operands.push(Array::new(&[column.len()], column).on(device, dtype)?);
    }
    points.iter_mut().for_each(|point| point.extend(parameters));
    let got = apply(row, &operands, parameters)?;
    let result = row.dtype(&types)?;
    let want: Vec<f64> = points.iter().map(|point| (reference.value)(point)).collect();
    let gpu = device.info().kind != DeviceKind::Cpu;
    let name = row.name;
    let accepts = {
        let (want, points) = (want.clone(), points.clone());
        move |at: usize, got: f64| {
            let allowed = allowance(gpu, name, &points[at]);
            agrees(&reference, &allowed, result, &points[at], got, want[at])
        }
    };
    let what = format!("{what} {parameters:?}");
    let describe = move |at: usize| format!("{:?}", points[at]);
    Ok(judged(what, got, result, Array::new(&[want.len()], want), accepts, describe))
}

fn integers(device: &Device, row: &Row, dtype: DType, f: fn(&[i64]) -> i64) -> Result<Vec<Check>> {
    let types = types(row, dtype);
    let result = row.dtype(&types)?;
    let fit = |dtype: DType, w: u32| if dtype == DType::Bool { w & 1 } else { w };
    let random: Vec<Vec<u32>> =
        (0..types.len()).map(|n| (0..RANDOM).map(|at| word(n as u32 + 9, at)).collect()).collect();
    let mut checks = Vec::new();
    for columns in [grid(&WORDS, types.len()), random] {
        let count = columns[0].len();
        let mut operands = Vec::new();
        let mut points = vec![Vec::new(); count];
        for (column, &dtype) in columns.iter().zip(&types) {
            let column: Vec<u32> = column.iter().map(|&w| fit(dtype, w)).collect();
            for (point, &w) in points.iter_mut().zip(&column) {
                point.push(if dtype == DType::I32 { i64::from(w as i32) } else { i64::from(w) });
            }
            operands.push(Array::new(&[count], column).on(device, dtype)?);
        }
        let got = apply(row, &operands, &[])?;
        let want = points.iter().map(|point| fit(result, f(point) as u32)).collect();
        checks.push(same_bits(row.name, got, result, Array::new(&[count], want)));
    }
    Ok(checks)
}

/// Tests true division of integers, floor division of floats, and limits that are NaN.
fn quotients(suite: &mut Suite) {
    suite.add("div of integers", |device| {
        let mut checks = Vec::new();
        for dtype in [DType::U8, DType::I8, DType::U16, DType::I32, DType::U32] {
            let x = device.tensor(&[100i32, 127, 0, 3], &[4])?.cast(dtype)?;
            let want = |by: [f64; 4]| {
                let of = |n: usize| {
                    f64::from((f64::from([100.0f32, 127.0, 0.0, 3.0][n]) / by[n]) as f32)
                };
                Array::new(&[4], (0..4).map(of).collect())
            };
            checks.push(near(
                format!("{dtype} / 255"),
                x.div(255)?,
                want([255.0; 4]),
                Tolerance::F32,
            ));
            let y = device.tensor(&[3i32, 2, 7, 4], &[4])?.cast(dtype)?;
            checks.push(near(
                format!("{dtype} / {dtype}"),
                x.div(&y)?,
                want([3.0, 2.0, 7.0, 4.0]),
                Tolerance::F32,
            ));
            let halves = y.cast(DType::F32)?.mul(0.5)?;
            checks.push(near(
                format!("{dtype} / f32"),
                x.div(&halves)?,
                want([1.5, 1.0, 3.5, 2.0]),
                Tolerance::F32,
            ));
        }
        let yes = device.tensor(&[true, false], &[2])?;
        checks.push(near(
            "bool / 2",
            yes.div(2)?,
            Array::new(&[2], vec![0.5, 0.0]),
            Tolerance::EXACT,
        ));
        let x = device.tensor(&[1i32, 0, -1], &[3])?;
        let by_zero = Array::new(&[3], vec![f64::INFINITY, f64::NAN, f64::NEG_INFINITY]);
        checks.push(near("i32 / 0", x.div(0)?, by_zero, Tolerance::EXACT));
        Ok(checks)
    });
    suite.add("limits that are NaN", |device| {
        let x = device.tensor(&[-5.0f32, 0.5, 5.0], &[3])?;
        let nan = Array::new(&[3], vec![f64::NAN; 3]);
        let all = [
            ("hard_tanh from", x.hard_tanh(f64::NAN, 1.0)),
            ("hard_tanh to", x.hard_tanh(-1.0, f64::NAN)),
            ("clamp from", x.clamp(f64::NAN, 1.0)?),
            ("clamp to", x.clamp(-1.0, f64::NAN)?),
        ];
        Ok(all.map(|(what, got)| near(what, got, nan.clone(), Tolerance::EXACT)).into())
    });
    suite.add("floor_divide of floats", |device| {
        // The values of NumPy 2.2.
        let pairs = [
            (7.0f32, 2.0f32, 3.0),
            (-7.0, 2.0, -4.0),
            (7.0, -2.0, -4.0),
            (-7.0, -2.0, 3.0),
            (1.0, 0.1, 9.0),
            (1e7, 3.0, 3_333_333.0),
            (0.3, 0.1, 3.0),
            (6.0, 3.0, 2.0),
            (1.0, 0.0, f64::INFINITY),
            (-1.0, 0.0, f64::NEG_INFINITY),
            (0.0, 0.0, f64::NAN),
            (f32::NAN, 1.0, f64::NAN),
            (3.0, f32::INFINITY, 0.0),
            (-5.0, f32::INFINITY, -1.0),
            (5.0, f32::NEG_INFINITY, -1.0),
            (-5.0, f32::NEG_INFINITY, 0.0),
            (f32::INFINITY, 2.0, f64::NAN),
            (f32::NEG_INFINITY, 2.0, f64::NAN),
            (f32::INFINITY, f32::INFINITY, f64::NAN),
            (f32::INFINITY, 0.0, f64::INFINITY),
            (-3e38, 2e38, -2.0),
        ];
        let [x, y]: [Vec<f32>; 2] =
            [pairs.iter().map(|p| p.0).collect(), pairs.iter().map(|p| p.1).collect()];
        let count = pairs.len();
        let got = device.tensor(&x, &[count])?.floor_divide(&device.tensor(&y, &[count])?)?;
        let want = pairs.iter().map(|p| p.2).collect();
        Ok(vec![near("quotients", got, Array::new(&[count], want), Tolerance::EXACT)])
    });
}

/// Tests rows whose operands and result have different dtypes.
fn unlike_the_others(suite: &mut Suite) {
    suite.add("random_bits u32", |device| {
        let counters: Vec<u32> = (0..300).map(|n| word(1, n)).collect();
        let keys: Vec<u32> = (0..300).map(|n| word(2, n)).collect();
        let bits = |(&c, &k): (&u32, &u32)| reference::threefry([c, 0], [k, 0])[0];
        let want = counters.iter().zip(&keys).map(bits).collect();
        let (a, b) = (device.tensor(&counters, &[300])?, device.tensor(&keys, &[300])?);
        let got = a.random_bits(&b)?;
        Ok(vec![same_bits("bits", got, DType::U32, Array::new(&[300], want))])
    });
    suite.add("unit_float u32", |device| {
        let words = [WORDS.to_vec(), (0..300).map(|n| word(3, n)).collect()].concat();
        let want = words.iter().map(|w| f64::from(w >> 8) / 16_777_216.0).collect();
        let count = words.len();
        let got = device.tensor(&words, &[count])?.unit_float();
        Ok(vec![near("floats", got, Array::new(&[count], want), Tolerance::EXACT)])
    });
    suite.add("bitcast", |device| {
        // Neither subnormal nor NaN, because GPUs may change those.
        let normal = |n: usize| (word(4, n) % 0x7f00_0000 + 0x80_0000) | word(5, n) & 1 << 31;
        let words: Vec<u32> = (0..300).map(normal).chain([0, 1 << 31, 0x7f80_0000]).collect();
        let count = words.len();
        let mut checks = Vec::new();
        for to in [DType::F32, DType::I32, DType::U32] {
            let got = device.tensor(&words, &[count])?.bitcast(DType::F32)?.bitcast(to)?;
            let want = Array::new(&[count], words.clone());
            checks.push(same_bits(format!("as {to}"), got, to, want));
        }
        // In a kernel with other operations: the exponent, converted to a float.
        let exponents = words.iter().map(|w| f64::from(w >> 23 & 255) - 127.0).collect();
        let x = device.tensor(&words, &[count])?.bitcast(DType::F32)?.neg().neg();
        let got = x.bitcast(DType::U32)?.bitwise_right_shift(23)?.bitwise_and(255)?;
        let got = got.cast(DType::F32)?.sub(127.0)?;
        checks.push(near("exponents", got, Array::new(&[count], exponents), Tolerance::EXACT));
        Ok(checks)
    });
    suite.fallible("bitcast refuses other sizes", |device| async move {
        let x = device.ones(&[2])?;
        for (x, to, from) in [(x.clone(), DType::I8, "f32"), (x.gt(0.0)?, DType::U32, "bool")] {
            let error = x.bitcast(to).map(|_| ()).unwrap_err().to_string();
            assert!(error.contains("bitcast") && error.contains(from), "{error}");
        }
        Ok(())
    });
}

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;

/// A row, its arguments and its value, where the value is a convention. The signs of zeros are compared.
const CONVENTIONS: &[(&str, &[f64], f64)] = &[
    ("is_nan", &[NAN], 1.0),
    ("is_nan", &[INF], 0.0),
    ("is_inf", &[INF], 1.0),
    ("is_inf", &[-INF], 1.0),
    ("is_inf", &[NAN], 0.0),
    ("is_finite", &[NAN], 0.0),
    ("is_finite", &[-INF], 0.0),
    ("is_finite", &[3e38], 1.0),
    ("sign_bit", &[-0.0], 1.0),
    ("sign_bit", &[0.0], 0.0),
    ("neg", &[0.0], -0.0),
    ("neg", &[-0.0], 0.0),
    ("abs", &[-0.0], 0.0),
    ("abs", &[-INF], INF),
    ("sign", &[-0.0], -0.0),
    ("sign", &[NAN], NAN),
    ("sign", &[-INF], -1.0),
    ("round", &[2.5], 2.0),
    ("round", &[-3.5], -4.0),
    ("round", &[0.5], 0.0),
    ("floor", &[-0.5], -1.0),
    ("trunc", &[1e30], 1e30),
    ("fract", &[-0.25], 0.75),
    ("minimum", &[NAN, 1.0], NAN),
    ("minimum", &[1.0, NAN], NAN),
    ("maximum", &[NAN, 1.0], NAN),
    ("maximum", &[1.0, NAN], NAN),
    ("maximum", &[-INF, 1.0], 1.0),
    ("clamp", &[NAN, 0.0, 1.0], NAN),
    ("clamp", &[5.0, 2.0, 1.0], 1.0),
    ("clamp", &[0.5, NAN, 1.0], NAN),
    ("clamp", &[0.5, 0.0, NAN], NAN),
    ("clamp", &[5.0, NAN, 1.0], NAN),
    ("clamp", &[-5.0, 0.0, NAN], NAN),
    ("relu", &[-0.0], 0.0),
    ("relu", &[NAN], NAN),
    ("copysign", &[2.0, -0.0], -2.0),
    ("pow", &[0.0, 0.0], 1.0),
    ("pow", &[NAN, 0.0], 1.0),
    ("pow", &[1.0, NAN], 1.0),
    ("pow", &[0.0, -2.0], INF),
    ("pow", &[-2.0, 3.0], -8.0),
    ("pow", &[-2.0, -2.0], 0.25),
    ("pow", &[-2.0, 0.5], NAN),
    ("pow", &[-1.0, 16_777_217.0], 1.0),
    ("remainder", &[-7.0, 3.0], 2.0),
    ("remainder", &[7.0, -3.0], -2.0),
    ("remainder", &[1e8, 3.0], 1.0),
    ("remainder", &[-1e8, 3.0], 2.0),
    ("remainder", &[1e8, -3.0], -2.0),
    ("remainder", &[-0.0, 2.0], -0.0),
    ("remainder", &[5.0, INF], 5.0),
    ("remainder", &[-5.0, INF], INF),
    ("remainder", &[INF, 2.0], NAN),
    ("remainder", &[1.0, 0.0], NAN),
    ("remainder", &[1.0, NAN], NAN),
    ("fmod", &[-7.0, 3.0], -1.0),
    ("fmod", &[1e8, 3.0], 1.0),
    ("fmod", &[-1e8, 3.0], -1.0),
    ("fmod", &[16_777_217.0, 1.0], 0.0),
    ("fmod", &[-6.0, 3.0], -0.0),
    ("fmod", &[-0.0, 2.0], -0.0),
    ("fmod", &[0.0, -2.0], 0.0),
    ("fmod", &[5.0, INF], 5.0),
    ("fmod", &[-5.0, -INF], -5.0),
    ("fmod", &[INF, 2.0], NAN),
    ("fmod", &[-INF, INF], NAN),
    ("fmod", &[1.0, 0.0], NAN),
    ("fmod", &[0.0, 0.0], NAN),
    ("fmod", &[NAN, 2.0], NAN),
    ("fmod", &[2.0, NAN], NAN),
    ("atan2", &[0.0, -0.0], std::f64::consts::PI),
    ("atan2", &[1.0, NAN], NAN),
    ("hypot", &[INF, -INF], INF),
    ("hypot", &[INF, NAN], INF),
    ("hypot", &[NAN, -INF], INF),
    ("hypot", &[NAN, 1.0], NAN),
    ("hypot", &[-INF, 3.0], INF),
    ("hypot", &[0.0, -0.0], 0.0),
    ("hypot", &[2e38, 2e38], 2.828_427_124_746_19e38),
    ("lerp", &[0.1, 0.7, 1.0], 0.7),
    ("exp", &[INF], INF),
    ("exp", &[-INF], 0.0),
    ("exp", &[NAN], NAN),
    ("log", &[0.0], -INF),
    ("log", &[INF], INF),
    ("log", &[-1.0], NAN),
    ("sqrt", &[-1.0], NAN),
    ("sqrt", &[INF], INF),
    ("log1p", &[-1.0], -INF),
    ("atanh", &[1.0], INF),
    ("atanh", &[-1.0], -INF),
    ("tanh", &[INF], 1.0),
    ("tanh", &[-INF], -1.0),
    ("tanh", &[NAN], NAN),
    ("sigmoid", &[-INF], 0.0),
    ("sigmoid", &[NAN], NAN),
    ("gelu", &[NAN], NAN),
    ("add", &[INF, -INF], NAN),
    ("add", &[3e38, 3e38], INF),
    ("mul", &[INF, 0.0], NAN),
    ("div", &[1.0, 0.0], INF),
    ("div", &[-1.0, 0.0], -INF),
    ("div", &[0.0, 0.0], NAN),
    ("div", &[1.0, INF], 0.0),
    ("eq", &[NAN, NAN], 0.0),
    ("eq", &[-0.0, 0.0], 1.0),
    ("ne", &[NAN, NAN], 1.0),
    ("lt", &[NAN, 0.0], 0.0),
    ("ge", &[NAN, 0.0], 0.0),
    ("le", &[-INF, INF], 1.0),
    ("where_cond", &[1.0, NAN, 2.0], NAN),
    ("where_cond", &[0.0, NAN, 2.0], 2.0),
    ("fma", &[INF, 0.0, 1.0], NAN),
];

fn conventions(suite: &mut Suite) {
    let mut names: Vec<&str> = CONVENTIONS.iter().map(|c| c.0).collect();
    names.dedup();
    for name in names {
        suite.add(format!("{name} where it is chosen"), move |device| {
            let row = TABLE.iter().find(|row| row.name == name).expect(name);
            let types = types(row, DType::F32);
            let chosen: Vec<_> = CONVENTIONS.iter().filter(|c| c.0 == name).collect();
            let count = chosen.len();
            let mut operands = Vec::new();
            for (n, &dtype) in types.iter().enumerate() {
                let column: Vec<f64> = chosen.iter().map(|c| c.1[n]).collect();
                let bytes = encode(dtype, &column);
                operands.push(device.tensor_from_bytes(&bytes, &[count], dtype)?);
            }
            let got = apply(row, &operands, &[])?;
            let want = Array::new(&[count], chosen.iter().map(|c| c.2).collect());
            let signs = {
                let want = want.data.clone();
                move |at: usize, got: f64| {
                    let by = Tolerance { absolute: 0.0, ..Tolerance::F32 };
                    let sign = got.is_sign_negative() == want[at].is_sign_negative();
                    by.accepts(got, want[at]) && (sign || want[at].is_nan())
                }
            };
            let points: Vec<_> = chosen.iter().map(|c| format!("{:?}", c.1)).collect();
            Ok(vec![judged(name, got, row.dtype(&types)?, want, signs, move |at| {
                points[at].clone()
            })])
        });
    }
}
