//! Tests the creation of tensors, with and without data.

use super::array::{half_bits, half_value, Array};
use super::check::{exact, near, same_bits, Suite};
use super::tolerance::Tolerance;
use warpweft::dtype::DType;
use warpweft::tensor::Tensor;

pub fn cases() -> Suite {
    let mut suite = Suite::new("create");
    data(&mut suite);
    constants(&mut suite);
    sequences(&mut suite);
    suite
}

fn data(suite: &mut Suite) {
    suite.steps("data comes back", |device| async move {
        let error = |e: warpweft::error::Error| e.to_string();
        let floats = [1.5f32, -0.0, f32::INFINITY, f32::MIN_POSITIVE / 2.0];
        let integers = [i32::MIN, -1, 0, i32::MAX];
        let naturals = [0, 1, u32::MAX];
        let bools = [true, false, true];
        let a = device.tensor(&floats, &[2, 2]).map_err(error)?;
        let b = device.tensor(&integers, &[4, 1]).map_err(error)?;
        let c = device.tensor(&naturals, &[3]).map_err(error)?;
        let d = device.tensor(&bools, &[1, 3]).map_err(error)?;
        let e = device.tensor(&[2.5f32], &[]).map_err(error)?;
        let bits = |data: &[f32]| data.iter().map(|x| x.to_bits()).collect::<Vec<u32>>();
        let same = bits(&a.read::<f32>().await.map_err(error)?) == bits(&floats)
            && b.read::<i32>().await.map_err(error)? == integers
            && c.read::<u32>().await.map_err(error)? == naturals
            && d.read::<bool>().await.map_err(error)? == bools
            && e.item::<f32>().await.map_err(error)? == 2.5;
        let about = (a.shape(), b.rank(), d.numel(), c.dtype()) == (&[2, 2][..], 2, 3, DType::U32);
        (same && about).then_some(()).ok_or_else(|| "something else came back".to_string())
    });
    suite.steps("empty tensors come back", |device| async move {
        let error = |e: warpweft::error::Error| e.to_string();
        for shape in [&[0][..], &[0, 3], &[2, 0, 4], &[0, 0]] {
            let a = device.tensor::<f32>(&[], shape).map_err(error)?;
            let b = a.exp().add(&a).map_err(error)?;
            if !b.read::<f32>().await.map_err(error)?.is_empty() || b.shape() != shape {
                return Err(format!("{shape:?}"));
            }
        }
        Ok(())
    });
    suite.add("to another handle of the device", |device| {
        let x = Array::new(&[3], vec![1.0, 2.0, 3.0]);
        let a = x.f32(device)?;
        let twice = a.add(&x.f32(&device.clone())?)?;
        Ok(vec![near("sum", twice, x.map(|x| 2.0 * x), Tolerance::EXACT)])
    });
    suite.steps("to", |device| async move {
        let error = |e: warpweft::error::Error| e.to_string();
        let a = device.tensor(&[1.0f32, 2.0], &[2]).map_err(error)?;
        let b = a.mul(3.0).map_err(error)?.to(&device).await.map_err(error)?;
        near("moved", b, Array::new(&[2], vec![3.0, 6.0]), Tolerance::EXACT).run().await
    });
}

fn constants(suite: &mut Suite) {
    suite.add("full", |device| {
        let mut checks = Vec::new();
        let values = [0.0, -0.0, 1.5, -2.5e-7, 3e38, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        for value in values {
            let got = device.full(&[3, 2], value, DType::F32)?;
            let bits = (value as f32).to_bits();
            checks.push(same_bits(
                format!("{value}"),
                got,
                DType::F32,
                Array::new(&[3, 2], vec![bits; 6]),
            ));
        }
        for (dtype, value) in [
            (DType::I32, -2_147_483_648.0),
            (DType::I32, 2_147_483_647.0),
            (DType::I32, -7.0),
            (DType::U32, 4_294_967_295.0),
            (DType::U32, 0.0),
            (DType::Bool, 1.0),
            (DType::Bool, 0.0),
        ] {
            let got = device.full(&[5], value, dtype)?;
            checks.push(exact(format!("{dtype}"), got, dtype, Array::new(&[5], vec![value; 5])));
        }
        Ok(checks)
    });
    suite
        .add("full of f16", |device| {
            let want = half_value(half_bits(f64::from(0.1f32)));
            let got = device.full(&[3], 0.1, DType::F16)?;
            Ok(vec![exact("0.1", got, DType::F16, Array::new(&[3], vec![want; 3]))])
        })
        .half();
    suite.add("zeros, ones, eye", |device| {
        let eye = |n: usize| Array::from_fn(&[n, n], |at| f64::from(u8::from(at[0] == at[1])));
        Ok(vec![
            near(
                "zeros",
                device.zeros(&[2, 0, 3])?,
                Array::new(&[2, 0, 3], vec![]),
                Tolerance::EXACT,
            ),
            near("a zero", device.zeros(&[])?, Array::new(&[], vec![0.0]), Tolerance::EXACT),
            near(
                "ones",
                device.ones(&[300])?,
                Array::new(&[300], vec![1.0; 300]),
                Tolerance::EXACT,
            ),
            near("eye 1", device.eye(1)?, eye(1), Tolerance::EXACT),
            near("eye 33", device.eye(33)?, eye(33), Tolerance::EXACT),
            near("eye 0", device.eye(0)?, eye(0), Tolerance::EXACT),
        ])
    });
}

fn sequences(suite: &mut Suite) {
    suite.add("iota", |device| {
        let mut checks = Vec::new();
        let shape = [3, 4, 5];
        for (axis, at) in [(0, 0), (1, 1), (2, 2), (-1, 2), (-3, 0)] {
            let want = Array::from_fn(&shape, |c| c[at] as f64);
            checks.push(exact(format!("{axis}"), device.iota(&shape, axis)?, DType::I32, want));
        }
        let want = Array::from_fn(&[1], |_| 0.0);
        checks.push(exact("of one", device.iota(&[1], 0)?, DType::I32, want));
        let moved = device.iota(&[4, 6], 1)?.transpose(0, 1)?.slice(0, 2..5)?;
        let want = Array::from_fn(&[3, 4], |at| (at[0] + 2) as f64);
        checks.push(exact("of views", moved, DType::I32, want));
        Ok(checks)
    });
    suite.add("arange and linspace", |device| {
        let line = |n: usize, f: &dyn Fn(f64) -> f64| Array::from_fn(&[n], |at| f(at[0] as f64));
        let by = Tolerance { absolute: 1e-6, ..Tolerance::ROUNDED };
        Ok(vec![
            near("0, 1, ...", device.arange(70.0)?, line(70, &|i| i), Tolerance::EXACT),
            near(
                "down",
                device.arange_step(5.0, 0.5, -0.5)?,
                line(9, &|i| 5.0 - 0.5 * i),
                Tolerance::EXACT,
            ),
            near("none", device.arange_step(5.0, 4.0, 1.0)?, line(0, &|i| i), Tolerance::EXACT),
            near("quarters", device.linspace(-1.0, 1.0, 9)?, line(9, &|i| i / 4.0 - 1.0), by),
            near("thirds", device.linspace(0.0, 1.0, 4)?, line(4, &|i| i / 3.0), by),
            near("one", device.linspace(3.0, 9.0, 1)?, line(1, &|_| 3.0), by),
            near("none", device.linspace(3.0, 9.0, 0)?, line(0, &|_| 3.0), by),
        ])
    });
    suite.add("linspace ends where it should", |device| {
        let ends = Array::new(&[2], vec![f64::from(0.1f32), f64::from(0.7f32)]);
        let got = device.linspace(0.1, 0.7, 50)?;
        let got = Tensor::concat(&[&got.slice(0, ..1)?, &got.slice(0, -1..50)?], 0)?;
        Ok(vec![near("ends", got, ends, Tolerance::EXACT)])
    });
}
