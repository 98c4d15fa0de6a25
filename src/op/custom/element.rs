//! A custom elementwise function: its text, its signature, and its steps, if it was compiled for machines without a WGSL
//! compiler.

use super::tokens::{located, Text};
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::expr::{Binary, Unary};
use crate::op::constant::Const;
use crate::op::Pointwise;
use crate::shape::Shape;
use rustc_hash::FxHasher;
use std::collections::BTreeSet;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The word for element functions in errors.
pub(super) const WHAT: &str = "element function";

/// An elementwise function, written in WGSL.
#[derive(Debug)]
pub struct Element {
    /// The name of the function.
    pub name: String,
    text: Text,
    hash: u64,
    /// The names that the text declares.
    declared: BTreeSet<String>,
    pub parameters: Vec<DType>,
    pub result: DType,
    /// The compiled steps, or the reason why they are missing.
    pub steps: Result<Steps>,
    /// The approximate number of instructions.
    pub length: u32,
    /// The derivatives by each parameter, if they were set. They are functions of the same parameters, or of the parameters
    /// and the result.
    pub gradients: Vec<Arc<Element>>,
}

/// Instructions. Each uses earlier ones, and the last has the function's value.
pub type Steps = Vec<Step>;

/// An instruction. Numbers are positions of earlier instructions.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Step {
    Argument(usize),
    Const(Const),
    Unary(Unary, u32),
    Binary(Binary, u32, u32),
    Select(u32, u32, u32),
    Cast(DType, u32),
    Bitcast(DType, u32),
    /// A row of the pointwise table, with the type of its result.
    Row(Pointwise, Vec<u32>, DType),
}

impl PartialEq for Element {
    fn eq(&self, other: &Element) -> bool {
        std::ptr::eq(self, other)
            || self.text.source == other.text.source && self.gradients == other.gradients
    }
}

impl Eq for Element {}

impl Hash for Element {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.hash.hash(state);
    }
}

/// Words that are rejected, because an element function may use only its arguments.
const REFUSED: [&str; 9] = [
    "Barrier",
    "subgroup",
    "coop_mat",
    "workgroup",
    "atomic",
    "texture",
    "sampler",
    "override",
    "discard",
];

impl Element {
    /// Parses a source: helper functions, constants, aliases and structures, and the function itself at the end.
    ///
    /// # Errors
    /// `InvalidArgument`, with line and column, for any other content.
    pub fn parse(source: &str) -> Result<Element> {
        let text = Text::new(WHAT, source)?;
        let fail = |n: usize, message: &str| Err(located(WHAT, source, text.at(n), message));
        let (mut declared, mut depth, mut last, mut begins) = (BTreeSet::new(), 0usize, None, true);
        for n in 0..text.tokens.len() {
            let word = text.word(n);
            if text.is_name(n) && REFUSED.iter().any(|refused| word.contains(refused)) {
                return fail(n, &format!("`{word}` is not supported in an element function"));
            }
            if word == "@" {
                let message =
                    "attributes, bindings and entry points are not supported in an element function";
                return fail(n, message);
            }
            if depth == 0 && begins {
                match word {
                    "fn" => last = Some(n),
                    "const" | "alias" | "struct" | "const_assert" | ";" => {}
                    _ => {
                        let message = format!(
                            "declarations must be fn, const, alias or struct, got `{word}`; functions of f32 take f16, too"
                        );
                        return fail(n, &message);
                    }
                }
                if matches!(word, "fn" | "const" | "alias" | "struct") {
                    if matches!(text.word(n + 1), "f32" | "i32" | "u32" | "bool") {
                        let message =
                            format!("names must not be those of types, got `{}`", text.word(n + 1));
                        return fail(n + 1, &message);
                    }
                    declared.insert(text.word(n + 1).to_string());
                }
            }
            match word {
                "{" => depth += 1,
                "}" if depth == 0 => {
                    return fail(n, "braces must be in pairs, got `}` without `{`")
                }
                "}" => depth -= 1,
                _ => {}
            }
            begins = depth == 0 && matches!(word, ";" | "}");
        }
        let Some(last) = last else {
            return fail(0, "there must be a function, got none");
        };
        let (name, parameters, result) = signature(&text, last)?;
        let length = text.tokens.iter().filter(|word| {
            matches!(&source[word.at.clone()], "(" | "+" | "-" | "*" | "/" | "%" | "<" | ">")
        });
        let length = length.count() as u32;
        let unknown =
            "element function: an element function is not supported on the CPU by this build";
        let mut hasher = FxHasher::default();
        source.hash(&mut hasher);
        Ok(Element {
            name,
            text,
            hash: hasher.finish(),
            declared,
            parameters,
            result,
            steps: Err(Error::new(ErrorKind::Unsupported, unknown)),
            length,
            gradients: Vec::new(),
        })
    }

    /// Returns the source as it was written.
    pub fn source(&self) -> &str {
        &self.text.source
    }

    /// Returns a module that calls the function, for validation. The source comes first, so that line numbers are the user's.
    pub fn module(&self) -> String {
        let (prefix, mut arguments) = (self.prefix(0), String::new());
        for dtype in &self.parameters {
            arguments += &format!("{}({prefix}at), ", dtype.name());
        }
        format!(
            "{}\n@compute @workgroup_size(1) \
            fn {prefix}main(@builtin(local_invocation_index) {prefix}at: u32) {{ \
            if ({prefix}at > 0u) {{ let {prefix}value: {} = {}({arguments}); }} }}\n",
            self.text.source,
            self.result.name(),
            self.name
        )
    }

    /// Returns the prefix for the names of the n-th function in a module. No other name in the text has this prefix.
    fn prefix(&self, number: usize) -> String {
        let mut prefix = format!("user{number}_");
        while self.text.has_prefix(&prefix) {
            prefix.push('_');
        }
        prefix
    }

    /// Returns the name of the function as the n-th of a module.
    pub fn name_in(&self, number: usize) -> String {
        self.prefix(number) + &self.name
    }

    /// Returns the text of the function as the n-th of a module.
    pub fn text_in(&self, number: usize) -> String {
        self.text.renamed(&self.declared, &self.prefix(number))
    }

    /// Returns the shape and type of the result, or the error if the operands do not fit.
    pub fn infer(&self, operands: &[(Shape, DType)]) -> Result<(Shape, DType)> {
        let name = &self.name;
        if operands.len() != self.parameters.len() {
            let (have, want) = (operands.len(), self.parameters.len());
            return Err(Error::argument(format!(
                "{name}: there must be {want} operands, got {have}"
            )));
        }
        let mut shape = Shape::SCALAR;
        let mut float = None;
        for (n, (&wanted, (other, dtype))) in self.parameters.iter().zip(operands).enumerate() {
            shape = Shape::broadcast(name, &shape, other)?;
            if dtype.compute() != wanted {
                let message = format!("{name}: operand {n} must be {wanted}, got {dtype}; cast it");
                return Err(Error::dtype(message));
            }
            if dtype.is_float() {
                match float {
                    Some(before) if before != *dtype => {
                        return Err(Error::mixed_dtypes(name, before, dtype));
                    }
                    _ => float = Some(*dtype),
                }
            }
        }
        let result = match self.result {
            DType::F32 => float.unwrap_or(DType::F32),
            other => other,
        };
        Ok((shape, result))
    }

    /// Returns the function with derivatives by each parameter.
    ///
    /// # Errors
    /// `InvalidArgument` if a float parameter has no derivative, or a derivative has other parameters or does not return `f32`.
    pub fn with_gradients(self: &Arc<Element>, gradients: &[Arc<Element>]) -> Result<Element> {
        let name = &self.name;
        if gradients.len() != self.parameters.len() {
            let (have, want) = (gradients.len(), self.parameters.len());
            return Err(Error::argument(format!(
                "{name}: there must be one gradient for each of {want} parameters, got {have}"
            )));
        }
        for gradient in gradients {
            let and_result = [&self.parameters[..], &[self.result]].concat();
            let takes = &gradient.parameters;
            if gradient.result != DType::F32 || *takes != self.parameters && *takes != and_result {
                let message = format!(
                    "{name}: a gradient must take the same parameters (or these and the result) and return f32, got {}",
                    gradient.name
                );
                return Err(Error::argument(message));
            }
        }
        Ok(Element {
            name: self.name.clone(),
            text: self.text.clone(),
            hash: self.hash,
            declared: self.declared.clone(),
            parameters: self.parameters.clone(),
            result: self.result,
            steps: self.steps.clone(),
            length: self.length,
            gradients: gradients.to_vec(),
        })
    }
}

/// Parses the name, parameters and result of the function whose `fn` is the n-th word.
fn signature(text: &Text, n: usize) -> Result<(String, Vec<DType>, DType)> {
    let fail = |n: usize, must: &str| {
        let message = format!("{must}, got `{}`", text.word(n));
        located(WHAT, &text.source, text.at(n), &message)
    };
    let dtype = |n: usize| match text.word(n) {
        "f32" => Ok(DType::F32),
        "i32" => Ok(DType::I32),
        "u32" => Ok(DType::U32),
        "bool" => Ok(DType::Bool),
        _ => Err(fail(n, "the type must be f32, i32, u32 or bool")),
    };
    let (name, mut at, mut parameters) = (n + 1, n + 3, Vec::new());
    if !text.is_name(name) || text.word(n + 2) != "(" {
        return Err(fail(name, "`fn` must be followed by a name and parameters"));
    }
    while text.word(at) != ")" {
        if !text.is_name(at) || text.word(at + 1) != ":" {
            return Err(fail(at, "a parameter must be written as `x: f32`"));
        }
        parameters.push(dtype(at + 2)?);
        at += 3;
        match text.word(at) {
            "," => at += 1,
            ")" => {}
            _ => return Err(fail(at, "a parameter must be followed by `,` or `)`")),
        }
    }
    if parameters.is_empty() {
        return Err(fail(at, "a function must have a parameter"));
    }
    if parameters.len() > MOST_PARAMETERS {
        return Err(fail(at, "a function must have at most 16 parameters"));
    }
    if text.word(at + 1) != "-" || text.word(at + 2) != ">" {
        return Err(fail(at + 1, "a function must have a result, such as `-> f32`"));
    }
    Ok((text.word(name).to_string(), parameters, dtype(at + 3)?))
}

/// The most parameters of a function.
const MOST_PARAMETERS: usize = 16;
