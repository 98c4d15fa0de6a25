//! Sample kernels of every kind, for tests that print, compile or run kernels.

#[path = "routine_kernels.rs"]
mod routine_kernels;

use warpweft::codegen::{wgsl, Dialect, Source};
use warpweft::dtype::DType;
use warpweft::expr::{Binary, Unary};
use warpweft::kernel::{
    Atom, Builder, Convolution, Index, Inst, Kernel, KernelConfig, Limits, Matmul, Operand,
    Program, Rows, Space, Store, Tile, ValueId,
};
use warpweft::op::{Const, Conv2d, Reduction};
use warpweft::schedule::schedule;

const TYPES: [DType; 5] = [DType::F32, DType::F16, DType::I32, DType::U32, DType::Bool];
const COMPUTE: [DType; 4] = [DType::F32, DType::I32, DType::U32, DType::Bool];

/// Returns four configurations that together contain every kernel to choose from.
pub fn configs() -> [KernelConfig; 4] {
    let large = KernelConfig {
        rows: Rows::Subgroups,
        matmul_tiles: [Tile::Large; 3],
        conv_tiles: [Tile::Large; 3],
        ..KernelConfig::GPU
    };
    let middle = KernelConfig {
        matmul_tiles: [Tile::Medium; 3],
        conv_tiles: [Tile::Medium; 3],
        fuse_short_attention: false,
        fuse_long_attention: false,
        ..KernelConfig::GPU
    };
    [KernelConfig::GPU, KernelConfig::EMULATED, large, middle]
}

/// A device with all optional features of kernels. All other limits are the minimum of WebGPU.
pub const ABLE: Limits = Limits { f16: true, subgroups: true, cooperative: true, ..Limits::WEBGPU };

/// Returns the source of a kernel on [`ABLE`], for a compiler.
pub fn source(kernel: &Kernel, config: KernelConfig, dialect: Dialect) -> Source {
    wgsl(kernel, &schedule(kernel, &ABLE, config), dialect)
}

/// Returns all samples, by name.
pub fn samples() -> Vec<(String, Kernel)> {
    let mut all = Vec::new();
    unary(&mut all);
    binary(&mut all);
    casts(&mut all);
    constants(&mut all);
    maps(&mut all);
    turns(&mut all);
    reductions(&mut all);
    row_programs(&mut all);
    matmuls(&mut all);
    convolutions(&mut all);
    routine_kernels::attentions(&mut all);
    routine_kernels::packed_products(&mut all);
    all
}

/// A program under construction.
#[derive(Default)]
struct Draft {
    builder: Builder,
}

fn index(offset: i64, strides: &[i64]) -> Index {
    let terms = strides.iter().enumerate().filter(|(_, s)| **s != 0);
    Index { offset, terms: terms.map(|(d, &s)| (Atom::Coord(d as u32), s)).collect() }
}

/// Returns the row-major strides of a shape.
fn strides(dims: &[usize]) -> Vec<i64> {
    let mut strides = vec![1i64; dims.len()];
    for i in (1..dims.len()).rev() {
        strides[i - 1] = strides[i] * dims[i] as i64;
    }
    // The stride of an extent of 1 is 0.
    strides.iter().zip(dims).map(|(&s, &d)| if d == 1 { 0 } else { s }).collect()
}

impl Draft {
    fn load(&mut self, input: u32, dtype: DType, strides: &[i64]) -> ValueId {
        self.load_at(input, dtype, index(0, strides))
    }

    fn load_at(&mut self, input: u32, dtype: DType, index: Index) -> ValueId {
        self.builder.push(Inst::Load { input, index, dtype })
    }

    fn unary(&mut self, op: Unary, x: ValueId) -> ValueId {
        self.builder.push(Inst::Unary(op, x))
    }

    fn binary(&mut self, op: Binary, x: ValueId, y: ValueId) -> ValueId {
        self.builder.push(Inst::Binary(op, x, y))
    }

    fn reduce(&mut self, op: Reduction, x: ValueId) -> ValueId {
        self.builder.push(Inst::Reduce(op, x))
    }

    fn number(&mut self, value: f64) -> ValueId {
        self.builder.number(DType::F32, value)
    }

    fn store(&mut self, output: u32, dtype: DType, value: ValueId, strides: &[i64]) {
        let index = index(0, strides);
        self.builder.store(Store { output, index, value, dtype });
    }

    fn kernel(self, dims: &[usize], outer: usize) -> Kernel {
        let space = Space { dims: dims.to_vec(), outer };
        Kernel::Loop { space, program: self.builder.finish() }
    }
}

type All = Vec<(String, Kernel)>;

fn floats_only(op: Unary) -> bool {
    !matches!(op, Unary::Neg | Unary::Abs | Unary::Not)
}

/// Adds every unary primitive on every dtype that it takes, for one element and for four at a time.
fn unary(all: &mut All) {
    use Unary::*;
    let ops = [
        Neg,
        Abs,
        Floor,
        Ceil,
        Round,
        Trunc,
        Exp,
        Exp2,
        Log,
        Log2,
        Sqrt,
        InverseSqrt,
        Sin,
        Cos,
        Tan,
        Asin,
        Acos,
        Atan,
        Not,
        IsNan,
        IsInf,
        SignBit,
    ];
    for op in ops {
        for dtype in TYPES {
            let takes = match op {
                Not => !dtype.is_float(),
                Neg => dtype.is_float() || dtype == DType::I32,
                Abs => dtype != DType::Bool,
                _ => floats_only(op) && dtype.is_float(),
            };
            for count in [33, 64] {
                if takes {
                    let mut draft = Draft::default();
                    let x = draft.load(0, dtype, &[1]);
                    let y = draft.unary(op, x);
                    let result = draft.builder.dtype(y);
                    let result = if result == dtype.compute() { dtype } else { result };
                    draft.store(0, result, y, &[1]);
                    all.push((format!("unary {op:?} {dtype} {count}"), draft.kernel(&[count], 1)));
                }
            }
        }
    }
}

fn binary(all: &mut All) {
    use Binary::*;
    let ops =
        [Add, Sub, Mul, Div, Rem, Min, Max, Pow, Atan2, And, Or, Xor, Shl, Shr, Lt, Le, Eq, Ne];
    for op in ops {
        for dtype in TYPES {
            let takes = match op {
                Pow | Atan2 => dtype.is_float(),
                And | Or | Xor => !dtype.is_float(),
                Shl | Shr => dtype.is_int(),
                Lt | Le | Eq | Ne => true,
                _ => dtype != DType::Bool,
            };
            for count in [33, 64] {
                if takes {
                    let mut draft = Draft::default();
                    let x = draft.load(0, dtype, &[1]);
                    let y = draft.load(1, dtype, &[1]);
                    let x = if op == Pow { draft.unary(Abs_, x) } else { x };
                    let z = draft.binary(op, x, y);
                    let result = draft.builder.dtype(z);
                    let result = if result == DType::F32 { dtype } else { result };
                    draft.store(0, result, z, &[1]);
                    all.push((format!("binary {op:?} {dtype} {count}"), draft.kernel(&[count], 1)));
                }
            }
        }
    }
}

#[allow(non_upper_case_globals)]
const Abs_: Unary = Unary::Abs;

fn casts(all: &mut All) {
    for from in TYPES {
        for to in TYPES {
            for count in [33, 64] {
                let mut draft = Draft::default();
                let x = draft.load(0, from, &[1]);
                let y = draft.builder.push(Inst::Cast(to, x));
                draft.store(0, to, y, &[1]);
                all.push((format!("cast {from} {to} {count}"), draft.kernel(&[count], 1)));
            }
        }
    }
    let words = [DType::F32, DType::I32, DType::U32];
    for (from, to) in words.iter().flat_map(|&from| words.map(|to| (from, to))) {
        for count in [33, 64] {
            let mut draft = Draft::default();
            let x = draft.load(0, from, &[1]);
            let y = draft.builder.push(Inst::Bitcast(to, x));
            draft.store(0, to, y, &[1]);
            all.push((format!("bitcast {from} {to} {count}"), draft.kernel(&[count], 1)));
        }
    }
    for dtype in TYPES {
        let mut draft = Draft::default();
        let c = draft.load(0, DType::Bool, &[1]);
        let (a, b) = (draft.load(1, dtype, &[1]), draft.load(2, dtype, &[0]));
        let y = draft.builder.push(Inst::Select(c, a, b));
        draft.store(0, dtype, y, &[1]);
        all.push((format!("select {dtype}"), draft.kernel(&[64], 1)));
    }
}

/// Adds constants at the edges, stored as they are and combined with a loaded value. Also adds a kernel of constants only,
/// which a compiler may try to fold.
fn constants(all: &mut All) {
    let bits = [
        0x0000_0000,
        0x8000_0000,
        0x3f80_0000,
        0xbf80_0000,
        0x0000_0001,
        0x007f_ffff,
        0x0080_0000,
        0x7f7f_ffff,
        0xff7f_ffff,
        0x7f80_0000,
        0xff80_0000,
        0x7fc0_0000,
        0x3dcc_cccd,
        0x4b80_0001,
        0xffff_ffff,
        0x7fff_ffff,
        0x4049_0fdb,
    ];
    for dtype in COMPUTE {
        let mut draft = Draft::default();
        let x = draft.load(0, dtype, &[1]);
        let mut output = 0;
        for bits in bits {
            let bits = if dtype == DType::Bool { bits & 1 } else { bits };
            let constant = draft.builder.push(Inst::Const(Const { dtype, bits }));
            let same = draft.binary(Binary::Eq, constant, x);
            let as_bits = draft.builder.push(Inst::Cast(DType::U32, same));
            output += 1;
            let stored = Index { offset: output * 2, terms: vec![(Atom::Coord(0), 64)] };
            draft.builder.store(Store { output: 0, index: stored, value: constant, dtype });
            let stored = Index { offset: output * 2, terms: vec![(Atom::Coord(0), 64)] };
            draft.builder.store(Store {
                output: 1,
                index: stored,
                value: as_bits,
                dtype: DType::U32,
            });
        }
        all.push((format!("constants {dtype}"), draft.kernel(&[3], 1)));
    }
    let mut draft = Draft::default();
    let (zero, huge) = (draft.number(0.0), draft.number(3e38));
    let quotient = draft.binary(Binary::Div, huge, zero);
    let product = draft.binary(Binary::Mul, huge, huge);
    let sum = draft.binary(Binary::Add, quotient, product);
    let exp = draft.unary(Unary::Exp, sum);
    draft.store(0, DType::F32, exp, &[1]);
    let number = |draft: &mut Draft, value: f64| draft.builder.number(DType::I32, value);
    let (nothing, forty) = (number(&mut draft, 0.0), number(&mut draft, 40.0));
    let smallest = number(&mut draft, f64::from(i32::MIN));
    let quotient = draft.binary(Binary::Div, smallest, nothing);
    let rest = draft.binary(Binary::Rem, quotient, nothing);
    let shifted = draft.binary(Binary::Shl, smallest, forty);
    let doubled = draft.binary(Binary::Add, smallest, smallest);
    let sum = draft.binary(Binary::Add, rest, shifted);
    let sum = draft.binary(Binary::Sub, sum, doubled);
    draft.store(1, DType::I32, sum, &[1]);
    all.push(("constants folded".into(), draft.kernel(&[5], 1)));
}

fn maps(all: &mut All) {
    // A bias along the last axis, a broadcast column, and a number from the user.
    for dims in [[6, 8], [5, 7], [300, 200]] {
        for dtype in [DType::F32, DType::F16] {
            let mut draft = Draft::default();
            let x = draft.load(0, dtype, &strides(&dims));
            let bias = draft.load(1, dtype, &[0, 1]);
            let scale = draft.load(2, dtype, &[1, 0]);
            let rate = draft.builder.push(Inst::Param { word: 5, dtype: DType::F32 });
            let x = draft.binary(Binary::Add, x, bias);
            let x = draft.binary(Binary::Mul, x, scale);
            let x = draft.binary(Binary::Mul, x, rate);
            draft.store(0, dtype, x, &strides(&dims));
            all.push((format!("map bias {dtype} {dims:?}"), draft.kernel(&dims, 2)));
        }
    }
    for dtype in COMPUTE {
        let mut draft = Draft::default();
        let value = draft.builder.push(Inst::Param { word: 3, dtype });
        draft.store(0, dtype, value, &[1]);
        all.push((format!("map param {dtype}"), draft.kernel(&[12], 1)));
    }
    // The contents of two outputs are swapped.
    for (dtype, count) in TYPES.into_iter().flat_map(|dtype| [(dtype, 33), (dtype, 64)]) {
        let mut draft = Draft::default();
        for (from, to) in [(1, 0), (0, 1)] {
            let before = draft.builder.push(Inst::LoadOutput { output: from, dtype });
            draft.store(to, dtype, before, &[1]);
        }
        all.push((format!("map before {dtype} {count}"), draft.kernel(&[count], 1)));
    }
    let mut copy = |name: &str, dtype, from: Index, to: &[i64], dims: &[usize]| {
        let mut draft = Draft::default();
        let x = draft.load_at(0, dtype, from);
        draft.store(0, dtype, x, to);
        all.push((format!("map {name}"), draft.kernel(dims, dims.len())));
    };
    copy("transpose", DType::F32, index(0, &[1, 6, 24]), &[20, 5, 1], &[6, 4, 5]);
    copy("flip", DType::I32, index(29, &[-10, -1]), &[10, 1], &[3, 10]);
    copy("rank 0", DType::F32, index(0, &[]), &[], &[]);
    copy("empty", DType::F32, index(0, &[0, 1]), &[0, 1], &[0, 4]);

    let mut draft = Draft::default();
    let at = draft.builder.push(Inst::Coord(1));
    let x = draft.builder.push(Inst::Cast(DType::F32, at));
    draft.store(0, DType::F32, x, &[8, 1]);
    draft.store(1, DType::I32, at, &[8, 1]);
    all.push(("map iota".into(), draft.kernel(&[4, 8], 2)));
    all.push(("map pad".into(), pad()));
    for columns in [12, 5] {
        all.push((format!("map gather {columns}"), gather(columns)));
    }
    // An optimizer's step with three results.
    let mut draft = Draft::default();
    let (x, g) = (draft.load(0, DType::F32, &[1]), draft.load(1, DType::F32, &[1]));
    let m = draft.load(2, DType::F32, &[1]);
    let rate = draft.builder.push(Inst::Param { word: 0, dtype: DType::F32 });
    let decay = draft.number(0.9);
    let m = draft.binary(Binary::Mul, m, decay);
    let m = draft.binary(Binary::Add, m, g);
    let step = draft.binary(Binary::Mul, m, rate);
    let x = draft.binary(Binary::Sub, x, step);
    let nan = draft.unary(Unary::IsNan, x);
    draft.store(0, DType::F32, x, &[1]);
    draft.store(1, DType::F32, m, &[1]);
    draft.store(2, DType::Bool, nan, &[1]);
    all.push(("map step".into(), draft.kernel(&[1 << 20], 1)));
}

/// Adds maps that read along another axis than they write.
fn turns(all: &mut All) {
    for dims in [[64, 96], [33, 70]] {
        for dtype in TYPES {
            let mut draft = Draft::default();
            let x = draft.load(0, dtype, &[1, dims[0] as i64]);
            draft.store(0, dtype, x, &strides(&dims));
            all.push((format!("map turn {dtype} {dims:?}"), draft.kernel(&dims, 2)));
        }
    }
    // Three transposed operands, of which tiles hold two, one that is not transposed, and the coordinate.
    let mut draft = Draft::default();
    let mut sum = draft.load(0, DType::F32, &[6400, 100, 1]);
    for input in 1..4 {
        let x = draft.load(input, DType::F32, &[6400, 1, 64]);
        sum = draft.binary(Binary::Add, sum, x);
    }
    let at = draft.builder.push(Inst::Coord(2));
    let at = draft.builder.push(Inst::Cast(DType::F32, at));
    sum = draft.binary(Binary::Mul, sum, at);
    draft.store(0, DType::F32, sum, &[6400, 100, 1]);
    all.push(("map turn three".into(), draft.kernel(&[5, 64, 100], 3)));
}

/// Returns a kernel that pads a row of six with four elements before and two after.
fn pad() -> Kernel {
    let mut draft = Draft::default();
    let at = draft.builder.push(Inst::Coord(1));
    let (low, high) =
        (draft.builder.number(DType::I32, 4.0), draft.builder.number(DType::I32, 10.0));
    let after = draft.binary(Binary::Le, low, at);
    let before = draft.binary(Binary::Lt, at, high);
    let inside = draft.binary(Binary::And, after, before);
    let x = draft.load_at(0, DType::F32, index(-4, &[6, 1]));
    let zero = draft.number(0.0);
    let x = draft.builder.push(Inst::Select(inside, x, zero));
    draft.store(0, DType::F32, x, &[12, 1]);
    draft.kernel(&[3, 12], 2)
}

/// Returns a kernel that gathers rows by index, with 0 out of range.
fn gather(columns: usize) -> Kernel {
    let mut draft = Draft::default();
    let row = draft.load(1, DType::I32, &[1, 0]);
    let (zero, rows) =
        (draft.builder.number(DType::I32, 0.0), draft.builder.number(DType::I32, 4.0));
    let low = draft.binary(Binary::Le, zero, row);
    let high = draft.binary(Binary::Lt, row, rows);
    let inside = draft.binary(Binary::And, low, high);
    let terms = vec![(Atom::Coord(1), 1), (Atom::Value(row), columns as i64)];
    let x = draft.load_at(0, DType::F32, Index { offset: 0, terms });
    let nothing = draft.number(0.0);
    let x = draft.builder.push(Inst::Select(inside, x, nothing));
    draft.store(0, DType::F32, x, &[columns as i64, 1]);
    draft.kernel(&[6, columns], 2)
}

fn reductions(all: &mut All) {
    use Reduction::*;
    let ops = [Sum, Prod, Max, Min, Any, All];
    for op in ops {
        for dtype in TYPES {
            if (dtype == DType::Bool) != matches!(op, Any | All) {
                continue;
            }
            for dims in [[5, 7], [9, 100], [3, 1024]] {
                let mut draft = Draft::default();
                let x = draft.load(0, dtype, &strides(&dims));
                let y = draft.reduce(op, x);
                draft.store(0, dtype, y, &[1]);
                all.push((format!("reduce {op:?} {dtype} {dims:?}"), draft.kernel(&dims, 1)));
            }
        }
    }
    // Along the first axis, where neighboring threads compute neighboring results.
    for dims in [[3, 40], [70, 3], [500, 33], [4096, 64], [20000, 20]] {
        let [rows, columns] = dims;
        for op in [Sum, Max] {
            let mut draft = Draft::default();
            let x = draft.load(0, DType::F32, &[1, columns as i64]);
            let y = draft.reduce(op, x);
            draft.store(0, DType::F32, y, &[1]);
            let space = [columns, rows];
            all.push((format!("reduce columns {op:?} {dims:?}"), draft.kernel(&space, 1)));
        }
    }
    for dims in [[1, 1], [2, 0], [0, 5], [1, 17], [1, 10007], [2, 65536], [3000, 64], [40000, 12]] {
        let mut draft = Draft::default();
        let x = draft.load(0, DType::F32, &strides(&dims));
        let (sum, most) = (draft.reduce(Sum, x), draft.reduce(Max, x));
        draft.store(0, DType::F32, sum, &[1]);
        draft.store(1, DType::F32, most, &[1]);
        all.push((format!("reduce two {dims:?}"), draft.kernel(&dims, 1)));
    }
    // Over the first and last of four axes.
    let mut draft = Draft::default();
    let x = draft.load(0, DType::F32, &[30, 6, 90, 1]);
    let y = draft.reduce(Sum, x);
    draft.store(0, DType::F32, y, &[5, 1]);
    all.push(("reduce axes".into(), draft.kernel(&[3, 5, 4, 6], 2)));
    // More partial results than workgroup memory holds at 256 threads.
    let mut draft = Draft::default();
    let x = draft.load(0, DType::F32, &[1024, 1]);
    for n in 0..20 {
        let factor = draft.number(f64::from(n));
        let y = draft.binary(Binary::Mul, x, factor);
        let y = draft.reduce(Sum, y);
        let index = index(i64::from(n), &[20]);
        draft.builder.store(Store { output: 0, index, value: y, dtype: DType::F32 });
    }
    all.push(("reduce twenty".into(), draft.kernel(&[4, 1023], 1)));
    // The reduced value is constant.
    let mut draft = Draft::default();
    let x = draft.load(0, DType::F32, &[1, 0]);
    let y = draft.reduce(Sum, x);
    draft.store(0, DType::F32, y, &[1]);
    all.push(("reduce constant".into(), draft.kernel(&[6, 50], 1)));
    let mut draft = Draft::default();
    let x = draft.load(0, DType::F32, &[1]);
    let y = draft.reduce(Sum, x);
    draft.store(0, DType::F32, y, &[1]);
    all.push(("reduce nothing".into(), draft.kernel(&[8], 1)));
}

fn softmax(dims: [usize; 2], dtype: DType, stride: [i64; 2]) -> Kernel {
    let mut draft = Draft::default();
    let x = draft.load(0, dtype, &stride);
    let most = draft.reduce(Reduction::Max, x);
    let x = draft.binary(Binary::Sub, x, most);
    let x = draft.unary(Unary::Exp, x);
    let sum = draft.reduce(Reduction::Sum, x);
    let y = draft.binary(Binary::Div, x, sum);
    draft.store(0, dtype, y, &stride);
    draft.kernel(&dims, 1)
}

/// Returns a layer norm with scale and shift, which also stores the mean.
fn layer_norm(dims: [usize; 2]) -> Kernel {
    let mut draft = Draft::default();
    let columns = dims[1] as i64;
    let x = draft.load(0, DType::F32, &[columns, 1]);
    let count = draft.number(dims[1] as f64);
    let mean = draft.reduce(Reduction::Sum, x);
    let mean = draft.binary(Binary::Div, mean, count);
    let x = draft.binary(Binary::Sub, x, mean);
    let square = draft.binary(Binary::Mul, x, x);
    let variance = draft.reduce(Reduction::Sum, square);
    let variance = draft.binary(Binary::Div, variance, count);
    let epsilon = draft.builder.push(Inst::Param { word: 0, dtype: DType::F32 });
    let variance = draft.binary(Binary::Add, variance, epsilon);
    let scale = draft.unary(Unary::InverseSqrt, variance);
    let x = draft.binary(Binary::Mul, x, scale);
    let gamma = draft.load(1, DType::F32, &[0, 1]);
    let beta = draft.load(2, DType::F32, &[0, 1]);
    let x = draft.binary(Binary::Mul, x, gamma);
    let x = draft.binary(Binary::Add, x, beta);
    draft.store(0, DType::F32, x, &[columns, 1]);
    draft.store(1, DType::F32, mean, &[1]);
    draft.kernel(&dims, 1)
}

fn row_programs(all: &mut All) {
    let shapes =
        [[1, 1], [4, 10], [5, 33], [3, 128], [2, 257], [7, 1000], [2, 1024], [3, 4096], [2, 50000]];
    for dims in shapes {
        let stride = [dims[1] as i64, 1];
        all.push((format!("softmax {dims:?}"), softmax(dims, DType::F32, stride)));
        all.push((format!("layer norm {dims:?}"), layer_norm(dims)));
    }
    for dims in [[3000, 64], [2000, 9]] {
        let stride = [dims[1] as i64, 1];
        all.push((format!("softmax {dims:?}"), softmax(dims, DType::F32, stride)));
    }
    all.push(("softmax f16".into(), softmax([6, 96], DType::F16, [96, 1])));
    all.push(("softmax across".into(), softmax([100, 60], DType::F32, [1, 100])));
    all.push(("softmax across few".into(), softmax([5, 300], DType::F32, [1, 5])));
    // A causal mask reads coordinates.
    let mut draft = Draft::default();
    let x = draft.load(0, DType::F32, &[64, 1]);
    let (row, col) = (draft.builder.push(Inst::Coord(0)), draft.builder.push(Inst::Coord(1)));
    let seen = draft.binary(Binary::Le, col, row);
    let never = draft.number(f64::NEG_INFINITY);
    let x = draft.builder.push(Inst::Select(seen, x, never));
    let most = draft.reduce(Reduction::Max, x);
    let x = draft.binary(Binary::Sub, x, most);
    let x = draft.unary(Unary::Exp, x);
    let sum = draft.reduce(Reduction::Sum, x);
    let x = draft.binary(Binary::Div, x, sum);
    draft.store(0, DType::F32, x, &[64, 1]);
    all.push(("softmax causal".into(), draft.kernel(&[64, 64], 1)));
    // No reduction, and two inner axes.
    let mut draft = Draft::default();
    let x = draft.load(0, DType::F32, &[12, 4, 1]);
    let scale = draft.load(1, DType::F32, &[1, 0, 0]);
    let x = draft.binary(Binary::Mul, x, scale);
    draft.store(0, DType::F32, x, &[12, 4, 1]);
    draft.store(1, DType::F32, scale, &[1, 0, 0]);
    all.push(("row map".into(), draft.kernel(&[5, 3, 4], 1)));
}

fn operand(input: u32, dtype: DType, strides: &[i64]) -> Operand {
    let mut draft = Draft::default();
    let value = draft.load(input, dtype, strides);
    Operand { program: draft.builder.finish(), value }
}

/// Returns an operand with the prologue `load(input) * 2 + 1`.
fn prologue(input: u32, strides: &[i64]) -> Operand {
    let mut draft = Draft::default();
    let x = draft.load(input, DType::F32, strides);
    let (two, one) = (draft.number(2.0), draft.number(1.0));
    let x = draft.binary(Binary::Mul, x, two);
    let value = draft.binary(Binary::Add, x, one);
    Operand { program: draft.builder.finish(), value }
}

fn plain_epilogue(dtype: DType, dims: &[usize]) -> Program {
    let mut draft = Draft::default();
    let x = draft.builder.push(Inst::Accumulator);
    draft.store(0, dtype, x, &strides(dims));
    draft.builder.finish()
}

/// Returns `relu(accumulator + bias)`, with the bias along `axis`. The accumulator is stored, too.
fn bias_epilogue(input: u32, dims: &[usize], axis: usize) -> Program {
    let mut draft = Draft::default();
    let acc = draft.builder.push(Inst::Accumulator);
    let mut along = vec![0; dims.len()];
    along[axis] = 1;
    let bias = draft.load(input, DType::F32, &along);
    let x = draft.binary(Binary::Add, acc, bias);
    let zero = draft.number(0.0);
    let x = draft.binary(Binary::Max, x, zero);
    draft.store(0, DType::F32, x, &strides(dims));
    draft.store(1, DType::F32, acc, &strides(dims));
    draft.builder.finish()
}

/// Returns a product of contiguous operands.
pub fn product(batch: &[usize], m: usize, k: usize, n: usize, dtype: DType) -> Matmul {
    let dims = |r: usize, c: usize| [batch, &[r, c]].concat();
    Matmul {
        batch: batch.to_vec(),
        m,
        n,
        k,
        a: operand(0, dtype, &strides(&dims(m, k))),
        b: operand(1, dtype, &strides(&dims(k, n))),
        epilogue: plain_epilogue(dtype, &dims(m, n)),
    }
}

fn matmuls(all: &mut All) {
    let shapes: [[usize; 3]; 18] = [
        [1, 1, 1],
        [2, 3, 2],
        [4, 4, 4],
        [31, 33, 17],
        [32, 32, 32],
        [64, 64, 64],
        [65, 70, 129],
        [257, 31, 65],
        [8, 64, 300],
        [300, 64, 8],
        [12, 40, 200],
        [200, 40, 12],
        [1, 500, 77],
        [77, 500, 1],
        [16, 2000, 16],
        [3, 0, 5],
        [512, 64, 516],
        [1290, 37, 1500],
    ];
    for [m, k, n] in shapes {
        let matmul = product(&[], m, k, n, DType::F32);
        all.push((format!("matmul {m}x{k}x{n}"), Kernel::Matmul(matmul)));
    }
    all.push(("matmul empty".into(), Kernel::Matmul(product(&[2], 0, 3, 4, DType::F32))));
    for [m, k, n] in [[40, 24, 36], [33, 15, 37], [1, 64, 40], [1030, 40, 1100]] {
        let matmul = product(&[2, 3], m, k, n, DType::F16);
        all.push((format!("matmul f16 {m}x{k}x{n}"), Kernel::Matmul(matmul)));
    }
    for (name, a, b) in [("ab", 0, 0), ("at", 1, 0), ("bt", 0, 1), ("atbt", 1, 1)] {
        for [m, k, n] in [[36, 20, 44], [37, 21, 45], [1, 40, 50], [50, 40, 1], [1300, 20, 1400]] {
            let mut matmul = product(&[], m, k, n, DType::F32);
            if a == 1 {
                matmul.a = operand(0, DType::F32, &[1, m as i64]);
            }
            if b == 1 {
                matmul.b = operand(1, DType::F32, &[1, k as i64]);
            }
            all.push((format!("matmul {name} {m}x{k}x{n}"), Kernel::Matmul(matmul)));
        }
    }
    for [m, k, n] in [[36, 20, 44], [35, 19, 43], [1, 20, 44]] {
        let mut matmul = product(&[2, 3], m, k, n, DType::F32);
        // One batch axis of each operand is broadcast.
        matmul.a = operand(0, DType::F32, &[(m * k) as i64, 0, k as i64, i64::from(m > 0)]);
        matmul.b = prologue(1, &[0, (k * n) as i64, n as i64, 1]);
        matmul.epilogue = bias_epilogue(2, &[2, 3, m, n], 3);
        all.push((format!("matmul fused {m}x{k}x{n}"), Kernel::Matmul(matmul)));
    }
    // Both operands read the same buffer.
    let mut matmul = product(&[], 40, 24, 40, DType::F32);
    matmul.b = operand(0, DType::F32, &[1, 24]);
    all.push(("matmul square".into(), Kernel::Matmul(matmul)));
}

/// The parameters that differ between convolution samples.
struct Window {
    x: [usize; 4],
    out: usize,
    kernel: [usize; 2],
    params: Conv2d,
}

fn convolutions(all: &mut All) {
    let params = |stride, padding, dilation, groups| Conv2d {
        stride: [stride; 2],
        padding: [(padding, padding); 2],
        dilation: [dilation; 2],
        groups,
    };
    let uneven = Conv2d { stride: [2, 1], padding: [(0, 2), (3, 1)], dilation: [1, 2], groups: 2 };
    let cases = [
        Window { x: [1, 1, 5, 5], out: 1, kernel: [3, 3], params: params(1, 0, 1, 1) },
        Window { x: [2, 3, 9, 10], out: 16, kernel: [3, 3], params: params(1, 1, 1, 1) },
        Window { x: [2, 8, 12, 7], out: 8, kernel: [3, 3], params: params(1, 1, 1, 8) },
        Window { x: [2, 8, 11, 13], out: 40, kernel: [3, 2], params: uneven },
        Window { x: [1, 32, 8, 8], out: 20, kernel: [1, 1], params: params(1, 0, 1, 1) },
        Window { x: [1, 3, 33, 31], out: 70, kernel: [5, 5], params: params(2, 2, 1, 1) },
        Window { x: [1, 4, 20, 20], out: 8, kernel: [3, 3], params: params(1, 2, 2, 2) },
        Window { x: [1, 6, 13, 12], out: 16, kernel: [11, 10], params: params(1, 0, 1, 1) },
        Window { x: [3, 4, 12, 12], out: 18, kernel: [9, 12], params: params(1, 1, 1, 2) },
    ];
    all.extend(cases.map(convolution));
}

/// Returns convolutions with every window from 1 x 1 to 16 x 16. A thread that works alone unrolls a row of the window.
pub fn windows() -> All {
    let params = Conv2d { stride: [1; 2], padding: [(0, 0); 2], dilation: [1; 2], groups: 1 };
    let sizes = (1..=16).flat_map(|height| (1..=16).map(move |width| [height, width]));
    sizes.map(|kernel| convolution(Window { x: [1, 1, 24, 24], out: 1, kernel, params })).collect()
}

fn convolution(window: Window) -> (String, Kernel) {
    let Window { x, out, kernel, params } = window;
    let extent = |i: usize| params.extent(i, x[2 + i], kernel[i]).expect("the window fits");
    let (oh, ow) = (extent(0), extent(1));
    let per_group = x[1] / params.groups;
    let dims = [x[0], out, oh, ow];
    let name = format!("conv2d {x:?} {out} {kernel:?} {params:?}");
    let conv = Convolution {
        params,
        batch: x[0],
        channels: x[1],
        height: x[2],
        width: x[3],
        out,
        kernel,
        out_height: oh,
        out_width: ow,
        x: prologue(0, &strides(&x)),
        w: operand(1, DType::F32, &strides(&[out, per_group, kernel[0], kernel[1]])),
        epilogue: bias_epilogue(2, &dims, 1),
    };
    (name, Kernel::Conv2d(conv))
}
