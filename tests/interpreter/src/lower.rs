//! Resolver: resolves names, places variables and decodes the instructions of all functions.

use crate::decode;
use crate::error::Error;
use crate::parser;
use crate::program::{
    special_registers, Call, Guard, Instruction, Kernel, Layout, Op, Place, Placement, Program,
    SPECIAL_REGISTERS,
};
use crate::resolve::{Formal, Resolver, Scope, Symbol};
use crate::syntax::{FunctionTree, Item, Operand, Raw, Tree, Value, Variable};
use crate::types::{mask, Space, Type, FIRST_OFFSET};
use std::collections::HashMap;

/// The registers of a module.
const MAX_REGISTERS: usize = 1 << 16;
/// The variables of a space with fixed addresses, in bytes. Each thread has its own local memory.
const MAX_SPACE_BYTES: u64 = 1 << 20;
/// The gap between shared or local variables in bytes, so that an access past an array is found.
const GUARD_BYTES: u64 = 16;

/// Parses and decodes a module.
pub fn lower(text: &str) -> Result<Program, Error> {
    let tree = parser::parse(text)?;
    let mut resolver = Resolver {
        program: Program { text: text.to_string(), ..Program::default() },
        scopes: vec![Scope::default()],
        scope: 0,
        functions: HashMap::new(),
        formals: Vec::new(),
        constants: HashMap::new(),
        opcodes: HashMap::new(),
        specials: special_registers(),
        fixups: Vec::new(),
        calls: Vec::new(),
        function: 0,
        carry: 0,
    };
    for (name, bits) in SPECIAL_REGISTERS {
        resolver.register((*name).to_string(), *bits);
    }
    resolver.carry = resolver.register("CC.CF".to_string(), 1);
    resolver.module(&tree)?;
    Ok(resolver.program)
}

fn align_up(value: u64, align: u64) -> u64 {
    value.next_multiple_of(align.max(1))
}

impl Resolver {
    fn module(&mut self, tree: &Tree) -> Result<(), Error> {
        self.program.version.clone_from(&tree.version);
        self.program.target.clone_from(&tree.target);
        for layout in
            [&mut self.program.shared, &mut self.program.local, &mut self.program.constant]
        {
            layout.end = FIRST_OFFSET;
        }
        self.program.call.end = FIRST_OFFSET;
        for variable in &tree.variables {
            self.variable(variable)?;
        }
        let defined: Vec<&FunctionTree> =
            tree.functions.iter().filter(|function| function.body.is_some()).collect();
        for (index, function) in defined.iter().enumerate() {
            self.functions.insert(function.name.clone(), index);
        }
        // Signatures first, because calls can precede definitions.
        let mut bodies = Vec::new();
        for (index, function) in defined.iter().enumerate() {
            self.scope = self.open_scope(0);
            if function.is_entry {
                self.kernel(index, function)?
            } else {
                self.signature(function)?
            }
            bodies.push(self.scope);
        }
        for (index, function) in defined.iter().enumerate() {
            self.function = index;
            self.program.entries.push(self.program.instructions.len() as u32);
            self.scope = bodies[index];
            self.items(function.body.as_deref().unwrap_or(&[]))?;
            // The end of a body returns.
            self.emit(Op::Return, Vec::new(), Vec::new(), function.line, (0, 0), "ret".to_string());
            self.fix_branches()?;
        }
        self.check_recursion()?;
        self.program.dynamic_shared = align_up(self.program.shared.end, 128);
        Ok(())
    }

    fn open_scope(&mut self, parent: usize) -> usize {
        self.scopes.push(Scope { parent: Some(parent), ..Scope::default() });
        self.scopes.len() - 1
    }

    fn kernel(&mut self, index: usize, function: &FunctionTree) -> Result<(), Error> {
        self.formals.push((Vec::new(), Vec::new()));
        let mut end = FIRST_OFFSET;
        let mut parameters = Vec::new();
        for parameter in &function.parameters {
            let offset = align_up(end, parameter.align as u64);
            end = offset + parameter.size as u64;
            parameters.push((offset, parameter.size));
            self.define(
                &parameter.name,
                Symbol::Variable(Space::Param, offset, parameter.size),
                parameter.line,
            )?;
        }
        self.program.kernels.push(Kernel {
            name: function.name.clone(),
            function: index,
            parameters,
            required_block: function.required_block,
            max_block: function.max_block,
        });
        Ok(())
    }

    fn signature(&mut self, function: &FunctionTree) -> Result<(), Error> {
        let mut formals = (Vec::new(), Vec::new());
        for (list, variables) in
            [(&mut formals.0, &function.results), (&mut formals.1, &function.parameters)]
        {
            for variable in variables {
                let place = if variable.is_register {
                    let register = self.register(variable.name.clone(), variable.ty.bits());
                    self.define(&variable.name, Symbol::Register(register), variable.line)?;
                    Place::Register(register)
                } else {
                    let offset = self.place(Space::CallParam, variable)?;
                    let symbol = Symbol::Variable(Space::CallParam, offset, variable.size);
                    self.define(&variable.name, symbol, variable.line)?;
                    Place::Memory(offset, variable.size)
                };
                list.push(Formal(place));
            }
        }
        self.formals.push(formals);
        Ok(())
    }

    fn define(&mut self, name: &str, symbol: Symbol, line: u32) -> Result<(), Error> {
        match self.scopes[self.scope].symbols.insert(name.to_string(), symbol) {
            None => Ok(()),
            Some(_) => {
                Err(Error::parse(line, format!("`{name}`: must be declared once in its scope")))
            }
        }
    }

    /// Allocates a variable of a space with fixed addresses.
    fn place(&mut self, space: Space, variable: &Variable) -> Result<u64, Error> {
        let (bytes, pointers) = initial_bytes(variable)?;
        let layout: &mut Layout = match space {
            Space::Shared => &mut self.program.shared,
            Space::Local => &mut self.program.local,
            Space::Const => &mut self.program.constant,
            _ => &mut self.program.call,
        };
        let align = variable.align.max(1);
        let address = align_up(layout.end + GUARD_BYTES, align as u64);
        let (name, size) = (variable.name.clone(), variable.size);
        layout.end = address + size as u64;
        layout.variables.push(Placement { name, address, size, align, bytes, pointers });
        if layout.end > MAX_SPACE_BYTES {
            let message =
                format!("`{}`: the variables of a space must fit into 1 MiB", variable.name);
            return Err(Error::parse(variable.line, message));
        }
        Ok(address)
    }

    fn variable(&mut self, variable: &Variable) -> Result<(), Error> {
        let symbol = match variable.space {
            Space::Global => {
                let (bytes, pointers) = initial_bytes(variable)?;
                let (name, size, align) = (variable.name.clone(), variable.size, variable.align);
                self.program.globals.push(Placement {
                    name,
                    address: 0,
                    size,
                    align,
                    bytes,
                    pointers,
                });
                Symbol::Global(self.program.globals.len() - 1)
            }
            Space::Shared if variable.is_extern || variable.size == 0 => {
                self.program.has_dynamic_shared = true;
                Symbol::Variable(Space::Shared, u64::MAX, 0)
            }
            Space::Param => Symbol::Variable(
                Space::CallParam,
                self.place(Space::CallParam, variable)?,
                variable.size,
            ),
            space => Symbol::Variable(space, self.place(space, variable)?, variable.size),
        };
        self.define(&variable.name, symbol, variable.line)
    }

    fn items(&mut self, items: &[Item]) -> Result<(), Error> {
        for item in items {
            match item {
                Item::Registers(ty, names, line) => self.registers(*ty, names, *line)?,
                Item::Variable(variable) => self.variable(variable)?,
                Item::Block(items) => {
                    let outer = self.scope;
                    self.scope = self.open_scope(outer);
                    self.items(items)?;
                    self.scope = outer;
                }
                Item::Label(name, line) => {
                    let at = self.program.instructions.len() as u32;
                    self.define(name, Symbol::Label(at), *line)?;
                }
                Item::Targets(name, labels, line) => {
                    self.define(name, Symbol::Targets(labels.clone()), *line)?
                }
                Item::Instruction(raw) => {
                    let first = self.program.instructions.len();
                    self.instruction(raw).map_err(|mut error| {
                        if error.instruction.is_empty() {
                            error.instruction = self.program.text[raw.start..raw.end].to_string();
                        }
                        error
                    })?;
                    let guard = self.guard(raw)?;
                    for instruction in &mut self.program.instructions[first..] {
                        instruction.guard = guard;
                    }
                }
            }
        }
        Ok(())
    }

    fn registers(
        &mut self,
        ty: Type,
        names: &[(String, Option<u64>)],
        line: u32,
    ) -> Result<(), Error> {
        for (name, count) in names {
            let total = self.program.widths.len() + count.unwrap_or(1) as usize;
            if total > MAX_REGISTERS {
                return Err(Error::parse(
                    line,
                    format!(".reg: at most {MAX_REGISTERS} registers, got {total}"),
                ));
            }
            let Some(count) = count else {
                let register = self.register(name.clone(), ty.bits());
                self.define(name, Symbol::Register(register), line)?;
                continue;
            };
            let first = self.program.widths.len() as u32;
            for number in 0..*count {
                self.register(format!("{name}{number}"), ty.bits());
            }
            self.scopes[self.scope].ranges.push((name.clone(), first, *count));
        }
        Ok(())
    }

    fn guard(&self, raw: &Raw) -> Result<Option<Guard>, Error> {
        let Some((name, negated)) = &raw.guard else { return Ok(None) };
        match self.lookup(name, self.scope) {
            Some(Symbol::Register(register)) if self.program.widths[register as usize] == 1 => {
                Ok(Some(Guard { register, negated: *negated }))
            }
            _ => {
                Err(Error::parse(raw.line, format!("guard: `{name}` must be a predicate register")))
            }
        }
    }

    fn emit(
        &mut self,
        op: Op,
        destinations: Vec<u32>,
        sources: Vec<u32>,
        line: u32,
        text: (usize, usize),
        name: String,
    ) {
        let next = self.program.opcodes.len() as u32;
        let opcode = *self.opcodes.entry(name.clone()).or_insert(next);
        if opcode == next {
            self.program.opcodes.push(name);
        }
        self.program.instructions.push(Instruction {
            op,
            guard: None,
            destinations,
            sources,
            line,
            text,
            opcode,
        });
    }

    fn instruction(&mut self, raw: &Raw) -> Result<(), Error> {
        match raw.parts[0].as_str() {
            "bra" => {
                let name = self.label_operand(raw, 0)?;
                self.fixups.push((self.program.instructions.len(), self.scope, name, raw.line));
                self.push(raw, Op::Branch(0), Vec::new(), Vec::new());
            }
            "brx" => {
                let index = self.source(raw, 0, Type::U(32))?;
                let name = self.label_operand(raw, 1)?;
                self.fixups.push((self.program.instructions.len(), self.scope, name, raw.line));
                self.push(raw, Op::BranchIndex(Vec::new()), Vec::new(), vec![index]);
            }
            "call" => self.call(raw)?,
            _ => {
                let decoded = decode::decode(self, raw)?;
                self.push(raw, decoded.op, decoded.destinations, decoded.sources);
            }
        }
        Ok(())
    }

    fn push(&mut self, raw: &Raw, op: Op, destinations: Vec<u32>, sources: Vec<u32>) {
        self.emit(op, destinations, sources, raw.line, (raw.start, raw.end), raw.parts.join("."));
    }

    fn label_operand(&self, raw: &Raw, index: usize) -> Result<String, Error> {
        match raw.operands.get(index) {
            Some(Operand::Name(name, None)) => Ok(name.clone()),
            other => Err(Error::parse(
                raw.line,
                format!("operand {index}: must be a label, got {other:?}"),
            )),
        }
    }

    fn fix_branches(&mut self) -> Result<(), Error> {
        for (instruction, scope, name, line) in std::mem::take(&mut self.fixups) {
            let label = |name: &str| match self.lookup(name, scope) {
                Some(Symbol::Label(at)) => Ok(at),
                _ => Err(Error::parse(
                    line,
                    format!("branch: `{name}` must be a label of the function"),
                )),
            };
            let op = match &self.program.instructions[instruction].op {
                Op::Branch(_) => Op::Branch(label(&name)?),
                _ => match self.lookup(&name, scope) {
                    Some(Symbol::Targets(labels)) => Op::BranchIndex(
                        labels.iter().map(|name| label(name)).collect::<Result<_, _>>()?,
                    ),
                    _ => {
                        return Err(Error::parse(
                            line,
                            format!("brx.idx: `{name}` must be a list of branch targets"),
                        ))
                    }
                },
            };
            self.program.instructions[instruction].op = op;
        }
        Ok(())
    }

    /// `call (results), function, (arguments)`, with results and arguments optional.
    fn call(&mut self, raw: &Raw) -> Result<(), Error> {
        let mut operands = raw.operands.as_slice();
        let mut results: &[Operand] = &[];
        if let [Operand::List(list), rest @ ..] = operands {
            (results, operands) = (list, rest);
        }
        let [Operand::Name(name, None), rest @ ..] = operands else {
            return Err(Error::parse(raw.line, "call: a function name must follow"));
        };
        let arguments: &[Operand] = match rest {
            [] => &[],
            [Operand::List(list)] => list,
            _ => return Err(Error::parse(raw.line, "call: indirect calls are not supported")),
        };
        let Some(&function) = self.functions.get(name) else {
            return Err(Error::parse(
                raw.line,
                format!("call: `{name}` must be a function with a body in this module"),
            ));
        };
        let (formal_results, formal_arguments) = self.formals[function].clone();
        if results.len() != formal_results.len() || arguments.len() != formal_arguments.len() {
            let message = format!(
                "call of `{name}`: must have {} results and {} arguments, got {} and {}",
                formal_results.len(),
                formal_arguments.len(),
                results.len(),
                arguments.len()
            );
            return Err(Error::parse(raw.line, message));
        }
        let mut call = Call { function, ..Call::default() };
        for (actual, formal) in arguments.iter().zip(formal_arguments) {
            call.arguments.push((self.actual(raw, actual, formal.0)?, formal.0));
        }
        for (actual, formal) in results.iter().zip(formal_results) {
            call.results.push((formal.0, self.actual(raw, actual, formal.0)?));
        }
        self.calls.push((self.function, function, raw.line));
        self.push(raw, Op::Call(Box::new(call)), Vec::new(), Vec::new());
        Ok(())
    }

    fn actual(&mut self, raw: &Raw, actual: &Operand, formal: Place) -> Result<Place, Error> {
        match (actual, formal) {
            (Operand::Name(name, None), Place::Memory(_, size)) => {
                match self.lookup(name, self.scope) {
                    Some(Symbol::Variable(Space::CallParam, offset, actual)) if actual == size => {
                        Ok(Place::Memory(offset, size))
                    }
                    _ => Err(Error::parse(
                        raw.line,
                        format!("call: `{name}` must be a .param variable of {size} bytes"),
                    )),
                }
            }
            (operand, Place::Register(register)) => {
                let bits = self.program.widths[register as usize];
                let ty = if bits == 1 { Type::Pred } else { Type::B(bits as u8) };
                Ok(Place::Register(self.value(raw, operand, ty, false)?))
            }
            _ => Err(Error::parse(raw.line, "call: an argument must be a .param variable here")),
        }
    }

    fn check_recursion(&self) -> Result<(), Error> {
        let count = self.program.entries.len();
        let mut depth = vec![0_usize; count];
        for _ in 0..=count {
            let mut changed = false;
            for &(caller, callee, line) in &self.calls {
                if depth[callee] < depth[caller] + 1 {
                    depth[callee] = depth[caller] + 1;
                    changed = true;
                    if depth[callee] > count {
                        return Err(Error::parse(line, "call: recursion is not supported"));
                    }
                }
            }
            if !changed {
                break;
            }
        }
        Ok(())
    }
}

/// Initial bytes, and the addresses in them.
type Initial = (Vec<u8>, Vec<(usize, String, i64)>);

fn initial_bytes(variable: &Variable) -> Result<Initial, Error> {
    let (mut bytes, mut pointers) = (Vec::new(), Vec::new());
    for value in &variable.values {
        let size = variable.ty.bytes();
        let bits = match value {
            Value::Integer(value) => *value,
            Value::Float(bits, width) if *width as usize == size * 8 => *bits,
            Value::Float(bits, 64) => u64::from((f64::from_bits(*bits) as f32).to_bits()),
            Value::Float(bits, _) => f64::from(f32::from_bits(*bits as u32)).to_bits(),
            Value::Symbol(name, offset) => {
                pointers.push((bytes.len(), name.clone(), *offset));
                0
            }
        };
        bytes.extend_from_slice(&(bits & mask(size as u32 * 8)).to_le_bytes()[..size.min(8)]);
    }
    if bytes.len() > variable.size {
        let (name, size) = (&variable.name, variable.size);
        return Err(Error::parse(
            variable.line,
            format!("`{name}`: the initializer must fit into {size} bytes"),
        ));
    }
    if variable.values.is_empty() {
        return Ok((Vec::new(), pointers));
    }
    bytes.resize(variable.size, 0);
    Ok((bytes, pointers))
}
