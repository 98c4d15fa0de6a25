//! Tests casts between all dtypes, at the values where the dtypes differ.

use super::array::{half_bits, half_value, Array};
use super::check::{exact, Suite};
use warpweft::dtype::DType;

const FLOATS: &[f64] = &[
    0.0,
    -0.0,
    0.25,
    -0.25,
    0.5,
    -0.5,
    0.999,
    1.0,
    -1.0,
    1.5,
    -1.5,
    2.5,
    255.9,
    65_504.0,
    65_519.0,
    65_520.0,
    1e6,
    16_777_216.0,
    2_147_483_520.0,
    2_147_483_648.0,
    4_294_967_040.0,
    4_294_967_296.0,
    1e10,
    -2_147_483_648.0,
    -2_147_483_904.0,
    -1e10,
    1e30,
    -1e30,
    6e-8,
    3e-8,
    2e-8,
    6.1e-5,
    1.0009765625,
    1.00048828125,
    1.00146484375,
    f64::INFINITY,
    f64::NEG_INFINITY,
    f64::NAN,
];

const INTEGERS: &[f64] = &[
    0.0,
    1.0,
    2.0,
    255.0,
    2048.0,
    2049.0,
    2051.0,
    65_504.0,
    65_535.0,
    16_777_215.0,
    16_777_217.0,
    16_777_219.0,
    33_554_433.0,
    2_147_483_392.0,
    2_147_483_647.0,
];

const NEGATIVE: &[f64] = &[-1.0, -2.0, -2049.0, -65_504.0, -16_777_217.0, -2_147_483_648.0];

const LARGE: &[f64] = &[2_147_483_648.0, 2_147_483_649.0, 4_294_967_040.0, 4_294_967_295.0];

/// Returns the test values that the dtype can represent.
fn values(dtype: DType) -> Vec<f64> {
    match dtype {
        DType::F32 => FLOATS.iter().map(|&v| f64::from(v as f32)).collect(),
        DType::F16 => FLOATS.iter().map(|&v| half_value(half_bits(v))).collect(),
        DType::I32 => [INTEGERS, NEGATIVE].concat(),
        DType::U32 => [INTEGERS, LARGE].concat(),
        DType::Bool => vec![0.0, 1.0],
        DType::I8 => vec![0.0, 1.0, 2.0, 127.0, -1.0, -2.0, -128.0],
        DType::U8 => vec![0.0, 1.0, 2.0, 127.0, 128.0, 255.0],
        DType::I16 => vec![0.0, 1.0, 255.0, 256.0, 32_767.0, -1.0, -2.0, -129.0, -32_768.0],
        DType::U16 => vec![0.0, 1.0, 255.0, 256.0, 32_768.0, 65_535.0],
        other => unreachable!("a test of {other:?}"),
    }
}

/// Returns the result of a cast. Floats truncate and saturate, and NaN becomes 0. Integers keep their low bits.
fn cast(value: f64, from: DType, to: DType) -> f64 {
    match to {
        DType::F32 => f64::from(value as f32),
        // Through `f32`, because everything is computed in `f32`.
        DType::F16 => half_value(half_bits(f64::from(value as f32))),
        DType::Bool => f64::from(value != 0.0),
        DType::I32 if from.is_float() => f64::from(value as i32),
        DType::U32 if from.is_float() => f64::from(value as u32),
        DType::I8 if from.is_float() => f64::from(value as i8),
        DType::U8 if from.is_float() => f64::from(value as u8),
        DType::I16 if from.is_float() => f64::from(value as i16),
        DType::U16 if from.is_float() => f64::from(value as u16),
        DType::I8 => f64::from(value as i64 as i8),
        DType::U8 => f64::from(value as i64 as u8),
        DType::I16 => f64::from(value as i64 as i16),
        DType::U16 => f64::from(value as i64 as u16),
        DType::I32 => f64::from(value as i64 as i32),
        DType::U32 => f64::from(value as i64 as u32),
        other => unreachable!("a test of {other:?}"),
    }
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("casts");
    for from in DType::ALL {
        for to in DType::ALL {
            let case = suite.add(format!("{from} to {to}"), move |device| {
                let values = values(from);
                let x = Array::new(&[values.len()], values);
                let got = x.on(device, from)?.cast(to)?;
                Ok(vec![exact("cast", got, to, x.map(|v| cast(v, from, to)))])
            });
            if from == DType::F16 || to == DType::F16 {
                case.half();
            }
        }
    }
    suite.add("there and back within one kernel", |device| {
        let x = Array::new(&[6], vec![2.7, -2.7, 0.0, 300.5, -0.5, 1e9]);
        let a = x.f32(device)?;
        let whole = a.cast(DType::I32)?.cast(DType::F32)?;
        let truth = a.cast(DType::Bool)?.cast(DType::I32)?;
        Ok(vec![
            exact("through i32", whole, DType::F32, x.map(f64::trunc)),
            exact("through bool", truth, DType::I32, x.map(|x| f64::from(x != 0.0))),
        ])
    });
    suite
        .add("f16 rounds within a kernel too", |device| {
            let x = Array::new(&[4], vec![1.0 / 3.0, 2049.0, 1e-9, 70_000.0]);
            let got = x.f32(device)?.cast(DType::F16)?.cast(DType::F32)?;
            let want = x.map(|x| half_value(half_bits(f64::from(x as f32))));
            Ok(vec![exact("through f16", got, DType::F32, want)])
        })
        .half();
    suite
}
