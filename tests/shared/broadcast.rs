//! Tests operands of different shapes.

use super::array::{integers, random, Array};
use super::check::{exact, near, Suite};
use super::tolerance::Tolerance;
use warpweft::dtype::DType;

type Pair = (&'static [usize], &'static [usize]);

const PAIRS: &[Pair] = &[
    (&[], &[]),
    (&[], &[3]),
    (&[1], &[5]),
    (&[7], &[7]),
    (&[3, 1], &[1, 4]),
    (&[2, 3, 4], &[4]),
    (&[2, 3, 4], &[3, 1]),
    (&[4, 1], &[2, 1, 3]),
    (&[2, 1, 4], &[1, 3, 1]),
    (&[1, 1, 1], &[2, 2, 2]),
    (&[5, 1, 3, 1, 2], &[4, 1, 7, 1]),
    (&[0], &[1]),
    (&[0, 3], &[3]),
    (&[2, 0, 1], &[1, 1, 5]),
    (&[1, 1, 1, 1, 1, 1, 1, 1], &[2, 1, 2, 1, 2, 1, 2, 1]),
    (&[2, 1, 2, 1, 2, 1, 2, 1], &[1, 2, 1, 2, 1, 2, 1, 2]),
    (&[33, 1], &[65]),
    (&[257, 1], &[1, 129]),
    (&[64, 64], &[64]),
    (&[64, 64], &[64, 1]),
];

pub fn cases() -> Suite {
    let mut suite = Suite::new("broadcast");
    for &(left, right) in PAIRS {
        suite.add(format!("{left:?} and {right:?}"), move |device| {
            let (x, y) = (integers(left, -99, 99, 1), integers(right, -99, 99, 2));
            let (a, b) = (x.f32(device)?, y.f32(device)?);
            Ok(vec![
                near("x - y", a.sub(&b)?, x.zip(&y, |x, y| x - y), Tolerance::EXACT),
                near("y - x", b.sub(&a)?, y.zip(&x, |y, x| y - x), Tolerance::EXACT),
                exact("x < y", a.lt(&b)?, DType::Bool, x.zip(&y, |x, y| f64::from(x < y))),
            ])
        });
    }
    three_operands(&mut suite);
    numbers(&mut suite);
    chains(&mut suite);
    suite
}

fn three_operands(suite: &mut Suite) {
    type Triple = (&'static [usize], &'static [usize], &'static [usize]);
    const TRIPLES: &[Triple] = &[
        (&[3, 1], &[4], &[2, 1, 1]),
        (&[], &[2, 3], &[3]),
        (&[5], &[], &[]),
        (&[1, 6], &[6, 1], &[6, 6]),
        (&[0], &[1], &[]),
    ];
    for &(c, x, y) in TRIPLES {
        suite.add(format!("select {c:?} {x:?} {y:?}"), move |device| {
            let when = integers(c, 0, 1, 3);
            let (x, y) = (integers(x, -9, 9, 4), integers(y, 10, 19, 5));
            let chosen =
                when.zip(&x, |c, x| (c, x)).zip(&y, |(c, x), y| if c > 0.0 { x } else { y });
            let on = |a: &Array<f64>| a.f32(device);
            let got = when.on(device, DType::Bool)?.where_cond(&on(&x)?, &on(&y)?)?;
            Ok(vec![near("select", got, chosen, Tolerance::EXACT)])
        });
    }
}

fn numbers(suite: &mut Suite) {
    suite.add("numbers", |device| {
        let x = integers(&[3, 5], -50, 50, 6);
        let a = x.f32(device)?;
        let when = x.map(|x| f64::from(x > 0.0));
        let zero = device.zeros(&[])?;
        Ok(vec![
            near("x - 2.5", a.sub(2.5)?, x.map(|x| x - 2.5), Tolerance::EXACT),
            near("operators", &(&a * 2.0) + 1, x.map(|x| x * 2.0 + 1.0), Tolerance::EXACT),
            near("-x", -&a, x.map(|x| -x), Tolerance::EXACT),
            near("one of rank 0", a.add(&zero)?, x.clone(), Tolerance::EXACT),
            near(
                "chosen",
                when.on(device, DType::Bool)?.where_cond(1.0, 2.5)?,
                when.map(|c| 2.5 - 1.5 * c),
                Tolerance::EXACT,
            ),
            exact("of i32", x.on(device, DType::I32)?.mul(-3)?, DType::I32, x.map(|x| x * -3.0)),
        ])
    });
}

fn chains(suite: &mut Suite) {
    suite.add("rows and columns of one matrix", |device| {
        let x = random(&[37, 41], -4.0, 4.0, 7);
        let (r, c) = (random(&[37, 1], -4.0, 4.0, 8), random(&[41], -4.0, 4.0, 9));
        let got =
            x.f32(device)?.mul(&r.f32(device)?)?.add(&c.f32(device)?)?.mul(&x.f32(device)?)?;
        let want = x.zip(&r, |x, r| x * r).zip(&c, |a, c| a + c).zip(&x, |a, x| a * x);
        let by = Tolerance { absolute: 1e-5, ..Tolerance::F32 };
        Ok(vec![near("(x * r + c) * x", got, want, by)])
    });
    suite.add("a tensor with its own transpose", |device| {
        let x = integers(&[33, 33], -9, 9, 10);
        let a = x.f32(device)?;
        let want = x.zip(&x.permute(&[1, 0]), |x, y| x * 2.0 + y);
        let got = a.mul(2.0)?.add(&a.transpose(0, 1)?)?;
        Ok(vec![near("2 x + xT", got, want, Tolerance::EXACT)])
    });
}
