//! The syntax tree of a PTX module. Names are not resolved here.

use crate::types::{Space, Type};

/// A module as written.
#[derive(Debug, Default)]
pub struct Tree {
    pub version: String,
    pub target: String,
    pub variables: Vec<Variable>,
    pub functions: Vec<FunctionTree>,
}

/// A declaration of a variable or parameter.
#[derive(Clone, Debug)]
pub struct Variable {
    pub name: String,
    pub space: Space,
    /// A `.reg` parameter of a device function.
    pub is_register: bool,
    pub ty: Type,
    pub align: usize,
    /// The size in bytes. Zero for `extern .shared` arrays of unknown size.
    pub size: usize,
    pub is_extern: bool,
    pub values: Vec<Value>,
    pub line: u32,
}

/// An element of an initializer.
#[derive(Clone, Debug)]
pub enum Value {
    Integer(u64),
    Float(u64, u32),
    /// The address of a variable, plus an offset.
    Symbol(String, i64),
}

/// An entry or a device function.
#[derive(Debug)]
pub struct FunctionTree {
    pub name: String,
    pub is_entry: bool,
    pub results: Vec<Variable>,
    pub parameters: Vec<Variable>,
    /// The block size that `.reqntid` requires, and the limit that `.maxntid` sets.
    pub required_block: Option<[u32; 3]>,
    pub max_block: Option<[u32; 3]>,
    /// `None` for a declaration without a body.
    pub body: Option<Vec<Item>>,
    pub line: u32,
}

/// An element of a function body.
#[derive(Debug)]
pub enum Item {
    /// Registers: type, names, and for each name the count of a range such as `%f<20>`.
    Registers(Type, Vec<(String, Option<u64>)>, u32),
    Variable(Variable),
    Block(Vec<Item>),
    Label(String, u32),
    /// The labels of `.branchtargets`.
    Targets(String, Vec<String>, u32),
    Instruction(Raw),
}

/// An instruction as written.
#[derive(Clone, Debug)]
pub struct Raw {
    pub line: u32,
    /// The byte range of the instruction in the text.
    pub start: usize,
    pub end: usize,
    /// The guard predicate, and whether it is negated.
    pub guard: Option<(String, bool)>,
    /// The parts of the opcode between dots.
    pub parts: Vec<String>,
    pub operands: Vec<Operand>,
}

impl Raw {
    /// Whether the opcode has this suffix.
    pub fn has(&self, part: &str) -> bool {
        self.parts[1..].iter().any(|p| p == part)
    }

    /// The type suffixes, in order.
    pub fn types(&self) -> Vec<Type> {
        self.parts[1..].iter().filter_map(|part| Type::parse(part)).collect()
    }
}

/// An operand as written.
#[derive(Clone, Debug)]
pub enum Operand {
    /// A register, special register, variable or label, and the component such as `x`.
    Name(String, Option<String>),
    /// A name plus a constant.
    Sum(String, i64),
    Not(Box<Operand>),
    Integer(u64),
    Float(u64, u32),
    Vector(Vec<Operand>),
    /// A memory operand in brackets.
    Address(Box<Operand>, i64),
    /// Two destinations, `p|q`.
    Pair(Box<Operand>, Box<Operand>),
    /// A list in parentheses, of a call.
    List(Vec<Operand>),
}
