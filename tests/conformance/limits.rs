//! The allowed errors of results, in the measures of the authors of the vectors.

use super::vectors::{Content, Data, Kind};
use half::f16;
use serde_json::Value;
use warpweft::dtype::DType;

/// An allowed error.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Limit {
    /// Units in the last place: the distance of two values in the sequence of all values of their type. For integers, their
    /// difference.
    Ulps(f64),
    /// An absolute difference.
    Absolute(f64),
    /// `|got - want| <= absolute + relative * |want|`.
    Close { absolute: f64, relative: f64 },
}

impl Limit {
    pub fn parse(value: &Value) -> Result<Limit, String> {
        let number = |key: &str| value[key].as_f64().ok_or_else(|| format!("tolerance {value}"));
        match value["metric"].as_str() {
            Some("ULP") => Ok(Limit::Ulps(number("value")?)),
            Some("ATOL") => Ok(Limit::Absolute(number("value")?)),
            Some("CLOSE") => {
                Ok(Limit::Close { absolute: number("atol")?, relative: number("rtol")? })
            }
            _ => Err(format!("tolerance {value}")),
        }
    }

    /// Compares the first elements, as read from a tensor of dtype `dtype`, with the expected ones. Describes the first and the
    /// largest difference.
    pub fn compare(self, want: &Data, dtype: DType, bytes: &[u8]) -> Result<(), String> {
        let got = elements(dtype, bytes);
        let wanted = match &want.content {
            Content::Bytes(bytes) => known(want.kind, bytes),
            Content::Filled(value) => vec![rounded(want.kind, *value); got.len()],
        };
        if got.len() != wanted.len() {
            return Err(format!("{} elements instead of {}", got.len(), wanted.len()));
        }
        let mut wrong = 0;
        let mut worst: Option<(usize, f64)> = None;
        for (at, (&got, &wanted)) in got.iter().zip(&wanted).enumerate() {
            let (excess, accepted) = self.judge(want.kind, got, wanted);
            if accepted {
                continue;
            }
            wrong += 1;
            if worst.is_none_or(|(_, most)| excess > most) {
                worst = Some((at, excess));
            }
        }
        let Some((at, excess)) = worst else { return Ok(()) };
        let (value, must, all) = (got[at], wanted[at], got.len());
        Err(format!(
            "{wrong} of {all} differ, most at {at}: got {value:e}, want {must:e}: {excess} {self:?}"
        ))
    }

    /// Returns the measured difference, and whether it is within the limit. NaN matches NaN.
    fn judge(self, kind: Kind, got: f64, want: f64) -> (f64, bool) {
        if got.is_nan() || want.is_nan() {
            let same = got.is_nan() && want.is_nan();
            return (if same { 0.0 } else { f64::INFINITY }, same);
        }
        let difference = if got == want { 0.0 } else { (got - want).abs() };
        match self {
            Limit::Ulps(limit) => {
                let distance = ulps(kind, got, want);
                (distance, distance <= limit)
            }
            Limit::Absolute(limit) => (difference, difference <= limit),
            Limit::Close { absolute, relative } => {
                let excess = difference / (absolute + relative * want.abs());
                (excess, difference == 0.0 || excess <= 1.0)
            }
        }
    }
}

/// Returns the number of values of a type between two values.
pub fn ulps(kind: Kind, a: f64, b: f64) -> f64 {
    let place = |value: f64| match kind {
        Kind::F32 => mirrored(i64::from((value as f32).abs().to_bits()), value),
        Kind::F16 => mirrored(i64::from(f16::from_f32((value as f32).abs()).to_bits()), value),
        _ => value,
    };
    (place(a) - place(b)).abs()
}

/// Negates the bits of numbers below 0, where they count in the other direction. -0 is 0.
fn mirrored(bits: i64, value: f64) -> f64 {
    (if value < 0.0 { -bits } else { bits }) as f64
}

/// Rounds a number to its type.
fn rounded(kind: Kind, value: f64) -> f64 {
    match kind {
        Kind::F32 => f64::from(value as f32),
        Kind::F16 => f16::from_f32(value as f32).to_f64(),
        _ => value,
    }
}

/// Returns elements from the bytes of a device.
fn elements(dtype: DType, bytes: &[u8]) -> Vec<f64> {
    let kind = match dtype {
        DType::F32 => Kind::F32,
        DType::F16 => Kind::F16,
        DType::I32 => Kind::I32,
        DType::U32 | DType::Bool => Kind::U32,
        DType::I8 => Kind::I8,
        DType::U8 => Kind::U8,
        DType::I16 => Kind::I16,
        DType::U16 => Kind::U16,
        other => unreachable!("a test of {other:?}"),
    };
    known(kind, bytes)
}

/// Returns elements from the bytes of the vectors.
pub fn known(kind: Kind, bytes: &[u8]) -> Vec<f64> {
    let single = |b: &[u8]| f64::from(f32::from_le_bytes([b[0], b[1], b[2], b[3]]));
    let half = |b: &[u8]| f16::from_le_bytes([b[0], b[1]]).to_f64();
    match kind {
        Kind::F32 => bytes.chunks_exact(4).map(single).collect(),
        Kind::F16 => bytes.chunks_exact(2).map(half).collect(),
        _ => kind.integers(bytes).into_iter().map(|n| n as f64).collect(),
    }
}
