//! Tests products on tensor cores: the interpreter's results are compared with sums in `f64`.

use half::f16;
use ptx_interpreter::{Argument, ErrorKind, Launch, Memory, Module, Report};
use std::io::{stderr, Write as _};
use std::path::{Path, PathBuf};
use std::process::Command;
use warpweft::expr::{Binary, Unary};
use warpweft::kernel::{
    Atom, Builder, F16Matmul, Index, Inst, Kernel, KernelConfig, Limits, Matmul, Operand, Program,
    Store, ValueId,
};
use warpweft_native::cuda::ptx;
use warpweft_native::cuda::tensor_cores::{is_used, options, source_with_tile};
use warpweft_native::dtype::DType;

pub const LIMITS: Limits = Limits {
    buffers_per_kernel: 32,
    workgroup_size: 1024,
    workgroup_bytes: 48 << 10,
    f16: true,
    subgroups: true,
    cooperative: true,
    ..Limits::WEBGPU
};
pub const CONFIG: KernelConfig =
    KernelConfig { f16_matmul: F16Matmul::CooperativeMatrices, ..KernelConfig::GPU };

/// The operations after a product.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Epilogue {
    /// The sums as `f32`.
    None,
    /// A bias for each column, and ReLU, stored as `f16`.
    BiasRelu,
    /// SiLU, and then the sum with another tensor.
    SiluResidual,
}

/// The left operand's numbers, as the kernel reads them.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Left {
    Stored,
    /// `f32` in memory, rounded to `f16` while they are read.
    Rounded,
}

/// A product of `batch` matrices.
#[derive(Clone, Copy, Debug)]
struct Case {
    batch: usize,
    m: usize,
    n: usize,
    k: usize,
    transposed: [bool; 2],
    /// Unused elements between the lines of operands, and before the first one.
    gap: usize,
    left: Left,
    epilogue: Epilogue,
    tile: usize,
}

const CASE: Case = Case {
    batch: 1,
    m: 64,
    n: 64,
    k: 64,
    transposed: [false; 2],
    gap: 0,
    left: Left::Stored,
    epilogue: Epilogue::None,
    tile: 64,
};

fn index(offset: usize, strides: &[usize]) -> Index {
    let terms = strides.iter().enumerate().filter(|(_, stride)| **stride != 0);
    let terms = terms.map(|(d, &stride)| (Atom::Coord(d as u32), stride as i64)).collect();
    Index { offset: offset as i64, terms }
}

/// The strides of an operand of `rows` x `columns`, and the elements of its buffer.
fn layout(case: &Case, side: usize) -> ([usize; 3], usize) {
    let (rows, columns) = if side == 0 { (case.m, case.k) } else { (case.k, case.n) };
    let (lines, length) = if case.transposed[side] { (columns, rows) } else { (rows, columns) };
    let pitch = length + case.gap;
    let strides = match case.transposed[side] {
        true => [lines * pitch, 1, pitch],
        false => [lines * pitch, pitch, 1],
    };
    (strides, case.gap + case.batch * lines * pitch)
}

fn operand(case: &Case, side: usize) -> Operand {
    let mut builder = Builder::default();
    let index = index(case.gap, &layout(case, side).0);
    let is_rounded = side == 0 && case.left == Left::Rounded;
    let dtype = if is_rounded { DType::F32 } else { DType::F16 };
    let mut value = builder.push(Inst::Load { input: side as u32, index, dtype });
    if is_rounded {
        value = builder.push(Inst::Cast(DType::F16, value));
    }
    Operand { program: builder.finish(), value }
}

fn epilogue(case: &Case) -> Program {
    let mut b = Builder::default();
    let at = index(0, &[case.m * case.n, case.n, 1]);
    let sum = b.push(Inst::Accumulator);
    let load = |index: Index| Inst::Load { input: 2, index, dtype: DType::F32 };
    let (value, dtype): (ValueId, DType) = match case.epilogue {
        Epilogue::None => (sum, DType::F32),
        Epilogue::BiasRelu => {
            let bias = b.push(load(index(0, &[0, 0, 1])));
            let (sum, zero) =
                (b.push(Inst::Binary(Binary::Add, sum, bias)), b.number(DType::F32, 0.0));
            (b.push(Inst::Binary(Binary::Max, sum, zero)), DType::F16)
        }
        Epilogue::SiluResidual => {
            let minus = b.push(Inst::Unary(Unary::Neg, sum));
            let (power, one) = (b.push(Inst::Unary(Unary::Exp, minus)), b.number(DType::F32, 1.0));
            let below = b.push(Inst::Binary(Binary::Add, one, power));
            let silu = b.push(Inst::Binary(Binary::Div, sum, below));
            let other = b.push(load(at.clone()));
            (b.push(Inst::Binary(Binary::Add, silu, other)), DType::F32)
        }
    };
    b.store(Store { output: 0, index: at, value, dtype });
    b.finish()
}

fn kernel(case: &Case) -> Kernel {
    let Case { batch, m, n, k, .. } = *case;
    let (a, b) = (operand(case, 0), operand(case, 1));
    Kernel::Matmul(Matmul { batch: vec![batch], m, n, k, a, b, epilogue: epilogue(case) })
}

/// Translates a product, and checks that it is on tensor cores. Returns the grid, too.
fn translated(case: &Case, sm: u32) -> (ptx::Kernel, u32) {
    translated_from(case, sm, |text| text)
}

fn translated_from(case: &Case, sm: u32, change: impl Fn(String) -> String) -> (ptx::Kernel, u32) {
    let mut source = source_with_tile(&kernel(case), &LIMITS, CONFIG, Some(case.tile));
    assert!(is_used(&source), "{case:?}");
    source.text = change(source.text);
    let translated = ptx::translate_entry(&source.text, "main", &options(&source, sm));
    let kernel = translated.unwrap_or_else(|error| panic!("{case:?}: {error}\n{}", source.text));
    (kernel, source.workgroups as u32)
}

/// Pseudorandom numbers in (-1, 1) that are exact as `f16`.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> f64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let fraction = (self.0 >> 40) as f64 / (1u64 << 23) as f64 - 1.0;
        f64::from(f16::from_f64(fraction))
    }
}

/// The operands of a case, by batch, row and column.
struct Data {
    a: Vec<f64>,
    b: Vec<f64>,
    extra: Vec<f32>,
}

impl Data {
    fn new(case: &Case) -> Data {
        let Case { batch, m, n, k, .. } = *case;
        let mut random = Random((m * 1000 + n * 100 + k) as u64);
        let mut numbers = |count| (0..count).map(|_| random.next()).collect::<Vec<f64>>();
        let (a, b) = (numbers(batch * m * k), numbers(batch * k * n));
        let extra = match case.epilogue {
            Epilogue::None => 0,
            Epilogue::BiasRelu => n,
            Epilogue::SiluResidual => batch * m * n,
        };
        Data { a, b, extra: numbers(extra).into_iter().map(|x| x as f32).collect() }
    }

    /// The buffer of an operand. Unused elements are NaN.
    fn buffer(&self, case: &Case, side: usize) -> Vec<f64> {
        let ([by_batch, by_row, by_column], size) = layout(case, side);
        let (all, rows, columns) =
            if side == 0 { (&self.a, case.m, case.k) } else { (&self.b, case.k, case.n) };
        let mut buffer = vec![f64::NAN; size];
        for (i, x) in all.iter().enumerate() {
            let (batch, row, column) = (i / (rows * columns), i / columns % rows, i % columns);
            buffer[case.gap + batch * by_batch + row * by_row + column * by_column] = *x;
        }
        buffer
    }

    /// The results and their tolerances.
    fn expected(&self, case: &Case) -> Vec<(f64, f64)> {
        let Case { batch, m, n, k, .. } = *case;
        let mut results = Vec::new();
        for i in 0..batch * m * n {
            let (of, row, column) = (i / (m * n), i / n % m, i % n);
            let (mut sum, mut size) = (0.0, 0.0);
            for l in 0..k {
                let product = self.a[(of * m + row) * k + l] * self.b[(of * k + l) * n + column];
                sum += product;
                size += product.abs();
            }
            // Each sum of 16 products is rounded.
            let error = size * (k as f64 + 4.0) * f64::from(f32::EPSILON) / 2.0;
            results.push(match case.epilogue {
                Epilogue::None => (sum, error),
                Epilogue::BiasRelu => {
                    let value = (sum + f64::from(self.extra[column])).max(0.0);
                    (value, error + value.abs() / 1024.0 + 1e-7)
                }
                Epilogue::SiluResidual => {
                    let value = sum / (1.0 + (-sum).exp()) + f64::from(self.extra[i]);
                    (value, 2.0 * error + 1e-5)
                }
            });
        }
        results
    }
}

pub fn halves(numbers: &[f64]) -> Vec<u8> {
    numbers.iter().flat_map(|x| f16::from_f64(*x).to_bits().to_le_bytes()).collect()
}

/// Runs a kernel, and returns its results.
fn run(
    case: &Case,
    (kernel, workgroups): &(ptx::Kernel, u32),
    data: &Data,
) -> Result<(Vec<f64>, Report), ptx_interpreter::Error> {
    let module = Module::parse(&kernel.ptx).unwrap_or_else(|error| panic!("{error}"));
    let mut memory = Memory::new();
    let floats = |numbers: &[f64]| numbers.iter().flat_map(|x| (*x as f32).to_le_bytes()).collect();
    let (a, b) = (data.buffer(case, 0), data.buffer(case, 1));
    let a: Vec<u8> = if case.left == Left::Rounded { floats(&a) } else { halves(&a) };
    let mut buffers = vec![memory.alloc_u32(&[0, 0xff80_0000, 0x7f80_0000, 0x7fc0_0000])];
    let mut sizes = vec![16];
    let extra: Vec<u8> = data.extra.iter().flat_map(|x| x.to_le_bytes()).collect();
    for mut bytes in [a, halves(&b), extra] {
        if bytes.is_empty() {
            continue;
        }
        // The backend's buffers are multiples of 16 bytes.
        bytes.resize(bytes.len().next_multiple_of(16), 0xff);
        sizes.push(bytes.len());
        buffers.push(memory.alloc_bytes(&bytes));
    }
    let results = case.batch * case.m * case.n;
    let width = if case.epilogue == Epilogue::BiasRelu { 2 } else { 4 };
    sizes.push((results * width).next_multiple_of(16));
    let out = memory.alloc(sizes[sizes.len() - 1]);
    buffers.push(out);
    let mut arguments = Vec::new();
    for binding in &kernel.bindings {
        let at = binding.binding as usize;
        arguments.push(Argument::Pointer(buffers[at]));
        arguments.push(Argument::U64(sizes[at] as u64));
    }
    let launch = Launch::new([*workgroups, 1, 1], kernel.workgroup_size);
    let report = module.run(&kernel.symbol, &launch, &mut memory, &arguments)?;
    let bytes = memory.read(out, results * width)?;
    let value = |bytes: &[u8]| match *bytes {
        [a, b] => f64::from(f16::from_le_bytes([a, b])),
        [a, b, c, d] => f64::from(f32::from_le_bytes([a, b, c, d])),
        _ => unreachable!("a number has 2 or 4 bytes"),
    };
    Ok((bytes.chunks_exact(width).map(value).collect(), report))
}

/// Compares the results of a case with the sums in `f64`.
fn check(case: &Case) -> Report {
    let data = Data::new(case);
    let kernel = translated(case, 80);
    let (got, report) =
        run(case, &kernel, &data).unwrap_or_else(|error| panic!("{case:?}: {error}"));
    for (i, (got, (want, error))) in got.iter().zip(data.expected(case)).enumerate() {
        assert!((got - want).abs() <= error, "{case:?}: result {i} must be {want}, got {got}");
    }
    report
}

const TRANSPOSED: [[bool; 2]; 4] = [[false, false], [false, true], [true, false], [true, true]];

/// Each kind of operand, with rows aligned to 16, 8, 4 and 2 bytes.
#[test]
fn operands_of_all_layouts() {
    for transposed in TRANSPOSED {
        for (gap, copy) in [(0, "16"), (4, "8"), (2, "4"), (1, "")] {
            for tile in [32, 64, 128] {
                let (m, n, k) = (tile + 8, tile + 16, 40);
                let case = Case { m, n, k, transposed, gap, tile, ..CASE };
                let report = check(&case);
                // Every warp multiplies all fragments, in two rounds for each of two steps.
                let tiles = (2 * 2 * tile * tile * 64 / (16 * 8 * 16)) as u64;
                assert_eq!(report.count("mma.sync.m16n8k16").warps, tiles, "{case:?}");
                assert_eq!(report.count("cp.async.cg").threads > 0, copy == "16");
                let copies = report.count("cp.async.shared").threads;
                assert_eq!(copies > 0, !copy.is_empty(), "{case:?}");
            }
        }
    }
}

#[test]
fn ragged_sizes_and_batches() {
    let sizes = [1, 7, 8, 15, 16, 17, 63, 64, 65, 127, 129, 200];
    let wide = [17, 63, 64, 65, 127, 129, 200];
    for (i, &m) in wide.iter().enumerate() {
        for (j, &k) in sizes.iter().enumerate() {
            let n = wide[(i + 3 * j) % wide.len()];
            let number = i * sizes.len() + j;
            let transposed = TRANSPOSED[(i + j) % 4];
            let epilogue = [Epilogue::None, Epilogue::BiasRelu, Epilogue::SiluResidual][number % 3];
            let tile = [32, 64, 64, 128][number / 2 % 4];
            // Products of at most 4096 terms are not on tensor cores.
            let least = 4096 / (m * n * k) + 1;
            let batch = least.max(if m * n < 8000 { 3 } else { 1 });
            let gap = [0, 8, 4, 1, 2][number % 5];
            check(&Case { batch, m, n, k, transposed, gap, epilogue, tile, ..CASE });
        }
    }
    // Two bands of tiles.
    check(&Case { m: 300, n: 100, k: 20, tile: 32, ..CASE });
    // Lines of whole vectors.
    for (m, n, k) in [(72, 80, 48), (129, 136, 8), (32, 48, 200)] {
        for transposed in TRANSPOSED {
            for epilogue in [Epilogue::BiasRelu, Epilogue::SiluResidual] {
                check(&Case { batch: 2, m, n, k, transposed, epilogue, ..CASE });
            }
        }
    }
}

/// Numbers of `f32` that are rounded while they are read cannot be copied. Threads load them.
#[test]
fn rounded_operands() {
    for transposed in TRANSPOSED {
        for gap in [0, 1] {
            let (m, n, k) = (65, 72, 44);
            let left = Left::Rounded;
            let report = check(&Case { m, n, k, transposed, gap, left, ..CASE });
            assert_eq!(report.count("cp.async.shared").threads > 0, gap == 0);
        }
    }
}

/// A product of `f32`, of few rows, or with few terms, is not on tensor cores.
#[test]
fn other_products_stay_as_they_are() {
    let not = |case: &Case, kernel: &Kernel, config| {
        let source = source_with_tile(kernel, &LIMITS, config, None);
        assert!(!is_used(&source) && !source.text.contains("ptx_"), "{case:?}");
    };
    for (m, n, k) in [(16, 64, 64), (64, 16, 64), (1, 1, 64), (64, 64, 1), (17, 17, 8)] {
        let case = Case { m, n, k, ..CASE };
        not(&case, &kernel(&case), CONFIG);
    }
    not(&CASE, &kernel(&CASE), KernelConfig::GPU);
    let Kernel::Matmul(mut product) = kernel(&CASE) else { unreachable!("it is a product") };
    for inst in &mut product.a.program.insts {
        if let Inst::Load { dtype, .. } = inst {
            *dtype = DType::F32;
        }
    }
    not(&CASE, &Kernel::Matmul(product), CONFIG);
}

/// Large products have large tiles.
#[test]
fn tiles_depend_on_the_size() {
    for (m, n, batch, tile) in
        [(40, 40, 1, 32), (512, 512, 1, 64), (2048, 1024, 1, 128), (128, 128, 200, 128)]
    {
        let case = Case { batch, m, n, ..CASE };
        let source = source_with_tile(&kernel(&case), &LIMITS, CONFIG, None);
        let tiles = batch * m.div_ceil(tile) * n.div_ceil(tile);
        assert_eq!(source.workgroups, tiles as u64, "{case:?}");
    }
}

/// Infinity and NaN reach the results that depend on them, and no others.
#[test]
fn infinity_and_nan() {
    let case = Case { m: 33, n: 34, k: 50, ..CASE };
    let mut data = Data::new(&case);
    let [infinite, nan] = [3, 20];
    data.a[infinite * case.k + 7] = f64::INFINITY;
    data.a[nan * case.k + 49] = f64::NAN;
    data.b[7 * case.n + 5] = 0.0;
    let (got, _) = run(&case, &translated(&case, 80), &data).unwrap_or_else(|e| panic!("{e}"));
    for (i, (got, (want, _))) in got.iter().zip(data.expected(&case)).enumerate() {
        let (row, column) = (i / case.n, i % case.n);
        let is_as_wanted = match row {
            _ if want.is_nan() => got.is_nan(),
            _ if want.is_infinite() => *got == want,
            _ => got.is_finite(),
        };
        assert!(is_as_wanted, "row {row}, column {column}: must be {want}, got {got}");
        assert_eq!(got.is_nan(), row == nan || (row, column) == (infinite, 5));
    }
}

/// A missing wait, a missing barrier and a wrong swizzle are found.
#[test]
fn planted_faults_are_found() {
    let case = Case { k: 200, ..CASE };
    let data = Data::new(&case);
    let (kernel, workgroups) = translated(&case, 80);
    let wait = "cp.async.wait_group 1;";
    assert_eq!(
        (kernel.ptx.matches(wait).count(), kernel.ptx.matches("bar.sync 0;").count()),
        (1, 2)
    );
    let faults = [(wait, "cp.async.wait_group 2;"), (wait, ""), ("bar.sync 0;", "")];
    let mut found = Vec::new();
    for (part, instead) in faults {
        let ptx = kernel.ptx.replacen(part, instead, 1);
        let error = run(&case, &(ptx::Kernel { ptx, ..kernel.clone() }, workgroups), &data);
        found.push(error.expect_err(instead).kind);
    }
    // The results leave through memory that other warps still read.
    let last = kernel.ptx.rfind("bar.sync 0;").expect("a barrier");
    let ptx = [&kernel.ptx[..last], &kernel.ptx[last + "bar.sync 0;".len()..]].concat();
    let error = run(&case, &(ptx::Kernel { ptx, ..kernel.clone() }, workgroups), &data);
    found.push(error.expect_err("no last barrier").kind);
    let is_found = |kind: &ErrorKind| matches!(kind, ErrorKind::Race | ErrorKind::Uninitialized);
    assert!(found.iter().all(is_found), "{found:?}");
    // Copies and reads use different positions of a chunk.
    let (right, wrong) = ("deep / 8u + lane / 16u, SHORT", "(deep / 8u + lane / 16u) ^ 1u, SHORT");
    let changed = translated_from(&case, 80, |text| text.replacen(right, wrong, 1));
    assert_ne!(changed.0.ptx, kernel.ptx);
    let got = run(&case, &changed, &data).expect("it runs").0;
    let is_wrong = |(got, (want, error)): (&f64, (f64, f64))| (got - want).abs() > error;
    assert!(got.iter().zip(data.expected(&case)).any(is_wrong));
}

/// Returns the path of one of NVIDIA's programs, or `None` if none is required.
pub fn tool(name: &str) -> Option<PathBuf> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../.tools").join(name);
    if path.exists() {
        return Some(path);
    }
    let required = std::env::var("WARPWEFT_REQUIRE").unwrap_or_default();
    let is_required = required.split(',').any(|one| one.trim() == "ptxas");
    assert!(!is_required, "WARPWEFT_REQUIRE names ptxas; `npm run setup` gets it and {name}");
    let _ = writeln!(
        stderr(),
        "kernels NOT ASSEMBLED, because there is no {name}; `npm run setup` gets it"
    );
    None
}

/// Assembles a kernel, and returns its machine code in text. Registers must not be spilled to memory.
pub fn assembled(ptxas: &Path, nvdisasm: &Path, ptx: &str, sm: u32) -> String {
    let folder = std::env::temp_dir().join(format!(
        "warpweft-cores-{}-{sm}-{}",
        std::process::id(),
        ptx.len()
    ));
    std::fs::create_dir_all(&folder).expect("a writable folder");
    let (text, binary) = (folder.join("kernel.ptx"), folder.join("kernel.cubin"));
    std::fs::write(&text, ptx).expect("a writable folder");
    let mut command = Command::new(ptxas);
    command.arg("-v").arg(format!("-arch=sm_{sm}")).arg("-o").arg(&binary).arg(&text);
    let output = command.output().expect("ptxas starts");
    let report = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "sm_{sm}: {report}\n{ptx}");
    assert!(report.contains(" 0 bytes spill stores"), "sm_{sm}: {report}");
    let output = Command::new(nvdisasm).arg("-c").arg(&binary).output().expect("nvdisasm starts");
    std::fs::remove_dir_all(&folder).expect("the folder is there");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    format!("{report}{}", String::from_utf8_lossy(&output.stdout))
}

/// NVIDIA's assembler accepts all variants, and their machine code has the instructions of tensor cores.
#[test]
fn machine_code_has_tensor_cores() {
    let (Some(ptxas), Some(nvdisasm)) = (tool("ptxas"), tool("nvdisasm")) else { return };
    let epilogues = [Epilogue::None, Epilogue::BiasRelu, Epilogue::SiluResidual];
    for (i, tile) in [32, 64, 128].into_iter().enumerate() {
        for (j, transposed) in TRANSPOSED.into_iter().enumerate() {
            let gap = [0, 4, 0, 1][(i + j) % 4];
            let (epilogue, sm) = (epilogues[(i + j) % 3], [80, 90, 100, 120][(i + 2 * j) % 4]);
            let (m, n, k) = (1024, 1024, 1024);
            let case = Case { m, n, k, transposed, gap, epilogue, tile, ..CASE };
            let code = assembled(&ptxas, &nvdisasm, &translated(&case, sm).0.ptx, sm);
            let used = code.lines().find(|line| line.contains("Used")).unwrap_or_default();
            println!("{tile} {transposed:?} {gap} {epilogue:?} sm_{sm}: {used}");
            let fragments = match tile {
                32 => 2,
                64 => 8,
                _ => 16,
            };
            let products = code.matches("HMMA.16816.F32").count();
            assert_eq!(products, 2 * fragments, "{case:?}, sm_{sm}");
            assert!(code.contains("LDSM.16.M"), "{case:?}, sm_{sm}");
            assert_eq!(code.contains("LDGSTS"), gap != 1, "{case:?}, sm_{sm}");
        }
    }
}
