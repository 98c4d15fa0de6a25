//! Names and operands. The decoders ask it for the register or constant of each operand.

use crate::error::Error;
use crate::program::{Place, Program, CONSTANT, SINK, SPECIAL_REGISTERS};
use crate::syntax::{Operand, Raw};
use crate::types::{Space, Type};
use std::collections::HashMap;

/// A named thing.
#[derive(Clone, Debug)]
pub enum Symbol {
    Register(u32),
    /// A variable: its space, its address, and its size.
    Variable(Space, u64, usize),
    Global(usize),
    Label(u32),
    Targets(Vec<String>),
}

/// The names of a block.
#[derive(Default)]
pub struct Scope {
    pub symbols: HashMap<String, Symbol>,
    /// Ranges such as `%r<9>`: prefix, first register, count.
    pub ranges: Vec<(String, u32, u64)>,
    pub parent: Option<usize>,
}

/// A formal parameter or result of a device function.
#[derive(Clone, Copy)]
pub struct Formal(pub Place);

/// The names and registers of a module, and the program so far.
pub struct Resolver {
    pub program: Program,
    pub scopes: Vec<Scope>,
    pub scope: usize,
    pub functions: HashMap<String, usize>,
    pub formals: Vec<(Vec<Formal>, Vec<Formal>)>,
    pub constants: HashMap<u64, u32>,
    pub opcodes: HashMap<String, u32>,
    pub specials: HashMap<&'static str, u32>,
    /// Branches to labels: instruction, scope, label or name of the targets, line.
    pub fixups: Vec<(usize, usize, String, u32)>,
    pub calls: Vec<(usize, usize, u32)>,
    pub function: usize,
    /// The hidden register of the carry flag.
    pub carry: u32,
}

impl Resolver {
    pub fn register(&mut self, name: String, bits: u32) -> u32 {
        self.program.widths.push(bits);
        self.program.names.push(name);
        self.program.widths.len() as u32 - 1
    }

    pub fn lookup(&self, name: &str, mut scope: usize) -> Option<Symbol> {
        loop {
            let names = &self.scopes[scope];
            if let Some(symbol) = names.symbols.get(name) {
                return Some(symbol.clone());
            }
            for (prefix, first, count) in &names.ranges {
                let Some(digits) = name.strip_prefix(prefix.as_str()) else { continue };
                let canonical = !digits.is_empty() && (digits == "0" || !digits.starts_with('0'));
                match digits.parse::<u64>() {
                    Ok(number) if canonical && number < *count => {
                        return Some(Symbol::Register(first + number as u32))
                    }
                    _ => {}
                }
            }
            scope = names.parent?;
        }
    }

    /// The operand index of a constant.
    pub fn constant(&mut self, value: u64) -> u32 {
        let next = self.program.constants.len() as u32;
        let index = *self.constants.entry(value).or_insert(next);
        if index == next {
            self.program.constants.push(value);
        }
        CONSTANT | index
    }

    /// The operand index of the source at a position.
    pub fn source(&mut self, raw: &Raw, index: usize, ty: Type) -> Result<u32, Error> {
        let operand = raw.operands.get(index);
        let operand = operand
            .ok_or_else(|| Error::parse(raw.line, format!("operand {index}: is missing")))?;
        self.value(raw, operand, ty, false)
    }

    /// The operand index of a source. A wider register is accepted if `allows_wider` is set.
    pub fn value(
        &mut self,
        raw: &Raw,
        operand: &Operand,
        ty: Type,
        allows_wider: bool,
    ) -> Result<u32, Error> {
        let fail = |message: String| Err(Error::parse(raw.line, message));
        match operand {
            Operand::Integer(_) if ty.is_float() && ty.bits() > 16 && !ty.is_packed() => {
                fail("operand: a float literal must be used here, got an integer".to_string())
            }
            Operand::Integer(value) => Ok(self.constant(value & ty.mask())),
            Operand::Float(bits, width) => {
                let value = match (ty.bits(), width) {
                    (64, 64) | (32, 32) => *bits,
                    (64, _) => f64::from(f32::from_bits(*bits as u32)).to_bits(),
                    (32, _) => u64::from((f64::from_bits(*bits) as f32).to_bits()),
                    _ => {
                        return fail(format!(
                            "operand: a float literal does not fit into {} bits",
                            ty.bits()
                        ))
                    }
                };
                Ok(self.constant(value))
            }
            Operand::Name(name, part) => {
                let full =
                    part.as_ref().map_or_else(|| name.clone(), |part| format!("{name}.{part}"));
                let register = match (self.specials.get(full.as_str()), part) {
                    (Some(&special), _) => Some(special),
                    (None, None) => match self.lookup(name, self.scope) {
                        Some(Symbol::Register(register)) => Some(register),
                        _ => None,
                    },
                    (None, Some(_)) => {
                        return fail(format!("operand: `{full}` is not a known register"))
                    }
                };
                let Some(register) = register else { return self.address_of(raw, name, 0) };
                let bits = self.program.widths[register as usize];
                let is_special = (register as usize) < SPECIAL_REGISTERS.len();
                if bits != ty.bits()
                    && !(allows_wider && bits > ty.bits() && ty.bits() > 1)
                    && !is_special
                {
                    return fail(format!(
                        "operand: `{full}` must have {} bits, got {bits}",
                        ty.bits()
                    ));
                }
                Ok(register)
            }
            Operand::Sum(name, offset) => self.address_of(raw, name, *offset),
            other => {
                fail(format!("operand: a register or constant must be used here, got {other:?}"))
            }
        }
    }

    /// The address of a variable in its own space, as a constant.
    fn address_of(&mut self, raw: &Raw, name: &str, offset: i64) -> Result<u32, Error> {
        match self.lookup(name, self.scope) {
            Some(Symbol::Global(variable)) => {
                // Relocated constants are not shared.
                self.program.constants.push(0);
                let index = self.program.constants.len() as u32 - 1;
                self.program.relocations.push((index, variable, offset));
                Ok(CONSTANT | index)
            }
            Some(Symbol::Variable(Space::Shared, u64::MAX, _)) => {
                self.program.constants.push(0);
                let index = self.program.constants.len() as u32 - 1;
                self.program.relocations.push((index, usize::MAX, offset));
                Ok(CONSTANT | index)
            }
            // A pointer to call parameters, because `mov` gives them to functions that index them.
            Some(Symbol::Variable(_, address, _)) => {
                Ok(self.constant(address.wrapping_add_signed(offset)))
            }
            _ => Err(Error::parse(raw.line, format!("operand: `{name}` is not declared"))),
        }
    }

    /// The space of a variable in an address operand.
    pub fn space_of(&self, operand: &Operand) -> Option<Space> {
        match operand {
            Operand::Name(name, None) => match self.lookup(name, self.scope)? {
                Symbol::Variable(space, ..) => Some(space),
                Symbol::Global(_) => Some(Space::Global),
                _ => None,
            },
            _ => None,
        }
    }

    /// The register of a destination, or `SINK` for `_`.
    pub fn destination(
        &mut self,
        raw: &Raw,
        operand: &Operand,
        ty: Type,
        allows_wider: bool,
    ) -> Result<u32, Error> {
        match operand {
            Operand::Name(name, None) if name == "_" => Ok(SINK),
            Operand::Name(name, None) => match self.lookup(name, self.scope) {
                Some(Symbol::Register(register)) => {
                    let bits = self.program.widths[register as usize];
                    if bits != ty.bits() && !(allows_wider && bits > ty.bits() && ty.bits() > 1) {
                        let want = ty.bits();
                        return Err(Error::parse(
                            raw.line,
                            format!("destination: `{name}` must have {want} bits, got {bits}"),
                        ));
                    }
                    Ok(register)
                }
                _ => {
                    Err(Error::parse(raw.line, format!("destination: `{name}` must be a register")))
                }
            },
            other => Err(Error::parse(
                raw.line,
                format!("destination: must be a register, got {other:?}"),
            )),
        }
    }

    /// Whether the current function is a kernel.
    pub fn is_entry(&self) -> bool {
        self.program.kernels.iter().any(|kernel| kernel.function == self.function)
    }

    /// The width of a register or constant operand.
    pub fn width(&self, operand: u32) -> u32 {
        if operand & CONSTANT != 0 {
            64
        } else {
            self.program.widths[operand as usize]
        }
    }
}
