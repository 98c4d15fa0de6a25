//! Tests integers of 8 and 16 bits. They are stored and moved as they are, and cast for computations.

use super::array::{bits, integers, random, Array};
use super::check::{exact, near, said, same_bits, Suite};
use super::conv2d::convolve;
use super::matmul::product;
use super::tolerance::Tolerance;
use warpweft::dtype::{DType, Element};
use warpweft::error::ErrorKind;
use warpweft::tensor::{Conv2dOptions, PoolOptions, Tensor, Variable};

const TYPES: [DType; 4] = [DType::I8, DType::U8, DType::I16, DType::U16];

pub fn cases() -> Suite {
    let mut suite = Suite::new("narrow");
    for dtype in TYPES {
        casts(&mut suite, dtype);
        short(&mut suite, dtype);
        movement(&mut suite, dtype);
        chosen(&mut suite, dtype);
        inside_kernels(&mut suite, dtype);
        products(&mut suite, dtype);
        whole(&mut suite, dtype);
        refused(&mut suite, dtype);
    }
    suite
}

/// Returns the value that a whole number wraps to.
fn wrapped(dtype: DType, x: f64) -> f64 {
    let (low, high) = limits(dtype);
    (x - low).rem_euclid(high - low + 1.0) + low
}

fn limits(dtype: DType) -> (f64, f64) {
    match dtype {
        DType::I8 => (-128.0, 127.0),
        DType::U8 => (0.0, 255.0),
        DType::I16 => (-32_768.0, 32_767.0),
        _ => (0.0, 65_535.0),
    }
}

fn casts(suite: &mut Suite, dtype: DType) {
    // Sizes that are not multiples of four or two leave partly written words.
    for n in [0, 1, 2, 3, 4, 5, 7, 255, 256, 257, 1030] {
        suite.add(format!("{dtype} {n} elements, cast there and back"), move |device| {
            let (low, high) = limits(dtype);
            let floats = random(&[n], -1.2 * high, 1.2 * high, 1);
            let ints = integers(&[n], -100_000, 100_000, 2);
            let from_floats = floats.f32(device)?.cast(dtype)?;
            let from_ints = ints.on(device, DType::I32)?.cast(dtype)?;
            let saturated =
                floats.map(|x| (x as f32).trunc().clamp(low as f32, high as f32).into());
            let wraps = ints.map(|x| wrapped(dtype, x));
            let back = from_ints.cast(DType::F32)?.add(0.5)?;
            Ok(vec![
                exact("of floats", from_floats, dtype, saturated),
                exact("of integers", from_ints.clone(), dtype, wraps.clone()),
                exact("as i32", from_ints.cast(DType::I32)?, DType::I32, wraps.clone()),
                near("as f32", back, wraps.map(|x| x + 0.5), Tolerance::EXACT),
                exact("as bool", from_ints.cast(DType::Bool)?, DType::Bool, wraps.map(truth)),
            ])
        });
    }
    suite.add(format!("{dtype} of what is no number"), move |device| {
        let (low, high) = limits(dtype);
        let odd = [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, -0.0, 1e30, -1e30, 126.999];
        let want = [0.0, high, low, 0.0, high, low, 126.0];
        let got = Array::new(&[7], odd.to_vec()).f32(device)?.cast(dtype)?;
        let both = got.cast(DType::F32)?.cast(dtype)?;
        let want = Array::new(&[7], want.to_vec());
        Ok(vec![exact("cast", got, dtype, want.clone()), exact("twice", both, dtype, want)])
    });
}

fn truth(x: f64) -> f64 {
    f64::from(x != 0.0)
}

/// Returns elements of all kinds, as words.
fn elements(dtype: DType, shape: &[usize], seed: u32) -> Array<u32> {
    let mask = (1 << (8 * dtype.size())) - 1;
    bits(shape, seed).map(|word| word & mask)
}

/// Returns the number that an element represents.
fn number(dtype: DType, element: u32) -> f64 {
    wrapped(dtype, f64::from(element))
}

/// Tests sizes around the four elements of a word.
fn short(suite: &mut Suite, dtype: DType) {
    for n in [1, 2, 3, 4, 5, 7, 8, 9] {
        suite.add(format!("{dtype} {n} elements moved"), move |device| {
            let x = elements(dtype, &[n], 11);
            let mask = integers(&[n], 0, 1, 12);
            let backwards = Array::from_fn(&[n], |at| (n - 1 - at[0]) as f64);
            let (a, turned) = (x.on(device, dtype)?, x.flip(&[0]));
            let chosen = Array::from_fn(&[n], |at| match mask.at(at) {
                0.0 => turned.at(at),
                _ => x.at(at),
            });
            let three = [x.clone(), turned.clone(), x.clone()];
            let index = backwards.on(device, DType::I32)?;
            let chosen_here = mask.on(device, DType::Bool)?.where_cond(&a, &a.flip(&[0])?)?;
            let check = |what, got, want| same_bits(what, got, dtype, want);
            let mut checks = vec![
                check("flipped", a.flip(&[0])?, turned.clone()),
                check("padded", a.pad(&[(1, 2)], 5.0)?, x.pad(&[(1, 2)], 5)),
                check(
                    "joined",
                    Tensor::concat(&[&a, &a.flip(&[0])?, &a], 0)?,
                    Array::concat(&three, 0),
                ),
                check("gathered", a.gather(0, &index)?, turned.clone()),
                check("scattered", a.zeros_like().scatter(0, &index, &a)?, turned),
                check("where", chosen_here, chosen),
            ];
            for start in 0..n {
                let part = a.slice(0, start as isize..)?;
                checks.push(check("a part", part, x.slice(0, start, n - start, 1)));
            }
            Ok(checks)
        });
    }
}

fn movement(suite: &mut Suite, dtype: DType) {
    // Rows with an odd number of elements begin within words.
    for shape in [[5, 7], [8, 12], [33, 65], [64, 64], [301, 103]] {
        suite.add(format!("{dtype} {shape:?} moved as bits"), move |device| {
            let x = elements(dtype, &shape, 5);
            let a = x.on(device, dtype)?;
            let [rows, columns] = shape;
            let flipped = x.flip(&[0]);
            let joined = Array::concat(&[x.clone(), flipped.clone()], 1);
            let below = Array::concat(&[flipped, x.clone()], 0);
            let check = |what, got, want| same_bits(what, got, dtype, want);
            let even = a.slice_step(1, 1..columns as isize, 2)?;
            let all = a.slice(0, ..1)?.expand(&[3, columns])?;
            Ok(vec![
                check("as it is", a.clone(), x.clone()),
                check("copied", a.reshape(&[rows * columns])?, x.reshape(&[rows * columns])),
                check("transposed", a.transpose(0, 1)?, x.permute(&[1, 0])),
                check("sliced", even, x.slice(1, 1, columns / 2, 2)),
                check("padded", a.pad(&[(1, 0), (0, 2)], 7.0)?, x.pad(&[(1, 0), (0, 2)], 7)),
                check("joined", Tensor::concat(&[&a, &a.flip(&[0])?], 1)?, joined),
                check("below each other", Tensor::concat(&[&a.flip(&[0])?, &a], 0)?, below),
                check("expanded", all, x.slice(0, 0, 1, 1).expand(&[3, columns])),
            ])
        });
    }
    suite.add(format!("{dtype} joined at odd places"), move |device| {
        let parts = [1, 2, 3, 5, 1, 4].map(|n| elements(dtype, &[n], n as u32));
        let mut tensors = Vec::new();
        for part in &parts {
            tensors.push(part.on(device, dtype)?);
        }
        let got = Tensor::concat(&tensors, 0)?;
        Ok(vec![same_bits("joined", got, dtype, Array::concat(&parts, 0))])
    });
}

fn chosen(suite: &mut Suite, dtype: DType) {
    suite.add(format!("{dtype} chosen rows and elements"), move |device| {
        let x = elements(dtype, &[6, 3], 6);
        let index = Array::new(&[4], vec![5.0, 0.0, 3.0, 2.0]);
        let a = x.on(device, dtype)?;
        let rows = a.index_select(0, &index.on(device, DType::I32)?)?;
        let want = Array::from_fn(&[4, 3], |at| x.at(&[index.data[at[0]] as usize, at[1]]));
        let chosen = a.cast(DType::I32)?.gt(60.0)?.where_cond(&a, &a.flip(&[0, 1])?)?;
        let turned = x.flip(&[0, 1]);
        let either = x.zip(&turned, |v, w| if number(dtype, v) > 60.0 { v } else { w });
        let unit = Array::from_fn(&[3, 3], |at| f64::from(at[0] == at[1]));
        let (ones, high) = (device.ones((&[5], dtype))?, limits(dtype).1);
        Ok(vec![
            same_bits("rows", rows, dtype, want),
            same_bits("where", chosen, dtype, either),
            exact("equal", a.eq(&a)?, DType::Bool, x.map(|_| 1.0)),
            exact("not equal", a.ne(&a)?, DType::Bool, x.map(|_| 0.0)),
            exact("ones", ones, dtype, Array::new(&[5], vec![1.0; 5])),
            exact(
                "filled",
                device.full(&[5], high, dtype)?,
                dtype,
                Array::new(&[5], vec![high; 5]),
            ),
            exact("the unit matrix", device.eye((&[3], dtype))?, dtype, unit),
        ])
    });
}

fn inside_kernels(suite: &mut Suite, dtype: DType) {
    suite.add(format!("{dtype} read by sums and products"), move |device| {
        let x = integers(&[9, 13], 0, 100, 7);
        let y = random(&[13, 6], -1.0, 1.0, 8);
        let a = x.on(device, dtype)?.cast(DType::F32)?;
        let product = Array::from_fn(&[9, 6], |at| {
            (0..13).map(|k| x.at(&[at[0], k]) * y.at(&[k, at[1]])).sum::<f64>()
        });
        let sums = x.reduce(&[1], |row| row.iter().sum::<f64>()).squeeze(&[1]);
        let rounded =
            product.map(|v| f64::from(v as f32).trunc().clamp(limits(dtype).0, limits(dtype).1));
        let got = a.matmul(&y.f32(device)?)?;
        // Near a whole number, the rounding error of the product would decide the result.
        let safe = product.map(|v| if (v - v.round()).abs() < 1e-3 { f64::NAN } else { v });
        let stored = got.cast(dtype)?.cast(DType::F32)?;
        let kept = safe.zip(&rounded, |s, r| if s.is_nan() { 0.0 } else { r });
        let mask = safe.map(|s| f64::from(!s.is_nan()));
        let stored = stored.mul(&mask.f32(device)?)?;
        Ok(vec![
            near("sums", a.sum(&[1])?, sums, Tolerance::EXACT),
            near("product", got, product, Tolerance::sum(13, 100.0)),
            near("a product stored", stored, kept, Tolerance::EXACT),
        ])
    });
    suite.add(format!("{dtype} columns reduced, results stored"), move |device| {
        let x = integers(&[40, 66], 0, 3, 9);
        let a = x.on(device, dtype)?.cast(DType::I32)?;
        let sum = |v: &[f64]| v.iter().sum::<f64>();
        let columns = x.reduce(&[0], sum).squeeze(&[0]);
        let rows = x.reduce(&[1], sum).squeeze(&[1]).map(|v| wrapped(dtype, v));
        Ok(vec![
            exact("columns", a.sum(&[0])?.cast(dtype)?, dtype, columns),
            exact("rows", a.sum(&[1])?.cast(dtype)?, dtype, rows),
        ])
    });
}

/// Tests narrow weights and images as operands of matmuls and convolutions, and narrow results.
fn products(suite: &mut Suite, dtype: DType) {
    let (low, high) = limits(dtype);
    for [m, k, n] in [[1, 64, 64], [5, 7, 3], [33, 65, 31], [64, 64, 64], [64, 129, 66]] {
        suite.add(format!("{dtype} weights, {m} {k} {n}"), move |device| {
            // Small multiples of an eighth, whose sums are exact in any order.
            let x = integers(&[m, k], -3, 3, 31);
            let w = elements(dtype, &[k, n], 32).map(|bits| number(dtype, bits) % 4096.0);
            let scaled = w.map(|x| x / 8.0);
            let weights = w.on(device, dtype)?.cast(DType::F32)?.div(8)?;
            let want = product(&x, &scaled);
            let got = x.f32(device)?.matmul(&weights)?;
            let stored = want.map(|v| v.trunc().clamp(low, high));
            let turned = w.on(device, dtype)?.transpose(0, 1)?.cast(DType::F32)?.div(8)?;
            let left = turned.matmul(&x.permute(&[1, 0]).f32(device)?)?;
            Ok(vec![
                near("product", got.clone(), want.clone(), Tolerance::EXACT),
                exact("stored", got.cast(dtype)?, dtype, stored),
                near("from the left", left, want.permute(&[1, 0]), Tolerance::EXACT),
            ])
        });
    }
    suite.add(format!("{dtype} pictures convolved"), move |device| {
        let w = integers(&[4, 3, 3, 3], -3, 3, 34);
        let x = elements(dtype, &[2, 3, 7, 5], 33).map(|bits| number(dtype, bits));
        let picture = x.on(device, dtype)?.cast(DType::F32)?;
        let got = picture.conv2d(&w.f32(device)?, None, Conv2dOptions::default())?;
        let want = convolve(&x, &w, [1, 1], [(0, 0); 2], [1, 1], 1);
        let stored = want.map(|v| v.clamp(low, high));
        Ok(vec![
            near("convolved", got.clone(), want, Tolerance::EXACT),
            exact("stored", got.cast(dtype)?, dtype, stored),
        ])
    });
}

fn whole(suite: &mut Suite, dtype: DType) {
    suite.steps(format!("{dtype} odd parts are read and written"), move |device| async move {
        let x = elements(dtype, &[11], 7);
        let a = x.on(&device, dtype).map_err(said)?;
        for (start, len) in [(0, 11), (1, 1), (1, 2), (3, 5), (10, 1)] {
            let got: Vec<u32> = match dtype {
                DType::I8 => part(&a, start, len, |x: i8| (x as u8).into()).await?,
                DType::U8 => part(&a, start, len, |x: u8| x.into()).await?,
                DType::I16 => part(&a, start, len, |x: i16| (x as u16).into()).await?,
                _ => part(&a, start, len, |x: u16| x.into()).await?,
            };
            if got != x.data[start..start + len] {
                return Err(format!("{len} from {start}: {got:?}"));
            }
        }
        // Writes a part of a variable that shares words with its neighbors.
        let variable = Variable::new(&a);
        let part = Array::new(&[3], vec![1u32, 2, 3]).on(&device, dtype).map_err(said)?;
        variable.assign_slice(0, 5, &part).map_err(said)?;
        let bytes = variable.value().read_bytes().await.map_err(said)?;
        let mut want = x.clone();
        want.data[5..8].copy_from_slice(&[1, 2, 3]);
        let want = want.bytes(dtype);
        if bytes != want {
            return Err(format!("a part was written: {bytes:?} instead of {want:?}"));
        }
        Ok(())
    });
}

/// Reads a range of elements and returns their bits.
async fn part<T: Element>(
    of: &Tensor,
    start: usize,
    len: usize,
    bits: fn(T) -> u32,
) -> Result<Vec<u32>, String> {
    let read = of.read_range::<T>(start, len).await.map_err(said)?;
    Ok(read.into_iter().map(bits).collect())
}

fn refused(suite: &mut Suite, dtype: DType) {
    suite.steps(format!("{dtype} is not computed with"), move |device| async move {
        let a = device.zeros((&[4, 4], dtype)).map_err(|error| error.to_string())?;
        let (flat, f32s) = (a.reshape(&[16]).map_err(said)?, device.zeros(&[4, 4]).map_err(said)?);
        let index = device.zeros((&[16], DType::I32)).map_err(said)?;
        let refusals = [
            ("add", a.add(&a)),
            ("add a number", a.add(1)),
            ("operands of two types", a.mul(&f32s)),
            ("relu", Ok(a.relu())),
            ("lt", a.lt(&a)),
            ("clamp", a.clamp(0, 1)),
            ("mean", a.mean(())),
            ("any", a.any(())),
            ("matmul", a.matmul(&a)),
            ("matmul with floats", f32s.matmul(&a)),
            ("bitwise_and", a.bitwise_and(&a)),
            ("softmax", a.softmax(0)),
            ("sort", a.sort(0, false).map(|sorted| sorted.0)),
            ("scatter_add", flat.scatter_add(0, &index, &flat)),
            ("an index", f32s.index_select(0, &flat)),
            ("one_hot", flat.one_hot(3)),
            ("bincount", flat.bincount(3)),
            ("histc", flat.histc(3, 0.0, 1.0)),
            ("max_pool", a.max_pool(PoolOptions::new([2]))),
            ("full", device.full(&[2], 70_000.0, dtype)),
            ("full of a fraction", device.full(&[2], 0.5, dtype)),
            ("where", f32s.gt(0).and_then(|c| c.where_cond(&a, 70_000))),
        ];
        for (name, refused) in refusals {
            let error = match refused {
                Ok(tensor) => tensor.error().cloned(),
                Err(error) => Some(error),
            };
            match error {
                Some(error) if error.kind() == ErrorKind::DType => {}
                other => return Err(format!("{name}: {other:?}")),
            }
        }
        Ok(())
    });
}
