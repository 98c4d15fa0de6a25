//! Prints a program's instructions as WGSL statements at a place.

use crate::codegen::module::{memory_name, type_name, Helper, Module};
use crate::dtype::DType;
use crate::expr::{Binary, Unary};
use crate::kernel::{Atom, Index, Inst, Program, Store, ValueId};
use crate::op::Const;
use crate::text::join;

/// Where statements stand: what values and coordinates are called there, and how many elements a value holds.
pub struct Place<'a> {
    pub module: &'a Module,
    pub program: &'a Program,
    /// The values that vary with the coordinates from `outer` on.
    pub varying: &'a [bool],
    pub outer: usize,
    /// In an unrolled loop, which step this is: varying names end in it.
    pub step: Option<usize>,
    /// Along this coordinate each varying value holds four elements.
    pub quad: Option<u32>,
}

impl Place<'_> {
    /// `let v7 = ...;`
    pub fn define(&self, id: ValueId) -> String {
        format!("let {} = {};\n", self.name(id), self.expression(id))
    }

    /// A value's name.
    pub fn name(&self, id: ValueId) -> String {
        format!("v{id}{}", self.suffix(self.varies(id)))
    }

    /// A coordinate's name.
    pub fn coordinate(&self, d: u32) -> String {
        format!("c{d}{}", self.suffix(d as usize >= self.outer))
    }

    /// Whether the value holds four elements.
    pub fn is_wide(&self, id: ValueId) -> bool {
        self.quad.is_some() && self.varies(id)
    }

    /// A value as an operand: with four elements where `wide`.
    pub fn operand(&self, id: ValueId, wide: bool) -> String {
        let name = self.name(id);
        if wide && !self.is_wide(id) {
            format!("{}({name})", type_name(self.program.types[id as usize], true))
        } else {
            name
        }
    }

    /// The statement that writes an element, or four.
    pub fn store(&self, store: &Store) -> String {
        let number = store.output;
        let at = self.index(&store.index);
        let wide = self.quad.is_some_and(|axis| store.index.stride(Atom::Coord(axis)) == 1);
        let value = self.operand(store.value, wide);
        let value = match store.dtype {
            DType::F16 | DType::Bool => format!("{}({value})", memory_name(store.dtype, wide)),
            _ => value,
        };
        if wide {
            format!("out{number}[{at} >> 2u] = {value};\n")
        } else {
            format!("out{number}[{at}] = {value};\n")
        }
    }

    /// A position in a buffer, as `u32`.
    pub fn index(&self, index: &Index) -> String {
        if index.terms.is_empty() {
            return format!("{}u", index.offset as u32);
        }
        let mut sum = String::new();
        for &(atom, stride) in &index.terms {
            let name = match atom {
                Atom::Coord(d) => self.coordinate(d),
                Atom::Value(v) => self.name(v),
            };
            let (sign, size) = (stride < 0, stride.unsigned_abs());
            sum += match (sum.is_empty(), sign) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            sum += &if size == 1 { name } else { format!("{name} * {size}") };
        }
        match index.offset {
            0 => {}
            offset if offset < 0 => sum += &format!(" - {}", offset.unsigned_abs()),
            offset => sum += &format!(" + {offset}"),
        }
        format!("u32({sum})")
    }

    fn varies(&self, id: ValueId) -> bool {
        self.varying.get(id as usize).copied().unwrap_or(false)
    }

    fn suffix(&self, varies: bool) -> String {
        match self.step {
            Some(step) if varies => format!("_{step}"),
            _ => String::new(),
        }
    }

    fn expression(&self, id: ValueId) -> String {
        let wide = self.is_wide(id);
        let insts = &self.program.insts;
        let constant = |id: ValueId| match insts[id as usize] {
            Inst::Const(constant) => Some(constant),
            _ => None,
        };
        // Compilers compute what is made of constants alone, and refuse what overflows then, or divides by 0.
        let folds = insts[id as usize].operands().iter().all(|&v| constant(v).is_some());
        let divides = matches!(insts[id as usize], Inst::Binary(Binary::Div | Binary::Rem, ..));
        let operand = |id: ValueId| match constant(id) {
            Some(c) if folds || divides && c.bits == 0 => match wide {
                true => format!("{}({})", type_name(c.dtype, true), opaque(c)),
                false => opaque(c),
            },
            _ => self.operand(id, wide),
        };
        let dtype_of = |id: ValueId| self.program.types[id as usize];
        match &insts[id as usize] {
            Inst::Const(constant) => literal(*constant),
            Inst::Param { word, dtype } => parameter(*word, dtype.compute()),
            Inst::Coord(d) => self.coordinate(*d),
            Inst::Load { input, index, dtype } => self.load(*input, index, *dtype, wide),
            Inst::Accumulator => "accumulator".to_string(),
            Inst::Unary(op, x) => self.unary(*op, &operand(*x), dtype_of(*x), wide),
            Inst::Binary(op, x, y) => {
                self.binary(*op, &operand(*x), &operand(*y), dtype_of(*x), wide)
            }
            Inst::Select(c, a, b) => {
                format!("select({}, {}, {})", operand(*b), operand(*a), operand(*c))
            }
            Inst::Cast(to, x) => self.cast(*to, &operand(*x), dtype_of(*x), wide),
            // Only where there is nothing to reduce over is it met here: one element is its own result.
            Inst::Reduce(_, x) => operand(*x),
        }
    }

    fn load(&self, input: u32, index: &Index, dtype: DType, wide: bool) -> String {
        let at = self.index(index);
        let quads = self.module.inputs[input as usize].is_some_and(|bound| bound.quads);
        let value = match self.quad {
            Some(axis) if wide && !quads => {
                let step = index.stride(Atom::Coord(axis));
                let each = |i: i64| {
                    let mut index = index.clone();
                    index.offset += i * step;
                    format!("in{input}[{}]", self.index(&index))
                };
                let parts = [each(0), each(1), each(2), each(3)];
                format!("{}({})", memory_name(dtype, true), join(&parts, ", "))
            }
            Some(_) if wide => format!("in{input}[{at} >> 2u]"),
            _ => format!("in{input}[{at}]"),
        };
        match dtype {
            DType::F16 => format!("{}({value})", type_name(DType::F32, wide)),
            DType::Bool => format!("{value} != {}()", memory_name(DType::U32, wide)),
            _ => value,
        }
    }

    fn unary(&self, op: Unary, x: &str, dtype: DType, wide: bool) -> String {
        let call = |function: &str| format!("{function}({x})");
        let special = |helper: Helper, function: &str| {
            format!("{}({x}, {function}({x}))", self.module.helper(helper, wide))
        };
        let sine = |quarters: u32, function: &str| {
            let (sine, i32s) =
                (self.module.helper(Helper::Sine, wide), type_name(DType::I32, wide));
            format!("{sine}({x}, {i32s}({quarters}), {function}({x}))")
        };
        let float = dtype.is_float();
        let bits = |and: &str, compare: &str| {
            let u32s = type_name(DType::U32, wide);
            format!("(bitcast<{u32s}>({x}) & {u32s}({and})) {compare}")
        };
        match op {
            Unary::Neg if dtype == DType::U32 => format!("{}() - {x}", type_name(dtype, wide)),
            Unary::Neg => format!("-{x}"),
            Unary::Abs => call("abs"),
            Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc if !float => x.to_string(),
            Unary::Floor => call("floor"),
            Unary::Ceil => call("ceil"),
            Unary::Round => call("round"),
            Unary::Trunc => call("trunc"),
            Unary::Exp => special(Helper::KeepNan, "exp"),
            Unary::Exp2 => special(Helper::KeepNan, "exp2"),
            Unary::Log => special(Helper::Log, "log"),
            Unary::Log2 => special(Helper::Log, "log2"),
            Unary::Sqrt => call("sqrt"),
            Unary::InverseSqrt => call("inverseSqrt"),
            Unary::Sin => sine(0, "sin"),
            Unary::Cos => sine(1, "cos"),
            Unary::Tan => join(&[sine(0, "sin"), sine(1, "cos")], " / "),
            Unary::Asin => call("asin"),
            Unary::Acos => call("acos"),
            Unary::Atan => special(Helper::KeepNan, "atan"),
            Unary::Not if dtype == DType::Bool => format!("!{x}"),
            Unary::Not => format!("~{x}"),
            Unary::IsNan | Unary::IsInf if !float => {
                format!("{}(false)", type_name(DType::Bool, wide))
            }
            Unary::IsNan => call(&self.module.helper(Helper::IsNan, wide)),
            Unary::IsInf => {
                bits("0x7fffffffu", &format!("== {}(0x7f800000u)", type_name(DType::U32, wide)))
            }
            Unary::SignBit => bits("0x80000000u", &format!("!= {}()", type_name(DType::U32, wide))),
        }
    }

    fn binary(&self, op: Binary, x: &str, y: &str, dtype: DType, wide: bool) -> String {
        let infix = |operator: &str| format!("{x} {operator} {y}");
        let call = |function: &str| format!("{function}({x}, {y})");
        let helper = |helper: Helper| call(&self.module.helper(helper, wide));
        let shift = |operator: &str| {
            let u32s = type_name(DType::U32, wide);
            format!("{x} {operator} ({u32s}({y}) & {u32s}(31u))")
        };
        let (float, logical) = (dtype.is_float(), dtype == DType::Bool);
        match op {
            Binary::Add => infix("+"),
            Binary::Sub => infix("-"),
            Binary::Mul => infix("*"),
            Binary::Div => infix("/"),
            Binary::Rem if float => helper(Helper::Rem),
            Binary::Rem => infix("%"),
            Binary::Min if float => helper(Helper::Min),
            Binary::Min => call("min"),
            Binary::Max if float => helper(Helper::Max),
            Binary::Max => call("max"),
            Binary::Pow => helper(Helper::Pow),
            Binary::Atan2 => helper(Helper::Atan2),
            Binary::And => infix("&"),
            Binary::Or => infix("|"),
            Binary::Xor if logical => infix("!="),
            Binary::Xor => infix("^"),
            Binary::Shl => shift("<<"),
            Binary::Shr => shift(">>"),
            Binary::Lt if logical => format!("!{x} & {y}"),
            Binary::Le if logical => format!("!{x} | {y}"),
            Binary::Lt => infix("<"),
            Binary::Le => infix("<="),
            Binary::Eq => infix("=="),
            // Some compilers' own `!=` does not hold for NaN.
            Binary::Ne if float => format!("!({x} == {y})"),
            Binary::Ne => infix("!="),
        }
    }

    fn cast(&self, to: DType, x: &str, from: DType, wide: bool) -> String {
        let float = from.is_float();
        match to {
            // Rounded as if it had been stored and read again.
            DType::F16 if float => format!("{}({x})", self.module.helper(Helper::ToF16, wide)),
            _ if to.compute() == from => x.to_string(),
            DType::I32 if float => format!("{}({x})", self.module.helper(Helper::ToI32, wide)),
            DType::U32 if float => format!("{}({x})", self.module.helper(Helper::ToU32, wide)),
            _ => format!("{}({x})", type_name(to.compute(), wide)),
        }
    }

    /// `x op y`, as a reduction combines its elements.
    pub fn combine(
        &self,
        op: crate::op::Reduction,
        x: &str,
        y: &str,
        dtype: DType,
        wide: bool,
    ) -> String {
        use crate::op::Reduction;
        let op = match op {
            Reduction::Sum => Binary::Add,
            Reduction::Prod => Binary::Mul,
            Reduction::Max => Binary::Max,
            Reduction::Min => Binary::Min,
            Reduction::Any => Binary::Or,
            Reduction::All => Binary::And,
        };
        self.binary(op, x, y, dtype, wide)
    }
}

/// A constant, exactly. What WGSL has no literal for stands in the params' head.
pub fn literal(constant: Const) -> String {
    let bits = constant.bits;
    match constant.dtype.compute() {
        DType::U32 => format!("{bits}u"),
        DType::I32 if bits == 1 << 31 => "bitcast<i32>(0x80000000u)".to_string(),
        DType::I32 => format!("{}i", bits as i32),
        DType::Bool => if bits != 0 { "true" } else { "false" }.to_string(),
        DType::F32 | DType::F16 => float_literal(f32::from_bits(bits)),
    }
}

fn float_literal(value: f32) -> String {
    let bits = value.to_bits();
    let sign = if value < 0.0 { "-" } else { "" };
    let magnitude = value.abs();
    if value.is_nan() {
        return "bitcast<f32>(params[0].w)".to_string();
    }
    if value.is_infinite() {
        return format!("bitcast<f32>(params[0].{})", if value < 0.0 { "y" } else { "z" });
    }
    if value == 0.0 && value.is_sign_negative() {
        return "bitcast<f32>(0x80000000u)".to_string();
    }
    if magnitude < 16_777_216.0 && magnitude.trunc() == magnitude {
        return format!("{sign}{}f", magnitude as u32);
    }
    // mantissa * 2^exponent, without trailing zero bits: exact, and needs no float formatting in the core.
    let (field, fraction) = (bits >> 23 & 0xff, bits & 0x7f_ffff);
    let mantissa = if field == 0 { fraction } else { fraction | 0x80_0000 };
    let shift = mantissa.trailing_zeros();
    let exponent = field.max(1) as i32 - 150 + shift as i32;
    format!("{sign}0x{:x}p{exponent}f", mantissa >> shift)
}

/// A constant that no compiler knows: its bits and those of the params' first word, which is 0.
fn opaque(constant: Const) -> String {
    from_bits(&format!("({}u | params[0].x)", constant.bits), constant.dtype.compute())
}

fn parameter(word: u32, dtype: DType) -> String {
    let component = ["x", "y", "z", "w"][word as usize % 4];
    from_bits(&format!("params[{}].{component}", 1 + word / 4), dtype)
}

fn from_bits(bits: &str, dtype: DType) -> String {
    match dtype {
        DType::U32 => bits.to_string(),
        DType::Bool => format!("({bits} != 0u)"),
        other => format!("bitcast<{}>({bits})", other.name()),
    }
}
