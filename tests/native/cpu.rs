//! Tests the CPU backend with hand-written kernels, compared with plain loops in `f64`.

mod formulas;
mod order;
mod packed;
mod routines;
mod rows;

use half::f16;
use std::sync::Arc;
use warpweft::backend::cpu::CpuBackend;
use warpweft::backend::{Backend, BufferId};
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::expr::{Binary, Unary};
use warpweft::kernel::{
    Atom, Attention, Builder, Convolution, Dispatch, Index, Inst, Kernel, Matmul, Operand, Plan,
    Program, Slot, SlotStorage, Space, Store, ValueId,
};
use warpweft::op::{Conv2d, Reduction};

/// An instruction, and its expected function.
type Pair<T> = (fn(ValueId) -> Inst, fn(T) -> T);

/// Returns a batch of one kernel.
fn batch_of(kernel: Kernel, inputs: &[usize], outputs: &[usize], scalars: usize) -> Arc<Plan> {
    let slot =
        |place, words: usize| Slot { storage: place, bytes: words as u64 * 4, dtype: DType::F32 };
    let ins = inputs.iter().enumerate().map(|(i, &words)| slot(SlotStorage::Input(i), words));
    let outs = outputs.iter().enumerate().map(|(i, &words)| slot(SlotStorage::Output(i), words));
    Arc::new(Plan {
        slots: ins.chain(outs).collect(),
        dispatches: vec![Dispatch {
            kernel: Arc::new(kernel),
            inputs: (0..inputs.len()).collect(),
            outputs: (inputs.len()..inputs.len() + outputs.len()).collect(),
            params: (0..scalars).collect(),
            label: "test".to_string(),
        }],
        outputs: outputs.iter().map(|&words| words as u64 * 4).collect(),
        inputs: inputs.len(),
        scalars,
        ..Plan::default()
    })
}

fn words_of(data: &[f32]) -> Vec<u32> {
    data.iter().map(|x| x.to_bits()).collect()
}

fn floats_of(words: &[u32]) -> Vec<f32> {
    words.iter().map(|&x| f32::from_bits(x)).collect()
}

fn upload(backend: &CpuBackend, words: &[u32]) -> BufferId {
    let id = backend.allocate((words.len() as u64 * 4).max(4)).unwrap();
    let bytes: Vec<u8> = words.iter().flat_map(|w| w.to_le_bytes()).collect();
    backend.write(id, 0, &bytes).unwrap();
    id
}

fn download(backend: &CpuBackend, id: BufferId, words: usize) -> Vec<u32> {
    let bytes = pollster::block_on(backend.read(id, 0, words as u64 * 4)).unwrap();
    bytes.chunks_exact(4).map(|b| u32::from_le_bytes([b[0], b[1], b[2], b[3]])).collect()
}

fn try_run(
    backend: &CpuBackend,
    kernel: Kernel,
    inputs: &[&[u32]],
    outputs: &[usize],
    scalars: &[u32],
) -> Result<Vec<Vec<u32>>> {
    let sizes: Vec<usize> = inputs.iter().map(|i| i.len()).collect();
    let batch = batch_of(kernel, &sizes, outputs, scalars.len());
    let mut ids: Vec<BufferId> = inputs.iter().map(|words| upload(backend, words)).collect();
    // The previous contents of an output must not matter.
    ids.extend(outputs.iter().map(|&words| upload(backend, &vec![0x7fc0_dead; words.max(1)])));
    backend.run(&batch, &ids, scalars)?;
    let results = outputs.iter().zip(&ids[inputs.len()..]);
    let results = results.map(|(&words, &id)| download(backend, id, words)).collect();
    ids.iter().for_each(|&id| backend.free(id));
    backend.release(&batch);
    Ok(results)
}

/// Returns the first output of a kernel. Checks that threads and repetition do not change it.
fn run_words(kernel: Kernel, inputs: &[&[u32]], words: usize) -> Vec<u32> {
    let run = |backend: &CpuBackend| {
        try_run(backend, kernel.clone(), inputs, &[words], &[]).unwrap().remove(0)
    };
    let (shared, one, three) =
        (CpuBackend::new(), CpuBackend::with_threads(1), CpuBackend::with_threads(3));
    let result = run(&shared);
    assert!(result == run(&shared), "two runs differ");
    assert!(result == run(&one), "one thread gives other bits");
    assert!(result == run(&three), "three threads give other bits");
    result
}

fn run(kernel: Kernel, inputs: &[&[f32]], count: usize) -> Vec<f32> {
    let inputs: Vec<Vec<u32>> = inputs.iter().map(|i| words_of(i)).collect();
    let inputs: Vec<&[u32]> = inputs.iter().map(|i| &i[..]).collect();
    floats_of(&run_words(kernel, &inputs, count))
}

/// Returns pseudorandom numbers in -1..1, the same in every run.
fn noise(count: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(2654435761).wrapping_add(12345);
    let next = |_| {
        state = state.wrapping_mul(1664525).wrapping_add(1013904223);
        (state >> 8) as f32 / (1 << 23) as f32 - 1.0
    };
    (0..count).map(next).collect()
}

#[track_caller]
fn close(found: &[f32], wanted: &[f64], tolerance: f64) {
    assert_eq!(found.len(), wanted.len());
    for (i, (&x, &y)) in found.iter().zip(wanted).enumerate() {
        let same = f64::from(x) == y || x.is_nan() && y.is_nan();
        let near = (f64::from(x) - y).abs() <= tolerance * (1.0 + y.abs());
        assert!(same || near, "element {i} of {}: {x} is not {y}", found.len());
    }
}

fn index(offset: i64, strides: &[i64]) -> Index {
    let terms = strides.iter().enumerate().filter(|s| *s.1 != 0);
    Index { offset, terms: terms.map(|(d, &s)| (Atom::Coord(d as u32), s)).collect() }
}

fn row_major(dims: &[usize]) -> Vec<i64> {
    let mut strides = vec![1i64; dims.len()];
    for d in (1..dims.len()).rev() {
        strides[d - 1] = strides[d] * dims[d] as i64;
    }
    strides
}

fn load(b: &mut Builder, input: u32, offset: i64, strides: &[i64]) -> ValueId {
    b.push(Inst::Load { input, index: index(offset, strides), dtype: DType::F32 })
}

fn put(b: &mut Builder, output: u32, strides: &[i64], value: ValueId) {
    let dtype = b.dtype(value);
    b.store(Store { output, index: index(0, strides), value, dtype });
}

fn kernel(dims: &[usize], outer: usize, b: Builder) -> Kernel {
    Kernel::Loop { space: Space { dims: dims.to_vec(), outer }, program: b.finish() }
}

/// Calls `f` with the coordinates of each point.
fn each(dims: &[usize], mut f: impl FnMut(&[usize])) {
    let count: usize = dims.iter().product();
    for number in 0..count {
        let (mut at, mut rest) = (vec![0; dims.len()], number);
        for d in (0..dims.len()).rev() {
            at[d] = rest % dims[d];
            rest /= dims[d];
        }
        f(&at);
    }
}

fn dot(at: &[usize], strides: &[i64]) -> usize {
    at.iter().zip(strides).map(|(&a, &s)| a as i64 * s).sum::<i64>() as usize
}

#[test]
fn what_a_failed_batch_wrote_over_is_not_read() {
    let mut b = Builder::default();
    let before = b.push(Inst::LoadOutput { output: 0, dtype: DType::F32 });
    let twice = b.push(Inst::Binary(Binary::Add, before, before));
    b.store(Store { output: 0, index: index(0, &[1]), value: twice, dtype: DType::F32 });
    let kernel = Kernel::Loop { space: Space { dims: vec![4], outer: 1 }, program: b.finish() };
    // The second kernel of this batch reads an output that it also has as an input.
    let mut batch = Plan::clone(&batch_of(kernel, &[4], &[4], 0));
    (batch.dispatches[0].inputs, batch.dispatches[0].outputs) = (vec![], vec![0]);
    let wrong = Dispatch { inputs: vec![1], outputs: vec![1], ..batch.dispatches[0].clone() };
    let right = Arc::new(batch.clone());
    batch.dispatches.push(wrong);
    let (backend, words) = (CpuBackend::new(), words_of(&[1.0, 2.0, 3.0, 4.0]));
    let ids = [upload(&backend, &words), upload(&backend, &words)];
    backend.run(&right, &ids, &[]).expect("it runs");
    assert_eq!(floats_of(&download(&backend, ids[0], 4)), [2.0, 4.0, 6.0, 8.0]);
    let failed = backend.run(&Arc::new(batch), &ids, &[]).expect_err("it fails");
    let read = pollster::block_on(backend.read(ids[0], 0, 16)).expect_err("it was overwritten");
    let again = backend.run(&right, &ids, &[]).expect_err("it was overwritten");
    assert_eq!([read.message(), again.message()], [failed.message(); 2]);
    backend.write(ids[0], 0, bytemuck::cast_slice(&words)).expect("written");
    backend.run(&right, &ids, &[]).expect("it runs");
    assert_eq!(floats_of(&download(&backend, ids[0], 4)), [2.0, 4.0, 6.0, 8.0]);
}

#[test]
fn what_lies_in_two_outputs_changes_places() {
    // Large enough to be split between threads. The transposed operand is read in square tiles.
    let (rows, columns) = (300, 700);
    for dtype in [DType::F32, DType::F16] {
        let mut b = Builder::default();
        let strides = row_major(&[rows, columns]);
        let x = b.push(Inst::Load { input: 0, index: index(0, &[1, rows as i64]), dtype });
        let [before, other] = [0, 1].map(|output| b.push(Inst::LoadOutput { output, dtype }));
        let sum = b.push(Inst::Binary(Binary::Add, x, other));
        b.store(Store { output: 0, index: index(0, &strides), value: sum, dtype });
        b.store(Store { output: 1, index: index(0, &strides), value: before, dtype });
        let space = Space { dims: vec![rows, columns], outer: 2 };
        let kernel = Kernel::Loop { space, program: b.finish() };
        let count = rows * columns;
        // Whole numbers that `f16` also represents.
        let number = |n: usize, by: usize| f16::from_f32((n % by) as f32);
        let words = |by: usize| -> Vec<u32> {
            match dtype {
                DType::F16 => (0..count / 2)
                    .map(|n| [2 * n, 2 * n + 1].map(|n| u32::from(number(n, by).to_bits())))
                    .map(|[low, high]| low | high << 16)
                    .collect(),
                _ => (0..count).map(|n| number(n, by).to_f32().to_bits()).collect(),
            }
        };
        let numbers = |words: Vec<u32>| -> Vec<f32> {
            let halves = |word: u32| [word as u16, (word >> 16) as u16];
            let half = |bits: u16| f16::from_bits(bits).to_f32();
            match dtype {
                DType::F16 => words.into_iter().flat_map(halves).map(half).collect(),
                _ => floats_of(&words),
            }
        };
        let size = count * dtype.size() / 4;
        let batch = batch_of(kernel, &[size], &[size, size], 0);
        for threads in [1, 3] {
            let backend = CpuBackend::with_threads(threads);
            let ids = [7, 11, 13].map(|by| upload(&backend, &words(by)));
            backend.run(&batch, &ids, &[]).expect("it runs");
            let got = [1, 2].map(|n| numbers(download(&backend, ids[n], size)));
            for (n, pair) in got[0].iter().zip(&got[1]).enumerate() {
                let transposed = n % columns * rows + n / columns;
                let sum = number(transposed, 7).to_f32() + number(n, 13).to_f32();
                assert_eq!(pair, (&sum, &number(n, 11).to_f32()), "{dtype} at {n}");
            }
        }
    }
}

#[test]
fn maps_of_every_size() {
    for n in [0, 1, 31, 32, 33, 1023, 1024, 1025, 100_003] {
        let (x, y) = (noise(n, 1), noise(n, 2));
        let mut b = Builder::default();
        let (u, v) = (load(&mut b, 0, 0, &[1]), load(&mut b, 1, 0, &[1]));
        let sum = b.push(Inst::Binary(Binary::Add, u, v));
        let half = b.number(DType::F32, 0.5);
        let product = b.push(Inst::Binary(Binary::Mul, sum, half));
        put(&mut b, 0, &[1], product);
        let found = run(kernel(&[n], 1, b), &[&x, &y], n);
        let wanted: Vec<f64> =
            x.iter().zip(&y).map(|(&x, &y)| (f64::from(x) + f64::from(y)) / 2.0).collect();
        close(&found, &wanted, 1e-7);
    }
}

#[test]
fn maps_of_views() {
    // Broadcast over each axis, transposed, reversed, with a gap, and several splits into blocks.
    for dims in [[3, 5, 7], [40, 33, 17], [2, 3, 1500], [1500, 3, 2]] {
        let [a, c, e] = dims.map(|d| d as i64);
        let full = (a * c * e) as usize;
        let x = noise(full * 2, 3);
        let views: [(i64, [i64; 3]); 7] = [
            (0, [c * e, e, 1]),
            (1, [0, e, 1]),
            (0, [c * e, 0, 1]),
            (2, [e, 1, 0]),
            (0, [1, a, a * c]),
            (a * c * e - 1, [-c * e, -e, -1]),
            (3, [2, 0, 0]),
        ];
        for (offset, strides) in views {
            let mut b = Builder::default();
            let u = load(&mut b, 0, offset, &strides);
            let coordinate = b.push(Inst::Coord(1));
            let coordinate = b.push(Inst::Cast(DType::F32, coordinate));
            let sum = b.push(Inst::Binary(Binary::Add, u, coordinate));
            put(&mut b, 0, &row_major(&dims), sum);
            let found = run(kernel(&dims, 3, b), &[&x], full);
            let mut wanted = Vec::new();
            each(&dims, |at| {
                let position = (offset as usize).wrapping_add(dot(at, &strides));
                wanted.push(f64::from(x[position]) + at[1] as f64);
            });
            close(&found, &wanted, 1e-6);
        }
    }
}

#[test]
fn stores_of_every_kind() {
    let dims = [37, 53];
    let x = noise(37 * 53, 4);
    let pairs: [(i64, [i64; 2], usize); 3] =
        [(0, [1, 37], 37 * 53), (5, [60, 1], 37 * 60), (37 * 53 - 1, [-53, -1], 37 * 53)];
    for (offset, strides, size) in pairs {
        let mut b = Builder::default();
        let u = load(&mut b, 0, 0, &[53, 1]);
        let store = |dtype| Store { output: 0, index: index(offset, &strides), value: u, dtype };
        b.store(store(DType::F32));
        let program = b.finish();
        let space = Space { dims: dims.to_vec(), outer: 2 };
        let kernel = Kernel::Loop { space: space.clone(), program: program.clone() };
        let mut wanted = vec![0x7fc0_deadu32; size];
        each(&dims, |at| {
            let position = (offset as usize).wrapping_add(dot(at, &strides));
            wanted[position] = x[at[0] * 53 + at[1]].to_bits();
        });
        assert_eq!(run_words(kernel, &[&words_of(&x)], size), wanted);
        // The same in `f16`.
        let mut program = program;
        program.stores[0].dtype = DType::F16;
        let found = run_words(Kernel::Loop { space, program }, &[&words_of(&x)], size.div_ceil(2));
        let found: &[u16] = bytemuck::cast_slice(&found);
        each(&dims, |at| {
            let position = (offset as usize).wrapping_add(dot(at, &strides));
            assert_eq!(found[position], f16::from_f32(x[at[0] * 53 + at[1]]).to_bits());
        });
    }
}

#[test]
fn several_stores_in_one_output() {
    // The parts of a concatenation: columns next to each other in every row, or one part after the other. With the second
    // extents, tasks end inside a row. With `f16`, the last parts share words.
    for (dims, dtype) in [
        ([37, 53], DType::F32),
        ([4000, 128], DType::F32),
        ([5000, 100], DType::F32),
        ([5000, 101], DType::F16),
    ] {
        let (rows, columns) = (dims[0], dims[1]);
        let x = noise(rows * columns, 4);
        for beside in [true, false] {
            let (down, next) = match beside {
                true => (2 * columns, columns),
                false => (columns, rows * columns),
            };
            let mut b = Builder::default();
            let u = load(&mut b, 0, 0, &[columns as i64, 1]);
            let v = b.push(Inst::Unary(Unary::Neg, u));
            // Enough work for several tasks.
            let w = (0..20).fold(v, |w, _| b.push(Inst::Binary(Binary::Add, w, u)));
            for (offset, value) in [(0, w), (next, v)] {
                let index = index(offset as i64, &[down as i64, 1]);
                b.store(Store { output: 0, index, value, dtype });
            }
            let space = Space { dims: dims.to_vec(), outer: 2 };
            let kernel = Kernel::Loop { space, program: b.finish() };
            let words = (2 * rows * columns * dtype.size()).div_ceil(4);
            let found = run_words(kernel, &[&words_of(&x)], words);
            let halves: &[u16] = bytemuck::cast_slice(&found);
            each(&dims, |at| {
                let x = x[at[0] * columns + at[1]];
                let sum = (0..20).fold(-x, |w, _| w + x);
                for (offset, wanted) in [(0, sum), (next, -x)] {
                    let place = offset + at[0] * down + at[1];
                    match dtype {
                        DType::F16 => assert_eq!(halves[place], f16::from_f32(wanted).to_bits()),
                        _ => assert_eq!(f32::from_bits(found[place]), wanted),
                    }
                }
            });
        }
    }
}

#[test]
fn several_outputs_and_params() {
    let n = 5000;
    let x = noise(n, 5);
    let mut b = Builder::default();
    let u = load(&mut b, 0, 0, &[1]);
    let p = b.push(Inst::Param { word: 1, dtype: DType::F32 });
    let scaled = b.push(Inst::Binary(Binary::Mul, u, p));
    let positive = {
        let zero = b.number(DType::F32, 0.0);
        b.push(Inst::Binary(Binary::Lt, zero, u))
    };
    let chosen = b.push(Inst::Select(positive, scaled, u));
    put(&mut b, 1, &[1], chosen);
    put(&mut b, 0, &[1], positive);
    let backend = CpuBackend::new();
    let params = [7u32, 3.0f32.to_bits()];
    let found = try_run(&backend, kernel(&[n], 1, b), &[&words_of(&x)], &[n, n], &params).unwrap();
    for (i, &x) in x.iter().enumerate() {
        assert_eq!(found[0][i], u32::from(x > 0.0));
        assert_eq!(f32::from_bits(found[1][i]), if x > 0.0 { 3.0 * x } else { x });
    }
}

/// Runs one binary instruction on words.
fn binary(op: Binary, dtype: DType, x: &[u32], y: &[u32]) -> Vec<u32> {
    let mut b = Builder::default();
    let u = b.push(Inst::Load { input: 0, index: index(0, &[1]), dtype });
    let v = b.push(Inst::Load { input: 1, index: index(0, &[1]), dtype });
    let z = b.push(Inst::Binary(op, u, v));
    put(&mut b, 0, &[1], z);
    run_words(kernel(&[x.len()], 1, b), &[x, y], x.len())
}

fn unary(inst: fn(ValueId) -> Inst, dtype: DType, x: &[u32]) -> Vec<u32> {
    let mut b = Builder::default();
    let u = b.push(Inst::Load { input: 0, index: index(0, &[1]), dtype });
    let z = b.push(inst(u));
    put(&mut b, 0, &[1], z);
    run_words(kernel(&[x.len()], 1, b), &[x], x.len())
}

#[test]
fn integers_wrap_and_divide_by_zero() {
    let x: Vec<u32> = [i32::MIN, i32::MIN, i32::MAX, -7, 7, -7, 1].map(|x| x as u32).to_vec();
    let y: Vec<u32> = [-1, 0, 2, 2, 0, -2, 33].map(|y| y as u32).to_vec();
    let signed =
        |op| binary(op, DType::I32, &x, &y).into_iter().map(|w| w as i32).collect::<Vec<_>>();
    assert_eq!(signed(Binary::Div), [i32::MIN, i32::MIN, i32::MAX / 2, -3, 7, 3, 0]);
    assert_eq!(signed(Binary::Rem), [0, 0, 1, -1, 0, -1, 1]);
    assert_eq!(signed(Binary::Mul)[..3], [i32::MIN, 0, -2]);
    assert_eq!(signed(Binary::Add)[..3], [i32::MAX, i32::MIN, i32::MIN + 1]);
    assert_eq!(signed(Binary::Sub)[2], i32::MAX - 2);
    assert_eq!(signed(Binary::Shl)[6], 2);
    assert_eq!(signed(Binary::Shr)[3], -2);
    let unsigned = |op| binary(op, DType::U32, &[5, 5, u32::MAX, 1 << 31], &[0, 3, 2, 32]);
    assert_eq!(unsigned(Binary::Div), [5, 1, u32::MAX / 2, 1 << 26]);
    assert_eq!(unsigned(Binary::Rem), [0, 2, 1, 0]);
    assert_eq!(unsigned(Binary::Mul)[2], u32::MAX - 1);
    assert_eq!(unsigned(Binary::Shr)[3], 1 << 31);
    assert_eq!(unsigned(Binary::Lt), [0, 0, 0, 0]);
    let not = |dtype, x: &[u32]| unary(|x| Inst::Unary(Unary::Not, x), dtype, x);
    assert_eq!(not(DType::Bool, &[0, 1]), [1, 0]);
    assert_eq!(not(DType::I32, &[0, 1]), [u32::MAX, u32::MAX - 1]);
    assert_eq!(unary(|x| Inst::Unary(Unary::Neg, x), DType::I32, &[1 << 31]), [1 << 31]);
    assert_eq!(
        unary(|x| Inst::Unary(Unary::Abs, x), DType::I32, &[1 << 31, -5i32 as u32]),
        [1 << 31, 5]
    );
}

#[test]
fn casts_and_floats_at_the_edges() {
    let x = [f32::NAN, f32::INFINITY, -1e20, 1.9, -1.9, 3e9, 0.0, -0.0, 5e-40];
    let words = words_of(&x);
    let to = |inst| unary(inst, DType::F32, &words);
    let signed = to(|x| Inst::Cast(DType::I32, x));
    assert_eq!(signed, x.map(|x| x as i32 as u32));
    assert_eq!(to(|x| Inst::Cast(DType::U32, x)), x.map(|x| x as u32));
    assert_eq!(to(|x| Inst::Cast(DType::Bool, x)), x.map(|x| u32::from(x != 0.0)));
    assert_eq!(to(|x| Inst::Unary(Unary::IsNan, x)), x.map(|x| u32::from(x.is_nan())));
    assert_eq!(to(|x| Inst::Unary(Unary::SignBit, x)), x.map(|x| u32::from(x.is_sign_negative())));
    let ints = unary(|x| Inst::Cast(DType::F32, x), DType::I32, &[u32::MAX, 7]);
    assert_eq!(floats_of(&ints), [-1.0, 7.0]);
    let bools = unary(|x| Inst::Cast(DType::Bool, x), DType::I32, &[u32::MAX, 0]);
    assert_eq!(bools, [1, 0]);
    for (op, right) in [(Binary::Max, 2.0f32), (Binary::Min, 1.0)] {
        let found = binary(
            op,
            DType::F32,
            &words_of(&[f32::NAN, 1.0, 1.0]),
            &words_of(&[1.0, f32::NAN, 2.0]),
        );
        let found = floats_of(&found);
        assert!(found[0].is_nan() && found[1].is_nan() && found[2] == right);
    }
}

#[test]
fn rounding_and_exp_hold_everywhere() {
    let mut x: Vec<f32> = (0..40_000).map(|i| (i - 20_000) as f32 * 0.0063).collect();
    x.extend([0.5, 1.5, 2.5, -0.5, -1.5, 8_388_607.5, 8_388_609.0, -8_388_607.5, 1e30, -1e30]);
    x.extend([0.0, -0.0, 0.49999997, -0.49999997, f32::INFINITY, f32::NEG_INFINITY, f32::NAN]);
    x.extend([88.72283, 88.8, -87.4, -100.0, -103.9, -104.5, 1e-40]);
    let pairs: [Pair<f32>; 4] = [
        (|x| Inst::Unary(Unary::Round, x), f32::round_ties_even),
        (|x| Inst::Unary(Unary::Floor, x), f32::floor),
        (|x| Inst::Unary(Unary::Ceil, x), f32::ceil),
        (|x| Inst::Unary(Unary::Trunc, x), f32::trunc),
    ];
    for (inst, right) in pairs {
        let found = floats_of(&unary(inst, DType::F32, &words_of(&x)));
        for (&x, found) in x.iter().zip(found) {
            let right = right(x);
            assert!(
                found.to_bits() == right.to_bits() || x.is_nan(),
                "{x}: {found} is not {right}"
            );
        }
    }
    x.extend((0..2000).map(|i| (i as f32 * 0.04 - 40.0).exp2()));
    x.extend((1..300).map(|i| 1.0 + i as f32 * 1e-6));
    x.extend([f32::MIN_POSITIVE, 1e-38, 1e-44, f32::MAX, -1.0]);
    let pairs: [Pair<f64>; 4] = [
        (|x| Inst::Unary(Unary::Exp, x), f64::exp),
        (|x| Inst::Unary(Unary::Exp2, x), f64::exp2),
        (|x| Inst::Unary(Unary::Log, x), f64::ln),
        (|x| Inst::Unary(Unary::Log2, x), f64::log2),
    ];
    for (number, (inst, right)) in pairs.into_iter().enumerate() {
        let found = floats_of(&unary(inst, DType::F32, &words_of(&x)));
        let mut worst = 0f64;
        for (&x, found) in x.iter().zip(found) {
            let right = right(f64::from(x));
            let (rounded, wide) = (right as f32, f64::from(found));
            if !rounded.is_normal() {
                let near = (wide - right).abs() <= 2e-45;
                assert!(
                    found == rounded || found.is_nan() && right.is_nan() || near,
                    "{x}: {found}"
                );
            } else {
                worst = worst.max((wide - right).abs() / right.abs());
            }
        }
        println!("{number}: largest relative error {worst:.2e}");
        assert!(worst < 2e-7, "{number}: {worst}");
    }
    let powers: Vec<f32> = (-149..128).map(|n| (n as f64).exp2() as f32).collect();
    let found = unary(|x| Inst::Unary(Unary::Log2, x), DType::F32, &words_of(&powers));
    assert!(floats_of(&found).into_iter().eq((-149..128).map(|n| n as f32)));
}

#[test]
fn two_instructions_as_one() {
    // Each instruction of a fused pair rounds as it does alone. The bits must equal those of the unfused pair, also at edge
    // values.
    let edges = [0.0, -0.0, 1.0, -1.5, 1e-40, 3e38, f32::INFINITY, f32::NEG_INFINITY, f32::NAN];
    let (x, mut y, mut z) = (noise(729, 21), noise(729, 22), noise(729, 23));
    let mut x: Vec<f32> = x;
    for i in 0..729 {
        if i % 2 == 0 {
            (x[i], y[i], z[i]) = (edges[i % 9], edges[i / 9 % 9], edges[i / 81]);
        }
    }
    let arithmetic = |op: Binary, a: f32, b: f32| match op {
        Binary::Add => a + b,
        Binary::Sub => a - b,
        Binary::Mul => a * b,
        _ => a / b,
    };
    let same = |found: &[u32], i: usize, want: f32, what: &str| {
        let found = f32::from_bits(found[i]);
        let fine = found.to_bits() == want.to_bits() || found.is_nan() && want.is_nan();
        assert!(fine, "{what} of {}, {}, {}: {found} instead of {want}", x[i], y[i], z[i]);
    };
    let words = [words_of(&x), words_of(&y), words_of(&z)];
    let inputs: Vec<&[u32]> = words.iter().map(|w| &w[..]).collect();
    for inner in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div] {
        for outer in [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div] {
            for left in [false, true] {
                let mut b = Builder::default();
                let [u, v, w] = [0, 1, 2].map(|input| load(&mut b, input, 0, &[1]));
                let inside = b.push(Inst::Binary(inner, u, v));
                let (one, two) = if left { (inside, w) } else { (w, inside) };
                let both = b.push(Inst::Binary(outer, one, two));
                put(&mut b, 0, &[1], both);
                let found = run_words(kernel(&[729], 1, b), &inputs, 729);
                for i in 0..729 {
                    let inside = arithmetic(inner, x[i], y[i]);
                    let want = match left {
                        true => arithmetic(outer, inside, z[i]),
                        false => arithmetic(outer, z[i], inside),
                    };
                    same(&found, i, want, &format!("{outer:?} of {inner:?}, {left}"));
                }
            }
        }
    }
    for compare in [Binary::Lt, Binary::Le, Binary::Eq, Binary::Ne] {
        let mut b = Builder::default();
        let [u, v, w] = [0, 1, 2].map(|input| load(&mut b, input, 0, &[1]));
        let condition = b.push(Inst::Binary(compare, u, v));
        let chosen = b.push(Inst::Select(condition, w, u));
        put(&mut b, 0, &[1], chosen);
        let found = run_words(kernel(&[729], 1, b), &inputs, 729);
        for i in 0..729 {
            let holds = match compare {
                Binary::Lt => x[i] < y[i],
                Binary::Le => x[i] <= y[i],
                Binary::Eq => x[i] == y[i],
                _ => x[i] != y[i],
            };
            same(&found, i, if holds { z[i] } else { x[i] }, &format!("a choice by {compare:?}"));
        }
    }
}

#[test]
fn transpositions_in_squares() {
    // Extents that are and are not multiples of the square, and short ones, with a dimension before, between and without. Also
    // a coordinate and a transposed store.
    let short = [[1, 100, 8], [2, 64, 5], [3, 70, 33], [5, 1000, 4], [2, 37, 63]];
    let long = [[1, 64, 64], [1, 100, 131], [3, 96, 70], [2, 33, 1000], [1, 2000, 64]];
    for dims in [long, short].concat() {
        let [a, c, e] = dims.map(|d| d as i64);
        let count = (a * c * e) as usize;
        let x = noise(count, 15);
        for (strides, to) in [
            ([c * e, 1, c], row_major(&dims)),
            ([1, a * e, a], row_major(&dims)),
            ([c * e, 1, c], vec![c * e, 1, c]),
        ] {
            let mut b = Builder::default();
            let u = load(&mut b, 0, 0, &strides);
            let coordinate = b.push(Inst::Coord(2));
            let coordinate = b.push(Inst::Cast(DType::F32, coordinate));
            let sum = b.push(Inst::Binary(Binary::Add, u, coordinate));
            put(&mut b, 0, &to, sum);
            let found = run(kernel(&dims, 3, b), &[&x], count);
            let mut wanted = vec![0.0; count];
            each(&dims, |at| {
                wanted[dot(at, &to)] = f64::from(x[dot(at, &strides)]) + at[2] as f64;
            });
            close(&found, &wanted, 1e-6);
        }
    }
}

#[test]
fn gathers_scatters_and_masked_loads() {
    // Rows of a table by index. An index out of range gives any value, but must not crash.
    let (rows, width) = (300, 37);
    let table = noise(50 * width, 6);
    let ids: Vec<u32> =
        (0..rows as u32).map(|i| if i == 77 { u32::MAX } else { i * 7 % 50 }).collect();
    let mut b = Builder::default();
    let id = b.push(Inst::Load { input: 1, index: index(0, &[1, 0]), dtype: DType::I32 });
    let terms = vec![(Atom::Coord(1), 1), (Atom::Value(id), width as i64)];
    let x = b.push(Inst::Load { input: 0, index: Index { offset: 0, terms }, dtype: DType::F32 });
    put(&mut b, 0, &[width as i64, 1], x);
    let found = run_words(kernel(&[rows, width], 2, b), &[&words_of(&table), &ids], rows * width);
    for i in (0..rows).filter(|&i| i != 77) {
        let at = ids[i] as usize * width;
        assert_eq!(found[i * width..(i + 1) * width], words_of(&table[at..at + width]));
    }
    // A scatter: element i is stored at (i * 7) % n.
    let n = 1003u32;
    let mut b = Builder::default();
    let to = b.push(Inst::Load { input: 0, index: index(0, &[1]), dtype: DType::I32 });
    let value = b.push(Inst::Coord(0));
    let at = Index { offset: 0, terms: vec![(Atom::Value(to), 1)] };
    b.store(Store { output: 0, index: at, value, dtype: DType::I32 });
    let places: Vec<u32> = (0..n).map(|i| if i == 5 { 9999 } else { i * 7 % n }).collect();
    let found = run_words(kernel(&[n as usize], 1, b), &[&places], n as usize);
    for i in (0..n).filter(|&i| i != 5) {
        assert_eq!(found[(i * 7 % n) as usize], i);
    }
    // Padding: outside the input, the load is out of range, and the select hides its value.
    let x = noise(100, 7);
    let mut b = Builder::default();
    let c = b.push(Inst::Coord(0));
    let ten = b.number(DType::I32, 10.0);
    let inside = b.number(DType::I32, 110.0);
    let before = b.push(Inst::Binary(Binary::Lt, c, ten));
    let within = b.push(Inst::Binary(Binary::Lt, c, inside));
    let u = load(&mut b, 0, -10, &[1]);
    let zero = b.number(DType::F32, 0.0);
    let z = b.push(Inst::Select(within, u, zero));
    let z = b.push(Inst::Select(before, zero, z));
    put(&mut b, 0, &[1], z);
    let found = run(kernel(&[130], 1, b), &[&x], 130);
    let wanted: Vec<f64> =
        (0..130).map(|i| if (10..110).contains(&i) { f64::from(x[i - 10]) } else { 0.0 }).collect();
    close(&found, &wanted, 0.0);
}

#[test]
fn halves_load_exactly() {
    let words: Vec<u32> = (0..1 << 15).map(|i: u32| (i * 2) | ((i * 2 + 1) << 16)).collect();
    let mut b = Builder::default();
    let x = b.push(Inst::Load { input: 0, index: index(0, &[1]), dtype: DType::F16 });
    put(&mut b, 0, &[1], x);
    let found = run_words(kernel(&[1 << 16], 1, b), &[&words], 1 << 16);
    for (half, found) in found.into_iter().enumerate() {
        let want = f16::from_bits(half as u16).to_f32();
        let found = f32::from_bits(found);
        assert!(found.to_bits() == want.to_bits() || found.is_nan() && want.is_nan(), "{half}");
    }
}

/// Returns a softmax over the inner dimension. Input and output have the same `strides`.
fn softmax(dims: [usize; 2], strides: [i64; 2]) -> Kernel {
    let mut b = Builder::default();
    let x = load(&mut b, 0, 0, &strides);
    let maximum = b.push(Inst::Reduce(Reduction::Max, x));
    let less = b.push(Inst::Binary(Binary::Sub, x, maximum));
    let power = b.push(Inst::Unary(Unary::Exp, less));
    let sum = b.push(Inst::Reduce(Reduction::Sum, power));
    let share = b.push(Inst::Binary(Binary::Div, power, sum));
    put(&mut b, 0, &strides, share);
    kernel(&dims, 1, b)
}

#[test]
fn softmax_of_every_shape() {
    let shapes =
        [[1, 1], [7, 1], [1000, 10], [33, 257], [5, 5000], [3, 20_000], [1, 300_000], [2000, 64]];
    for [rows, columns] in shapes {
        let x: Vec<f32> = noise(rows * columns, 8).iter().map(|x| x * 20.0).collect();
        for strides in [[columns as i64, 1], [1, rows as i64]] {
            let found = run(softmax([rows, columns], strides), &[&x], rows * columns);
            let mut wanted = vec![0.0; rows * columns];
            for r in 0..rows {
                let at = |c: usize| dot(&[r, c], &strides);
                let max = (0..columns).map(|c| f64::from(x[at(c)])).fold(f64::MIN, f64::max);
                let sum: f64 = (0..columns).map(|c| (f64::from(x[at(c)]) - max).exp()).sum();
                for c in 0..columns {
                    wanted[at(c)] = (f64::from(x[at(c)]) - max).exp() / sum;
                }
            }
            close(&found, &wanted, 1e-6);
            let total: f64 = found.iter().map(|&x| f64::from(x)).sum();
            assert!((total - rows as f64).abs() < 1e-5 * rows as f64);
        }
    }
}
