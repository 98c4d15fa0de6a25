//! The parts of a shader around a kernel's statements: bindings, helper functions, the entry point, and formatting.

use crate::codegen::dialect::{Dialect, Features};
use crate::codegen::helpers::{parts, Name, HELPERS};
use crate::codegen::memory::stored_type;
use crate::codegen::sizes::{take_marks, Signed};
use crate::codegen::source::Source;
use crate::dtype::DType;
use crate::kernel::{Inst, Program};
use crate::op::Element;
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// The arguments of every entry point, and then the number of the workgroup. More arguments can be inserted between.
pub const ENTRY: [&str; 2] = [
    "fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, \
    @builtin(local_invocation_index) lane: u32",
    ") {\nlet group = group_id.x + group_id.y * groups.x;\n",
];

/// The declaration of a buffer.
#[derive(Clone, Copy)]
pub struct Bound {
    pub dtype: DType,
    /// Whether the buffer is accessed in whole vectors of four.
    pub quads: bool,
}

/// The bindings of a module, and the helper functions that its statements call.
pub struct Module {
    /// The inputs by number, or `None` if no program loads an input.
    pub inputs: Vec<Option<Bound>>,
    pub outputs: Vec<Option<Bound>>,
    /// The device features that the statements need. Buffers of `f16` need `f16` in addition.
    pub features: Features,
    dialect: Dialect,
    words: u32,
    /// The helpers that are called, as a bit set with a bit for the scalar form and a bit for the form on `vec4`s.
    helpers: Cell<u32>,
    /// The custom functions that are called.
    elements: RefCell<Vec<Arc<Element>>>,
}

impl Module {
    /// Creates a module without bindings.
    pub fn new(dialect: Dialect) -> Module {
        Module {
            inputs: Vec::new(),
            outputs: Vec::new(),
            features: Features::default(),
            dialect,
            words: 0,
            helpers: Cell::new(0),
            elements: RefCell::default(),
        }
    }

    /// Adds the bindings that these programs use.
    pub fn bind(&mut self, programs: &[&Program]) {
        for program in programs {
            for inst in &program.insts {
                match inst {
                    Inst::Load { input, dtype, .. } => bind(&mut self.inputs, *input, *dtype),
                    Inst::Param { word, .. } => self.words = self.words.max(word + 1),
                    _ => {}
                }
            }
            for store in &program.stores {
                bind(&mut self.outputs, store.output, store.dtype);
            }
        }
    }

    /// Returns the name of a custom function, and adds the function to the module.
    pub fn element(&self, element: &Arc<Element>) -> String {
        let mut all = self.elements.borrow_mut();
        let known = all.iter().position(|known| known == element);
        let number = known.unwrap_or(all.len());
        if known.is_none() {
            all.push(element.clone());
        }
        element.name_in(number)
    }

    /// Fills in a template of [`helpers`](super::helpers), for four elements if `wide`. Adds the helpers that it calls to the
    /// module.
    pub fn fill(&self, template: &str, wide: bool, x: &str, y: &str) -> String {
        let mut filled = String::new();
        for (text, name) in parts(template) {
            filled += text;
            match name {
                None => {}
                Some(Name::X) => filled += x,
                Some(Name::Y) => filled += y,
                Some(Name::Type(dtype)) if wide => put!(filled, "vec4<{}>", dtype.name()),
                Some(Name::Type(dtype)) => filled += dtype.name(),
                Some(Name::Helper(number)) => {
                    let bit = 1 << (2 * number + usize::from(wide));
                    self.helpers.set(self.helpers.get() | bit);
                    filled += HELPERS[number].0;
                    filled += if wide { "4" } else { "" };
                }
            }
        }
        filled
    }

    /// Returns the whole text: bindings, then `rest`, then the helpers.
    pub fn finish(&self, rest: &str, workgroups: u64) -> Source {
        let params = 1 + self.words.div_ceil(4) as usize;
        let mut features = self.features;
        let mut buffers = self.inputs.iter().chain(&self.outputs).flatten();
        features.f16 |= buffers.any(|bound| bound.dtype == DType::F16);
        let mut text = self.directives(features);
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
                    let of = stored_type(dtype, quads, name == "out");
                    let of = format!("array<{of}>");
                    declare(first + i, access, &format!("{name}{i}"), &of);
                }
            }
        }
        text += rest;
        // Printing these helpers also records the ones that they call.
        let others = self.print_helpers(1, HELPERS.len());
        text += &self.print_helpers(0, 1);
        text += &others;
        for (number, element) in self.elements.borrow().iter().enumerate() {
            text += &element.text_in(number);
            text += "\n";
        }
        let (text, sizes) = take_marks(&tidy(&text));
        Source { text, workgroups, grid: None, params, head: true, features, sizes }
    }

    /// Returns the directives that enable features.
    fn directives(&self, features: Features) -> String {
        let mut text = String::from(if features.f16 { "enable f16;\n" } else { "" });
        if let (true, Some((enable, _))) =
            (features.cooperative_matrices, self.dialect.cooperative_matrices)
        {
            text += enable;
        }
        if features.subgroups {
            text += self.dialect.enable_subgroups;
        }
        text
    }

    /// Prints the helpers `from..to` that were called so far.
    fn print_helpers(&self, from: usize, to: usize) -> String {
        let mut text = String::new();
        for bit in 2 * from..2 * to {
            if self.helpers.get() >> bit & 1 == 1 {
                text += "fn ";
                text += &self.fill(HELPERS[bit / 2].1, bit % 2 == 1, "", "");
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

/// Indents by braces, and drops blank lines.
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
