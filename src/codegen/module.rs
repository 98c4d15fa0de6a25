//! What stands around a kernel's statements: bindings, helper functions, the entry point, the layout of the text.

use crate::codegen::sizes::{take_marks, Signed};
use crate::codegen::source::Source;
use crate::dtype::DType;
use crate::kernel::{Inst, Program};
use crate::op::Element;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The arguments of every entry point, then the workgroup's number; more arguments fit between them.
pub const ENTRY: [&str; 2] = [
    "fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, \
    @builtin(local_invocation_index) lane: u32",
    ") {\nlet group = group_id.x + group_id.y * groups.x;\n",
];

/// A buffer as the text declares it.
#[derive(Clone, Copy)]
pub struct Bound {
    pub dtype: DType,
    /// Declared as `array<vec4<..>>`.
    pub quads: bool,
}

/// The module's bindings, and the helper functions its statements call.
pub struct Module {
    /// By number; `None` where no program loads it.
    pub inputs: Vec<Option<Bound>>,
    pub outputs: Vec<Option<Bound>>,
    words: u32,
    /// The helpers that are called: a bit each, and one for the form on `vec4`s.
    helpers: Cell<u32>,
    /// The users' functions that are called.
    elements: RefCell<Vec<Arc<Element>>>,
}

/// Functions that WGSL lacks, or whose special cases it leaves open, as [`Module::fill`] takes them. All but the first
/// may call the first.
///
/// The bits are looked at because compilers may assume that no comparison meets a NaN.
const HELPERS: [&str; 11] = [
    "is_nan_(x: F) -> B {
    return (bitcast<U>(x) & U(0x7fffffffu)) > U(0x7f800000u);
    }",
    // Maximum and minimum that give NaN where either argument is NaN.
    "max_nan_(x: F, y: F) -> F {
    return select(select(max(x, y), y, is_nan_(y)), x, is_nan_(x));
    }",
    "min_nan_(x: F, y: F) -> F {
    return select(select(min(x, y), y, is_nan_(y)), x, is_nan_(x));
    }",
    // `y`, but NaN where `x` is; some compilers' functions lose it.
    "keep_nan_(x: F, y: F) -> F {
    return select(y, x, is_nan_(x));
    }",
    // `y`, a logarithm of `x`, with what IEEE says of 0, Inf and NaN.
    "log_of_(x: F, y: F) -> F {
    let r = select(y, F(bitcast<f32>(params[0].y)), x == F());
    let s = select(r, x, is_nan_(x) | (x == F(bitcast<f32>(params[0].z))));
    return select(s, F(bitcast<f32>(params[0].w)), x < F());
    }",
    // For `x >= 0`, with the special cases of 0, 1, Inf and NaN.
    "power_(x: F, y: F) -> F {
    let inf = F(bitcast<f32>(params[0].z));
    let edge = select(F(), inf, (x == F()) == (y < F()));
    let r = select(pow(x, y), edge, (x == F()) | (x == inf));
    let s = select(r, x + y, is_nan_(x) | is_nan_(y));
    return select(s, F(1.0), (x == F(1.0)) | (y == F()));
    }",
    "angle_(y: F, x: F) -> F {
    let half_turn = select(F(3.1415927), F(-3.1415927), bitcast<I>(y) < I());
    let r = select(atan2(y, x), select(y, half_turn, x < F()), y == F());
    return select(r, x + y, is_nan_(x) | is_nan_(y));
    }",
    // The sine of `x` and some quarter turns; `y` is the machine's own, which need not be right beyond 2^-11.
    // By quarter turns to within an eighth of a turn (Cody and Waite), and there by polynomials.
    "sine_(x: F, quarters: I, y: F) -> F {
    let n = round(x * 0.63661977);
    let r = ((x - n * 1.5703125) - n * 0.00048375129699707031) - n * 7.549789948768648e-8;
    let z = r * r;
    let s = r + r * z * (z * (z * -0.00019515295891 + 0.0083321608736) - 0.16666654611);
    let c = z * z * (z * (z * 2.4433157e-5 - 0.0013887316) + 0.041666646) - 0.5 * z + 1.0;
    let q = I(n) + quarters;
    let v = select(s, c, (q & I(1)) == I(1));
    let w = select(v, -v, (q & I(2)) == I(2));
    return select(w, y, (x == F()) | (abs(x) > F(20000.0)));
    }",
    // `x - y * trunc(x / y)`, corrected where the quotient was rounded to the wrong side; in `[0, |y|)` at least,
    // where the quotient has more digits than an `f32`.
    "remainder_(x: F, y: F) -> F {
    let a = abs(x);
    let b = abs(y);
    var r = a - b * trunc(a / b);
    r = select(r, r + b, r < F());
    r = select(r, r - b, r >= b);
    r = select(r, F(), (r < F()) | (r >= b));
    r = select(r, a, a < b);
    return select(r, -r, x < F());
    }",
    // Saturating; NaN is 0.
    "to_i32_(x: F) -> I {
    let i = I(clamp(x, F(-2147483648.0), F(2147483520.0)));
    return select(select(i, I(2147483647), x >= F(2147483648.0)), I(), is_nan_(x));
    }",
    "to_u32_(x: F) -> U {
    let i = U(clamp(x, F(), F(4294967040.0)));
    return select(select(i, U(4294967295u), x >= F(4294967296.0)), U(), is_nan_(x));
    }",
];

/// A type's name inside functions, `vec4` of it where `wide`.
pub fn type_name(dtype: DType, wide: bool) -> String {
    let name = dtype.compute().name();
    if wide {
        format!("vec4<{name}>")
    } else {
        name.to_string()
    }
}

/// A type's name in memory.
pub fn memory_name(dtype: DType, quads: bool) -> String {
    let name = match dtype {
        DType::Bool => "u32",
        other => other.name(),
    };
    if quads {
        format!("vec4<{name}>")
    } else {
        name.to_string()
    }
}

impl Module {
    /// The bindings of a kernel made of these programs.
    pub fn new(programs: &[&Program]) -> Module {
        let (mut inputs, mut outputs, mut words) = (Vec::new(), Vec::new(), 0);
        for program in programs {
            for inst in &program.insts {
                match inst {
                    Inst::Load { input, dtype, .. } => bind(&mut inputs, *input, *dtype),
                    Inst::Param { word, .. } => words = words.max(word + 1),
                    _ => {}
                }
            }
            for store in &program.stores {
                bind(&mut outputs, store.output, store.dtype);
            }
        }
        Module { inputs, outputs, words, helpers: Cell::new(0), elements: RefCell::default() }
    }

    /// The name by which a user's function is called, which the module will have.
    pub fn element(&self, element: &Arc<Element>) -> String {
        let mut all = self.elements.borrow_mut();
        let known = all.iter().position(|known| known == element);
        let number = known.unwrap_or(all.len());
        if known.is_none() {
            all.push(element.clone());
        }
        element.name_in(number)
    }

    /// A template with `X` and `Y` replaced by these texts, and `F I U B H` by types, `vec4`s of them where `wide`. A `_`
    /// after a helper's name becomes the end of its name, and the module will have it.
    pub fn fill(&self, template: &str, wide: bool, x: &str, y: &str) -> String {
        let mut text = String::new();
        for (i, c) in template.bytes().enumerate() {
            let dtype = match c {
                b'X' => {
                    text += x;
                    continue;
                }
                b'Y' => {
                    text += y;
                    continue;
                }
                b'_' if template.as_bytes()[i + 1] == b'(' => {
                    for (n, helper) in HELPERS.iter().enumerate() {
                        let name = &helper[..=helper.find("_(").unwrap_or(0)];
                        if template[..=i].ends_with(name) {
                            let bit = 1 << (2 * n + usize::from(wide));
                            self.helpers.set(self.helpers.get() | bit);
                        }
                    }
                    text += if wide { "4" } else { "" };
                    continue;
                }
                b'F' => DType::F32,
                b'H' => DType::F16,
                b'I' => DType::I32,
                b'U' => DType::U32,
                b'B' => DType::Bool,
                _ => {
                    text += &template[i..=i];
                    continue;
                }
            };
            text += if wide { "vec4<" } else { "" };
            text += dtype.name();
            text += if wide { ">" } else { "" };
        }
        text
    }

    /// The whole text: bindings, then `rest`, then the helpers.
    pub fn finish(&self, rest: &str, workgroups: u64) -> Source {
        let params = 1 + self.words.div_ceil(4) as usize;
        let buffers = || self.inputs.iter().chain(&self.outputs).flatten();
        let matrices = cfg!(not(target_arch = "wasm32")) && rest.contains("coop_mat");
        let f16 = matrices || buffers().any(|b| b.dtype == DType::F16);
        let mut text = String::from(if f16 { "enable f16;\n" } else { "" });
        if matrices {
            text += "enable wgpu_cooperative_matrix;\n";
        }
        // naga knows subgroups without being told, and does not know this line.
        if cfg!(target_arch = "wasm32") && rest.contains("subgroup") {
            text += "enable subgroups;\n";
        }
        let mut declare = |binding: usize, access: &str, name: &str, of: &str| {
            put!(text, "@group(0) @binding({binding}) var<{access}> {name}: {of};\n");
        };
        declare(0, "uniform", "params", &format!("array<vec4<u32>, {}>", Signed(params as u64)));
        let after = 1 + self.inputs.len();
        let sides = [
            ("in", "storage, read", &self.inputs, 1),
            ("out", "storage, read_write", &self.outputs, after),
        ];
        for (name, access, buffers, first) in sides {
            for (i, buffer) in buffers.iter().enumerate() {
                if let Some(Bound { dtype, quads }) = *buffer {
                    let of = format!("array<{}>", memory_name(dtype, quads));
                    declare(first + i, access, &format!("{name}{i}"), &of);
                }
            }
        }
        text += rest;
        // Those that the others call come to light with them.
        let others = self.print_helpers(1, HELPERS.len());
        text += &self.print_helpers(0, 1);
        text += &others;
        for (number, element) in self.elements.borrow().iter().enumerate() {
            text += &element.text_in(number);
            text += "\n";
        }
        let (text, sizes) = take_marks(&tidy(&text));
        Source { text, workgroups, grid: None, params, head: true, f16, sizes }
    }

    /// The helpers `from..to` that are called so far.
    fn print_helpers(&self, from: usize, to: usize) -> String {
        let mut text = String::new();
        for bit in 2 * from..2 * to {
            if self.helpers.get() >> bit & 1 == 1 {
                text += "fn ";
                text += &self.fill(HELPERS[bit / 2], bit % 2 == 1, "", "");
                text += "\n";
            }
        }
        text
    }
}

fn bind(buffers: &mut Vec<Option<Bound>>, number: u32, dtype: DType) {
    let number = number as usize;
    if buffers.len() <= number {
        buffers.resize(number + 1, None);
    }
    buffers[number] = Some(Bound { dtype, quads: false });
}

/// Indents by braces; drops blank lines.
fn tidy(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut depth = 0usize;
    let mut rest = text;
    while !rest.is_empty() {
        let (line, after) = rest.split_at(rest.find('\n').unwrap_or(rest.len()));
        rest = after.get(1..).unwrap_or_default();
        let line = line.trim_ascii();
        if line.is_empty() {
            continue;
        }
        if line.as_bytes()[0] == b'}' {
            depth = depth.saturating_sub(1);
        }
        for _ in 0..depth {
            out += "  ";
        }
        out += line;
        out += "\n";
        if line.as_bytes()[line.len() - 1] == b'{' {
            depth += 1;
        }
    }
    out
}
