//! Tests running sums, products, maxima and minima, compared with loops.

use super::array::{bits, integers, random, Array};
use super::batches::ensure;
use super::check::{exact, near, said, same_bits, typed, Suite};
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::tensor::{Scan, Tensor};

type Kind = (&'static str, fn(&Tensor, Scan) -> Result<Tensor>, fn(f64, f64) -> f64, f64);

const INF: f64 = f64::INFINITY;

/// The name, the method, the function that combines two elements, and the value of an empty scan.
pub const SCANS: [Kind; 4] = [
    ("cumsum", Tensor::cumsum, |a, b| a + b, 0.0),
    ("cumprod", Tensor::cumprod, |a, b| a * b, 1.0),
    ("cummax", Tensor::cummax, |a, b| if a.is_nan() || a > b { a } else { b }, -INF),
    ("cummin", Tensor::cummin, |a, b| if a.is_nan() || a < b { a } else { b }, INF),
];

/// Returns the options of a scan along an axis.
pub fn along(axis: isize, exclusive: bool, reverse: bool) -> Scan {
    Scan::from(axis).exclusive(exclusive).reverse(reverse)
}

/// Returns the scan of an array along an axis.
pub fn scanned(
    x: &Array<f64>,
    axis: usize,
    (exclusive, reverse): (bool, bool),
    (combine, none): (fn(f64, f64) -> f64, f64),
) -> Array<f64> {
    let extent = x.shape[axis];
    Array::from_fn(&x.shape, |at| {
        let here = at[axis];
        let mut all = none;
        let mut from = at.to_vec();
        let mut order: Vec<usize> = (0..extent).collect();
        if reverse {
            order.reverse();
        }
        for n in order {
            let last = n == here;
            if last && exclusive {
                break;
            }
            from[axis] = n;
            all = combine(all, x.at(&from));
            if last {
                break;
            }
        }
        all
    })
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("scan");
    shapes(&mut suite);
    types(&mut suite);
    not_finite(&mut suite);
    long(&mut suite);
    largest(&mut suite);
    views(&mut suite);
    suite
}

fn shapes(suite: &mut Suite) {
    const SHAPES: &[(&[usize], usize)] = &[
        (&[1], 0),
        (&[2], 0),
        (&[15], 0),
        (&[16], 0),
        (&[17], 0),
        (&[31], 0),
        (&[33], 0),
        (&[65], 0),
        (&[257], 0),
        (&[4097], 0),
        (&[3, 40], 1),
        (&[40, 3], 0),
        (&[3, 20, 2], 1),
        (&[0], 0),
        (&[2, 0, 3], 1),
        (&[2, 0, 3], 2),
        (&[1, 2, 1, 18, 1, 2, 1, 1], 3),
    ];
    for &(shape, axis) in SHAPES {
        suite.add(format!("{shape:?} along {axis}"), move |device| {
            let x = integers(shape, -9, 9, 1);
            let a = x.f32(device)?;
            let mut checks = Vec::new();
            let all = [(false, false), (true, false), (false, true), (true, true)];
            // Each combination compiles a shader, so only some shapes use all four.
            let some = matches!(shape, [1 | 33] | [3, 20, 2] | [2, 0, 3]);
            for (exclusive, reverse) in all.into_iter().filter(|f| some || f.0 == f.1) {
                // Products of 1 and -1 are exact in any order.
                let signs = x.map(|x| if x < 0.0 { -1.0 } else { 1.0 });
                let b = signs.f32(device)?;
                for (name, scan, combine, none) in SCANS {
                    let (a, x) = if name == "cumprod" { (&b, &signs) } else { (&a, &x) };
                    let got =
                        scan(a, along(axis as isize - shape.len() as isize, exclusive, reverse))?;
                    let want = scanned(x, axis, (exclusive, reverse), (combine, none));
                    let what = format!("{name} exclusive {exclusive} reverse {reverse}");
                    checks.push(near(what, got, want, Tolerance::EXACT));
                }
            }
            Ok(checks)
        });
    }
}

fn types(suite: &mut Suite) {
    for dtype in [DType::I32, DType::U32] {
        suite.add(format!("{dtype}, wrapping"), move |device| {
            let x = bits(&[100], 2);
            let a = x.on(device, dtype)?;
            let mut sum = 0u32;
            let sums = x.map(|w| {
                sum = sum.wrapping_add(w);
                sum
            });
            let mut product = 1u32;
            let products = x.map(|w| {
                product = product.wrapping_mul(w);
                product
            });
            let key = |w: u32| if dtype == DType::I32 { w ^ 0x8000_0000 } else { w };
            let mut best = key(x.data[0]);
            let most = x.map(|w| {
                best = best.max(key(w));
                key(best)
            });
            // The maximum of no elements is the smallest number.
            let shifted = Array::from_fn(&[100], |at| match at[0] {
                0 => key(0),
                n => most.data[n - 1],
            });
            Ok(vec![
                same_bits("cumsum", a.cumsum(0)?, dtype, sums),
                same_bits("cumprod", a.cumprod(0)?, dtype, products),
                same_bits("cummax", a.cummax(0)?, dtype, most),
                same_bits("exclusive", a.cummax(Scan::from(0).exclusive(true))?, dtype, shifted),
            ])
        });
    }
    let case = suite.add("f16 is rounded once", |device| {
        let x = random(&[2, 300], 0.0, 1.0, 3).rounded(DType::F16);
        let want = scanned(&x, 1, (false, false), (|a, b| a + b, 0.0));
        let got = x.on(device, DType::F16)?.cumsum(1)?;
        let by = Tolerance::sum(300, 1.0).stored(DType::F16);
        Ok(vec![typed("cumsum", got, DType::F16, want, by)])
    });
    case.half();
}

fn not_finite(suite: &mut Suite) {
    suite.add("NaN and infinities", |device| {
        let mut x = random(&[50], -1.0, 1.0, 4);
        (x.data[20], x.data[30], x.data[40]) = (INF, f64::NAN, -INF);
        let a = x.f32(device)?;
        let mut checks = Vec::new();
        for (name, scan, combine, none) in SCANS {
            for (exclusive, reverse) in [(false, false), (true, true)] {
                let want = scanned(&x, 0, (exclusive, reverse), (combine, none));
                let got = scan(&a, along(0, exclusive, reverse))?;
                checks.push(near(name, got, want, Tolerance::sum(50, 10.0)));
            }
        }
        Ok(checks)
    });
    suite.add("zero times infinity stays where it is", |device| {
        let x = Array::new(&[4], vec![2.0, 0.0, 3.0, INF]);
        let want = Array::new(&[4], vec![2.0, 0.0, 0.0, f64::NAN]);
        let got = x.f32(device)?.cumprod(0)?;
        Ok(vec![near("cumprod", got, want, Tolerance::EXACT)])
    });
}

fn long(suite: &mut Suite) {
    let sums = |x: &Array<f64>| {
        let mut sum = 0.0;
        x.map(|x| {
            sum += x;
            sum
        })
    };
    suite.add("70001 along one axis", move |device| {
        let x = integers(&[70_001], -50, 50, 5);
        let got = x.f32(device)?.cumsum(0)?;
        let y = random(&[70_001], 0.0, 1.0, 6);
        let all = y.f32(device)?.cumsum(0)?;
        // The sums of the blocks are added level by level, so the error does not grow with the length.
        let by = Tolerance { absolute: 1e-5, relative: 2e-6 };
        Ok(vec![
            near("whole numbers", got, sums(&x), Tolerance::EXACT),
            near("numbers", all, sums(&y), by),
        ])
    });
    let case = suite.add("2^22 + 1 along one axis", move |device| {
        let x = integers(&[(1 << 22) + 1], -1, 1, 7);
        let got = x.on(device, DType::I32)?.cumsum(0)?;
        Ok(vec![exact("cumsum", got, DType::I32, sums(&x))])
    });
    case.big();
}

/// Tests that large tensors are scanned in shorter blocks, so that the steps within blocks have a shape. Nothing runs.
fn largest(suite: &mut Suite) {
    suite.steps("2^29 elements", |device| async move {
        for shape in [&[1 << 29][..], &[(1 << 29) / 3, 3], &[1 << 27, 4]] {
            let x = device.zeros(shape).map_err(said)?;
            for scan in [along(-1, false, false), along(-1, true, true)] {
                let sums = x.cumsum(scan).map_err(said)?;
                ensure(sums.shape() == shape, format!("{:?}, not {shape:?}", sums.shape()))?;
            }
            let sums = x.logcumsumexp(-1).map_err(said)?;
            ensure(sums.shape() == shape, format!("{:?}, not {shape:?}", sums.shape()))?;
        }
        Ok(())
    });
}

fn views(suite: &mut Suite) {
    suite.add("of views and computed ones, used again", |device| {
        let x = integers(&[6, 40], -9, 9, 8);
        let a = x.f32(device)?;
        let add: (fn(f64, f64) -> f64, f64) = (|a, b| a + b, 0.0);
        let turned = x.permute(&[1, 0]).slice(0, 1, 19, 2);
        let square = x.map(|x| x * x);
        let sums = scanned(&square, 1, (false, false), add);
        let last = sums.slice(1, 39, 1, 1);
        let got = a.square().cumsum(1)?;
        Ok(vec![
            near(
                "a slice of a transpose",
                a.transpose(0, 1)?.slice_step(0, 1..39, 2)?.cumsum(0)?,
                scanned(&turned, 0, (false, false), add),
                Tolerance::EXACT,
            ),
            near("squares' last", got.slice(1, 39..40)?, last.clone(), Tolerance::EXACT),
            near(
                "twice",
                got.add(&got.slice(1, 39..40)?)?,
                sums.zip(&last, |a, b| a + b),
                Tolerance::EXACT,
            ),
        ])
    });
}
