//! Slots: the functions of stored shaders that are replaced by a kernel's operands and epilogues.

use crate::codegen::analysis::{bind_quads, coordinates};
use crate::codegen::module::Module;
use crate::codegen::program::Place;
use crate::codegen::shader::Shader;
use crate::codegen::sizes::Unsigned;
use crate::codegen::source::Source;
use crate::dtype::DType;
use crate::kernel::{Operand, Program, ValueId};
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
        let bounds = Vec::new();
        Slot { name, program, value, arguments, bounds, at, vector: None, condition: None }
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
        }
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
