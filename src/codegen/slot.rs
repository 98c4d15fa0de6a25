//! Slots: the functions of stored shaders that are replaced by a kernel's operands and epilogues.

use crate::codegen::analysis::{bind_quads, coordinates};
use crate::codegen::module::Module;
use crate::codegen::program::Place;
use crate::codegen::shader::Shader;
use crate::codegen::sizes::Unsigned;
use crate::codegen::source::Source;
use crate::dtype::DType;
use crate::kernel::{Atom, Inst, Operand, Program, ValueId};
use crate::schedule::{Vector, VECTOR};

/// A slot of a shader for a program: an operand's `load_x` or `x_vec4`, or the epilogue.
pub struct Slot<'a> {
    name: &'static str,
    program: &'a Program,
    /// The value that is loaded, or `None` for the epilogue.
    value: Option<ValueId>,
    /// The arguments of the functions, all `u32`.
    arguments: &'static [&'static str],
    /// The arguments that may be out of range in `x_vec4` and `finish`, with their extents.
    bounds: Vec<(&'static str, usize)>,
    /// The program's coordinates, in terms of the arguments.
    at: &'a [String],
    /// The vector along the coordinate of the last argument, if four elements are computed at a time.
    vector: Option<&'a Vector>,
    /// The condition for the value. If it is false, the value is 0.
    pub condition: Option<String>,
    /// The bytes of an operand's asynchronous copies, or 0 if the operand is not copied.
    pub copy_bytes: usize,
}

/// Returns the most bytes that are contiguous and aligned along an axis of an operand: 16, 8, 4, or 0. Only buffers of `f16`
/// are copied.
pub fn copy_bytes(operand: &Operand, axis: u32) -> usize {
    let Some((_, index, DType::F16)) = operand.view() else { return 0 };
    if index.stride(Atom::Coord(axis)) != 1 {
        return 0;
    }
    let is_whole = |&elements: &i64| {
        let is_aligned =
            |&(atom, stride): &(Atom, i64)| atom == Atom::Coord(axis) || stride % elements == 0;
        index.offset % elements == 0 && index.terms.iter().all(is_aligned)
    };
    [8, 4, 2].into_iter().find(is_whole).map_or(0, |elements| 2 * elements as usize)
}

impl<'a> Slot<'a> {
    /// Creates the slot of an operand.
    pub fn operand(
        name: &'static str,
        operand: &'a Operand,
        arguments: &'static [&'static str],
        at: &'a [String],
    ) -> Slot<'a> {
        let (program, value) = (&operand.program, Some(operand.value));
        let (bounds, vector, condition) = Default::default();
        Slot { name, program, value, arguments, bounds, at, vector, condition, copy_bytes: 0 }
    }

    /// Creates the slot of the results.
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
            vector: None,
            condition: None,
            copy_bytes: 0,
        }
    }

    /// Copies an operand asynchronously, `bytes` bytes at a time, where the shader can.
    pub fn copied(mut self, bytes: usize) -> Slot<'a> {
        self.copy_bytes = bytes;
        self
    }

    /// Computes four elements at a time if `vector` is set. The vector is along the last of `bounds`.
    pub fn vector(
        mut self,
        vector: &'a Option<Vector>,
        bounds: &[(&'static str, usize)],
    ) -> Slot<'a> {
        self.vector = vector.as_ref();
        self.bounds = bounds.to_vec();
        self
    }

    /// Returns the type of the loaded value.
    fn dtype(&self) -> &'static str {
        let value = self.value.map(|value| self.program.types[value as usize]);
        match value {
            Some(DType::I32) => "i32",
            Some(DType::U32) => "u32",
            _ => "f32",
        }
    }

    fn live(&self) -> Vec<bool> {
        self.program.live(self.value.as_slice())
    }

    /// Returns the statements of the function: coordinates, values, stores.
    fn statements(&self, place: &Place) -> String {
        let mut text = self.definitions(place, None);
        for store in &self.program.stores {
            text += &place.store(store);
        }
        text
    }

    /// Returns the definitions of the coordinates and values, except one.
    fn definitions(&self, place: &Place, except: Option<ValueId>) -> String {
        let live = self.live();
        let used = coordinates(self.program, &live);
        let mut text = String::new();
        for (d, at) in self.at.iter().enumerate().filter(|(d, _)| used >> d & 1 == 1) {
            put!(text, "let c{d} = {at};\n");
        }
        for id in (0..live.len() as ValueId).filter(|&id| live[id as usize] && Some(id) != except) {
            text += &place.define(id);
        }
        text
    }

    /// Returns the function that starts an asynchronous copy of neighbors, and the instruction that it calls.
    fn copy(&self, place: &Place) -> String {
        let (name, bytes, signature) = (self.name, self.copy_bytes, self.signature(""));
        let head = format!("fn copy_{name}(to: u32, {signature}, bytes: u32)");
        let load = self.value.and_then(|value| self.program.insts.get(value as usize));
        let Some((Inst::Load { input, index, .. }, true)) = load.map(|load| (load, bytes > 0))
        else {
            return head + " {}\n";
        };
        let quads = place.module.inputs[*input as usize].is_some_and(|bound| bound.quads);
        let (element, at) = match quads {
            true => (".x", format!("{} >> 2u", place.index(index))),
            false => ("", place.index(index)),
        };
        let mut text = format!(
            "fn ptx_cp_async_{bytes}_{name}(to: u32, at: u32, bytes: u32) {{\n\
            stage[to] = vec2<u32>(u32(in{input}[at]{element}));\n}}\n{head} {{\n"
        );
        text += &self.definitions(place, self.value);
        put!(text, "ptx_cp_async_{bytes}_{name}(to, {at}, bytes);\n}}\n");
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

    /// Returns the condition that the arguments are in range.
    fn inside(&self, prefix: &str) -> String {
        let mut text = String::new();
        for (name, extent) in &self.bounds {
            text += if text.is_empty() { "" } else { " && " };
            put!(text, "{prefix}{name} < {}", Unsigned(*extent));
        }
        text
    }

    /// Replaces the functions of this slot in the shader.
    fn fill(&self, shader: &mut Shader, module: &Module) {
        let outer = self.vector.map_or(0, |vector| vector.axis as usize);
        let (program, varying, vector) = (self.program, &[][..], self.vector);
        let place = Place { module, program, varying, outer, step: None, vector };
        let statements = self.statements(&place);
        let name = self.name;
        let copy = format!("copy_{name}");
        if shader.has(&copy) {
            shader.replace(&copy, &self.copy(&place));
        }
        match (self.value, vector) {
            (Some(value), None) => {
                let value = match &self.condition {
                    Some(condition) => format!("select(0.0, v{value}, {condition})"),
                    None => format!("v{value}"),
                };
                let (signature, dtype) = (self.signature(""), self.dtype());
                let text = format!(
                    "fn load_{name}({signature}) -> {dtype} {{\n{statements}return {value};\n}}\n"
                );
                shader.replace(&format!("load_{name}"), &text);
            }
            (Some(value), Some(_)) => {
                let value = place.operand(value, true);
                let inside = self.inside("any_");
                let mut text =
                    format!("fn {name}_vec4({}) -> vec4<f32> {{\n", self.signature("any_"));
                for argument in self.arguments {
                    let mut nearest = format!("any_{argument}");
                    for (i, (name, extent)) in self.bounds.iter().enumerate() {
                        if name == argument {
                            let step = if i + 1 == self.bounds.len() { VECTOR } else { 1 };
                            let last = Unsigned(extent.max(&step) - step);
                            nearest = format!("min({nearest}, {last})");
                        }
                    }
                    put!(text, "let {argument} = {nearest};\n");
                }
                let value = match self.bounds.is_empty() {
                    true => value,
                    false => format!("select(vec4<f32>(), {value}, {inside})"),
                };
                put!(text, "{statements}return {value};\n}}\n");
                shader.replace(&format!("load_{name}"), "");
                shader.replace(&format!("inside_{name}"), "");
                shader.replace(&format!("{name}_vec4"), &text);
            }
            (None, None) => {
                let signature = self.signature("");
                let text =
                    format!("fn epilogue({signature}, accumulator: f32) {{\n{statements}}}\n");
                shader.replace("epilogue", &text);
            }
            (None, Some(_)) => {
                let (signature, inside) = (self.signature(""), self.inside(""));
                let text = format!(
                    "fn finish({signature}, accumulator: vec4<f32>) {{\n\
                    if ({inside}) {{\n{statements}}}\n}}\n"
                );
                shader.replace("epilogue", "");
                shader.replace("finish", &text);
            }
        }
    }
}

/// Returns the whole text of a shader with its slots filled.
pub fn fill(mut shader: Shader, slots: Vec<Slot>, mut module: Module, workgroups: u64) -> Source {
    let (mut programs, mut axes) = (Vec::new(), Vec::new());
    for slot in &slots {
        programs.push(slot.program);
        axes.push(slot.vector.map(|vector| vector.axis));
    }
    module.bind(&programs);
    bind_quads(&mut module, &programs, &axes);
    for slot in &slots {
        slot.fill(&mut shader, &module);
    }
    module.finish(&shader.finish(), workgroups)
}
