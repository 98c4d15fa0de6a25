//! Communication between lanes.

use crate::common::{address, close, run, Random};
use ptx_interpreter::{Argument, Launch, Memory};

fn values() -> Vec<i32> {
    let mut random = Random(3);
    (0..32).map(|_| random.next() as i32 % 9 - 1).collect()
}

fn setup(x: Vec<i32>, out: usize) -> impl Fn(&mut Memory) -> Vec<Argument> {
    move |m| {
        let bits: Vec<u32> = x.iter().map(|v| *v as u32).collect();
        vec![Argument::Pointer(m.alloc_u32(&bits)), Argument::Pointer(m.alloc(32 * out * 4))]
    }
}

fn ballot(test: impl Fn(usize) -> bool) -> u32 {
    (0..32).filter(|lane| test(*lane)).fold(0, |all, lane| all | 1 << lane)
}

#[test]
fn votes() {
    let positive = values().into_iter().map(|v| v.abs() + 3).collect();
    for x in [values(), positive, vec![3; 32]] {
        run(("warp", "votes"), &Launch::linear(1, 32), setup(x.clone(), 8), |m, a, _| {
            let out = m.read_u32(address(&a[1]), 256).unwrap();
            for t in 0..32 {
                let half = if t & 16 == 0 { 0xffff } else { 0xffff_0000 };
                let same_sign = x.iter().all(|v| v >> 30 == x[t] >> 30);
                let got = &out[t * 8..t * 8 + 8];
                assert_eq!(got[0], ballot(|l| x[l] & 1 == 1));
                assert_eq!(got[1], u32::from(x.iter().all(|v| *v >= 0)));
                assert_eq!(got[2], u32::from(x.contains(&3)));
                assert_eq!(got[3], ballot(|l| x[l] == x[t]));
                assert_eq!(got[4], if same_sign { u32::MAX ^ 5 } else { 0 });
                assert_eq!(got[5], ballot(|l| x[l] > 4) & half);
                assert!(got[6] >> t & 1 == 1, "the active mask must contain the lane");
                assert_eq!(got[7], ballot(|l| x[l] == x[t]) & half);
            }
        });
    }
}

#[test]
fn shuffles() {
    let x: Vec<i32> = (0..32).map(|i| i * i - 100).collect();
    run(("warp", "shuffles"), &Launch::linear(1, 32), setup(x.clone(), 8), |m, a, _| {
        let out = m.read_u32(address(&a[1]), 256).unwrap();
        for t in 0..32usize {
            let up = |d: usize, width: usize| if t % width >= d { t - d } else { t };
            let down = |d: usize, width: usize| if t % width + d < width { t + d } else { t };
            let from = [
                (t * 5 + 3) % 32,
                up(3, 32),
                down(5, 32),
                t ^ 13,
                t / 8 * 8 + t * 3 % 8,
                up(2, 16),
                down(1, 4),
                // A source in a later segment is out of range, and an earlier one is not.
                if t ^ 9 <= t / 8 * 8 + 7 { t ^ 9 } else { t },
            ];
            let want: Vec<u32> = from.iter().map(|lane| x[*lane] as u32).collect();
            assert_eq!(out[t * 8..t * 8 + 8], want, "lane {t}");
        }
    });
}

#[test]
fn reductions() {
    let mut random = Random(7);
    let x: Vec<i32> = (0..32).map(|_| random.next() as i32).collect();
    let u: Vec<u32> = x.iter().map(|v| *v as u32).collect();
    run(("warp", "reductions"), &Launch::linear(1, 32), setup(x.clone(), 8), |m, a, report| {
        let want = [
            u.iter().fold(0, |a, b| u32::wrapping_add(a, *b)),
            *x.iter().min().unwrap() as u32,
            *u.iter().max().unwrap(),
            u.iter().fold(u32::MAX, |a, b| a & (b | 0xff)),
            u.iter().fold(0, |a, b| a | b),
            u.iter().fold(0, |a, b| a ^ b),
            *x.iter().max().unwrap() as u32,
            *u.iter().min().unwrap(),
        ];
        let out = m.read_u32(address(&a[1]), 256).unwrap();
        out.chunks(8).for_each(|got| assert_eq!(got, want));
        assert_eq!(report.count("redux.sync").threads, 256);
    });
}

#[test]
fn divergent_lanes_communicate() {
    let x: Vec<i32> = (0..32).map(|i| (i * 7 + 1) % 11).collect();
    run(("warp", "divergent"), &Launch::linear(1, 32), setup(x.clone(), 1), |m, a, _| {
        let is_in = |l: usize| x[l] % 3 == 0;
        let mask = ballot(is_in);
        let sum: i32 = (0..32).filter(|l| is_in(*l)).map(|l| x[l]).sum();
        let leader = (0..32).find(|l| !is_in(*l)).unwrap();
        let grown = x[leader] + (0..40 - leader).map(|i| x[(i + leader) & 31]).sum::<i32>();
        let r: Vec<i32> = (0..32usize)
            .map(|t| {
                if is_in(t) {
                    (0..t).fold(sum, |r, i| r ^ i as i32) + mask.count_ones() as i32
                } else {
                    grown
                }
            })
            .collect();
        let want: Vec<u32> =
            (0..32).map(|t| if t == 31 { r[31] + 1 } else { r[t + 1] } as u32).collect();
        assert_eq!(m.read_u32(address(&a[1]), 32).unwrap(), want);
    });
}

#[test]
fn warp_barriers_order_shared_memory() {
    let x = Random(2).floats(64, -1.0, 1.0);
    let setup =
        |m: &mut Memory| vec![Argument::Pointer(m.alloc_f32(&x)), Argument::Pointer(m.alloc(256))];
    run(("warp", "warp_shared"), &Launch::linear(1, 64), setup, |m, a, _| {
        let out = m.read_f32(address(&a[1]), 64).unwrap();
        for (t, got) in out.iter().enumerate() {
            let want: f64 = x[t / 32 * 32..t / 32 * 32 + 32].iter().map(|v| f64::from(*v)).sum();
            close(f64::from(*got), want, 1e-5, "sum");
        }
    });
}
