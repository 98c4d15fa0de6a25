//! Switches, calls, loops that diverge.

use crate::common::{address, run, special_integers, Random};
use ptx_interpreter::{Argument, Launch, Memory};

#[test]
fn switches() {
    let a: Vec<i32> = special_integers(300, 4).into_iter().map(|x| x as i32 >> 1).collect();
    let bits: Vec<u32> = a.iter().map(|x| *x as u32).collect();
    let setup = |m: &mut Memory| {
        vec![
            Argument::U32(300),
            Argument::Pointer(m.alloc_u32(&bits)),
            Argument::Pointer(m.alloc(2400)),
        ]
    };
    run(("control", "switches"), &Launch::linear(3, 128), setup, |m, args, report| {
        let out = m.read_u32(address(&args[2]), 600).unwrap();
        for (i, &x) in a.iter().enumerate() {
            let (value, mark) = match x & 15 {
                0 => (x.wrapping_mul(3), 0),
                1 => (x.wrapping_sub(17), 0),
                2 => (x ^ 0x55, 1),
                3 | 4 => (x % 9 + 2, 0),
                5 => (x.count_ones() as i32, 0),
                6 => (x.wrapping_neg(), 2),
                7 => (x << 3, 0),
                8 => (x >> 2, 3),
                9 => (x & 0xff0, 0),
                11 => (x.leading_zeros() as i32, 0),
                13 => (x.wrapping_mul(x), 4),
                _ => (x.wrapping_add(1000), 0),
            };
            assert_eq!((out[i] as i32, out[300 + i]), (value, mark), "{x:#x}");
        }
        assert!(report.count("bra").warps > 0, "{:?}", report.opcodes);
    });
}

#[test]
fn calls() {
    let x = Random(9).floats(50, -3.0, 3.0);
    let setup = |m: &mut Memory| {
        vec![Argument::U32(50), Argument::Pointer(m.alloc_f32(&x)), Argument::Pointer(m.alloc(200))]
    };
    run(("control", "calls"), &Launch::linear(1, 64), setup, |m, args, report| {
        let out = m.read_f32(address(&args[2]), 50).unwrap();
        for (i, &x) in x.iter().enumerate() {
            let square_sum = |a: f32, b: f32| a.mul_add(a, b * b);
            let k = if i & 1 == 1 { 3 } else { i as i32 };
            let mut a = square_sum(x, k as f32);
            let (b, c) = (i as i32 + k, 0.5 * f64::from(k));
            if b % 3 == 0 {
                a = square_sum(a, 1.0);
            }
            let want = a + b as f32 + c as f32;
            assert!((out[i] - want).abs() <= want.abs() * 1e-6, "{i}: {} {want}", out[i]);
        }
        assert!(report.count("call").threads >= 100, "{:?}", report.opcodes);
    });
}

#[test]
fn collatz() {
    let a: Vec<u32> = (1..=200).collect();
    let setup = |m: &mut Memory| {
        vec![
            Argument::U32(200),
            Argument::Pointer(m.alloc_u32(&a)),
            Argument::Pointer(m.alloc(800)),
        ]
    };
    run(("control", "collatz"), &Launch::linear(2, 128), setup, |m, args, _| {
        let out = m.read_u32(address(&args[2]), 200).unwrap();
        for (i, &start) in a.iter().enumerate() {
            let (mut x, mut steps) = (start, 0);
            while x != 1 {
                x = if x % 2 == 1 { 3 * x + 1 } else { x / 2 };
                steps += 1;
            }
            assert_eq!(out[i], steps);
        }
    });
}

#[test]
fn nested_loops() {
    let mut random = Random(5);
    let a: Vec<i32> = (0..150).map(|_| random.next() as i32 % 100).collect();
    let bits: Vec<u32> = a.iter().map(|x| *x as u32).collect();
    let setup = |m: &mut Memory| {
        vec![
            Argument::U32(150),
            Argument::Pointer(m.alloc_u32(&bits)),
            Argument::Pointer(m.alloc(600)),
        ]
    };
    run(("control", "nested"), &Launch::linear(2, 96), setup, |m, args, _| {
        let out = m.read_u32(address(&args[2]), 150).unwrap();
        for i in 0..150 {
            let mut total = 0i32;
            for j in 0..i % 7 {
                for k in j..10 {
                    if a[(i + k) % 150] < 0 {
                        continue;
                    }
                    if a[(i + k) % 150] > 90 {
                        break;
                    }
                    total += a[(i + j) % 150] * k as i32;
                }
                if total > 5000 {
                    break;
                }
            }
            assert_eq!(out[i] as i32, total, "{i}");
        }
    });
}

#[test]
fn dense_switch() {
    let x: Vec<u32> = (0..64).map(|i| (i * 7 % 13) as u32).collect();
    let setup =
        |m: &mut Memory| vec![Argument::Pointer(m.alloc_u32(&x)), Argument::Pointer(m.alloc(512))];
    run(("control", "dense_switch"), &Launch::linear(1, 64), setup, |m, args, _| {
        let table = [
            [5, 1],
            [11, 0],
            [20, 2],
            [31, 0],
            [44, 4],
            [0, 5],
            [7, 0],
            [70, 71],
            [0, 80],
            [1000, 0],
        ];
        let want: Vec<u32> =
            x.iter().flat_map(|v| table.get(*v as usize).copied().unwrap_or([0, 0])).collect();
        assert_eq!(m.read_u32(address(&args[1]), 128).unwrap(), want);
    });
}
