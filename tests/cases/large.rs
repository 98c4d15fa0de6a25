//! Sizes at which dispatches and buffers have borders.

use super::array::{integers, Array};
use super::check::{near, said, Suite};
use super::tolerance::Tolerance;
use warpweft::dtype::DType;

pub fn cases() -> Suite {
    let mut suite = Suite::new("large");
    // One dimension of a dispatch has 65,535 workgroups; a workgroup has 256 threads.
    for n in [65_535 * 256 - 1, 65_535 * 256, 65_535 * 256 + 1, 65_536 * 256 + 1] {
        suite
            .steps(format!("a map over {n}"), move |device| async move {
                let error = said;
                let count = device.iota(&[n], 0).map_err(error)?;
                let got: Vec<i32> = count
                    .mul(3)
                    .and_then(|x| x.add(1))
                    .map_err(error)?
                    .read()
                    .await
                    .map_err(error)?;
                let wrong = got.iter().enumerate().find(|(i, &x)| x != 3 * *i as i32 + 1);
                match wrong {
                    _ if got.len() != n => Err(format!("{} elements", got.len())),
                    Some((at, x)) => Err(format!("at {at}: got {x}, want {}", 3 * at + 1)),
                    None => Ok(()),
                }
            })
            .big();
    }
    suite
        .add("a read and a write of 2^24 + 1", |device| {
            let n = (1 << 24) + 1;
            let x = device.iota(&[n], 0)?.bitwise_and(255)?.cast(DType::F32)?;
            x.run()?;
            let sum = x.mul(2.0)?.slice(0, (n - 300) as isize, n as isize)?;
            let want = Array::from_fn(&[300], |at| ((n - 300 + at[0]) & 255) as f64 * 2.0);
            Ok(vec![near("its end", sum, want, Tolerance::EXACT)])
        })
        .big();
    rows(&mut suite);
    suite
}

/// More rows, tiles and batches than one dimension of a dispatch has workgroups.
fn rows(suite: &mut Suite) {
    const MANY: usize = 65_600;
    suite.add("many rows", |device| {
        let x = integers(&[MANY, 3], -9, 9, 1);
        let a = x.f32(device)?;
        let sum = x.reduce(&[1], |x| x.iter().sum::<f64>());
        let spread = a.sub(&a.sum_keepdim(&[1])?)?;
        Ok(vec![
            near("sum", a.sum(&[1])?, sum.squeeze(&[1]), Tolerance::EXACT),
            near("x - sum", spread, x.zip(&sum, |x, s| x - s), Tolerance::EXACT),
        ])
    });
    suite
        .add("many rows of 70", |device| {
            let x = integers(&[MANY, 70], -9, 9, 2);
            let want = x.reduce(&[1], |x| x.iter().sum::<f64>()).squeeze(&[1]);
            Ok(vec![near("sum", x.f32(device)?.sum(&[1])?, want, Tolerance::EXACT)])
        })
        .big();
    suite.add("many products", |device| {
        let (x, y) = (integers(&[MANY, 2, 2], -9, 9, 3), integers(&[2, 2], -9, 9, 4));
        let got = x.f32(device)?.matmul(&y.f32(device)?)?;
        Ok(vec![near("products", got, super::matmul::product(&x, &y), Tolerance::EXACT)])
    });
    suite.add("a tall product", |device| {
        let (x, y) = (integers(&[MANY, 3], -9, 9, 5), integers(&[3, 2], -9, 9, 6));
        let got = x.f32(device)?.matmul(&y.f32(device)?)?;
        Ok(vec![near("product", got, super::matmul::product(&x, &y), Tolerance::EXACT)])
    });
}
