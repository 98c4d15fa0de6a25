//! Tests weights of few bits: fields of words, `bf16`, scales and zero points, and matmuls that read them directly.

use super::array::{bits, integers, random, word, Array};
use super::check::{exact, near, same_bits, Suite};
use super::matmul::product;
use super::tolerance::Tolerance;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::{Conv2dOptions, DequantizeOptions, Tensor};

/// Returns the fields of words along the last axis, lowest first.
fn fields(words: &Array<u32>, width: u32, signed: bool) -> Array<f64> {
    let per = 32 / width as usize;
    let mut shape = words.shape.clone();
    *shape.last_mut().expect("an axis") *= per;
    Array::from_fn(&shape, |at| {
        let (last, before) = at.split_last().expect("an axis");
        let word = u64::from(words.at(&[before, &[last / per]].concat()));
        let field = (word >> (width as usize * (last % per)) & ((1 << width) - 1)) as i64;
        let negative = signed && field >= 1 << (width - 1);
        (if negative { field - (1 << width) } else { field }) as f64
    })
}

/// Repeats the elements of `part` up to the extents of `shape`.
fn spread(part: &Array<f64>, shape: &[usize]) -> Array<f64> {
    Array::from_fn(shape, |at| {
        let skip = shape.len() - part.shape.len();
        let place = |d: usize| at[skip + d] * part.shape[d] / shape[skip + d];
        part.at(&(0..part.shape.len()).map(place).collect::<Vec<_>>())
    })
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("packed");
    unpacked(&mut suite);
    scaled(&mut suite);
    products(&mut suite);
    others(&mut suite);
    suite
}

fn unpacked(suite: &mut Suite) {
    for width in [1, 2, 4, 8, 16] {
        suite.add(format!("fields of {width} bits"), move |device| {
            let mut checks = Vec::new();
            for shape in
                [&[1][..], &[65], &[3, 5], &[0, 4], &[4, 0], &[2, 3, 3], &[1, 2, 1, 2, 1, 2, 1, 2]]
            {
                let words = bits(shape, width);
                let device_words = words.on(device, DType::U32)?;
                for signed in [false, true] {
                    let got = device_words.unpack(width, signed)?;
                    let what = format!("{shape:?}, signed: {signed}");
                    checks.push(exact(what, got, DType::I32, fields(&words, width, signed)));
                }
            }
            // Both the words and the result are views.
            let words = bits(&[4, 6], 7);
            let turned = words.on(device, DType::U32)?.transpose(0, 1)?.slice(0, 1..5)?;
            let want = fields(&words.permute(&[1, 0]).slice(0, 1, 4, 1), width, true);
            let columns = want.shape[1];
            let got = turned.unpack(width, true)?.slice(1, 1..columns as isize)?.transpose(0, 1)?;
            let want = want.slice(1, 1, columns - 1, 1).permute(&[1, 0]);
            checks.push(exact("turned and cut", got, DType::I32, want));
            Ok(checks)
        });
    }
    suite.add("numbers of bf16", |device| {
        let mut checks = Vec::new();
        for shape in [&[1][..], &[33], &[0], &[3, 2]] {
            // Without subnormal numbers, which GPUs may flush to 0, and without NaNs, whose bits they may change.
            let half = |seed: u32| (word(seed, 3) % 0x7f00 + 0x80) | ((word(seed, 5) & 1) << 15);
            let mut seed = 0;
            let words = Array::from_fn(shape, |_| {
                seed += 1;
                half(seed) << 16 | half(seed + 1000)
            });
            let want = fields(&words, 16, false).map(|half| (half as u32) << 16);
            let got = words.on(device, DType::U32)?.unpack_bf16()?;
            checks.push(same_bits(format!("{shape:?}"), got, DType::F32, want));
        }
        let special = Array::new(&[2], vec![0x8000_0000, 0xff80_7f80]);
        let got = special.on(device, DType::U32)?.unpack_bf16()?;
        let want = Array::new(&[4], vec![0, 0x8000_0000, 0x7f80_0000, 0xff80_0000]);
        checks.push(same_bits("zeros and infinities", got, DType::F32, want));
        Ok(checks)
    });
}

fn scaled(suite: &mut Suite) {
    suite.add("scales and zero points", |device| {
        let mut checks = Vec::new();
        let shape = [4, 6, 32];
        let whole = integers(&shape, -8, 7, 1);
        let x = whole.on(device, DType::I32)?;
        for part in
            [&[][..], &[1], &[8], &[32], &[6, 1], &[1, 1, 1], &[4, 1, 1], &[2, 3, 4], &[4, 6, 32]]
        {
            let scale = random(part, 0.1, 2.0, 2).rounded(DType::F32);
            let zero = integers(part, -8, 7, 3);
            let plain = x.dequantize(&scale.f32(device)?, DequantizeOptions::default())?;
            let (spread_scale, spread_zero) = (spread(&scale, &shape), spread(&zero, &shape));
            let want = whole.zip(&spread_scale, |q, s| q * s);
            checks.push(near(format!("{part:?}"), plain, want, Tolerance::sum(1, 16.0)));
            let zeros = zero.on(device, DType::I32)?;
            let moved =
                x.dequantize(&scale.f32(device)?, DequantizeOptions { zero_point: Some(&zeros) })?;
            let want = whole.zip(&spread_zero, |q, z| q - z).zip(&spread_scale, |q, s| q * s);
            checks.push(near(format!("{part:?}, moved"), moved, want, Tolerance::sum(1, 32.0)));
        }
        let none = device.zeros(&[0, 4])?.cast(DType::I32)?;
        let empty = none.dequantize(&device.ones(&[0, 2])?, DequantizeOptions::default())?;
        checks.push(near("nothing", empty, Array::new(&[0, 4], vec![]), Tolerance::EXACT));
        Ok(checks)
    });
}

/// Returns a matrix `[n, k]` as it is stored, and its numbers.
fn stored(device: &Device, kind: &str, n: usize, k: usize) -> Result<(Tensor, Array<f64>)> {
    let words = |width: usize| bits(&[n, k * width / 32], (n + k) as u32);
    let groups = random(&[n, k / 32], 0.01, 0.1, 5).rounded(DType::F32);
    let rows = random(&[n, 1], 0.01, 0.1, 6).rounded(DType::F32);
    let by = |q: &Array<f64>, s: &Array<f64>| q.zip(&spread(s, &[n, k]), |q, s| q * s);
    Ok(match kind {
        "4 bits, groups of 32" => {
            let words = words(4);
            let numbers = words.on(device, DType::U32)?.unpack(4, true)?;
            (
                numbers.dequantize(&groups.f32(device)?, DequantizeOptions::default())?,
                by(&fields(&words, 4, true), &groups),
            )
        }
        "4 bits, zero points" => {
            let words = words(4);
            let zeros = integers(&[n, k / 32], 0, 15, 9);
            let numbers = words.on(device, DType::U32)?.unpack(4, false)?;
            let moved = fields(&words, 4, false).zip(&spread(&zeros, &[n, k]), |q, zero| q - zero);
            let zeros = zeros.on(device, DType::I32)?;
            (
                numbers.dequantize(
                    &groups.f32(device)?,
                    DequantizeOptions { zero_point: Some(&zeros) },
                )?,
                by(&moved, &groups),
            )
        }
        "8 bits, one scale per row" => {
            let words = words(8);
            let numbers = words.on(device, DType::U32)?.unpack(8, true)?;
            (
                numbers.dequantize(&rows.f32(device)?, DequantizeOptions::default())?,
                by(&fields(&words, 8, true), &rows),
            )
        }
        "2 bits, one scale" => {
            let words = words(2);
            let numbers = words.on(device, DType::U32)?.unpack(2, true)?;
            let scale = device.tensor(&[0.25f32], &[])?;
            (
                numbers.dequantize(&scale, DequantizeOptions::default())?,
                fields(&words, 2, true).map(|q| q / 4.0),
            )
        }
        _ => {
            let mut seed = 0;
            let half = |seed: u32| (0x3e00 + word(seed, 1) % 0x100) | ((word(seed, 2) & 1) << 15);
            let words = Array::from_fn(&[n, k / 2], |_| {
                seed += 2;
                half(seed) << 16 | half(seed + 1)
            });
            let numbers = fields(&words, 16, false);
            let numbers = numbers.map(|half| f64::from(f32::from_bits((half as u32) << 16)));
            (words.on(device, DType::U32)?.unpack_bf16()?, numbers)
        }
    })
}

const KINDS: [&str; 5] = [
    "4 bits, groups of 32",
    "4 bits, zero points",
    "8 bits, one scale per row",
    "2 bits, one scale",
    "bf16",
];

fn products(suite: &mut Suite) {
    for kind in KINDS {
        suite.add(format!("products with weights of {kind}"), move |device| {
            let mut checks = Vec::new();
            for (m, k, n) in
                [(1, 32, 1), (1, 96, 65), (2, 64, 33), (9, 32, 8), (33, 160, 31), (65, 64, 64)]
            {
                let (weights, numbers) = stored(device, kind, n, k)?;
                let largest = numbers.data.iter().fold(0.0, |most, v| v.abs().max(most));
                let x = random(&[m, k], -1.0, 1.0, 8).rounded(DType::F32);
                let got = x.f32(device)?.matmul(&weights.transpose(0, 1)?)?;
                let want = product(&x, &numbers.permute(&[1, 0]));
                let by = Tolerance::sum(k, largest);
                checks.push(near(format!("rows, {m} {k} {n}"), got, want, by));
                // Packed along the columns of the result, as in some formats.
                let y = random(&[m, n], -1.0, 1.0, 8).rounded(DType::F32);
                let got = y.f32(device)?.matmul(&weights)?.relu();
                let want = product(&y, &numbers).map(|v| v.max(0.0));
                let by = Tolerance::sum(n, largest);
                checks.push(near(format!("columns, {m} {k} {n}"), got, want, by));
            }
            Ok(checks)
        });
    }
}

fn others(suite: &mut Suite) {
    suite.add("a convolution, and two products of one matrix", |device| {
        let (weights, numbers) = stored(device, "8 bits, one scale per row", 4, 36)?;
        let filters = weights.reshape(&[4, 4, 3, 3])?;
        let x = random(&[1, 4, 6, 7], -1.0, 1.0, 8).rounded(DType::F32);
        let got = x.f32(device)?.conv2d(&filters, None, Conv2dOptions::default())?;
        let want = Array::from_fn(&[1, 4, 4, 5], |at| {
            let mut sum = 0.0;
            for c in 0..4 {
                for tap in 0..9 {
                    let pixel = x.at(&[0, c, at[2] + tap / 3, at[3] + tap % 3]);
                    sum += pixel * numbers.at(&[at[1], c * 9 + tap]);
                }
            }
            sum
        });
        let mut checks = vec![near("convolution", got, want, Tolerance::sum(36, 13.0))];
        for (name, rows) in [("first", 3), ("second", 40)] {
            let y = random(&[rows, 36], -1.0, 1.0, 4).rounded(DType::F32);
            let got = y.f32(device)?.matmul(&weights.transpose(0, 1)?)?;
            let want = product(&y, &numbers.permute(&[1, 0]));
            checks.push(near(name, got, want, Tolerance::sum(36, 13.0)));
        }
        Ok(checks)
    });
    suite.add("gradients go through to data and scales", |device| {
        let words = bits(&[8, 4], 3);
        let numbers = fields(&words, 8, true);
        let scale = random(&[8, 1], 0.01, 0.1, 6).rounded(DType::F32);
        let x = random(&[5, 16], -1.0, 1.0, 8).rounded(DType::F32);
        let (a, s) = (x.f32(device)?, scale.f32(device)?);
        let weights = words
            .on(device, DType::U32)?
            .unpack(8, true)?
            .dequantize(&s, DequantizeOptions::default())?;
        let sum = a.matmul(&weights.transpose(0, 1)?)?.sum(&[])?;
        let gradients = sum.grad(&[&a, &s])?;
        let by_data = Array::from_fn(&[5, 16], |at| {
            (0..8).map(|n| numbers.at(&[n, at[1]]) * scale.at(&[n, 0])).sum()
        });
        let by_scale = Array::from_fn(&[8, 1], |at| {
            (0..80).map(|i| x.at(&[i / 16, i % 16]) * numbers.at(&[at[0], i % 16])).sum()
        });
        let [first, second] = <[Tensor; 2]>::try_from(gradients).expect("two gradients");
        Ok(vec![
            near("by the data", first, by_data, Tolerance::sum(8, 13.0)),
            near("by the scale", second, by_scale, Tolerance::sum(80, 128.0)),
        ])
    });
}
