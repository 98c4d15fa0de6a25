//! A custom compute shader, with its text and bindings, and a call of it, with the shapes of its results and its grid.

use super::tokens::{located, Text};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::shape::Shape;
use crate::sorted;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The word for shaders in errors.
const WHAT: &str = "shader";

/// A named tensor or number that a shader reads or writes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub name: String,
    pub dtype: DType,
}

/// A compute shader, written in WGSL.
#[derive(Debug)]
pub struct Shader {
    text: Text,
    hash: u64,
    /// The tensors that the shader reads, in the order of their bindings.
    pub inputs: Vec<Binding>,
    /// The tensors that the shader writes.
    pub outputs: Vec<Binding>,
    /// The numbers of its uniform, in order.
    pub params: Vec<Binding>,
    /// Whether the shader needs `f16`.
    pub f16: bool,
}

impl PartialEq for Shader {
    fn eq(&self, other: &Shader) -> bool {
        std::ptr::eq(self, other) || self.text.source == other.text.source
    }
}

impl Eq for Shader {}

impl Hash for Shader {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// A call of a shader.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ShaderCall {
    pub shader: Arc<Shader>,
    /// The shapes of the results.
    pub outputs: Vec<Shape>,
    pub workgroups: [u32; 3],
}

/// A declaration `@group(0) @binding(n) var<...> name: type;`.
struct Declared {
    binding: usize,
    /// The position of the declaration.
    at: usize,
    /// The words in the angle brackets of `var`.
    space: String,
    name: String,
    /// The words of the type.
    of: Vec<String>,
}

impl Shader {
    /// Parses the bindings of a source, all in group 0 and without gaps. If the shader has numbers, binding 0 is a uniform
    /// with them. Then come the tensors that it reads, and the tensors that it writes. The entry point is `main`.
    ///
    /// # Errors
    /// `InvalidArgument`, with line and column, for other bindings.
    pub fn parse(source: &str) -> Result<Shader> {
        let text = Text::new(WHAT, source)?;
        let mut hasher = FxHasher::default();
        source.hash(&mut hasher);
        let f16 = text.pair("enable", "f16").is_some();
        let shader = Shader {
            inputs: Vec::new(),
            outputs: Vec::new(),
            params: Vec::new(),
            hash: hasher.finish(),
            f16,
            text,
        };
        let mut all = shader.declared()?;
        sorted::by_key(&mut all, |declared| declared.binding);
        let fail = |at: usize, message: &str| {
            Err(located(WHAT, &shader.text.source, shader.text.at(at), message))
        };
        let (mut inputs, mut outputs, mut params) = (Vec::new(), Vec::new(), Vec::new());
        for declared in &all {
            let wanted = 1 + inputs.len() + outputs.len();
            if declared.binding != 0 && declared.binding != wanted {
                let message = format!(
                    "the binding of `{}` must be {wanted}, got {}; binding 0 is for numbers, then come inputs, then outputs",
                    declared.name, declared.binding
                );
                return fail(declared.at, &message);
            }
            match (&declared.space[..], declared.binding) {
                ("uniform", 0) => params = shader.numbers(declared)?,
                ("storage" | "storage,read", 1..) if outputs.is_empty() => {
                    inputs.push(shader.tensor(declared)?);
                }
                ("storage,read_write", 1..) => outputs.push(shader.tensor(declared)?),
                (space, binding) => {
                    let rule = match (space, binding) {
                        ("storage" | "storage,read" | "storage,read_write", 0) => {
                            "tensors must begin at binding 1, because binding 0 is for numbers, `var<uniform>`"
                        }
                        ("storage" | "storage,read", _) => {
                            "tensors that are read must come before those that are written"
                        }
                        ("uniform", _) => "numbers, `var<uniform>`, must be binding 0",
                        _ => "a variable with a binding must be `uniform` or `storage`",
                    };
                    let name = &declared.name;
                    let message =
                        format!("{rule}, got `{name}`, var<{space}>, at binding {binding}");
                    return fail(declared.at, &message);
                }
            }
        }
        if outputs.is_empty() {
            return fail(0, "there must be an output, `var<storage, read_write>`, got none");
        }
        match shader.text.pair("fn", "main") {
            Some(_) if shader.text.pair("@", "compute").is_some() => {}
            _ => {
                let message = "there must be an entry point, `@compute @workgroup_size(64) fn main(..)`, got none";
                return fail(0, message);
            }
        }
        Ok(Shader { inputs, outputs, params, ..shader })
    }

    /// Returns the source as it was written.
    pub fn source(&self) -> &str {
        &self.text.source
    }

    fn declared(&self) -> Result<Vec<Declared>> {
        let text = &self.text;
        let fail = |n: usize, message: &str| Err(located(WHAT, &text.source, text.at(n), message));
        let (mut all, mut n): (Vec<Declared>, usize) = (Vec::new(), 0);
        // The attributes in front of the next declaration.
        let (mut group, mut binding, mut begins) = (None, None, 0);
        while n < text.tokens.len() {
            let number = || text.word(n + 3).trim_end_matches(['u', 'i']).parse::<usize>().ok();
            match (text.word(n), text.word(n + 1)) {
                ("@", "group") => {
                    (group, begins, n) = (Some(number()), n, n + 5);
                }
                ("@", "binding") => {
                    binding = Some(number());
                    n += 5;
                }
                ("var", "<") if group.is_some() || binding.is_some() => {
                    let (Some(Some(0)), Some(Some(number))) = (group, binding) else {
                        return fail(
                            begins,
                            "a binding must be written as @group(0) @binding(n), got another form",
                        );
                    };
                    let (mut space, mut at) = (String::new(), n + 2);
                    while !matches!(text.word(at), ">" | "") {
                        space += text.word(at);
                        at += 1;
                    }
                    let name = text.word(at + 1).to_string();
                    let (mut of, mut at) = (Vec::new(), at + 3);
                    while !matches!(text.word(at), ";" | "") {
                        of.push(text.word(at).to_string());
                        at += 1;
                    }
                    if all.iter().any(|other| other.binding == number) {
                        return fail(
                            begins,
                            &format!("bindings must be distinct, got {number} twice"),
                        );
                    }
                    all.push(Declared { binding: number, at: begins, space, name, of });
                    (group, binding, n) = (None, None, at);
                }
                ("override", _) => {
                    return fail(n, "`override` is not supported; pass a number in the uniform");
                }
                _ => n += 1,
            }
            if group.is_none() {
                begins = n;
            }
        }
        Ok(all)
    }

    /// Parses a tensor, which is an array of numbers or of vectors.
    fn tensor(&self, declared: &Declared) -> Result<Binding> {
        let words: Vec<&str> = declared.of.iter().map(String::as_str).collect();
        let element = match &words[..] {
            ["array", "<", element, ">"] => Some(*element),
            ["array", "<", "vec2" | "vec4", "<", element, ">", ">"] => Some(*element),
            _ => None,
        };
        let dtype = match element {
            Some("f32" | "vec2f" | "vec4f") => Some(DType::F32),
            Some("i32" | "vec2i" | "vec4i") => Some(DType::I32),
            Some("u32" | "vec2u" | "vec4u") => Some(DType::U32),
            Some("f16" | "vec2h" | "vec4h") => Some(DType::F16),
            _ => None,
        };
        match dtype {
            Some(dtype) => Ok(Binding { name: declared.name.clone(), dtype }),
            None => {
                let message = format!(
                    "`{}` must be an array of f32, i32, u32 or f16, or of vectors of these, got {}",
                    declared.name,
                    words.concat()
                );
                Err(located(WHAT, &self.text.source, self.text.at(declared.at), &message))
            }
        }
    }

    /// Parses the numbers of a uniform, which is one number or a structure.
    fn numbers(&self, declared: &Declared) -> Result<Vec<Binding>> {
        let number = |name: &str, of: &str, at: usize| {
            let dtype = match of {
                "f32" => DType::F32,
                "i32" => DType::I32,
                "u32" => DType::U32,
                other => {
                    let message = format!("`{name}` must be f32, i32 or u32, got {other}");
                    return Err(located(WHAT, &self.text.source, self.text.at(at), &message));
                }
            };
            Ok(Binding { name: name.to_string(), dtype })
        };
        let [of] = &declared.of[..] else {
            return number(&declared.name, &declared.of.concat(), declared.at)
                .map(|number| vec![number]);
        };
        let Some(start) = self.text.pair("struct", of) else {
            return Ok(vec![number(&declared.name, of, declared.at)?]);
        };
        let (mut all, mut at) = (Vec::new(), start + 3);
        while !matches!(self.text.word(at), "}" | "") {
            if self.text.word(at + 1) != ":" {
                let word = self.text.word(at);
                let message = format!("a member must be written as `name: f32`, got `{word}`");
                return Err(located(WHAT, &self.text.source, self.text.at(at), &message));
            }
            all.push(number(self.text.word(at), self.text.word(at + 2), at)?);
            at += 3;
            at += usize::from(self.text.word(at) == ",");
        }
        if all.len() > MOST_NUMBERS {
            let message = "the uniform must have at most 64 numbers, got more; use a tensor";
            return Err(located(WHAT, &self.text.source, self.text.at(declared.at), message));
        }
        Ok(all)
    }
}

/// The most numbers of a uniform.
const MOST_NUMBERS: usize = 64;

impl ShaderCall {
    /// Returns the operands: first tensors, then numbers.
    pub fn operands(&self) -> impl Iterator<Item = &Binding> {
        self.shader.inputs.iter().chain(&self.shader.params)
    }

    /// Returns the shape and type of the n-th result.
    pub fn output(&self, n: usize) -> (Shape, DType) {
        (self.outputs[n], self.shader.outputs[n].dtype)
    }

    /// Checks the operands.
    pub fn check(&self, operands: &[(Shape, DType)]) -> Result<()> {
        let wanted = self.shader.inputs.len() + self.shader.params.len();
        if operands.len() != wanted || self.outputs.len() != self.shader.outputs.len() {
            let message =
                format!("{WHAT}: there must be {wanted} operands, got {}", operands.len());
            return Err(Error::argument(message));
        }
        for (binding, (shape, dtype)) in self.operands().zip(operands) {
            let name = &binding.name;
            if *dtype != binding.dtype {
                let wanted = binding.dtype;
                let message = format!("{WHAT}: `{name}` must be {wanted}, got {dtype}; cast it");
                return Err(Error::dtype(message));
            }
            if shape.numel() == 0 {
                let message = format!("{WHAT}: `{name}` must not be empty, got shape {shape}");
                return Err(Error::shape(message));
            }
        }
        for (binding, shape) in self.shader.outputs.iter().zip(&self.outputs) {
            if shape.numel() == 0 {
                let name = &binding.name;
                let message = format!("{WHAT}: `{name}` must not be empty, got shape {shape}");
                return Err(Error::shape(message));
            }
        }
        Ok(())
    }
}
