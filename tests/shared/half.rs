//! Tests `f16`: stored in two bytes. Each operation computes in `f32` and rounds its result, whether or not it is stored.

use super::array::{bits, integers, random, Array};
use super::call::call;
use super::check::{exact, said, same_bits, typed, Suite};
use super::matmul::product;
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::op::pointwise::TABLE;
use warpweft::tensor::{
    AttentionOptions, Conv2dOptions, NormOptions, Operand, RmsNormOptions, Tensor,
};

const HALF: DType = DType::F16;

pub fn cases() -> Suite {
    let mut suite = Suite::new("half");
    pointwise(&mut suite);
    movement(&mut suite);
    stored_or_not(&mut suite);
    composed(&mut suite);
    reductions(&mut suite);
    routines(&mut suite);
    products(&mut suite);
    suite.cases.iter_mut().for_each(|case| case.half = true);
    suite
}

fn pointwise(suite: &mut Suite) {
    for n in [0, 1, 2, 3, 7, 255, 256, 257] {
        suite.add(format!("{n} elements"), move |device| {
            let (x, y) = (random(&[n], -4.0, 4.0, 1), random(&[n], -4.0, 4.0, 2));
            let (x, y) = (x.rounded(HALF), y.rounded(HALF));
            let got = x.on(device, HALF)?.mul(&y.on(device, HALF)?)?.add(1.0)?;
            let want = x.zip(&y, |x, y| x * y).rounded(HALF).map(|x| x + 1.0);
            let by = Tolerance { absolute: 1e-6, ..Tolerance::F16 };
            Ok(vec![typed("x y + 1", got, HALF, want, by)])
        });
    }
    suite.add("each operation rounds", |device| {
        // `f16` cannot represent 2048 + 1, and rounds it to 2048.
        let a = device.tensor(&[2048.0f32, 65_504.0], &[2])?.cast(HALF)?;
        let got = a.add(1.0)?.add(1.0)?;
        let large = a.mul(4.0)?.div(4.0)?;
        let rows = a.reshape(&[1, 2])?.square().sum(1)?.is_inf();
        Ok(vec![
            exact("sum", got, HALF, Array::new(&[2], vec![2048.0, 65_504.0])),
            exact("overflow", large, HALF, Array::new(&[2], vec![2048.0, f64::INFINITY])),
            exact("sum of squares", rows, DType::Bool, Array::new(&[1], vec![1.0])),
        ])
    });
    suite.add("numbers beside halves", |device| {
        let tenth = device.full(&[2], 0.1, HALF)?;
        let many = device.full(&[2], 51_200.0, HALF)?;
        let both = |x: f64| Array::new(&[2], vec![x; 2]).rounded(HALF);
        Ok(vec![
            exact("equal", tenth.eq(0.1)?, DType::Bool, both(1.0)),
            exact("not less", tenth.lt(0.1)?, DType::Bool, both(0.0)),
            exact("divided by more than a half can be", many.div(102_400.0)?, HALF, both(0.5)),
            exact(
                "joined with a number",
                tenth.pad(&[(0, 1)], 0.1)?.ne(0.1)?.any(())?,
                DType::Bool,
                Array::new(&[], vec![0.0]),
            ),
        ])
    });
    suite.add("integers through halves", |device| {
        let x = Array::new(&[5], vec![2049.0, 2051.0, 4099.0, 65_519.0, 0.0]);
        let want = x.map(|x| x).rounded(HALF);
        let mut checks = Vec::new();
        for dtype in [DType::I32, DType::U32] {
            let got = x.on(device, dtype)?.cast(HALF)?.cast(dtype)?;
            checks.push(exact("there and back", got, dtype, want.clone()));
            let far = device.full(&[1], 1e6, dtype)?.cast(HALF)?.is_inf();
            checks.push(exact("beyond", far, DType::Bool, Array::new(&[1], vec![1.0])));
        }
        let truth = x.on(device, DType::Bool)?.cast(HALF)?.cast(DType::I32)?;
        checks.push(exact("bool", truth, DType::I32, x.map(|x| f64::from(x != 0.0))));
        Ok(checks)
    });
    suite.add("infinities become the greatest halves", |device| {
        let x = Array::new(&[3], vec![f64::INFINITY, f64::NEG_INFINITY, f64::NAN]);
        let got = x.on(device, HALF)?.nan_to_num(7.0, f32::MAX.into(), f32::MIN.into())?;
        Ok(vec![exact("replaced", got, HALF, Array::new(&[3], vec![65_504.0, -65_504.0, 7.0]))])
    });
    suite.add("overflow, subnormals, signs", |device| {
        let x = Array::new(&[6], vec![60_000.0, -60_000.0, 6e-8, -6e-8, 1e-4, -0.0]).rounded(HALF);
        let a = x.on(device, HALF)?;
        let doubled = x.map(|x| x * 2.0).rounded(HALF);
        Ok(vec![
            exact("doubled", a.mul(2.0)?, HALF, doubled),
            exact("compared", a.lt(0.0)?, DType::Bool, x.map(|x| f64::from(x < 0.0))),
        ])
    });
    suite.add("mixed with f32 by a cast", |device| {
        let (x, y) = (integers(&[5, 3], -9, 9, 3), integers(&[3], -9, 9, 4));
        let got = x.on(device, HALF)?.cast(DType::F32)?.mul(&y.f32(device)?)?.cast(HALF)?;
        Ok(vec![exact("product", got, HALF, x.zip(&y, |x, y| x * y))])
    });
}

/// Tests that results do not depend on whether a value was stored before it was used.
fn stored_or_not(suite: &mut Suite) {
    type Make = fn(&Tensor) -> Result<Tensor>;
    let uses: [(&'static str, Make); 6] = [
        ("scaled", |y| y.div(1000.0)),
        ("as f32", |y| y.cast(DType::F32)),
        ("finite", |y| y.is_finite().cast(DType::F32)),
        ("greatest", |y| y.argmax(1)),
        ("summed", |y| y.mul(0.25)?.sum(1)),
        ("product", |y| y.matmul(&y.detach().transpose(0, 1)?)?.cast(DType::F32)),
    ];
    for row in TABLE {
        if row.operands.len() > 2 || row.dtype(&vec![HALF; row.operands.len()]) != Ok(HALF) {
            continue;
        }
        suite.steps(format!("{} stored or not", row.name), move |device| async move {
            let x = random(&[5, 33], -300.0, 300.0, 1).rounded(HALF);
            let x = x.on(&device, HALF).map_err(said)?;
            let others = vec![Operand::from(3.7); row.operands.len() - 1];
            let parameters: Vec<f64> = row.parameters.iter().map(|(_, usual)| *usual).collect();
            let make = || call(row.name, &x, &others, &parameters);
            let fused = make().map_err(said)?;
            let stored = make().map_err(said)?;
            stored.read::<f32>().await.map_err(said)?;
            for (what, of) in uses {
                let (one, other) = (of(&fused).map_err(said)?, of(&stored).map_err(said)?);
                let one = bits_of(&one.cast(DType::F32).map_err(said)?).await?;
                let other = bits_of(&other.cast(DType::F32).map_err(said)?).await?;
                if one != other {
                    return Err(format!("{what}: {one:?}\nstored before: {other:?}"));
                }
            }
            Ok(())
        });
    }
}

/// Returns the elements as bits, with all NaN alike.
async fn bits_of(x: &Tensor) -> std::result::Result<Vec<u32>, String> {
    let read = x.read::<f32>().await.map_err(said)?;
    Ok(read
        .into_iter()
        .map(|x| if x.is_nan() { f32::NAN.to_bits() } else { x.to_bits() })
        .collect())
}

/// Tests that operations which consist of others round only their result.
fn composed(suite: &mut Suite) {
    type Make = fn(&Tensor, &Tensor) -> Result<Tensor>;
    let all: [(&'static str, Make); 12] = [
        ("glu", |x, _| x.glu(-1)),
        ("logaddexp", |x, y| x.logaddexp(y)),
        ("floor_divide", |x, y| x.floor_divide(y)),
        ("rotary", |x, y| x.rotary(&y.slice(1, ..4)?, &y.slice(1, 4..)?, true)),
        ("softmax", |x, _| x.softmax(1)),
        ("log_softmax", |x, _| x.log_softmax(1)),
        ("layer_norm", |x, _| x.layer_norm(1, NormOptions::default())),
        ("rms_norm", |x, _| x.rms_norm(1, RmsNormOptions::default())),
        ("std", |x, _| x.std(1, 1.0)),
        ("norm", |x, _| x.norm(3.0, 1)),
        ("cosine_similarity", |x, y| x.cosine_similarity(y, 1, 1e-8)),
        ("mean of many", |x, _| x.mul(2.0)?.mean(())),
    ];
    for (name, make) in all {
        suite.add(format!("{name} rounds once"), move |device| {
            let (x, y) = (random(&[5, 8], -9.0, 9.0, 1), random(&[5, 8], 0.5, 9.0, 2));
            let (x, y) = (x.on(device, HALF)?, y.on(device, HALF)?);
            let wide = make(&x.cast(DType::F32)?, &y.cast(DType::F32)?)?.cast(HALF)?;
            let got = make(&x, &y)?;
            assert_eq!(got.dtype(), HALF);
            let close = got.is_close(&wide, 1e-3, 1e-7)?.all(())?;
            Ok(vec![exact(name, close, DType::Bool, Array::new(&[], vec![1.0]))])
        });
    }
}

fn movement(suite: &mut Suite) {
    suite.add("moved as bits", |device| {
        // Without NaNs, because reading one as `f32` may make it quiet.
        let x =
            bits(&[5, 7], 5).map(|w| if w & 0x7c00 == 0x7c00 { w & 0x83ff } else { w & 0xffff });
        let a = x.on(device, HALF)?;
        let joined = Array::concat(&[x.clone(), x.flip(&[0])], 1);
        let check = |what, got, want| same_bits(what, got, HALF, want);
        Ok(vec![
            check("as it is", a.clone(), x.clone()),
            check("transposed", a.transpose(0, 1)?, x.permute(&[1, 0])),
            check("sliced", a.slice_step(1, 1..7, 2)?, x.slice(1, 1, 3, 2)),
            check("padded", a.pad(&[(1, 0), (0, 2)], 1.0)?, x.pad(&[(1, 0), (0, 2)], 0x3c00)),
            check("joined", Tensor::concat(&[&a, &a.flip(&[0])?], 1)?, joined),
            check(
                "expanded",
                a.slice(0, ..1)?.expand(&[3, 7])?,
                x.slice(0, 0, 1, 1).expand(&[3, 7]),
            ),
        ])
    });
    suite.add("joined at odd places", |device| {
        let parts: Vec<Array<u32>> = [1, 2, 3, 5, 1]
            .iter()
            .map(|&n| integers(&[n], 0, 0x7bff, n as u32).map(|v| v as u32))
            .collect();
        let mut tensors = Vec::new();
        for part in &parts {
            tensors.push(part.on(device, HALF)?);
        }
        let got = Tensor::concat(&tensors, 0)?;
        Ok(vec![same_bits("joined", got, HALF, Array::concat(&parts, 0))])
    });
    suite.add("chosen rows", |device| {
        let x = integers(&[6, 3], -99, 99, 6);
        let index = Array::new(&[4], vec![5.0, 0.0, 6.0, 2.0]);
        let got = x.on(device, HALF)?.index_select(0, &index.on(device, DType::I32)?)?;
        let want = Array::from_fn(&[4, 3], |at| match index.data[at[0]] as usize {
            6 => 0.0,
            row => x.at(&[row, at[1]]),
        });
        Ok(vec![exact("rows", got, HALF, want)])
    });
    suite.steps("odd parts are read", |device| async move {
        let x = integers(&[11], -9, 9, 7);
        let a = x.on(&device, HALF).map_err(|e| e.to_string())?;
        for (start, len) in [(0, 11), (1, 1), (1, 2), (3, 5), (10, 1)] {
            let got: Vec<f32> = a.read_range(start, len).await.map_err(|e| e.to_string())?;
            if !got.iter().zip(&x.data[start..start + len]).all(|(g, w)| f64::from(*g) == *w) {
                return Err(format!("{len} from {start}: {got:?}"));
            }
        }
        Ok(())
    });
}

fn reductions(suite: &mut Suite) {
    suite.add("sums and softmax", |device| {
        let x = random(&[5, 65], -4.0, 4.0, 8).rounded(HALF);
        let a = x.on(device, HALF)?;
        let sum = |x: &[f64]| x.iter().sum::<f64>();
        let max = |x: &[f64]| x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        let exp = x.zip(&x.reduce(&[1], max), |x, m| (x - m).exp());
        let soft = exp.zip(&exp.reduce(&[1], sum), |e, s| e / s);
        let by = Tolerance::sum(65, 4.0).stored(HALF);
        Ok(vec![
            typed("sum", a.sum(&[1])?, HALF, x.reduce(&[1], sum).squeeze(&[1]), by),
            typed("columns", a.sum(&[0])?, HALF, x.reduce(&[0], sum).squeeze(&[0]), by),
            exact("max", a.max(&[1])?, HALF, x.reduce(&[1], max).squeeze(&[1])),
            typed("softmax", a.softmax(1)?, HALF, soft, Tolerance::F32.stored(HALF)),
        ])
    });
    suite.add("a sum beyond the largest half on its way", |device| {
        let x = Array::new(&[4], vec![60_000.0, 60_000.0, -60_000.0, -59_000.0]).rounded(HALF);
        let total = x.data.iter().sum();
        let got = x.on(device, HALF)?.sum(&[])?;
        Ok(vec![exact("sum", got, HALF, Array::new(&[], vec![total]))])
    });
    suite.add("positions", |device| {
        let x = Array::new(&[2, 3], vec![1.0, 3.0, 3.0, f64::NAN, 5.0, f64::NAN]);
        let got = x.on(device, HALF)?.argmax(1)?;
        Ok(vec![exact("argmax", got, DType::I32, Array::new(&[2], vec![1.0, 0.0]))])
    });
}

fn routines(suite: &mut Suite) {
    for [m, k, n] in [[3, 5, 7], [33, 64, 65], [64, 64, 64], [1, 65, 33], [5, 2050, 9]] {
        suite.add(format!("matmul {m} {k} {n}"), move |device| {
            let (x, y) = (integers(&[m, k], -3, 3, 9), integers(&[k, n], -3, 3, 10));
            let got = x.on(device, HALF)?.matmul(&y.on(device, HALF)?)?;
            Ok(vec![exact("product", got, HALF, product(&x, &y).rounded(HALF))])
        });
    }
    suite.add("matmul with bias and relu", |device| {
        let (x, y) = (integers(&[9, 20], -3, 3, 11), integers(&[20, 6], -3, 3, 12));
        let b = integers(&[6], -9, 9, 13);
        let got =
            x.on(device, HALF)?.matmul(&y.on(device, HALF)?)?.add(&b.on(device, HALF)?)?.relu();
        let want = product(&x, &y).zip(&b, |p, b| (p + b).max(0.0));
        Ok(vec![exact("layer", got, HALF, want)])
    });
    suite.add("conv2d", |device| {
        let (x, w) = (integers(&[1, 2, 5, 5], -3, 3, 14), integers(&[3, 2, 3, 3], -3, 3, 15));
        let got =
            x.on(device, HALF)?.conv2d(&w.on(device, HALF)?, None, Conv2dOptions::default())?;
        let want = super::conv2d::convolve(&x, &w, [1, 1], [(0, 0); 2], [1, 1], 1);
        // Sums that are computed in parts are not rounded in between.
        let (a, b) = (integers(&[1, 7, 16, 16], 0, 2, 18), integers(&[8, 7, 15, 15], 0, 2, 19));
        let sums =
            a.on(device, HALF)?.conv2d(&b.on(device, HALF)?, None, Conv2dOptions::default())?;
        let long = super::conv2d::convolve(&a, &b, [1, 1], [(0, 0); 2], [1, 1], 1);
        Ok(vec![exact("conv2d", got, HALF, want), exact("long sums", sums, HALF, long)])
    });
    suite.add("attention of equal keys is the mean", |device| {
        let q = random(&[1, 2, 3, 8], -1.0, 1.0, 16).rounded(HALF);
        let k = Array::new(&[1, 2, 5, 8], vec![0.5; 80]);
        let v = random(&[1, 2, 5, 8], -1.0, 1.0, 17).rounded(HALF);
        let on = |a: &Array<f64>| a.on(device, HALF);
        let got = on(&q)?.attention(&on(&k)?, &on(&v)?, AttentionOptions::default())?;
        let mean = v.reduce(&[2], |v| v.iter().sum::<f64>() / 5.0).expand(&[1, 2, 3, 8]);
        Ok(vec![typed("attention", got, HALF, mean, Tolerance::exponential(1e-6).stored(HALF))])
    });
}

/// Tests matmuls of `f16`. Some devices have separate kernels for them, with zero-padded tiles.
fn products(suite: &mut Suite) {
    for size in [0, 1, 7, 8, 9, 16, 17, 31, 33, 65, 129] {
        for [m, k, n] in [[size, 65, 129], [65, size, 33], [129, 33, size], [33, 130, size + 17]] {
            suite.add(format!("product {m} {k} {n}"), move |device| {
                let (x, y) = (integers(&[m, k], -3, 3, 20), integers(&[k, n], -3, 3, 21));
                let got = x.on(device, HALF)?.matmul(&y.on(device, HALF)?)?;
                Ok(vec![exact("product", got, HALF, product(&x, &y).rounded(HALF))])
            });
        }
    }
    for [m, k, n] in [[33, 65, 31], [64, 129, 66], [129, 31, 200], [70, 700, 70]] {
        suite.add(format!("product of transposes, {m} {k} {n}"), move |device| {
            let x = random(&[m, k], -1.0, 1.0, 22).rounded(HALF);
            let y = random(&[k, n], -1.0, 1.0, 23).rounded(HALF);
            let (a, b) = (x.on(device, HALF)?, y.on(device, HALF)?);
            let at = x.permute(&[1, 0]).on(device, HALF)?.transpose(0, 1)?;
            let bt = y.permute(&[1, 0]).on(device, HALF)?.transpose(0, 1)?;
            let by = Tolerance::sum(k, 1.0);
            let want = product(&x, &y);
            let mut checks = Vec::new();
            for (what, left, right) in
                [("ab", &a, &b), ("at", &at, &b), ("bt", &a, &bt), ("both", &at, &bt)]
            {
                let got = left.matmul(right)?;
                checks.push(typed(what, got, HALF, want.clone(), by.stored(HALF)));
                // Summed in `f32`, without rounding on the way.
                let got = left.cast(DType::F32)?.matmul(&right.cast(DType::F32)?)?;
                checks.push(typed(format!("{what} in f32"), got, DType::F32, want.clone(), by));
            }
            Ok(checks)
        });
    }
    let batches: [(&[usize], &[usize]); 3] = [
        (&[2, 3, 33, 40], &[2, 3, 40, 65]),
        (&[2, 1, 33, 40], &[3, 40, 65]),
        (&[5, 17, 129], &[129, 18]),
    ];
    for (left, right) in batches {
        suite.add(format!("product {left:?} by {right:?}"), move |device| {
            let (x, y) = (integers(left, -3, 3, 24), integers(right, -3, 3, 25));
            let got = x.on(device, HALF)?.matmul(&y.on(device, HALF)?)?;
            Ok(vec![exact("product", got, HALF, product(&x, &y).rounded(HALF))])
        });
    }
    for [m, k, n] in [[40, 30, 44], [65, 100, 37]] {
        suite.add(format!("product with work before and after, {m} {k} {n}"), move |device| {
            let (x, y) = (integers(&[m, k], -3, 3, 26), integers(&[k, n], -3, 3, 27));
            let b = integers(&[n], -9, 9, 28);
            let (a, w) = (x.on(device, HALF)?, y.on(device, HALF)?);
            let layer = a.relu().matmul(&w.neg())?.add(&b.on(device, HALF)?)?;
            let positive = x.map(|x| x.max(0.0));
            let sum = product(&positive, &y).zip(&b, |p, b| b - p);
            // An operand that is computed within the kernel is rounded, too.
            let third = a.mul(1.0 / 3.0)?.cast(DType::F32)?.matmul(&w.cast(DType::F32)?)?;
            let thirds = product(&x.map(|x| x / 3.0).rounded(HALF), &y);
            let padded = a.pad(&[(1, 2), (3, 0)], 0.0)?.matmul(&w.pad(&[(3, 0), (0, 5)], 0.0)?)?;
            let larger = product(&x, &y).pad(&[(1, 2), (0, 5)], 0.0);
            let relu = sum.map(|s| s.max(0.0)).rounded(HALF);
            Ok(vec![
                exact("layer", layer.relu(), HALF, relu.clone()),
                exact("in f32", layer.relu().cast(DType::F32)?, DType::F32, relu),
                exact("compared", layer.lt(0.0)?, DType::Bool, sum.map(|s| f64::from(s < 0.0))),
                typed("thirds", third, DType::F32, thirds, Tolerance::sum(k, 9.0)),
                exact("padded", padded, HALF, larger.rounded(HALF)),
            ])
        });
    }
    suite
        .add("product 1100 70 1030", |device| {
            let (x, y) = (integers(&[1100, 70], -3, 3, 29), integers(&[70, 1030], -3, 3, 30));
            let got = x.on(device, HALF)?.matmul(&y.on(device, HALF)?)?;
            Ok(vec![exact("product", got, HALF, product(&x, &y).rounded(HALF))])
        })
        .big();
    suite.add("product, not finite", |device| {
        let mut x = integers(&[20, 17], -3, 3, 31);
        x.data[3] = f64::INFINITY;
        x.data[40] = f64::NAN;
        let y = integers(&[17, 40], 1, 3, 32);
        let got = x.on(device, HALF)?.matmul(&y.on(device, HALF)?)?;
        Ok(vec![exact("product", got, HALF, product(&x, &y))])
    });
}
