//! A machine for formulas. It runs the instructions of kernels, one value at a time, in `f32` and with the liberties that GPUs
//! take.

use warpweft::dtype::DType;
use warpweft::expr::{Binary, Expr, Unary};
use warpweft::kernel::{Builder, Inst, Program, ValueId};
use warpweft::op::Const;

/// The accuracy of the arithmetic.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Arithmetic {
    /// IEEE 754, and the functions of the standard library.
    Exact,
    /// Subnormal numbers are 0, and a product and a sum are fused wherever possible.
    Contracted,
    /// Divisions, roots and transcendental functions are up to two units in the last place off, and subnormals are 0.
    Coarse,
}

pub const ARITHMETICS: [Arithmetic; 3] =
    [Arithmetic::Exact, Arithmetic::Contracted, Arithmetic::Coarse];

/// A formula flattened to instructions, as in kernels.
pub struct Machine {
    program: Program,
    result: ValueId,
}

impl Machine {
    pub fn new(expr: Expr, types: &[DType]) -> Machine {
        let mut builder = Builder::default();
        let argument =
            |(word, dtype): (usize, &DType)| Inst::Param { word: word as u32, dtype: *dtype };
        let arguments: Vec<ValueId> =
            types.iter().enumerate().map(argument).map(|inst| builder.push(inst)).collect();
        let result = builder.expr(expr, &arguments);
        Machine { program: builder.finish(), result }
    }

    /// Returns the result's dtype.
    pub fn dtype(&self) -> DType {
        self.program.types[self.result as usize]
    }

    /// Returns the number of instructions other than arguments and constants.
    pub fn len(&self) -> usize {
        let counts = |inst: &&Inst| !matches!(inst, Inst::Param { .. } | Inst::Const(_));
        self.program.insts.iter().filter(counts).count()
    }

    /// Returns the result's bits.
    pub fn run(&self, arguments: &[u32], arithmetic: Arithmetic) -> u32 {
        let mut values: Vec<u32> = Vec::with_capacity(self.program.insts.len());
        for (at, inst) in self.program.insts.iter().enumerate() {
            let operand = |v: ValueId| (self.program.types[v as usize], values[v as usize]);
            let value = match inst {
                Inst::Const(Const { bits, .. }) => *bits,
                Inst::Param { word, .. } => arguments[*word as usize],
                Inst::Unary(op, x) => unary(*op, operand(*x), arithmetic),
                Inst::Binary(op, x, y) => match self.fused(*op, *x, *y, &values, arithmetic) {
                    Some(value) => value.to_bits(),
                    None => binary(*op, operand(*x), operand(*y), arithmetic),
                },
                Inst::Select(c, a, b) => {
                    assert_eq!(operand(*c).0, DType::Bool, "a condition");
                    assert_eq!(operand(*a).0, operand(*b).0, "a select of one type");
                    if operand(*c).1 != 0 { operand(*a) } else { operand(*b) }.1
                }
                Inst::Cast(to, x) => cast(*to, operand(*x)),
                other => panic!("a formula has no {other:?}"),
            };
            let float = self.program.types[at] == DType::F32;
            let tiny = float && f32::from_bits(value).abs() < f32::MIN_POSITIVE;
            let flush = tiny && arithmetic != Arithmetic::Exact;
            values.push(if flush { value & 0x8000_0000 } else { value });
        }
        values[self.result as usize]
    }

    /// Returns `a * b + c` with one rounding, if the instruction is a sum or difference with a product in it.
    fn fused(
        &self,
        op: Binary,
        x: ValueId,
        y: ValueId,
        values: &[u32],
        arithmetic: Arithmetic,
    ) -> Option<f32> {
        let fits = matches!(op, Binary::Add | Binary::Sub)
            && self.program.types[x as usize] == DType::F32
            && arithmetic == Arithmetic::Contracted;
        if !fits {
            return None;
        }
        let value = |v: ValueId| f32::from_bits(values[v as usize]);
        let product = |v: ValueId| match self.program.insts[v as usize] {
            Inst::Binary(Binary::Mul, a, b) => Some((value(a), value(b))),
            _ => None,
        };
        let sign = if op == Binary::Sub { -1.0 } else { 1.0 };
        match (product(x), product(y)) {
            (Some((a, b)), _) => Some(a.mul_add(b, sign * value(y))),
            (None, Some((a, b))) => Some((sign * a).mul_add(b, value(x))),
            (None, None) => None,
        }
    }
}

/// Returns a number up to two units in the last place away, always the same for the same value.
fn blur(value: f32, arithmetic: Arithmetic) -> f32 {
    let bits = value.to_bits();
    let magnitude = bits & 0x7fff_ffff;
    // Every library returns 0, 1 and non-finite values exactly.
    let exact = magnitude == 0 || magnitude == 0x3f80_0000 || magnitude >= 0x7f7f_fff0;
    if arithmetic != Arithmetic::Coarse || exact {
        return value;
    }
    let step = (bits.wrapping_mul(0x9e37_79b9) >> 29) % 5;
    f32::from_bits(bits + step - 2)
}

fn unary(op: Unary, (dtype, bits): (DType, u32), arithmetic: Arithmetic) -> u32 {
    let x = f32::from_bits(bits);
    let float = |value: f32| value.to_bits();
    let rough = |value: f32| blur(value, arithmetic).to_bits();
    if dtype != DType::F32 {
        return match (op, dtype) {
            (Unary::Not, DType::Bool) => 1 - bits,
            (Unary::Not, _) => !bits,
            (Unary::Neg, DType::I32) => bits.wrapping_neg(),
            (Unary::Abs, DType::I32) => (bits as i32).wrapping_abs() as u32,
            other => panic!("{other:?} is no primitive"),
        };
    }
    match op {
        Unary::Neg => float(-x),
        Unary::Abs => float(x.abs()),
        Unary::Floor => float(x.floor()),
        Unary::Ceil => float(x.ceil()),
        Unary::Round => float(x.round_ties_even()),
        Unary::Trunc => float(x.trunc()),
        Unary::Exp => rough(x.exp()),
        Unary::Exp2 => rough(x.exp2()),
        Unary::Log => rough(x.ln()),
        Unary::Log2 => rough(x.log2()),
        Unary::Sqrt => rough(x.sqrt()),
        Unary::InverseSqrt => rough((1.0 / f64::from(x).sqrt()) as f32),
        Unary::Sin => rough(x.sin()),
        Unary::Cos => rough(x.cos()),
        Unary::Tan => rough(x.tan()),
        Unary::Asin => rough(x.asin()),
        Unary::Acos => rough(x.acos()),
        Unary::Atan => rough(x.atan()),
        Unary::IsNan => u32::from(x.is_nan()),
        Unary::IsInf => u32::from(x.is_infinite()),
        Unary::SignBit => u32::from(x.is_sign_negative()),
        Unary::Not => panic!("{op:?} of a float"),
    }
}

fn binary(op: Binary, a: (DType, u32), b: (DType, u32), arithmetic: Arithmetic) -> u32 {
    assert_eq!(a.0, b.0, "{op:?} of one type");
    match a.0 {
        DType::F32 | DType::F16 => {
            float_binary(op, f32::from_bits(a.1), f32::from_bits(b.1), arithmetic)
        }
        DType::I32 => int_binary(op, i64::from(a.1 as i32), i64::from(b.1 as i32), a.1, b.1),
        DType::U32 => int_binary(op, i64::from(a.1), i64::from(b.1), a.1, b.1),
        DType::Bool => match op {
            Binary::And => a.1 & b.1,
            Binary::Or => a.1 | b.1,
            Binary::Xor | Binary::Ne => a.1 ^ b.1,
            Binary::Eq => 1 - (a.1 ^ b.1),
            other => panic!("{other:?} of bool"),
        },
        other => panic!("no row computes with {other}"),
    }
}

fn float_binary(op: Binary, x: f32, y: f32, arithmetic: Arithmetic) -> u32 {
    let float = |value: f32| value.to_bits();
    let rough = |value: f32| blur(value, arithmetic).to_bits();
    match op {
        Binary::Add => float(x + y),
        Binary::Sub => float(x - y),
        Binary::Mul => float(x * y),
        // An exact quotient stays exact, because 2 / 2 must be 1.
        Binary::Div if (x / y) * y == x => float(x / y),
        Binary::Div => rough(x / y),
        Binary::Rem => float(x % y),
        Binary::Min => float(x.min(y)),
        Binary::Max => float(x.max(y)),
        Binary::Pow => {
            assert!(x.is_nan() || x >= 0.0, "the power of a negative number");
            rough(x.powf(y))
        }
        Binary::Atan2 => rough(x.atan2(y)),
        Binary::Lt => u32::from(x < y),
        Binary::Le => u32::from(x <= y),
        Binary::Eq => u32::from(x == y),
        Binary::Ne => u32::from(x != y),
        other => panic!("{other:?} of floats"),
    }
}

/// Runs an integer instruction. `x` and `y` are the values, `a` and `b` their bits.
fn int_binary(op: Binary, x: i64, y: i64, a: u32, b: u32) -> u32 {
    match op {
        Binary::Add => a.wrapping_add(b),
        Binary::Sub => a.wrapping_sub(b),
        Binary::Mul => a.wrapping_mul(b),
        Binary::Div => x.checked_div(y).unwrap_or(x) as u32,
        Binary::Rem => x.checked_rem(y).unwrap_or(0) as u32,
        Binary::Min => x.min(y) as u32,
        Binary::Max => x.max(y) as u32,
        Binary::And => a & b,
        Binary::Or => a | b,
        Binary::Xor => a ^ b,
        Binary::Shl => a << (b & 31),
        // `x` is sign-extended or zero-extended, depending on its dtype.
        Binary::Shr => (x >> (b & 31)) as u32,
        Binary::Lt => u32::from(x < y),
        Binary::Le => u32::from(x <= y),
        Binary::Eq => u32::from(x == y),
        Binary::Ne => u32::from(x != y),
        other => panic!("{other:?} of integers"),
    }
}

fn cast(to: DType, (from, bits): (DType, u32)) -> u32 {
    match (to, from) {
        (DType::F32, DType::U32 | DType::Bool) => (bits as f32).to_bits(),
        (DType::F32, DType::I32) => (bits as i32 as f32).to_bits(),
        other => panic!("no row casts {other:?}"),
    }
}

/// Pseudorandom numbers for choosing points: the low bits of splitmix64.
pub struct Points(u64);

impl Points {
    pub fn new(name: &str) -> Points {
        Points(name.bytes().fold(7, |hash, byte| (hash << 5) ^ (hash >> 40) ^ u64::from(byte)))
    }

    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ z >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ z >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ z >> 31
    }

    /// Returns a uniform number in [low, high).
    pub fn between(&mut self, (low, high): (f64, f64)) -> f64 {
        low + (high - low) * (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// Returns every point whose coordinates are all taken from `values`.
pub fn grid<T: Copy>(values: &[T], arity: usize) -> Vec<Vec<T>> {
    (0..arity).fold(vec![vec![]], |points, _| {
        let longer = |point: &Vec<T>, v: T| point.iter().copied().chain([v]).collect();
        points.iter().flat_map(|point| values.iter().map(move |&v| longer(point, v))).collect()
    })
}
