//! Tests attention on tensor cores: the interpreter's results are compared with a softmax in `f64`.

use crate::tensor_cores::{assembled, halves, tool, Random, CONFIG, LIMITS};
use ptx_interpreter::{Argument, ErrorKind, Launch, Memory, Module, Report};
use warpweft::kernel::{
    Atom, Attention, Builder, Index, Inst, Kernel, KernelConfig, Operand, Store,
};
use warpweft_native::cuda::ptx;
use warpweft_native::cuda::tensor_cores::{is_used, options, source};
use warpweft_native::dtype::DType;

#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    kv_heads: usize,
    repeat: usize,
    queries: usize,
    keys: usize,
    size: usize,
    value_size: usize,
    causal: bool,
    window: Option<usize>,
    has_mask: bool,
    /// The keys that count. Later ones are NaN.
    length: usize,
    /// Unused elements between the lines of keys and values.
    gap: usize,
}

const CASE: Case = Case {
    batch: 1,
    kv_heads: 1,
    repeat: 1,
    queries: 70,
    keys: 80,
    size: 64,
    value_size: 64,
    causal: false,
    window: None,
    has_mask: false,
    length: 80,
    gap: 0,
};

/// An operand with row-major lines of `pitch` elements. A stride of an axis with one element does not matter.
fn operand(input: u32, dtype: DType, strides: [usize; 4]) -> Operand {
    let terms = strides.iter().enumerate().filter(|(_, stride)| **stride != 0);
    let terms = terms.map(|(d, &stride)| (Atom::Coord(d as u32), stride as i64)).collect();
    let mut builder = Builder::default();
    let index = Index { offset: 0, terms };
    let value = builder.push(Inst::Load { input, index, dtype });
    Operand { program: builder.finish(), value }
}

fn number(dtype: DType, value: f64) -> Operand {
    let mut builder = Builder::default();
    let value = builder.number(dtype, value);
    Operand { program: builder.finish(), value }
}

fn strides(heads: usize, lines: usize, pitch: usize) -> [usize; 4] {
    [heads * lines * pitch, lines * pitch, pitch, 1]
}

fn scale(case: &Case) -> f64 {
    f64::from(1.0 / (case.size as f32).sqrt())
}

fn kernel(case: &Case) -> Kernel {
    let Case { batch, kv_heads, repeat, queries, keys, size, value_size, gap, .. } = *case;
    let heads = kv_heads * repeat;
    let mut epilogue = Builder::default();
    let value = epilogue.push(Inst::Accumulator);
    let terms = strides(heads, queries, value_size).into_iter().enumerate();
    let terms = terms.map(|(d, stride)| (Atom::Coord(d as u32), stride as i64)).collect();
    let index = Index { offset: 0, terms };
    epilogue.store(Store { output: 0, index, value, dtype: DType::F32 });
    Kernel::Attention(Box::new(Attention {
        causal: case.causal,
        window: case.window,
        batch,
        heads,
        kv_heads,
        queries,
        keys,
        head_size: size,
        value_size,
        q: operand(0, DType::F16, strides(heads, queries, size)),
        k: operand(1, DType::F16, strides(kv_heads, keys, size + gap)),
        v: operand(2, DType::F16, strides(kv_heads, keys, value_size + gap)),
        mask: case.has_mask.then(|| operand(3, DType::F32, [0, 0, keys, 1])),
        scale: number(DType::F32, scale(case)),
        length: (case.length < keys).then(|| number(DType::I32, case.length as f64)),
        epilogue: epilogue.finish(),
    }))
}

struct Data {
    q: Vec<f64>,
    k: Vec<f64>,
    v: Vec<f64>,
    mask: Vec<f32>,
}

impl Data {
    fn new(case: &Case) -> Data {
        let Case { batch, kv_heads, repeat, queries, keys, size, value_size, .. } = *case;
        let mut random = Random((queries * 100 + keys) as u64);
        let mut numbers = |count: usize| (0..count).map(|_| random.next()).collect::<Vec<f64>>();
        let q = numbers(batch * kv_heads * repeat * queries * size);
        let (mut k, mut v) = (
            numbers(batch * kv_heads * keys * size),
            numbers(batch * kv_heads * keys * value_size),
        );
        for (all, size) in [(&mut k, size), (&mut v, value_size)] {
            for (i, x) in all.iter_mut().enumerate() {
                *x = if i / size % keys >= case.length { f64::NAN } else { *x };
            }
        }
        let mask = numbers(if case.has_mask { queries * keys } else { 0 });
        // The first query sees no key.
        let hide = |(i, x): (usize, f64)| match i < keys || x > 0.8 {
            true => f32::NEG_INFINITY,
            false => x as f32,
        };
        Data { q, k, v, mask: mask.into_iter().enumerate().map(hide).collect() }
    }

    fn expected(&self, case: &Case) -> Vec<f64> {
        let Case { batch, kv_heads, repeat, queries, keys, size, value_size, .. } = *case;
        let mut results = Vec::new();
        for row in 0..batch * kv_heads * repeat * queries {
            let (query, head) = (row % queries, row / queries / repeat);
            let position = (query + case.length) as i64 - queries as i64;
            let mut weights = vec![0.0f64; keys];
            for (key, weight) in weights.iter_mut().enumerate().take(case.length) {
                let away = position - key as i64;
                let window = case.window.map_or(i64::MAX, |window| window as i64);
                let is_hidden = case.causal && away < 0 || away.abs() >= window;
                let dot: f64 = (0..size)
                    .map(|d| self.q[row * size + d] * self.k[(head * keys + key) * size + d])
                    .sum();
                let mask = self.mask.get(query * keys + key).map_or(0.0, |x| f64::from(*x));
                *weight = if is_hidden { 0.0 } else { (dot * scale(case) + mask).exp() };
            }
            let total: f64 = weights.iter().sum();
            for d in 0..value_size {
                let sum: f64 = (0..case.length)
                    .map(|key| weights[key] * self.v[(head * keys + key) * value_size + d])
                    .sum();
                results.push(if total == 0.0 { 0.0 } else { sum / total });
            }
        }
        results
    }
}

/// Returns the lines with `gap` NaN after each.
fn spread(numbers: &[f64], size: usize, gap: usize) -> Vec<u8> {
    let lines = numbers.chunks(size).map(|line| [line, &vec![f64::NAN; gap]].concat());
    halves(&lines.collect::<Vec<_>>().concat())
}

fn translated(case: &Case, sm: u32) -> (ptx::Kernel, u32) {
    let source = source(&kernel(case), &LIMITS, CONFIG);
    assert!(is_used(&source), "{case:?}");
    let translated = ptx::translate_entry(&source.text, "main", &options(&source, sm));
    let kernel = translated.unwrap_or_else(|error| panic!("{case:?}: {error}\n{}", source.text));
    (kernel, source.workgroups as u32)
}

fn run(
    case: &Case,
    (kernel, workgroups): &(ptx::Kernel, u32),
    data: &Data,
) -> Result<(Vec<f32>, Report), ptx_interpreter::Error> {
    let module = Module::parse(&kernel.ptx).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = Memory::new();
    let mut buffers = vec![memory.alloc_u32(&[0, 0xff80_0000, 0x7f80_0000, 0x7fc0_0000])];
    let mut sizes = vec![16];
    let mask: Vec<u8> = data.mask.iter().flat_map(|x| x.to_le_bytes()).collect();
    let (k, v) = (spread(&data.k, case.size, case.gap), spread(&data.v, case.value_size, case.gap));
    for mut bytes in [halves(&data.q), k, v, mask] {
        if bytes.is_empty() {
            continue;
        }
        bytes.resize(bytes.len().next_multiple_of(16), 0xff);
        sizes.push(bytes.len());
        buffers.push(memory.alloc_bytes(&bytes));
    }
    let results = data.q.len() / case.size * case.value_size;
    sizes.push(4 * results);
    let out = memory.alloc(4 * results);
    buffers.push(out);
    let mut arguments = Vec::new();
    for binding in &kernel.bindings {
        arguments.push(Argument::Pointer(buffers[binding.binding as usize]));
        arguments.push(Argument::U64(sizes[binding.binding as usize] as u64));
    }
    let launch = Launch::new([*workgroups, 1, 1], kernel.workgroup_size);
    let report = module.run(&kernel.symbol, &launch, &mut memory, &arguments)?;
    Ok((memory.read_f32(out, results)?, report))
}

fn check(case: &Case) -> Report {
    let data = Data::new(case);
    let (got, report) =
        run(case, &translated(case, 80), &data).unwrap_or_else(|e| panic!("{case:?}: {e}"));
    for (i, (got, want)) in got.iter().zip(data.expected(case)).enumerate() {
        // Rounding the weights to `f16` would have an error of 1e-4.
        assert!((f64::from(*got) - want).abs() <= 2e-6, "{case:?}: {i} must be {want}, got {got}");
    }
    report
}

#[test]
fn sizes_of_heads() {
    for (size, value_size) in
        [(64, 64), (128, 128), (8, 8), (40, 24), (33, 65), (100, 32), (128, 7)]
    {
        for gap in [0, 1] {
            let report = check(&Case { size, value_size, gap, ..CASE });
            let copies = report.count("cp.async.shared").threads;
            let is_copied = (size + gap) % 2 == 0 || (value_size + gap) % 2 == 0;
            assert_eq!(copies > 0, is_copied, "{size} {value_size} {gap}");
            assert!(report.count("mma.sync").threads > 0);
        }
    }
}

#[test]
fn keys_that_queries_do_not_see() {
    for (causal, window) in [(true, None), (false, Some(20)), (true, Some(9)), (true, Some(500))] {
        for (has_mask, length) in [(false, 80), (true, 80), (false, 71), (true, 3)] {
            check(&Case { causal, window, has_mask, length, size: 32, value_size: 32, ..CASE });
        }
    }
    for (queries, keys) in [(5, 1), (17, 64), (64, 65), (65, 129), (7, 300)] {
        for causal in [false, true] {
            check(&Case { queries, keys, length: keys, causal, ..CASE });
        }
    }
}

#[test]
fn batches_and_shared_heads() {
    for (batch, kv_heads, repeat) in [(2, 3, 1), (1, 2, 4), (2, 1, 3)] {
        for causal in [false, true] {
            let case = Case { batch, kv_heads, repeat, queries: 21, causal, ..CASE };
            check(&Case { size: 16, value_size: 16, ..case });
        }
    }
}

/// Many weights that are too small for `f16` count, too.
#[test]
fn small_weights() {
    let case = Case { queries: 5, keys: 1500, length: 1500, has_mask: true, size: 8, ..CASE };
    let case = Case { value_size: 8, ..case };
    let mut data = Data::new(&case);
    data.q.fill(0.0);
    for (i, mask) in data.mask.iter_mut().enumerate() {
        *mask = if i % case.keys == 0 { 0.0 } else { -17.5 };
    }
    data.v.iter_mut().for_each(|x| *x = x.abs());
    let (got, _) = run(&case, &translated(&case, 80), &data).unwrap_or_else(|e| panic!("{e}"));
    for (got, want) in got.iter().zip(data.expected(&case)) {
        assert!((f64::from(*got) - want).abs() <= 5e-6, "must be {want}, got {got}");
    }
}

/// NaN in values reaches the queries that see it.
#[test]
fn nan() {
    let case = Case { queries: 20, keys: 20, length: 20, causal: true, ..CASE };
    let mut data = Data::new(&case);
    data.v[10 * case.value_size + 3] = f64::NAN;
    let (got, _) = run(&case, &translated(&case, 80), &data).unwrap_or_else(|e| panic!("{e}"));
    for (i, got) in got.iter().enumerate() {
        let (query, d) = (i / case.value_size, i % case.value_size);
        assert!(got.is_nan() || d != 3 || query < 10, "query {query}, {d}: {got}");
        assert!(!got.is_nan() || d == 3, "query {query}, {d}: {got}");
    }
}

/// Attention of few queries, of large heads, or without the option is not on tensor cores.
#[test]
fn other_attention_stays_as_it_is() {
    let not = |case: &Case, config| {
        let source = source(&kernel(case), &LIMITS, config);
        assert!(!is_used(&source) && !source.text.contains("ptx_"), "{case:?}");
    };
    not(&Case { queries: 4, ..CASE }, CONFIG);
    not(&Case { size: 129, ..CASE }, CONFIG);
    not(&CASE, KernelConfig::GPU);
}

#[test]
fn planted_faults_are_found() {
    // The third tile is the last one. It is in the memory through which results leave.
    let case = Case { keys: 180, length: 180, ..CASE };
    let (kernel, workgroups) = translated(&case, 80);
    let (wait, barrier) = ("cp.async.wait_group 0;", "bar.sync 0;");
    assert_eq!(kernel.ptx.matches(wait).count(), 1);
    for (part, instead, nth) in [
        (wait, "cp.async.wait_group 1;", 0),
        (wait, "", 0),
        (barrier, "", 0),
        (barrier, "", 1),
        (barrier, "", 2),
    ] {
        let at = kernel.ptx.match_indices(part).nth(nth).expect("the instruction").0;
        let ptx = [&kernel.ptx[..at], instead, &kernel.ptx[at + part.len()..]].concat();
        let broken = (ptx::Kernel { ptx, ..kernel.clone() }, workgroups);
        let error = run(&case, &broken, &Data::new(&case)).expect_err(part);
        let is_found = matches!(error.kind, ErrorKind::Race | ErrorKind::Uninitialized);
        assert!(is_found, "{part} {nth}: {error}");
    }
}

/// NVIDIA's assembler accepts attention, and its machine code has the instructions of tensor cores.
#[test]
fn machine_code_has_tensor_cores() {
    let (Some(ptxas), Some(nvdisasm)) = (tool("ptxas"), tool("nvdisasm")) else { return };
    for (i, size) in [32, 64, 128].into_iter().enumerate() {
        for causal in [false, true] {
            let sm = [80, 90, 100, 120][(i + 2 * usize::from(causal)) % 4];
            let (queries, keys) = (1024, 1024);
            let case = Case { queries, keys, length: keys, size, value_size: size, causal, ..CASE };
            let code = assembled(&ptxas, &nvdisasm, &translated(&case, sm).0.ptx, sm);
            let tile = if size == 128 { 32 } else { 64 };
            // Weights are multiplied twice.
            let products = tile / 8 * size / 16 + 2 * (size / 8) * (tile / 16);
            let used = code.lines().find(|line| line.contains("Used")).unwrap_or_default();
            println!("{size} {causal} sm_{sm}: {used}");
            assert_eq!(code.matches("HMMA.16816.F32").count(), products, "{case:?}, sm_{sm}");
            for name in ["LDSM.16.M88", "LDSM.16.MT88", "LDGSTS"] {
                assert!(code.contains(name), "{case:?}, sm_{sm}: {name}");
            }
        }
    }
}
