//! Kernels with shared memory and atomics.

use crate::common::{address, close, run, Random};
use ptx_interpreter::{Argument, Launch, Memory};

#[test]
fn block_sum() {
    let x = Random(1).floats(3000, -1.0, 1.0);
    let setup = |m: &mut Memory| {
        vec![
            Argument::U32(3000),
            Argument::Pointer(m.alloc_f32(&x)),
            Argument::Pointer(m.alloc(16)),
        ]
    };
    run(("shared", "block_sum"), &Launch::linear(4, 256), setup, |m, a, report| {
        let out = m.read_f32(address(&a[2]), 4).unwrap();
        for (block, got) in out.iter().enumerate() {
            let want: f64 =
                (0..3000).filter(|i| i / 256 % 4 == block).map(|i| f64::from(x[i])).sum();
            close(f64::from(*got), want, 1e-5, "sum");
        }
        assert_eq!(
            report.count("bar.sync").threads + report.count("barrier.sync").threads,
            4 * 256 * 9
        );
    });
}

#[test]
fn shuffle_sum() {
    let x: Vec<f32> = (0..1000).map(|i| (i % 17) as f32 - 8.0).collect();
    let setup = |m: &mut Memory| {
        vec![Argument::U32(1000), Argument::Pointer(m.alloc_f32(&x)), Argument::Pointer(m.alloc(4))]
    };
    run(("shared", "shuffle_sum"), &Launch::linear(4, 256), setup, |m, a, report| {
        assert_eq!(m.read_f32(address(&a[2]), 1).unwrap(), [x.iter().sum::<f32>()]);
        assert_eq!(report.count("shfl.sync.bfly").threads, 1024 * 5);
        assert_eq!(report.count("shfl.sync.down").threads, 4 * 32 * 5);
    });
}

#[test]
fn scan() {
    let x: Vec<u32> = (0..200).map(|i| (i * 37 % 101) as u32).collect();
    let setup = |m: &mut Memory| {
        vec![
            Argument::U32(200),
            Argument::Pointer(m.alloc_u32(&x)),
            Argument::Pointer(m.alloc(800)),
        ]
    };
    run(("shared", "scan"), &Launch::linear(1, 256).with_shared(2048), setup, |m, a, _| {
        let want: Vec<u32> = (0..200).map(|i| x[..=i].iter().sum()).collect();
        assert_eq!(m.read_u32(address(&a[2]), 200).unwrap(), want);
    });
}

#[test]
fn matmul() {
    let (m, n, k) = (37, 50, 41);
    let (a, b) = (Random(1).floats(m * k, -1.0, 1.0), Random(2).floats(k * n, -1.0, 1.0));
    let setup = |memory: &mut Memory| {
        let mut all: Vec<Argument> = [m, n, k].map(|size| Argument::I32(size as i32)).to_vec();
        all.push(Argument::Pointer(memory.alloc_f32(&a)));
        all.push(Argument::Pointer(memory.alloc_f32(&b)));
        all.push(Argument::Pointer(memory.alloc(m * n * 4)));
        all
    };
    run(("shared", "matmul"), &Launch::new([4, 3, 1], [16, 16, 1]), setup, |memory, args, _| {
        let out = memory.read_f32(address(&args[5]), m * n).unwrap();
        for i in 0..m {
            for j in 0..n {
                let want: f64 =
                    (0..k).map(|l| f64::from(a[i * k + l]) * f64::from(b[l * n + j])).sum();
                close(f64::from(out[i * n + j]), want, 1e-5, "element");
            }
        }
    });
}

#[test]
fn transpose() {
    let (rows, columns) = (45, 70);
    let x: Vec<f64> = (0..rows * columns).map(|i| i as f64 * 0.5).collect();
    let bytes: Vec<u8> = x.iter().flat_map(|v| v.to_le_bytes()).collect();
    let setup = |m: &mut Memory| {
        let (from, to) = (m.alloc_bytes(&bytes), m.alloc(bytes.len()));
        vec![
            Argument::I32(rows as i32),
            Argument::I32(columns as i32),
            Argument::Pointer(from),
            Argument::Pointer(to),
        ]
    };
    run(("shared", "transpose"), &Launch::new([3, 2, 1], [32, 8, 1]), setup, |m, a, _| {
        let out = m.read(address(&a[3]), bytes.len()).unwrap();
        let out: Vec<f64> =
            out.chunks_exact(8).map(|c| f64::from_le_bytes(c.try_into().unwrap())).collect();
        for r in 0..rows {
            for c in 0..columns {
                assert_eq!(out[c * rows + r], x[r * columns + c]);
            }
        }
    });
}

#[test]
fn histogram() {
    let mut random = Random(8);
    let x: Vec<u8> = (0..2000).map(|_| (random.next() % 40) as u8 * 5).collect();
    let setup = |m: &mut Memory| {
        vec![
            Argument::U32(2000),
            Argument::Pointer(m.alloc_bytes(&x)),
            Argument::Pointer(m.alloc(256)),
        ]
    };
    run(("shared", "histogram"), &Launch::linear(3, 128), setup, |m, a, _| {
        let mut want = vec![0; 64];
        x.iter().for_each(|v| want[(v & 63) as usize] += 1);
        assert_eq!(m.read_u32(address(&a[2]), 64).unwrap(), want);
    });
}

#[test]
fn softmax() {
    let (rows, columns) = (3, 300);
    let x = Random(6).floats(rows * columns, -8.0, 8.0);
    let setup = |m: &mut Memory| {
        vec![
            Argument::I32(columns as i32),
            Argument::Pointer(m.alloc_f32(&x)),
            Argument::Pointer(m.alloc(rows * columns * 4)),
        ]
    };
    run(("shared", "softmax"), &Launch::linear(rows as u32, 128), setup, |m, a, _| {
        let out = m.read_f32(address(&a[2]), rows * columns).unwrap();
        for (row, got) in x.chunks(columns).zip(out.chunks(columns)) {
            let sum: f64 = row.iter().map(|v| f64::from(*v).exp()).sum();
            for (x, y) in row.iter().zip(got) {
                let want = f64::from(*x).exp() / sum;
                assert!((f64::from(*y) - want).abs() <= 1e-5 * want, "{y} {want}");
            }
        }
    });
}

#[test]
fn barrier_votes() {
    let x: Vec<u32> = (0..100).map(|i| i % 50 + 1).collect();
    let setup =
        |m: &mut Memory| vec![Argument::Pointer(m.alloc_u32(&x)), Argument::Pointer(m.alloc(400))];
    run(("shared", "barrier_votes"), &Launch::linear(1, 100), setup, |m, a, _| {
        let count = x.iter().filter(|v| **v > 10).count() as u32;
        assert_eq!(m.read_u32(address(&a[1]), 100).unwrap(), vec![count * 100 + 10; 100]);
    });
}

#[test]
fn atomics() {
    let mut random = Random(4);
    let x: Vec<i32> = (0..300).map(|_| random.next() as i32 % 1000).collect();
    let bits: Vec<u32> = x.iter().map(|v| *v as u32).collect();
    let setup = |m: &mut Memory| {
        let (x, s) = (m.alloc_u32(&bits), m.alloc_u32(&[0, 0, 50, 0]));
        let u = m.alloc_u32(&[u32::MAX, 0, 0, 0, 0, 0, 1]);
        let (f, w) = (m.alloc(4), m.alloc(8));
        [x, s, u, f, w].into_iter().fold(vec![Argument::U32(300)], |mut all, p| {
            all.push(Argument::Pointer(p));
            all
        })
    };
    run(("shared", "atomics"), &Launch::linear(3, 128), setup, |m, a, _| {
        let s = m.read_u32(address(&a[2]), 4).unwrap();
        let u = m.read_u32(address(&a[3]), 7).unwrap();
        let sum: i32 = x.iter().sum();
        let (min, max) = (*x.iter().min().unwrap(), *x.iter().max().unwrap());
        assert_eq!(
            s.iter().map(|v| *v as i32).collect::<Vec<_>>(),
            [min.min(0), max.max(0), 50 - sum, 77]
        );
        let set = x.iter().fold(0, |all, v| all | 1 << (v & 31));
        let xor = bits.iter().fold(0, |all, v| all ^ v);
        // `inc` wraps after 12, and `dec` wraps to 9.
        let product = (0..300).fold(1u32, |v, _| v.wrapping_mul(3).wrapping_add(1));
        assert_eq!(u, [!set, set, xor, 300 % 13, 0, 0, product]);
        assert_eq!(m.read_f32(address(&a[4]), 1).unwrap(), [75.0]);
        let wide = m.read(address(&a[5]), 8).unwrap();
        let want = x.iter().fold(0u64, |all, v| all.wrapping_add((i64::from(*v) as u64) << 20));
        assert_eq!(u64::from_le_bytes(wide.try_into().unwrap()), want);
    });
}
