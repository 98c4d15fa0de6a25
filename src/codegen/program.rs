//! Prints the instructions of a program as WGSL statements.

use crate::codegen::memory::{self, cast, type_name};
use crate::codegen::module::Module;
use crate::codegen::sizes::{Signed, Unsigned};
use crate::dtype::DType;
use crate::expr::{Binary, Unary};
use crate::kernel::{Atom, Index, Inst, Program, Store, ValueId};
use crate::op::{Const, Function, Reduction};
use crate::schedule::Vector;

/// The context of statements: the names of values and coordinates, and the number of elements in a value.
pub struct Place<'a> {
    pub module: &'a Module,
    pub program: &'a Program,
    /// Whether each value varies with the coordinates from `outer` on.
    pub varying: &'a [bool],
    pub outer: usize,
    /// The step in an unrolled loop. Names of varying values end in it.
    pub step: Option<usize>,
    /// The values that hold four elements, and their coordinate.
    pub vector: Option<&'a Vector>,
}

impl Place<'_> {
    /// Returns a definition such as `let v7 = ...;`.
    pub fn define(&self, id: ValueId) -> String {
        format!("let {} = {};\n", self.name(id), self.expression(id))
    }

    /// Returns the name of a value.
    pub fn name(&self, id: ValueId) -> String {
        format!("v{id}{}", self.suffix(self.varies(id)))
    }

    /// Returns the name of a coordinate.
    pub fn coordinate(&self, d: u32) -> String {
        format!("c{d}{}", self.suffix(d as usize >= self.outer))
    }

    /// Whether the value holds four elements.
    pub fn is_wide(&self, id: ValueId) -> bool {
        self.vector.is_some_and(|vector| vector.values[id as usize])
    }

    /// Returns a value as an operand, with four elements if `wide`.
    pub fn operand(&self, id: ValueId, wide: bool) -> String {
        let name = self.name(id);
        if wide && !self.is_wide(id) {
            format!("{}({name})", type_name(self.program.types[id as usize], true))
        } else {
            name
        }
    }

    /// Returns the statement that writes one or four elements.
    pub fn store(&self, store: &Store) -> String {
        let number = store.output;
        let at = self.index(&store.index);
        let along = |vector: &Vector| store.index.stride(Atom::Coord(vector.axis)) == 1;
        let wide = self.vector.is_some_and(along);
        let (template, value) =
            (memory::stored(store.dtype, wide), self.operand(store.value, wide));
        let value = self.module.fill(&template, wide, &value, "");
        memory::store(store.dtype, number, &at, &value, wide)
    }

    /// Returns a position in a buffer, as `u32`.
    pub fn index(&self, index: &Index) -> String {
        if index.terms.is_empty() {
            return Unsigned(index.offset as u32 as usize).to_string();
        }
        let mut sum = String::new();
        for &(atom, stride) in &index.terms {
            let name = match atom {
                Atom::Coord(d) => self.coordinate(d),
                Atom::Value(v) => self.name(v),
            };
            sum += match (sum.is_empty(), stride < 0) {
                (true, false) => "",
                (true, true) => "-",
                (false, false) => " + ",
                (false, true) => " - ",
            };
            sum += &name;
            if stride.unsigned_abs() != 1 {
                put!(sum, " * {}", Signed(stride.unsigned_abs()));
            }
        }
        if index.offset != 0 {
            let sign = if index.offset < 0 { "-" } else { "+" };
            put!(sum, " {sign} {}", Signed(index.offset.unsigned_abs()));
        }
        format!("u32({sum})")
    }

    fn varies(&self, id: ValueId) -> bool {
        self.varying.get(id as usize) == Some(&true)
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
        // Compilers evaluate constant expressions, and reject those that overflow or divide by 0. They also replace x * 0 by
        // 0, although x may be infinite or NaN. Such constants are therefore made opaque.
        let folds = insts[id as usize].operands().iter().all(|&v| constant(v).is_some());
        let vanishes =
            matches!(insts[id as usize], Inst::Binary(Binary::Mul | Binary::Div | Binary::Rem, ..));
        let zero = |c: Const| c.bits == 0 || c.dtype.is_float() && c.bits == 1 << 31;
        let operand = |id: ValueId| match constant(id) {
            Some(c) if folds || vanishes && zero(c) => match wide {
                true => format!("{}({})", type_name(c.dtype, true), opaque(c)),
                false => opaque(c),
            },
            _ => self.operand(id, wide),
        };
        let (mut x, mut y) = (String::new(), String::new());
        let template = match &insts[id as usize] {
            Inst::Const(constant) => return literal(*constant),
            Inst::Param { word, dtype } => return parameter(*word, dtype.compute()),
            Inst::Coord(d) => return self.coordinate(*d),
            Inst::Load { input, index, dtype } => return self.load(*input, index, *dtype, wide),
            Inst::LoadOutput { output, dtype } => return self.before(*output, *dtype, wide),
            Inst::Accumulator => "accumulator",
            Inst::Call(function, arguments, dtype) => {
                return self.call(function, arguments, *dtype, wide)
            }
            Inst::Select(c, a, b) => {
                let (c, a, b) = (operand(*c), operand(*a), operand(*b));
                return format!("select({b}, {a}, {c})");
            }
            Inst::Cast(to, of) => {
                let template = cast(*to, self.program.types[*of as usize], wide);
                return self.module.fill(&template, wide, &operand(*of), "");
            }
            // A reduction is printed here only if it has no dimensions. Its only element is then its result.
            Inst::Unary(_, of) | Inst::Bitcast(_, of) | Inst::Reduce(_, of) => {
                x = operand(*of);
                let dtype = self.program.types[*of as usize];
                match &insts[id as usize] {
                    Inst::Unary(op, _) => unary(*op, dtype),
                    Inst::Bitcast(to, _) => bitcast(*to),
                    _ => "{x}",
                }
            }
            Inst::Binary(op, left, right) => {
                (x, y) = (operand(*left), operand(*right));
                if self.cancels(*op, *left, *right) {
                    y = self.module.fill(HIDDEN, wide, &y, "");
                }
                binary(*op, self.program.types[*left as usize])
            }
        };
        self.module.fill(template, wide, &x, &y)
    }

    /// Whether the operation is `x - x`, `x / x` or `x + -x` of floats. The result is NaN if `x` is infinite or NaN, but
    /// compilers replace it by 0 or 1.
    fn cancels(&self, op: Binary, left: ValueId, right: ValueId) -> bool {
        let minus = |x: ValueId, y: ValueId| matches!(self.program.insts[x as usize], Inst::Unary(Unary::Neg, of) if of == y);
        self.program.types[left as usize].is_float()
            && match op {
                Binary::Sub | Binary::Div => left == right,
                Binary::Add => minus(left, right) || minus(right, left),
                _ => false,
            }
    }

    /// Returns the call of a custom function, for each of four elements if `wide`.
    fn call(&self, function: &Function, of: &[ValueId], dtype: DType, wide: bool) -> String {
        let Function::Element(element) = function else { unreachable!("others are written out") };
        let name = self.module.element(element);
        let one = |component: &str| {
            let mut call = format!("{name}(");
            for (n, &id) in of.iter().enumerate() {
                call += if n > 0 { ", " } else { "" };
                call += &self.name(id);
                call += if self.is_wide(id) { component } else { "" };
            }
            call + ")"
        };
        if !wide {
            return one("");
        }
        let each = [".x", ".y", ".z", ".w"].map(one).join(", ");
        format!("{}({each})", type_name(dtype, true))
    }

    fn load(&self, input: u32, index: &Index, dtype: DType, wide: bool) -> String {
        let quads = self.module.inputs[input as usize].is_some_and(|bound| bound.quads);
        let mut places = vec![self.index(index)];
        if let (Some(vector), true, false) = (self.vector, wide, quads) {
            let step = index.stride(Atom::Coord(vector.axis));
            for i in 1..4 {
                let mut index = index.clone();
                index.offset += i * step;
                places.push(self.index(&index));
            }
        }
        let buffer = format!("in{input}");
        let (template, value) = memory::load(dtype, &buffer, &places, wide && quads);
        self.module.fill(&template, wide, &value, "")
    }

    /// Returns the old value of an output at the position that is written.
    fn before(&self, output: u32, dtype: DType, wide: bool) -> String {
        let place = self.program.store_to(output).map(|(_, store)| self.index(&store.index));
        let buffer = format!("out{output}");
        let (template, value) = memory::load(dtype, &buffer, place.as_slice(), wide);
        self.module.fill(&template, wide, &value, "")
    }

    /// Returns `x op y`, as a reduction combines its elements.
    pub fn combine(&self, op: Reduction, x: &str, y: &str, dtype: DType, wide: bool) -> String {
        self.module.fill(binary(op.binary(), dtype), wide, x, y)
    }
}

/// Hides a float from compilers' simplifications. Its bits are or'ed with the first word of the params, which is always 0.
const HIDDEN: &str = "bitcast<{f32}>(bitcast<{u32}>({x}) | {u32}(params[0].x))";

/// Returns the template for a function of one value of type `dtype` (see [`helpers`](super::helpers)).
fn unary(op: Unary, dtype: DType) -> &'static str {
    let float = dtype.is_float();
    match op {
        Unary::Neg if dtype == DType::U32 => "{u32}() - {x}",
        Unary::Neg => "-{x}",
        Unary::Abs => "abs({x})",
        Unary::Floor | Unary::Ceil | Unary::Round | Unary::Trunc if !float => "{x}",
        Unary::Floor => "floor({x})",
        Unary::Ceil => "ceil({x})",
        Unary::Round => "round({x})",
        Unary::Trunc => "trunc({x})",
        Unary::Exp => "{keep_nan}({x}, exp({x}))",
        Unary::Exp2 => "{keep_nan}({x}, exp2({x}))",
        Unary::Log => "{log_of}({x}, log({x}))",
        Unary::Log2 => "{log_of}({x}, log2({x}))",
        Unary::Sqrt => "sqrt({x})",
        Unary::InverseSqrt => "inverseSqrt({x})",
        Unary::Sin => "{sine}({x}, {i32}(0), sin({x}))",
        Unary::Cos => "{sine}({x}, {i32}(1), cos({x}))",
        Unary::Tan => "{sine}({x}, {i32}(0), sin({x})) / {sine}({x}, {i32}(1), cos({x}))",
        Unary::Asin => "asin({x})",
        Unary::Acos => "acos({x})",
        Unary::Atan => "{keep_nan}({x}, atan({x}))",
        Unary::Not if dtype == DType::Bool => "!{x}",
        Unary::Not => "~{x}",
        Unary::IsNan | Unary::IsInf if !float => "{bool}(false)",
        Unary::IsNan => "{is_nan}({x})",
        Unary::IsInf => "(bitcast<{u32}>({x}) & {u32}(0x7fffffffu)) == {u32}(0x7f800000u)",
        Unary::SignBit => "(bitcast<{u32}>({x}) & {u32}(0x80000000u)) != {u32}()",
    }
}

/// Returns the template that reinterprets bits as another type.
fn bitcast(to: DType) -> &'static str {
    match to {
        DType::F32 => "bitcast<{f32}>({x})",
        DType::I32 => "bitcast<{i32}>({x})",
        _ => "bitcast<{u32}>({x})",
    }
}

/// Returns the template for a function of two values of type `dtype`.
fn binary(op: Binary, dtype: DType) -> &'static str {
    let (float, logical) = (dtype.is_float(), dtype == DType::Bool);
    match op {
        Binary::Add => "{x} + {y}",
        Binary::Sub => "{x} - {y}",
        Binary::Mul => "{x} * {y}",
        Binary::Div => "{x} / {y}",
        Binary::Rem if float => "{remainder}({x}, {y})",
        Binary::Rem => "{x} % {y}",
        Binary::Min if float => "{min_nan}({x}, {y})",
        Binary::Min => "min({x}, {y})",
        Binary::Max if float => "{max_nan}({x}, {y})",
        Binary::Max => "max({x}, {y})",
        Binary::Pow => "{power}({x}, {y})",
        Binary::Atan2 => "{angle}({x}, {y})",
        Binary::And => "{x} & {y}",
        Binary::Or => "{x} | {y}",
        Binary::Xor if logical => "{x} != {y}",
        Binary::Xor => "{x} ^ {y}",
        Binary::Shl => "{x} << ({u32}({y}) & {u32}(31u))",
        Binary::Shr => "{x} >> ({u32}({y}) & {u32}(31u))",
        Binary::Lt if logical => "!{x} & {y}",
        Binary::Le if logical => "!{x} | {y}",
        Binary::Lt => "{x} < {y}",
        Binary::Le => "{x} <= {y}",
        Binary::Eq => "{x} == {y}",
        // In some compilers, `!=` is false for NaN.
        Binary::Ne if float => "!({x} == {y})",
        Binary::Ne => "{x} != {y}",
    }
}

/// Returns an exact literal of a constant. Values without a WGSL literal are read from the params' head.
pub fn literal(constant: Const) -> String {
    let bits = constant.bits;
    match constant.dtype.compute() {
        DType::U32 => Unsigned(bits as usize).to_string(),
        DType::I32 if (bits as i32) >= 0 => format!("{}i", Signed(u64::from(bits))),
        DType::I32 if bits == 1 << 31 => "bitcast<i32>(0x80000000u)".to_string(),
        DType::I32 => format!("{}i", bits as i32),
        DType::Bool => if bits != 0 { "true" } else { "false" }.to_string(),
        _ => float_literal(f32::from_bits(bits)),
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
    // The form mantissa * 2^exponent, without trailing zero bits, is exact and needs no float formatting from `core`.
    let (field, fraction) = (bits >> 23 & 0xff, bits & 0x7f_ffff);
    let mantissa = if field == 0 { fraction } else { fraction | 0x80_0000 };
    let shift = mantissa.trailing_zeros();
    let exponent = field.max(1) as i32 - 150 + shift as i32;
    format!("{sign}0x{:x}p{exponent}f", mantissa >> shift)
}

/// Returns a constant that compilers cannot evaluate. Its bits are or'ed with the params' first word, which is 0.
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

/// Puts statements under the given conditions.
pub fn guarded(guards: [Option<String>; 2], text: &str) -> String {
    let mut condition = String::new();
    for guard in guards.iter().flatten() {
        condition += if condition.is_empty() { "" } else { " && " };
        condition += guard;
    }
    if text.is_empty() || condition.is_empty() {
        return text.to_string();
    }
    format!("if ({condition}) {{\n{text}}}\n")
}
