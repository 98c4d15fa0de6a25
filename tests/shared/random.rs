//! Tests random numbers: the same bits on all backends, and the distributions that are computed from them.

use super::array::{integers, Array};
use super::check::{exact, near, said, same_bits, Suite};
use super::reference::threefry;
use super::tolerance::Tolerance;
use warpweft::dtype::DType;

/// Returns the n-th word of a seed's stream.
fn word(seed: u32, stream: u32, n: usize) -> u32 {
    threefry([n as u32 | stream << 31, 0], [seed, 0])[0]
}

fn unit(seed: u32, stream: u32, n: usize) -> f64 {
    f64::from(word(seed, stream, n) >> 8) / 16_777_216.0
}

fn line(n: usize, f: impl Fn(usize) -> f64) -> Array<f64> {
    Array::new(&[n], (0..n).map(f).collect())
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("random");
    suite.steps("the reference is the published generator", |_| async {
        // Known answers that the authors of the paper publish with Random123.
        let known = [
            ([0, 0], [0, 0], [0x6b20_0159, 0x99ba_4efe]),
            ([u32::MAX; 2], [u32::MAX; 2], [0x1cb9_96fc, 0xbb00_2be7]),
            ([0x243f_6a88, 0x85a3_08d3], [0x1319_8a2e, 0x0370_7344], [0xc492_3a9c, 0x483d_f7a0]),
        ];
        let right = known.iter().all(|(counter, key, want)| threefry(*counter, *key) == *want);
        right.then_some(()).ok_or_else(|| "the reference is another generator".into())
    });
    suite.add("known words", |device| {
        let first = device.random_bits(&[1], 0)?;
        let mut checks =
            vec![same_bits("the first", first, DType::U32, Array::new(&[1], vec![0x6b20_0159]))];
        for (seed, n) in [(0, 1000), (1, 33), (0xdead_beef, 257)] {
            let want = Array::new(&[n], (0..n).map(|i| word(seed, 0, i)).collect());
            let got = device.random_bits(&[n], seed)?;
            checks.push(same_bits(format!("seed {seed}"), got, DType::U32, want));
        }
        let want = Array::new(&[3, 4], (0..12).map(|i| word(7, 0, i)).collect());
        checks.push(same_bits("a matrix", device.random_bits(&[3, 4], 7)?, DType::U32, want));
        let part = device.random_bits(&[100], 7)?.slice(0, 40..60)?;
        let want = Array::new(&[20], (40..60).map(|i| word(7, 0, i)).collect());
        checks.push(same_bits("a part", part, DType::U32, want));
        Ok(checks)
    });
    distributions(&mut suite);
    moments(&mut suite);
    suite
}

fn distributions(suite: &mut Suite) {
    suite.add("uniform", |device| {
        let n = 4096;
        let by = Tolerance { absolute: 1e-6, ..Tolerance::ROUNDED };
        let same = device.uniform(&[2, 3], 4.0, 4.0, 3)?;
        Ok(vec![
            near(
                "unit",
                device.uniform(&[n], 0.0, 1.0, 3)?,
                line(n, |i| unit(3, 0, i)),
                Tolerance::EXACT,
            ),
            near(
                "-3 to 5",
                device.uniform(&[n], -3.0, 5.0, 4)?,
                line(n, |i| unit(4, 0, i) * 8.0 - 3.0),
                by,
            ),
            near("4 to 4", same, Array::new(&[2, 3], vec![4.0; 6]), Tolerance::EXACT),
        ])
    });
    suite.add("normal", |device| {
        let n = 4096;
        let want = |i| {
            let radius = (-2.0 * (1.0 - unit(5, 0, i)).ln()).sqrt();
            radius * (std::f64::consts::TAU * unit(5, 1, i)).cos() * 2.0 + 1.0
        };
        // The radius is at most 5.8. The angle exceeds pi, where WGSL does not bound the error of a cosine. Near 1, the
        // logarithm has an absolute error of 2^-21, which the root increases to 2^-10.
        let by =
            Tolerance { absolute: 2.0 * 6.0 * Tolerance::TRIGONOMETRY.absolute, relative: 0.0 };
        Ok(vec![near("numbers", device.normal(&[n], 1.0, 2.0, 5)?, line(n, want), by)])
    });
    suite.add("bernoulli", |device| {
        let n = 1000;
        let of = |p: f64| line(n, |i| f64::from(u8::from(unit(6, 0, i) < p)));
        Ok(vec![
            near("0.25", device.bernoulli(&[n], 0.25, 6)?, of(0.25), Tolerance::EXACT),
            near("never", device.bernoulli(&[n], 0.0, 6)?, of(0.0), Tolerance::EXACT),
            near("always", device.bernoulli(&[n], 1.0, 6)?, of(1.0), Tolerance::EXACT),
        ])
    });
    suite.add("dropout", |device| {
        let x = integers(&[10, 33], -9, 9, 7);
        let a = x.f32(device)?;
        let kept = |p: f64| {
            let mut n = 0;
            x.map(|x| {
                n += 1;
                if unit(8, 0, n - 1) >= f64::from(p as f32) {
                    x / (1.0 - p)
                } else {
                    0.0
                }
            })
        };
        Ok(vec![
            near("0.25", a.dropout(0.25, 8)?, kept(0.25), Tolerance::ROUNDED),
            near("0", a.dropout(0.0, 8)?, x.clone(), Tolerance::EXACT),
        ])
    });
    suite.add("one seed, twice, in other company", |device| {
        let n = 100;
        let want = line(n, |i| unit(9, 0, i));
        let again = device.uniform(&[n], 0.0, 1.0, 9)?;
        let doubled = device.uniform(&[n], 0.0, 1.0, 9)?.add(&again)?.mul(0.5)?;
        let apart = device.uniform(&[n], 0.0, 1.0, 10)?.ne(&again)?.cast(DType::I32)?.sum(&[])?;
        let differ = (0..n).filter(|&i| unit(9, 0, i) != unit(10, 0, i)).count();
        Ok(vec![
            near("again", again, want.clone(), Tolerance::EXACT),
            near("the same", doubled, want, Tolerance::EXACT),
            exact("another", apart, DType::I32, Array::new(&[], vec![differ as f64])),
        ])
    });
}

fn moments(suite: &mut Suite) {
    suite.steps("normal numbers are normal", |device| async move {
        let numbers = device.normal(&[200, 100], 0.0, 1.0, 11).map_err(said)?;
        let x: Vec<f32> = numbers.read().await.map_err(said)?;
        let mean =
            |power: i32| x.iter().map(|&x| f64::from(x).powi(power)).sum::<f64>() / x.len() as f64;
        let beyond = x.iter().filter(|x| x.abs() > 1.96).count() as f64 / x.len() as f64;
        // Four standard errors of 20,000 samples.
        for (what, got, want, by) in [
            ("mean", mean(1), 0.0, 0.029),
            ("variance", mean(2), 1.0, 0.04),
            ("skew", mean(3), 0.0, 0.11),
            ("fourth moment", mean(4), 3.0, 0.28),
            ("beyond 1.96", beyond, 0.05, 0.0062),
        ] {
            if (got - want).abs() > by {
                return Err(format!("{what}: {got}"));
            }
        }
        Ok(())
    });
}
