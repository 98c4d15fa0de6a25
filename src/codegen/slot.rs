//! Puts constants, operands and epilogues into the hand-written shaders. A shader is valid as it lies on disk; what is
//! replaced are whole `const NAME = ...;` lines, whole functions and the bindings.

use crate::codegen::analysis::{bind_quads, coordinates, wide, widens};
use crate::codegen::module::Module;
use crate::codegen::program::Place;
use crate::codegen::sizes::Unsigned;
use crate::codegen::source::Source;
use crate::dtype::DType;
use crate::kernel::{Operand, Program, ValueId};

/// A place in a shader where a program goes: an operand's `load_x` or `quad_x`, or the epilogue.
pub struct Slot<'a> {
    name: &'static str,
    program: &'a Program,
    /// The value that is loaded; `None` for the epilogue.
    value: Option<ValueId>,
    /// The functions' arguments, all `u32`.
    arguments: &'static [&'static str],
    /// The arguments that may lie beyond their extent in `quad_x` and `finish`.
    bounds: Vec<(&'static str, usize)>,
    /// The program's coordinates, from the arguments.
    at: &'a [String],
    /// The coordinate that quads lie along: the last argument's.
    axis: Option<u32>,
    /// A condition without which the value is 0.
    pub condition: Option<String>,
}

impl<'a> Slot<'a> {
    /// The place where an operand is read.
    pub fn operand(
        name: &'static str,
        operand: &'a Operand,
        arguments: &'static [&'static str],
        at: &'a [String],
    ) -> Slot<'a> {
        let (program, value) = (&operand.program, Some(operand.value));
        let bounds = Vec::new();
        Slot { name, program, value, arguments, bounds, at, axis: None, condition: None }
    }

    /// The place where results go.
    pub fn epilogue(
        program: &'a Program,
        arguments: &'static [&'static str],
        at: &'a [String],
    ) -> Slot<'a> {
        let (bounds, value) = (Vec::new(), None);
        Slot {
            name: "epilogue",
            program,
            value,
            arguments,
            bounds,
            at,
            axis: None,
            condition: None,
        }
    }

    /// Allows quads along `axis`, the last of `bounds`.
    pub fn quads(mut self, axis: u32, bounds: &[(&'static str, usize)]) -> Slot<'a> {
        self.axis = Some(axis);
        self.bounds = bounds.to_vec();
        self
    }

    /// The axis, if the program can be done four elements at a time along it.
    fn quad(&self) -> Option<u32> {
        let axis = self.axis?;
        let extent = self.bounds.last()?.1;
        let wide = wide(self.program, axis as usize, axis);
        widens(self.program, &self.live(), &wide, axis, extent).then_some(axis)
    }

    /// The type of what is loaded.
    fn dtype(&self) -> &'static str {
        let value = self.value.map(|value| self.program.types[value as usize]);
        if value == Some(DType::I32) {
            "i32"
        } else {
            "f32"
        }
    }

    fn live(&self) -> Vec<bool> {
        self.program.live(self.value.as_slice())
    }

    /// The statements of the function: coordinates, values, stores.
    fn statements(&self, place: &Place) -> String {
        let live = self.live();
        let used = coordinates(self.program, &live);
        let mut text = String::new();
        for (d, at) in self.at.iter().enumerate().filter(|(d, _)| used >> d & 1 == 1) {
            put!(text, "let c{d} = {at};\n");
        }
        for id in (0..live.len()).filter(|&id| live[id]) {
            text += &place.define(id as ValueId);
        }
        for store in &self.program.stores {
            text += &place.store(store);
        }
        text
    }

    fn signature(&self, prefix: &str) -> String {
        let mut text = String::new();
        for name in self.arguments {
            text += if text.is_empty() { "" } else { ", " };
            put!(text, "{prefix}{name}: u32");
        }
        text
    }

    /// The condition that the arguments lie within their bounds.
    fn inside(&self, prefix: &str) -> String {
        let mut text = String::new();
        for (name, extent) in &self.bounds {
            text += if text.is_empty() { "" } else { " && " };
            put!(text, "{prefix}{name} < {}", Unsigned(*extent));
        }
        text
    }

    /// Replaces the shader's functions that are for this slot.
    fn fill(&self, shader: &mut Shader, module: &Module, quad: Option<u32>) {
        let outer = quad.unwrap_or(0) as usize;
        let wide = quad.map_or(Vec::new(), |axis| wide(self.program, outer, axis));
        let (program, varying) = (self.program, &[][..]);
        let place = Place { module, program, varying, outer, step: None, quad, wide: &wide };
        let statements = self.statements(&place);
        let name = self.name;
        match (self.value, quad) {
            (Some(value), None) => {
                let value = match &self.condition {
                    Some(condition) => format!("select(0.0, v{value}, {condition})"),
                    None => format!("v{value}"),
                };
                let (signature, dtype) = (self.signature(""), self.dtype());
                let text = format!(
                    "fn load_{name}({signature}) -> {dtype} {{\n{statements}return {value};\n}}\n"
                );
                shader.replace("load_", name, &text);
            }
            (Some(value), Some(_)) => {
                let value = place.operand(value, true);
                let inside = self.inside("any_");
                let mut text =
                    format!("fn quad_{name}({}) -> vec4<f32> {{\n", self.signature("any_"));
                let last = self.bounds.len() - 1;
                for argument in self.arguments {
                    let mut nearest = format!("any_{argument}");
                    for (i, (name, extent)) in self.bounds.iter().enumerate() {
                        if name == argument {
                            let step = if i == last { 4 } else { 1 };
                            let last = Unsigned(extent.max(&step) - step);
                            nearest = format!("min({nearest}, {last})");
                        }
                    }
                    put!(text, "let {argument} = {nearest};\n");
                }
                put!(text, "{statements}return select(vec4<f32>(), {value}, {inside});\n}}\n");
                shader.replace("load_", name, "");
                shader.replace("inside_", name, "");
                shader.replace("quad_", name, &text);
            }
            (None, None) => {
                let signature = self.signature("");
                let text =
                    format!("fn epilogue({signature}, accumulator: f32) {{\n{statements}}}\n");
                shader.replace("", "epilogue", &text);
            }
            (None, Some(_)) => {
                let (signature, inside) = (self.signature(""), self.inside(""));
                let text = format!(
                    "fn finish({signature}, accumulator: vec4<f32>) {{\n\
                    if ({inside}) {{\n{statements}}}\n}}\n"
                );
                shader.replace("", "epilogue", "");
                shader.replace("", "finish", &text);
            }
        }
    }
}

/// A shader's text while its parts are replaced: what is declared, one after the other.
pub struct Shader(Vec<String>);

impl Shader {
    /// A stored shader, less its comments and the bindings that make it valid by itself.
    pub fn new(text: &str) -> Shader {
        let mut parts = vec![String::from("\n")];
        for line in text.lines() {
            if line.trim_start().starts_with("//") || line.starts_with("@group") {
                continue;
            }
            if line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '@') {
                parts.push(String::new());
            }
            if let Some(part) = parts.last_mut() {
                *part += line;
                part.push('\n');
            }
        }
        Shader(parts)
    }

    /// Puts `count` paragraphs, at most ten, in the place of each one whose lines all say `_0`: in each, the 0 of `_0` and
    /// of `row + 0u` is its number.
    pub fn repeat(&mut self, count: usize) {
        for part in self.0.iter_mut().filter(|part| part.contains("_0")) {
            let whole = std::mem::take(part);
            let (mut rest, mut paragraph) = (&whole[..], String::new());
            while !rest.is_empty() {
                let (line, after) = rest.split_at(rest.find('\n').map_or(rest.len(), |at| at + 1));
                rest = after;
                if line.contains("_0") {
                    paragraph += line;
                    continue;
                }
                for number in 0..count as u8 {
                    let digit = char::from(b'0' + number).to_string();
                    let named = paragraph.replace("_0", &format!("_{digit}"));
                    *part += &named.replace("row + 0u", &format!("row + {digit}u"));
                }
                paragraph.clear();
                *part += line;
            }
        }
    }

    /// Gives a constant its value.
    fn set(&mut self, name: &str, value: &str) {
        let start = format!("const {name} = ");
        self.declare(&start, ";\n", &format!("{start}{value};\n"));
    }

    /// Gives a constant of type `bool` its value.
    pub fn choose(&mut self, name: &str, value: bool) {
        self.set(name, if value { "true" } else { "false" });
    }

    /// Gives constants of type `u32` that follow from sizes their values.
    pub fn sizes(&mut self, sizes: &[(&str, usize)]) {
        for &(name, value) in sizes {
            self.set(name, &Unsigned(value).to_string());
        }
    }

    /// Gives constants of type `u32` their values.
    pub fn constants(&mut self, constants: &[(&str, usize)]) {
        for (name, value) in constants {
            self.set(name, &format!("{value}u"));
        }
    }

    /// Puts a function in the place of another.
    fn replace(&mut self, kind: &str, name: &str, text: &str) {
        self.declare(&format!("fn {kind}{name}("), "\n}\n", text);
    }

    /// Puts a text in the place of the declaration that begins and ends so.
    fn declare(&mut self, start: &str, end: &str, text: &str) {
        let part = self.0.iter_mut().find(|part| part.starts_with(start));
        let found = part.and_then(|part| Some((part.find(end)? + end.len(), part)));
        debug_assert!(found.is_some(), "the shader declares no {start}");
        if let Some((to, part)) = found {
            part.replace_range(..to, text);
        }
    }

    /// Removes the declarations that begin so.
    #[cfg(not(target_arch = "wasm32"))]
    pub fn remove(&mut self, start: &str) {
        self.0.retain(|part| !part.starts_with(start));
    }

    /// Puts a text in the place of what lies between two others of one function, and of those.
    pub fn replace_between(&mut self, start: &str, end: &str, text: &str) {
        let part = self.0.iter_mut().find(|part| part.contains(start));
        debug_assert!(part.is_some(), "the shader has no {start}");
        let Some(part) = part else { return };
        let from = part.find(start);
        let to = from.and_then(|from| Some(from + part[from..].find(end)? + end.len()));
        if let (Some(from), Some(to)) = (from, to) {
            part.replace_range(from..to, text);
        }
    }

    /// Puts the programs into their places.
    pub fn fill(mut self, slots: Vec<Slot>, workgroups: u64) -> Source {
        let (mut programs, mut quads) = (Vec::new(), Vec::new());
        for slot in &slots {
            programs.push(slot.program);
            quads.push(slot.quad());
        }
        let mut module = Module::new(&programs);
        bind_quads(&mut module, &programs, &quads);
        for (slot, quad) in slots.iter().zip(quads) {
            slot.fill(&mut self, &module, quad);
        }
        module.finish(&self.0.concat(), workgroups)
    }
}
