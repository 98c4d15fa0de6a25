//! Integers and `bool`: all wrap, shift and divide alike everywhere.

use super::array::{bits, Array};
use super::call::apply;
use super::check::{same_bits, Check, Suite};
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;

/// Where integers overflow and signs turn.
const WORDS: &[u32] = &[
    0, 1, 2, 3, 5, 7, 31, 32, 33, 255, 256, 65_535, 65_536, 0x00ff_ffff, 0x0100_0001, 0x7fff_fffe,
    0x7fff_ffff, 0x8000_0000, 0x8000_0001, 0xffff_0000, 0xffff_fffd, 0xffff_fffe, 0xffff_ffff,
];

type Two<T> = (&'static str, fn(T, T) -> T);
type One<T> = (&'static str, fn(T) -> T);
type Test<T> = (&'static str, fn(T, T) -> bool);

const SIGNED: &[Two<i32>] = &[
    ("add", i32::wrapping_add),
    ("sub", i32::wrapping_sub),
    ("mul", i32::wrapping_mul),
    ("div", |x, y| if y == 0 { x } else { x.wrapping_div(y) }),
    ("rem", |x, y| if y == 0 { 0 } else { x.wrapping_rem(y) }),
    ("floor_mod", floor_mod),
    ("minimum", |x, y| if x < y { x } else { y }),
    ("maximum", |x, y| if x > y { x } else { y }),
    ("squared_difference", |x, y| x.wrapping_sub(y).wrapping_mul(x.wrapping_sub(y))),
    ("bitwise_and", |x, y| x & y),
    ("bitwise_or", |x, y| x | y),
    ("bitwise_xor", |x, y| x ^ y),
    ("shl", |x, y| x.wrapping_shl(y as u32)),
    ("shr", |x, y| x.wrapping_shr(y as u32)),
];

/// With the sign of the divisor.
fn floor_mod(x: i32, y: i32) -> i32 {
    let rest = if y == 0 { 0 } else { x.wrapping_rem(y) };
    if rest != 0 && (rest < 0) != (y < 0) {
        return rest + y;
    }
    rest
}

const UNSIGNED: &[Two<u32>] = &[
    ("add", u32::wrapping_add),
    ("sub", u32::wrapping_sub),
    ("mul", u32::wrapping_mul),
    ("div", |x, y| if y == 0 { x } else { x / y }),
    ("rem", |x, y| if y == 0 { 0 } else { x % y }),
    ("floor_mod", |x, y| if y == 0 { 0 } else { x % y }),
    ("minimum", |x, y| if x < y { x } else { y }),
    ("maximum", |x, y| if x > y { x } else { y }),
    ("squared_difference", |x, y| x.wrapping_sub(y).wrapping_mul(x.wrapping_sub(y))),
    ("bitwise_and", |x, y| x & y),
    ("bitwise_or", |x, y| x | y),
    ("bitwise_xor", |x, y| x ^ y),
    ("shl", |x, y| x.wrapping_shl(y)),
    ("shr", |x, y| x.wrapping_shr(y)),
];

const SIGNED_ONE: &[One<i32>] = &[
    ("abs", i32::wrapping_abs),
    ("neg", i32::wrapping_neg),
    ("sign", i32::signum),
    ("square", |x| x.wrapping_mul(x)),
    ("bitwise_not", |x| !x),
];

const UNSIGNED_ONE: &[One<u32>] = &[("square", |x| x.wrapping_mul(x)), ("bitwise_not", |x| !x)];

const SIGNED_TEST: &[Test<i32>] = &[
    ("eq", |x, y| x == y),
    ("ne", |x, y| x != y),
    ("lt", |x, y| x < y),
    ("le", |x, y| x <= y),
    ("gt", |x, y| x > y),
    ("ge", |x, y| x >= y),
];

const UNSIGNED_TEST: &[Test<u32>] = &[
    ("eq", |x, y| x == y),
    ("ne", |x, y| x != y),
    ("lt", |x, y| x < y),
    ("le", |x, y| x <= y),
    ("gt", |x, y| x > y),
    ("ge", |x, y| x >= y),
];

const BOOLS: &[Two<bool>] = &[
    ("eq", |x, y| x == y),
    ("ne", |x, y| x != y),
    ("logical_and", |x, y| x && y),
    ("logical_or", |x, y| x || y),
    ("logical_xor", |x, y| x ^ y),
    ("bitwise_and", |x, y| x && y),
    ("bitwise_or", |x, y| x || y),
    ("bitwise_xor", |x, y| x ^ y),
];

/// Every pair of words.
fn pairs() -> (Array<u32>, Array<u32>) {
    let count = WORDS.len();
    let x = Array::from_fn(&[count, count], |at| WORDS[at[0]]);
    let y = Array::from_fn(&[count, count], |at| WORDS[at[1]]);
    (x, y)
}

fn binary(
    device: &Device,
    dtype: DType,
    result: DType,
    name: &str,
    f: impl Fn(u32, u32) -> u32,
) -> Result<Vec<Check>> {
    let mut checks = Vec::new();
    for (x, y) in [pairs(), (bits(&[1009], 1), bits(&[1009], 2))] {
        let got = apply(name, &[&x.on(device, dtype)?, &y.on(device, dtype)?])?;
        checks.push(same_bits(name, got, result, x.zip(&y, &f)));
    }
    Ok(checks)
}

fn unary(device: &Device, dtype: DType, name: &str, f: impl Fn(u32) -> u32) -> Result<Vec<Check>> {
    let x = Array::new(&[WORDS.len()], WORDS.to_vec());
    let got = apply(name, &[&x.on(device, dtype)?])?;
    Ok(vec![same_bits(name, got, dtype, x.map(f))])
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("integers");
    let (i32s, u32s, bools) = (DType::I32, DType::U32, DType::Bool);
    for &(name, f) in SIGNED {
        suite.add(format!("{name} i32"), move |device| {
            binary(device, i32s, i32s, name, |x, y| f(x as i32, y as i32) as u32)
        });
    }
    for &(name, f) in UNSIGNED {
        suite.add(format!("{name} u32"), move |device| binary(device, u32s, u32s, name, f));
    }
    for &(name, f) in SIGNED_TEST {
        suite.add(format!("{name} i32"), move |device| {
            binary(device, i32s, bools, name, |x, y| u32::from(f(x as i32, y as i32)))
        });
    }
    for &(name, f) in UNSIGNED_TEST {
        suite.add(format!("{name} u32"), move |device| {
            binary(device, u32s, bools, name, |x, y| u32::from(f(x, y)))
        });
    }
    for &(name, f) in SIGNED_ONE {
        suite.add(format!("{name} i32"), move |device| {
            unary(device, i32s, name, |x| f(x as i32) as u32)
        });
    }
    for &(name, f) in UNSIGNED_ONE {
        suite.add(format!("{name} u32"), move |device| unary(device, u32s, name, f));
    }
    for &(name, f) in BOOLS {
        suite.add(format!("{name} bool"), move |device| {
            let (x, y) = (Array::new(&[4], vec![0, 0, 1, 1]), Array::new(&[4], vec![0, 1, 0, 1]));
            let got = apply(name, &[&x.on(device, bools)?, &y.on(device, bools)?])?;
            let want = x.zip(&y, |x, y| u32::from(f(x == 1, y == 1)));
            Ok(vec![same_bits(name, got, bools, want)])
        });
    }
    for name in ["logical_not", "bitwise_not"] {
        suite.add(format!("{name} bool"), move |device| {
            let x = Array::new(&[2], vec![0, 1]);
            let got = apply(name, &[&x.on(device, bools)?])?;
            Ok(vec![same_bits(name, got, bools, x.map(|x| x ^ 1))])
        });
    }
    selects(&mut suite);
    suite
}

fn selects(suite: &mut Suite) {
    for dtype in [DType::I32, DType::U32, DType::Bool] {
        suite.add(format!("select {dtype}"), move |device| {
            let when = bits(&[100], 3).map(|w| w & 1);
            let data = |seed| bits(&[100], seed).map(|w| if dtype == DType::Bool { w >> 31 } else { w });
            let (x, y) = (data(4), data(5));
            let condition = when.on(device, DType::Bool)?;
            let got = condition.select(&x.on(device, dtype)?, &y.on(device, dtype)?)?;
            let both = when.zip(&x, |c, x| (c, x));
            let want = both.zip(&y, |(c, x), y| if c == 1 { x } else { y });
            Ok(vec![same_bits("select", got, dtype, want)])
        });
    }
}
