//! Matrix products of tensor cores.

use crate::common::{address, run, Random};
use ptx_interpreter::{Argument, Launch, Memory};

/// Small integers are exact in all formats, so fragments can be compared exactly.
fn integers(count: usize, seed: u64) -> Vec<f64> {
    let mut random = Random(seed);
    (0..count).map(|_| f64::from(random.next() as i32 % 9)).collect()
}

fn half(value: f64) -> u16 {
    ::half::f16::from_f64(value).to_bits()
}

fn bf16(value: f64) -> u16 {
    ::half::bf16::from_f64(value).to_bits()
}

/// The product of row-major A (m by k) and row-major B (k by n).
fn product(a: &[f64], b: &[f64], [m, n, k]: [usize; 3]) -> Vec<f64> {
    let element = |i: usize| (0..k).map(|l| a[i / n * k + l] * b[l * n + i % n]).sum();
    (0..m * n).map(element).collect()
}

fn transpose(x: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    (0..rows * columns).map(|i| x[i % rows * columns + i / rows]).collect()
}

fn arguments(m: &mut Memory, a: &[u8], b: &[u8], out: usize) -> Vec<Argument> {
    [m.alloc_bytes(a), m.alloc_bytes(b), m.alloc(out)].into_iter().map(Argument::Pointer).collect()
}

fn bytes16(x: &[f64], f: fn(f64) -> u16) -> Vec<u8> {
    x.iter().flat_map(|v| f(*v).to_le_bytes()).collect()
}

fn floats(x: &[f64]) -> Vec<f32> {
    x.iter().map(|v| *v as f32).collect()
}

/// The value of a fragment element of C that starts at `first + i` for element i of each lane.
fn with_start(x: &[f64], first: f64) -> Vec<f64> {
    x.iter().enumerate().map(|(at, v)| v + first + (at / 8 / 8 * 2 + at % 2) as f64).collect()
}

#[test]
fn f16_with_copies_and_ldmatrix() {
    let k = 64;
    let (a, b) = (integers(16 * k, 1), integers(k * 8, 2));
    let setup = |m: &mut Memory| {
        let mut all = vec![Argument::I32(k as i32)];
        all.extend(arguments(m, &bytes16(&a, half), &bytes16(&transpose(&b, k, 8), half), 512));
        all
    };
    run(("tensor", "mma_f16"), &Launch::linear(1, 32), setup, |m, args, report| {
        let got = m.read_f32(address(&args[3]), 128).unwrap();
        assert_eq!(got, floats(&product(&a, &b, [16, 8, k])));
        assert_eq!(report.count("mma.sync.m16n8k16").threads, 4 * 32);
        assert_eq!(report.count("ldmatrix.x4").threads, 4 * 32);
        assert_eq!(report.count("cp.async.cg").threads, 4 * 48);
    });
}

#[test]
fn bf16_with_transposed_ldmatrix() {
    let (a, b) = (integers(256, 3), integers(128, 4));
    let setup = |m: &mut Memory| arguments(m, &bytes16(&a, bf16), &bytes16(&b, bf16), 512);
    run(("tensor", "mma_bf16"), &Launch::linear(1, 32), setup, |m, args, _| {
        let got = m.read_f32(address(&args[2]), 128).unwrap();
        assert_eq!(got, floats(&with_start(&product(&a, &b, [16, 8, 16]), 1.0)));
    });
}

#[test]
fn tf32() {
    let (a, b) = (integers(128, 5), integers(64, 6));
    // Mantissa bits below the tenth are rounded away.
    let fine: Vec<f64> = a.iter().map(|v| v * (1.0 + f64::from(f32::EPSILON) * 4.0)).collect();
    let bytes = |x: &[f64]| x.iter().flat_map(|v| (*v as f32).to_le_bytes()).collect::<Vec<u8>>();
    let setup = |m: &mut Memory| arguments(m, &bytes(&fine), &bytes(&b), 512);
    run(("tensor", "mma_tf32"), &Launch::linear(1, 32), setup, |m, args, _| {
        assert_eq!(
            m.read_f32(address(&args[2]), 128).unwrap(),
            floats(&product(&a, &b, [16, 8, 8]))
        );
    });
}

#[test]
fn s8() {
    let mut random = Random(7);
    let mut next =
        |count: usize| (0..count).map(|_| f64::from(random.next() as i8)).collect::<Vec<f64>>();
    let (a, b) = (next(16 * 32), next(32 * 8));
    let bytes = |x: &[f64]| x.iter().map(|v| *v as i8 as u8).collect::<Vec<u8>>();
    let setup = |m: &mut Memory| arguments(m, &bytes(&a), &bytes(&transpose(&b, 32, 8)), 512);
    run(("tensor", "mma_s8"), &Launch::linear(1, 32), setup, |m, args, _| {
        let got: Vec<f64> = m
            .read_u32(address(&args[2]), 128)
            .unwrap()
            .iter()
            .map(|v| f64::from(*v as i32))
            .collect();
        assert_eq!(got, with_start(&product(&a, &b, [16, 8, 32]), 7.0));
    });
}

#[test]
fn f16_accumulators() {
    let (a, b) = (integers(128, 8), integers(64, 9));
    let setup = |m: &mut Memory| {
        arguments(m, &bytes16(&a, half), &bytes16(&transpose(&b, 8, 8), half), 256)
    };
    run(("tensor", "mma_f16_k8"), &Launch::linear(1, 32), setup, |m, args, _| {
        let want: Vec<u16> = product(&a, &b, [16, 8, 8]).into_iter().map(half).collect();
        assert_eq!(m.read_u16(address(&args[2]), 128).unwrap(), want);
    });
}

#[test]
fn f64_product() {
    let (a, b) = (integers(32, 10), integers(32, 11));
    let bytes = |x: &[f64]| x.iter().flat_map(|v| v.to_le_bytes()).collect::<Vec<u8>>();
    let setup = |m: &mut Memory| arguments(m, &bytes(&a), &bytes(&b), 512);
    run(("tensor", "mma_f64"), &Launch::linear(1, 32), setup, |m, args, _| {
        let got = m.read(address(&args[2]), 512).unwrap();
        let got: Vec<f64> =
            got.chunks_exact(8).map(|c| f64::from_le_bytes(c.try_into().unwrap())).collect();
        let want: Vec<f64> = product(&a, &b, [8, 8, 4]);
        let want: Vec<f64> =
            want.iter().enumerate().map(|(i, v)| v + if i % 2 == 0 { 0.5 } else { -0.5 }).collect();
        assert_eq!(got, want);
    });
}

/// A pipeline of copies over several warps and blocks.
#[test]
fn pipelined_product() {
    let (m, n, k) = (128, 64, 80);
    let (a, b) = (integers(m * k, 12), integers(k * n, 13));
    let setup = |memory: &mut Memory| {
        let mut all = vec![Argument::I32(n as i32), Argument::I32(k as i32)];
        all.extend(arguments(memory, &bytes16(&a, half), &bytes16(&b, half), m * n * 4));
        all
    };
    run(
        ("tensor", "hgemm"),
        &Launch::new([1, 2, 1], [128, 1, 1]),
        setup,
        |memory, args, report| {
            let got = memory.read_f32(address(&args[4]), m * n).unwrap();
            assert_eq!(got, floats(&product(&a, &b, [m, n, k])));
            assert_eq!(report.count("mma.sync").threads, 2 * 128 * 8 * 5);
        },
    );
}

/// Weakening a wait or removing a barrier of the pipeline is found.
#[test]
fn broken_pipelines_are_found() {
    use crate::common::golden;
    use ptx_interpreter::{ErrorKind, Module};
    let text = golden("tensor", 80);
    let start = text.find(".entry hgemm").expect("the kernel");
    let kernel = &text[start..];
    let weaker = kernel.replacen("cp.async.wait_group 1;", "cp.async.wait_group 2;", 1);
    let barrier = ["bar.sync \t0;", "barrier.sync \t0;"]
        .into_iter()
        .find(|b| kernel.contains(b))
        .expect("a barrier");
    for broken in
        [weaker, kernel.replacen(barrier, "", 1), kernel.replacen(barrier, "bar.warp.sync -1;", 1)]
    {
        assert_ne!(broken, kernel);
        let module = Module::parse(&format!("{}{broken}", &text[..start]))
            .unwrap_or_else(|error| panic!("{error}"));
        let mut memory = Memory::new();
        let data = vec![0; 128 * 128 * 2];
        let mut args = vec![Argument::I32(64), Argument::I32(80)];
        args.extend(arguments(&mut memory, &data, &data, 64 * 64 * 4));
        let error = module
            .run("hgemm", &Launch::linear(1, 128), &mut memory, &args)
            .expect_err("a broken pipeline");
        assert!(matches!(error.kind, ErrorKind::Race | ErrorKind::Uninitialized), "{error}");
    }
}
