//! Integer instructions against Rust integers.

use crate::common::{address, run, special_integers};
use ptx_interpreter::{Argument, Launch, Memory};

const N: usize = 512;

fn setup(out: usize) -> impl Fn(&mut Memory) -> Vec<Argument> {
    move |m| {
        let (a, b) = (m.alloc_u32(&special_integers(N, 1)), m.alloc_u32(&special_integers(N, 2)));
        vec![
            Argument::U32(N as u32),
            Argument::Pointer(a),
            Argument::Pointer(b),
            Argument::Pointer(m.alloc(N * out * 4)),
        ]
    }
}

fn prmt(x: u32, y: u32, s: u32) -> u32 {
    let all = [x.to_le_bytes(), y.to_le_bytes()].concat();
    u32::from_le_bytes(std::array::from_fn(|i| all[(s >> (4 * i) & 7) as usize]))
}

#[test]
fn bit_tricks() {
    let (a, b) = (special_integers(N, 1), special_integers(N, 2));
    run(("integer", "bit_tricks"), &Launch::linear(4, 128), setup(16), |m, args, _| {
        let out = m.read_u32(address(&args[3]), N * 16).unwrap();
        for i in 0..N {
            let (x, y) = (a[i], b[i]);
            let both = u64::from(y) << 32 | u64::from(x);
            let (sx, sy) = (x as i32, y as i32);
            let want = [
                x.count_ones(),
                x.leading_zeros(),
                x.reverse_bits(),
                if x == 0 { 0 } else { x.trailing_zeros() + 1 },
                prmt(x, y, y & 0x7777),
                (both << (y & 31) >> 32) as u32,
                (both >> (y & 63).min(32)) as u32,
                x.rotate_left(y & 31),
                (x & y) ^ (!x | y),
                ((u64::from(x) * u64::from(y)) >> 32) as u32,
                ((i64::from(sx) * i64::from(sy)) >> 32) as u32,
                sx.abs_diff(sy).wrapping_add(7),
                x.abs_diff(y).wrapping_add(9),
                ((u64::from(x) + u64::from(y)) / 2) as u32,
                sx.min(sy) as u32,
                x.max(y),
            ];
            assert_eq!(out[i * 16..i * 16 + 16], want, "{x:#x} {y:#x}");
        }
    });
}

fn bfe(x: u32, start: u32, len: u32, signed: bool) -> u32 {
    let sign = if signed && len > 0 { x >> (start + len - 1).min(31) & 1 } else { 0 };
    (0..32).fold(0, |all, i| {
        let bit = if i < len && start + i < 32 { x >> (start + i) & 1 } else { sign };
        all | bit << i
    })
}

#[test]
fn bit_fields() {
    let (a, b) = (special_integers(N, 1), special_integers(N, 2));
    run(("integer", "bit_fields"), &Launch::linear(4, 128), setup(8), |m, args, _| {
        let out = m.read_u32(address(&args[3]), N * 8).unwrap();
        for i in 0..N {
            let (x, y) = (a[i], b[i]);
            let (start, len) = (y & 63, y >> 8 & 63);
            let bfi = (0..32).fold(y, |all, bit| {
                let inside = bit >= start && bit - start < len;
                if inside {
                    all & !(1 << bit) | (x >> (bit - start) & 1) << bit
                } else {
                    all
                }
            });
            let find = |v: u32| if v == 0 { u32::MAX } else { 31 - v.leading_zeros() };
            let lop = (0..32).fold(0, |all, bit| {
                let index = (x >> bit & 1) << 2 | (y >> bit & 1) << 1 | start >> bit & 1;
                all | (0x9a >> index & 1) << bit
            });
            let (xb, yb) = (x.to_le_bytes(), y.to_le_bytes());
            let mixed = (0..4).map(|k| i32::from(xb[k] as i8) * i32::from(yb[k])).sum::<i32>() + 5;
            let plain = (0..4).map(|k| u32::from(xb[k]) * u32::from(yb[k])).sum::<u32>() + 5;
            let want = [
                bfe(x, start, len, false),
                bfe(x, start, len, true),
                bfi,
                find(x),
                find(if (x as i32) < 0 { !x } else { x }),
                lop,
                mixed as u32,
                plain,
            ];
            assert_eq!(out[i * 8..i * 8 + 8], want, "{x:#x} {y:#x}");
        }
    });
}

#[test]
fn division() {
    let (a, mut b) = (special_integers(N, 1), special_integers(N, 2));
    b.iter_mut().for_each(|y| *y = (*y).max(1));
    let setup = |m: &mut Memory| {
        let (pa, pb) = (m.alloc_u32(&a), m.alloc_u32(&b));
        vec![
            Argument::U32(N as u32),
            Argument::Pointer(pa),
            Argument::Pointer(pb),
            Argument::Pointer(m.alloc(N * 40)),
        ]
    };
    run(("integer", "division"), &Launch::linear(4, 128), setup, |m, args, _| {
        let out = m.read_u32(address(&args[3]), N * 10).unwrap();
        for i in 0..N {
            let (x, y, ux, uy) = (a[i] as i32, b[i] as i32, a[i], b[i]);
            let want = [
                (x / 7) as u32,
                (x % 10) as u32,
                ux / 1_000_003,
                ux % 641,
                (x / -3) as u32,
                (x / 16) as u32,
                x.wrapping_div(y) as u32,
                x.wrapping_rem(y) as u32,
                ux / uy,
                ux % uy,
            ];
            assert_eq!(out[i * 10..i * 10 + 10], want, "{x} {y}");
        }
    });
}

fn words(seed: u64) -> Vec<i64> {
    let (low, high) = (special_integers(N, seed), special_integers(N, seed + 10));
    low.iter().zip(&high).map(|(l, h)| (u64::from(*h) << 32 | u64::from(*l)) as i64).collect()
}

#[test]
fn wide() {
    let (a, b) =
        (words(1), words(2).into_iter().map(|y| if y == 0 { 5 } else { y }).collect::<Vec<_>>());
    let bytes = |v: &[i64]| v.iter().flat_map(|x| x.to_le_bytes()).collect::<Vec<u8>>();
    let setup = |m: &mut Memory| {
        let (pa, pb) = (m.alloc_bytes(&bytes(&a)), m.alloc_bytes(&bytes(&b)));
        vec![
            Argument::U32(N as u32),
            Argument::Pointer(pa),
            Argument::Pointer(pb),
            Argument::Pointer(m.alloc(N * 96)),
        ]
    };
    run(("integer", "wide"), &Launch::linear(4, 128), setup, |m, args, _| {
        let out = m.read(address(&args[3]), N * 96).unwrap();
        let out: Vec<i64> =
            out.chunks_exact(8).map(|c| i64::from_le_bytes(c.try_into().unwrap())).collect();
        for i in 0..N {
            let (x, y) = (a[i], b[i]);
            let (ux, uy) = (x as u64, y as u64);
            let want = [
                x.wrapping_mul(y),
                x.wrapping_div(y),
                x.wrapping_rem(y),
                (ux / uy) as i64,
                (ux % 1_000_000_007) as i64,
                ((i128::from(x) * i128::from(y)) >> 64) as i64,
                ((u128::from(ux) * u128::from(uy)) >> 64) as i64,
                x >> (y & 63),
                (ux >> (y & 63)) as i64,
                x << (y & 63),
                i64::from(x.count_ones() + 100 * x.leading_zeros()),
                i64::from(x as i32) * i64::from(y as i32),
            ];
            assert_eq!(out[i * 12..i * 12 + 12], want, "{x:#x} {y:#x}");
        }
    });
}

#[test]
fn carries() {
    let join = |v: &[u32]| v.iter().rev().fold(0u128, |all, word| all << 32 | u128::from(*word));
    let split = |v: u128| (0..4).map(|i| (v >> (32 * i)) as u32).collect::<Vec<u32>>();
    let (a, b) = (special_integers(N, 1), special_integers(N, 2));
    let n = N / 4;
    let setup = |m: &mut Memory| {
        let (pa, pb) = (m.alloc_u32(&a), m.alloc_u32(&b));
        vec![
            Argument::U32(n as u32),
            Argument::Pointer(pa),
            Argument::Pointer(pb),
            Argument::Pointer(m.alloc(n * 48)),
        ]
    };
    run(("integer", "carries"), &Launch::linear(1, 128), setup, |m, args, _| {
        let out = m.read_u32(address(&args[3]), n * 12).unwrap();
        for i in 0..n {
            let (x, y) = (&a[i * 4..i * 4 + 4], &b[i * 4..i * 4 + 4]);
            let mut want = split(join(x).wrapping_add(join(y)));
            want.extend(split(join(x).wrapping_sub(join(y))));
            let product = u128::from(x[0]) * u128::from(y[0]) + join(&x[2..4]);
            want.extend(&split(product)[..2]);
            want.extend(&split(join(&x[..2]) * join(&y[..2]))[2..]);
            assert_eq!(out[i * 12..i * 12 + 12], want, "{i}");
        }
    });
}
