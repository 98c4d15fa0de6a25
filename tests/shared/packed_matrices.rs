//! Tests packed matrices: products, lookups and gradients of each format, compared with the numbers that the blocks of a file
//! encode. `it/io/gguf.rs` compares those numbers with the `gguf` package.

use super::array::{random, word, Array};
use super::check::{near, typed, Suite};
use super::matmul::product;
use super::tolerance::Tolerance;
use std::io::Cursor;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::io::{BlockFormat, Gguf};
use warpweft::op::{PackedArithmetic, PackedFormat};
use warpweft::tensor::PackedTensor;

/// Returns the number of a format in files, and the offsets of `f16` values in a block that must be normal numbers.
fn in_files(format: PackedFormat) -> (u32, &'static [usize]) {
    use PackedFormat::*;
    match format {
        F32 => (0, &[]),
        F16 => (1, &[0]),
        BF16 => (30, &[]),
        Q8_0 => (8, &[0]),
        Q4_0 => (2, &[0]),
        Q4_1 => (3, &[0, 2]),
        Q5_0 => (6, &[0]),
        Q5_1 => (7, &[0, 2]),
        Q2_K => (10, &[80, 82]),
        Q3_K => (11, &[108]),
        Q4_K => (12, &[0, 2]),
        Q5_K => (13, &[0, 2]),
        Q6_K => (14, &[208]),
        IQ4_NL => (20, &[0]),
        IQ4_XS => (23, &[0]),
        MXFP4 => (39, &[]),
        other => unreachable!("a test of {other:?}"),
    }
}

/// Returns the blocks of all rows. They are random except for these `f16` values.
fn blocks(format: PackedFormat, rows: usize, columns: usize) -> Vec<u8> {
    let block = BlockFormat::from_name(format.name()).expect("a format of files");
    let (count, size) = (rows * columns / block.block_len(), block.block_bytes());
    let mut bytes: Vec<u8> = (0..count * size).map(|n| word(7, n) as u8).collect();
    for (n, block) in bytes.chunks_mut(size).enumerate() {
        let seed = word(11, n);
        match format {
            PackedFormat::F32 => block.copy_from_slice(&(seed as i32 as f32 * 2e-10).to_le_bytes()),
            PackedFormat::BF16 => block[1] = 0x3e | block[1] & 0x80,
            PackedFormat::MXFP4 => block[0] = 118 + (seed % 5) as u8,
            _ => {}
        }
        for &at in in_files(format).1 {
            // Between 2^-7 and 2^-4, with either sign. A few have the smallest exponent.
            let exponent = if seed % 13 == 5 { 0 } else { 0x20 + (seed >> 8 & 7) as u8 };
            block[at + 1] = (seed >> 16) as u8 & 0x83 | exponent;
        }
    }
    bytes
}

/// Returns a file with two matrices of a format. The first one has `first` rows.
fn file(format: PackedFormat, [rows, columns]: [usize; 2], first: usize) -> Vec<u8> {
    let text = |text: &str| [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat();
    let number = |n: usize| (n as u64).to_le_bytes().to_vec();
    let bytes = blocks(format, rows, columns);
    let (kind, each) = (in_files(format).0.to_le_bytes().to_vec(), bytes.len() / rows);
    let row = |name: &str, rows: usize, at: usize| {
        let axes = 2u32.to_le_bytes().to_vec();
        [text(name), axes, number(columns), number(rows), kind.clone(), number(at)].concat()
    };
    let second = (first * each).next_multiple_of(32);
    let mut file = [&b"GGUF"[..], &3u32.to_le_bytes(), &number(2), &number(0)].concat();
    file.extend([row("a", first, 0), row("b", rows - first, second)].concat());
    file.resize(file.len().next_multiple_of(32), 0);
    let start = file.len();
    file.extend(&bytes[..first * each]);
    file.resize(start + second, 0);
    file.extend(&bytes[first * each..]);
    file
}

/// Returns a matrix and its numbers.
fn loaded(
    device: &Device,
    format: PackedFormat,
    [rows, columns]: [usize; 2],
) -> Result<(PackedTensor, Array<f64>)> {
    let mut file = Cursor::new(file(format, [rows, columns], rows.div_ceil(2)));
    let head = Gguf::read(&mut file)?;
    let matrix = head.load_packed(&mut file, device, &["a", "b"])?;
    let block = BlockFormat::from_name(format.name()).expect("a format of files");
    let numbers = block.decode(&blocks(format, rows, columns))?;
    Ok((matrix, Array::new(&[rows, columns], numbers.into_iter().map(f64::from).collect())))
}

/// Returns rows and columns of whole blocks. The last shape is tested with more rows of the other operand.
fn shapes(format: PackedFormat) -> Vec<[usize; 2]> {
    match format.block_len() {
        1 => vec![[2, 1], [3, 33], [9, 96], [70, 64]],
        32 => vec![[2, 32], [5, 96], [37, 288], [70, 64]],
        block => vec![[2, block], [5, 3 * block], [37, 2 * block]],
    }
}

fn largest(numbers: &Array<f64>) -> f64 {
    numbers.data.iter().fold(0.0, |most, v| v.abs().max(most))
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("packed_matrices");
    for format in PackedFormat::ALL {
        let name = format.name();
        suite.add(format!("products in {name}"), move |device| {
            let mut checks = Vec::new();
            let shapes = shapes(format);
            for (at, &shape) in shapes.iter().enumerate() {
                let (matrix, numbers) = loaded(device, format, shape)?;
                let by = Tolerance::sum(shape[1], largest(&numbers));
                let last = at + 1 == shapes.len();
                let rows: &[usize] = if last { &[1, 2, 3, 7, 8, 9, 33] } else { &[0, 1, 4, 9, 40] };
                for &m in rows {
                    let x = random(&[m, shape[1]], -1.0, 1.0, 8).rounded(DType::F32);
                    let want = product(&x, &numbers.permute(&[1, 0]));
                    let got = matrix.linear(&x.f32(device)?)?;
                    checks.push(near(format!("{shape:?}, {m} rows"), got, want, by));
                }
                let x = random(&[shape[1]], -1.0, 1.0, 9).rounded(DType::F32);
                let want = product(&x.reshape(&[1, shape[1]]), &numbers.permute(&[1, 0]));
                let got = matrix.linear(&x.f32(device)?)?.add(1)?.relu();
                let want = want.reshape(&[shape[0]]).map(|v| (v + 1.0).max(0.0));
                checks.push(near(format!("{shape:?}, a vector, and more"), got, want, by));
            }
            Ok(checks)
        });
        let halves = suite.add(
            format!("products of computed and of half operands in {name}"),
            move |device| {
                let mut checks = Vec::new();
                let shape = shapes(format)[1];
                let (matrix, numbers) = loaded(device, format, shape)?;
                let by = Tolerance::sum(shape[1], 3.0 * largest(&numbers));
                for m in [1, 3, 12] {
                    let x = random(&[m, shape[1]], -1.0, 1.0, 8).rounded(DType::F16);
                    let twice = x.map(|v| 2.0 * v + 1.0);
                    let want = product(&twice, &numbers.permute(&[1, 0])).map(|v| v.max(0.0) + 1.0);
                    let got = matrix.linear(&x.f32(device)?.mul(2)?.add(1)?)?.relu().add(1)?;
                    checks.push(near(format!("{m} rows that are computed"), got, want, by));
                    let want = product(&x, &numbers.permute(&[1, 0]));
                    let got = matrix.linear(&x.on(device, DType::F16)?)?;
                    let by = by.stored(DType::F16);
                    checks.push(typed(format!("{m} rows of halves"), got, DType::F16, want, by));
                }
                Ok(checks)
            },
        );
        halves.half();
        suite.add(format!("numbers, rows and gradients in {name}"), move |device| {
            let mut checks = Vec::new();
            for shape in shapes(format) {
                let (matrix, numbers) = loaded(device, format, shape)?;
                // Products and a sum of them, in another order.
                let by = Tolerance::sum(2, 2.0 * largest(&numbers));
                checks.push(near("numbers", matrix.dequantize()?, numbers.clone(), by));
                let order = [shape[0] - 1, 0, 1, 0];
                let index = device.tensor(&order.map(|n| n as i32), &[2, 2])?;
                let want = Array::from_fn(&[2, 2, shape[1]], |at| {
                    numbers.at(&[order[2 * at[0] + at[1]], at[2]])
                });
                checks.push(near("rows", matrix.rows(&index)?, want, by));
                let x = random(&[3, shape[1]], -1.0, 1.0, 8).f32(device)?;
                let weights = random(&[3, shape[0]], -1.0, 1.0, 4).rounded(DType::F32);
                let loss = matrix.linear(&x)?.mul(&weights.f32(device)?)?.sum(&[])?;
                let got = loss.grad(&[&x])?.remove(0);
                let by = Tolerance::sum(shape[0], largest(&numbers));
                checks.push(near("gradient", got, product(&weights, &numbers), by));
            }
            Ok(checks)
        });
    }
    rounded_products(&mut suite);
    shapes_apart(&mut suite);
    suite
}

/// Rounds rows as `Int8` does: 32 neighbors become multiples of their largest magnitude divided by 127, in `f32`.
fn rounded(x: &Array<f64>) -> Array<f64> {
    let mut data = Vec::with_capacity(x.data.len());
    for block in x.data.chunks(32) {
        let block: Vec<f32> = block.iter().map(|&v| v as f32).collect();
        let largest = block.iter().fold(0f32, |most, v| most.max(v.abs()));
        let [by, scale] = if largest > 0.0 { [127.0 / largest, largest / 127.0] } else { [0.0; 2] };
        data.extend(block.iter().map(|v| f64::from((v * by).round_ties_even()) * f64::from(scale)));
    }
    Array::new(&x.shape, data)
}

/// Whether the device rounds rows. Only the native CPU does.
fn rounds(device: &Device) -> bool {
    device.info().backend == "cpu" && cfg!(not(target_arch = "wasm32"))
}

/// Tests products whose rows may be rounded. Only the CPU's kernel for few rows does this, and only for formats with scales.
fn rounded_products(suite: &mut Suite) {
    for format in PackedFormat::ALL {
        suite.add(format!("rounded products in {}", format.name()), move |device| {
            let mut checks = Vec::new();
            let scales =
                !matches!(format, PackedFormat::F32 | PackedFormat::F16 | PackedFormat::BF16);
            for shape in shapes(format) {
                let (matrix, numbers) = loaded(device, format, shape)?;
                let matrix = matrix.with_arithmetic(PackedArithmetic::Int8);
                let by = Tolerance::sum(shape[1], largest(&numbers));
                for m in [0, 1, 2, 5, 8, 9] {
                    let rounds = rounds(device) && scales && m <= 8;
                    let mut x = random(&[m, shape[1]], -1.0, 1.0, 8).rounded(DType::F32);
                    // Blocks of different magnitudes, and one of zeros.
                    for (n, block) in x.data.chunks_mut(32).enumerate() {
                        let size = [1.0, 0.0, 0.125, 0.75][n % 4];
                        block.iter_mut().for_each(|v| *v *= size);
                    }
                    let meant = if rounds { rounded(&x) } else { x.clone() };
                    let want = product(&meant, &numbers.permute(&[1, 0]));
                    let got = matrix.linear(&x.f32(device)?)?;
                    checks.push(near(format!("{shape:?}, {m} rows"), got, want, by));
                }
            }
            Ok(checks)
        });
    }
    suite.add("rounded products of numbers that are not finite, and of tiny ones", |device| {
        let mut checks = Vec::new();
        let (matrix, numbers) = loaded(device, PackedFormat::Q4_1, [5, 64])?;
        let matrix = matrix.with_arithmetic(PackedArithmetic::Int8);
        for odd in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
            let mut x = [0.5f32; 64];
            x[40] = odd;
            let want = match rounds(device) {
                true => Array::new(&[5], vec![f64::NAN; 5]),
                false => {
                    let x = Array::new(&[1, 64], x.map(f64::from).to_vec());
                    product(&x, &numbers.permute(&[1, 0])).reshape(&[5])
                }
            };
            let got = matrix.linear(&device.tensor(&x, &[64])?)?;
            checks.push(near(format!("{odd}"), got, want, Tolerance::EXACT));
        }
        let tiny = Array::new(&[1, 64], vec![f64::from(f32::MIN_POSITIVE); 64]);
        let want = product(&tiny, &numbers.permute(&[1, 0]));
        let got = matrix.linear(&tiny.f32(device)?)?;
        checks.push(near("the least normal number", got, want, Tolerance::sum(64, 1e-30)));
        Ok(checks)
    });
}

/// Tests matrices with very many rows, and matrices that are stored as several tensors.
fn shapes_apart(suite: &mut Suite) {
    let many = suite.add("products with many rows of a matrix", |device| {
        let mut checks = Vec::new();
        for (format, shape) in
            [(PackedFormat::Q5_1, [16_411, 32]), (PackedFormat::Q6_K, [8_209, 256])]
        {
            let (matrix, numbers) = loaded(device, format, shape)?;
            let by = Tolerance::sum(shape[1], largest(&numbers));
            for m in [1, 3] {
                let x = random(&[m, shape[1]], -1.0, 1.0, 8).rounded(DType::F32);
                let want = product(&x, &numbers.permute(&[1, 0]));
                let got = matrix.linear(&x.f32(device)?)?;
                checks.push(near(format!("{shape:?} in {format}, {m} rows"), got, want, by));
            }
        }
        Ok(checks)
    });
    many.big();
    suite.add("several tensors of some rows each", |device| {
        let mut checks = Vec::new();
        for format in [PackedFormat::Q4_1, PackedFormat::BF16] {
            let shape = [11, 64];
            let (matrix, numbers) = loaded(device, format, shape)?;
            let words = words(&matrix)?;
            for rows in [1, 3, 5, 11] {
                let most = (rows * format.row_words(64)) as u64;
                let cut = PackedTensor::in_chunks(device, format, shape, &words, most)?;
                let by = Tolerance::sum(64, largest(&numbers));
                let x = random(&[3, 64], -1.0, 1.0, 8).rounded(DType::F32);
                let want = product(&x, &numbers.permute(&[1, 0]));
                checks.push(near(
                    format!("{rows}: product"),
                    cut.linear(&x.f32(device)?)?,
                    want,
                    by,
                ));
                checks.push(near(
                    format!("{rows}: numbers"),
                    cut.dequantize()?,
                    numbers.clone(),
                    by,
                ));
                let index = device.tensor(&[10, 0, 5, 2], &[4])?;
                let want =
                    Array::from_fn(&[4, 64], |at| numbers.at(&[[10, 0, 5, 2][at[0]], at[1]]));
                checks.push(near(format!("{rows}: rows"), cut.rows(&index)?, want, by));
            }
        }
        Ok(checks)
    });
}

/// Returns the words of a matrix, packed again.
fn words(matrix: &PackedTensor) -> Result<Vec<u32>> {
    let [rows, columns] = matrix.shape();
    let blocks = blocks(matrix.format(), rows, columns);
    let block = BlockFormat::from_name(matrix.format().name()).expect("a format of files");
    block.pack(columns, &blocks)
}
