//! Parser: from tokens to the syntax tree.

use crate::error::Error;
use crate::lexer::{tokens, Placed, Token};
use crate::syntax::{FunctionTree, Item, Operand, Raw, Tree, Value, Variable};
use crate::types::{Space, Type};

/// The nesting of blocks, initializers and vectors.
const MAX_NESTING: usize = 32;
/// The size of one variable in bytes.
const MAX_VARIABLE_BYTES: u64 = 1 << 28;

/// Parses a module.
pub fn parse(text: &str) -> Result<Tree, Error> {
    let mut parser = Parser { tokens: tokens(text)?, at: 0 };
    let mut tree = Tree::default();
    while parser.at < parser.tokens.len() {
        parser.directive(&mut tree)?;
    }
    Ok(tree)
}

struct Parser {
    tokens: Vec<Placed>,
    at: usize,
}

/// The words before the name of a declaration.
struct Prefix {
    space: Option<Space>,
    is_register: bool,
    ty: Option<Type>,
    align: usize,
    lanes: usize,
    is_extern: bool,
}

impl Parser {
    fn line(&self) -> u32 {
        self.tokens.get(self.at).or(self.tokens.last()).map_or(0, |placed| placed.line)
    }

    fn peek(&self) -> Option<&Token> {
        self.tokens.get(self.at).map(|placed| &placed.token)
    }

    fn fail<T>(&self, want: &str) -> Result<T, Error> {
        let got =
            self.peek().map_or("the end of the text".to_string(), |token| format!("{token:?}"));
        Err(Error::parse(self.line(), format!("syntax: {want} must follow, got {got}")))
    }

    fn is_punct(&self, punct: char) -> bool {
        self.peek() == Some(&Token::Punct(punct))
    }

    fn take_punct(&mut self, punct: char) -> bool {
        let found = self.is_punct(punct);
        self.at += usize::from(found);
        found
    }

    fn expect(&mut self, punct: char) -> Result<(), Error> {
        if self.take_punct(punct) {
            Ok(())
        } else {
            self.fail(&format!("`{punct}`"))
        }
    }

    fn peek_dot(&self) -> Option<&str> {
        match self.peek() {
            Some(Token::Dot(name)) => Some(name),
            _ => None,
        }
    }

    fn take_dot(&mut self, name: &str) -> bool {
        let found = self.peek_dot() == Some(name);
        self.at += usize::from(found);
        found
    }

    fn name(&mut self) -> Result<String, Error> {
        match self.peek() {
            Some(Token::Name(name)) => {
                let name = name.clone();
                self.at += 1;
                Ok(name)
            }
            _ => self.fail("a name"),
        }
    }

    /// An integer, with a sign if it has one.
    fn integer(&mut self) -> Result<u64, Error> {
        let negative = self.take_punct('-');
        match self.peek() {
            Some(&Token::Integer(value)) => {
                self.at += 1;
                Ok(if negative { value.wrapping_neg() } else { value })
            }
            _ => self.fail("an integer"),
        }
    }

    fn size(&mut self, limit: u64) -> Result<usize, Error> {
        let line = self.line();
        let value = self.integer()?;
        if value > limit {
            return Err(Error::parse(line, format!("size: must be at most {limit}, got {value}")));
        }
        Ok(value as usize)
    }

    fn skip_line(&mut self) {
        let line = self.line();
        while self.tokens.get(self.at).is_some_and(|placed| placed.line == line) {
            self.at += 1;
        }
    }

    fn directive(&mut self, tree: &mut Tree) -> Result<(), Error> {
        match self.peek_dot().map(str::to_string).as_deref() {
            Some("version" | "address_size" | "target") => {
                let line = self.line();
                let start = self.at;
                self.skip_line();
                let words = self.tokens[start..self.at].iter().map(|placed| match &placed.token {
                    Token::Name(name) | Token::Dot(name) => name.clone(),
                    Token::Integer(value) => value.to_string(),
                    Token::Float(bits, _) => f64::from_bits(*bits).to_string(),
                    other => format!("{other:?}"),
                });
                let words: Vec<String> = words.collect();
                let value = words.get(1).cloned();
                match (words[0].as_str(), value) {
                    ("version", Some(value)) => tree.version = value,
                    ("target", Some(value)) => tree.target = value,
                    ("address_size", Some(value)) if value == "64" => {}
                    (word, value) => {
                        return Err(Error::parse(
                            line,
                            format!(".{word}: a supported value must follow, got {value:?}"),
                        ));
                    }
                }
                Ok(())
            }
            Some("file" | "loc" | "pragma") => {
                self.skip_line();
                Ok(())
            }
            Some("section") => {
                while self.peek().is_some() && !self.is_punct('{') {
                    self.at += 1;
                }
                while self.peek().is_some() && !self.is_punct('}') {
                    self.at += 1;
                }
                self.expect('}')
            }
            Some(_) => self.declaration(tree),
            None if self.take_punct(';') => Ok(()),
            None => self.fail("a directive"),
        }
    }

    /// A function or a variable of the module.
    fn declaration(&mut self, tree: &mut Tree) -> Result<(), Error> {
        let start = self.at;
        let mut is_extern = false;
        while let Some("visible" | "extern" | "weak" | "common") = self.peek_dot() {
            is_extern |= self.peek_dot() == Some("extern");
            self.at += 1;
        }
        match self.peek_dot() {
            Some("entry" | "func") => {
                let function = self.function()?;
                if tree.functions.iter().any(|f| f.name == function.name && f.body.is_some()) {
                    return Err(Error::parse(
                        function.line,
                        format!("`{}` is defined twice", function.name),
                    ));
                }
                tree.functions.push(function);
                Ok(())
            }
            _ => {
                self.at = start;
                let mut variables = self.variables(is_extern)?;
                tree.variables.append(&mut variables);
                Ok(())
            }
        }
    }

    fn block_size(&mut self) -> Result<[u32; 3], Error> {
        let mut size = [1; 3];
        for (axis, value) in size.iter_mut().enumerate() {
            if axis > 0 && !self.take_punct(',') {
                break;
            }
            *value = self.size(u64::from(u32::MAX))? as u32;
        }
        Ok(size)
    }

    fn function(&mut self) -> Result<FunctionTree, Error> {
        let line = self.line();
        let is_entry = self.take_dot("entry");
        self.at += usize::from(!is_entry);
        let results = if self.is_punct('(') { self.parameters()? } else { Vec::new() };
        let name = self.name()?;
        let parameters = if self.is_punct('(') { self.parameters()? } else { Vec::new() };
        let (mut required_block, mut max_block) = (None, None);
        while let Some(word) = self.peek_dot().map(str::to_string) {
            self.at += 1;
            match word.as_str() {
                "reqntid" => required_block = Some(self.block_size()?),
                "maxntid" => max_block = Some(self.block_size()?),
                "noreturn" | "explicitcluster" | "blocksareclusters" => {}
                "pragma" => {
                    while self.peek().is_some() && !self.take_punct(';') {
                        self.at += 1;
                    }
                }
                _ => {
                    self.block_size()?;
                }
            }
        }
        let body = if self.take_punct(';') {
            None
        } else {
            self.expect('{')?;
            Some(self.body(0)?)
        };
        Ok(FunctionTree {
            name,
            is_entry,
            results,
            parameters,
            required_block,
            max_block,
            body,
            line,
        })
    }

    fn parameters(&mut self) -> Result<Vec<Variable>, Error> {
        self.expect('(')?;
        let mut all = Vec::new();
        while !self.take_punct(')') {
            if !all.is_empty() {
                self.expect(',')?;
            }
            let prefix = self.prefix()?;
            all.push(self.declarator(&prefix)?);
        }
        Ok(all)
    }

    fn prefix(&mut self) -> Result<Prefix, Error> {
        let mut prefix = Prefix {
            space: None,
            is_register: false,
            ty: None,
            align: 0,
            lanes: 1,
            is_extern: false,
        };
        while let Some(word) = self.peek_dot().map(str::to_string) {
            let line = self.line();
            self.at += 1;
            match word.as_str() {
                "reg" => prefix.is_register = true,
                "param" => prefix.space = Some(Space::Param),
                "global" => prefix.space = Some(Space::Global),
                "shared" => prefix.space = Some(Space::Shared),
                "local" => prefix.space = Some(Space::Local),
                "const" => prefix.space = Some(Space::Const),
                "align" => prefix.align = self.size(4096)?,
                "v2" => prefix.lanes = 2,
                "v4" => prefix.lanes = 4,
                "extern" => prefix.is_extern = true,
                "visible" | "weak" | "common" | "managed" => {}
                // The space that a pointer parameter points to.
                "ptr" => {
                    if let Some("global" | "shared" | "local" | "const") = self.peek_dot() {
                        self.at += 1;
                    }
                    if self.take_dot("align") {
                        self.size(4096)?;
                    }
                }
                _ => match Type::parse(&word) {
                    Some(ty) => prefix.ty = Some(ty),
                    None => {
                        return Err(Error::parse(
                            line,
                            format!("declaration: `.{word}` is not supported"),
                        ))
                    }
                },
            }
        }
        if prefix.align & prefix.align.wrapping_sub(1) != 0 {
            return Err(Error::parse(
                self.line(),
                format!(".align: must be a power of two, got {}", prefix.align),
            ));
        }
        Ok(prefix)
    }

    fn declarator(&mut self, prefix: &Prefix) -> Result<Variable, Error> {
        let line = self.line();
        let name = self.name()?;
        let Some(ty) = prefix.ty else {
            return Err(Error::parse(
                line,
                format!("declaration of `{name}`: a type must precede the name"),
            ));
        };
        if prefix.space.is_none() && !prefix.is_register {
            return Err(Error::parse(
                line,
                format!("declaration of `{name}`: a state space must precede the name"),
            ));
        }
        let mut count = 1_u64;
        while self.take_punct('[') {
            count = if self.is_punct(']') {
                0
            } else {
                count.saturating_mul(self.size(MAX_VARIABLE_BYTES)? as u64)
            };
            self.expect(']')?;
        }
        let size = count.saturating_mul((ty.bytes() * prefix.lanes) as u64);
        if size > MAX_VARIABLE_BYTES {
            let limit = MAX_VARIABLE_BYTES;
            return Err(Error::parse(
                line,
                format!("`{name}`: must have at most {limit} bytes, got {size}"),
            ));
        }
        let mut values = Vec::new();
        if self.take_punct('=') {
            self.initializer(&mut values, 0)?;
        }
        let mut size = size as usize;
        if size == 0 && !values.is_empty() {
            size = values.len() * ty.bytes();
        }
        Ok(Variable {
            name,
            space: prefix.space.unwrap_or(Space::Param),
            is_register: prefix.is_register,
            ty,
            align: prefix.align.max(ty.bytes()),
            size,
            is_extern: prefix.is_extern,
            values,
            line,
        })
    }

    fn variables(&mut self, is_extern: bool) -> Result<Vec<Variable>, Error> {
        let mut prefix = self.prefix()?;
        prefix.is_extern |= is_extern;
        let mut all = vec![self.declarator(&prefix)?];
        while self.take_punct(',') {
            all.push(self.declarator(&prefix)?);
        }
        self.expect(';')?;
        Ok(all)
    }

    fn initializer(&mut self, values: &mut Vec<Value>, nesting: usize) -> Result<(), Error> {
        if nesting > MAX_NESTING {
            return self.fail("a value of an initializer with less nesting");
        }
        if self.take_punct('{') {
            while !self.take_punct('}') {
                self.initializer(values, nesting + 1)?;
                if !self.is_punct('}') {
                    self.expect(',')?;
                }
            }
            return Ok(());
        }
        let value = match self.operand(nesting + 1)? {
            Operand::Integer(value) => Value::Integer(value),
            Operand::Float(bits, width) => Value::Float(bits, width),
            Operand::Sum(name, offset) => Value::Symbol(name, offset),
            Operand::Name(word, None) if word == "generic" => {
                self.expect('(')?;
                let name = self.name()?;
                self.expect(')')?;
                Value::Symbol(name, self.offset()?)
            }
            Operand::Name(name, None) => Value::Symbol(name, 0),
            _ => return self.fail("a constant"),
        };
        values.push(value);
        Ok(())
    }

    /// `+ 4`, `- 4` or nothing.
    fn offset(&mut self) -> Result<i64, Error> {
        if self.take_punct('+') || self.is_punct('-') {
            Ok(self.integer()? as i64)
        } else {
            Ok(0)
        }
    }

    /// The items up to the closing brace.
    fn body(&mut self, nesting: usize) -> Result<Vec<Item>, Error> {
        if nesting > MAX_NESTING {
            return self.fail("a body with less nesting");
        }
        let mut items = Vec::new();
        loop {
            if self.take_punct('}') {
                return Ok(items);
            }
            if self.take_punct('{') {
                items.push(Item::Block(self.body(nesting + 1)?));
                continue;
            }
            if self.take_punct(';') {
                continue;
            }
            match self.peek_dot().map(str::to_string).as_deref() {
                Some("loc" | "pragma") => self.skip_line(),
                Some("reg") => items.push(self.registers()?),
                Some(_) => items.extend(self.variables(false)?.into_iter().map(Item::Variable)),
                None => self.statement(&mut items)?,
            }
        }
    }

    fn registers(&mut self) -> Result<Item, Error> {
        let line = self.line();
        let prefix = self.prefix()?;
        let Some(ty) = prefix.ty else {
            return self.fail("a type of registers");
        };
        if prefix.lanes != 1 {
            return Err(Error::parse(line, ".reg: vector registers are not supported"));
        }
        let mut names = Vec::new();
        loop {
            let name = self.name()?;
            let count = if self.take_punct('<') {
                let count = self.size(1 << 20)? as u64;
                self.expect('>')?;
                Some(count)
            } else {
                None
            };
            names.push((name, count));
            if !self.take_punct(',') {
                break;
            }
        }
        self.expect(';')?;
        Ok(Item::Registers(ty, names, line))
    }

    /// A label or an instruction.
    fn statement(&mut self, items: &mut Vec<Item>) -> Result<(), Error> {
        let line = self.line();
        if let (Some(Token::Name(name)), Some(Token::Punct(':'))) =
            (self.peek(), self.tokens.get(self.at + 1).map(|placed| &placed.token))
        {
            let name = name.clone();
            self.at += 2;
            if self.take_dot("branchtargets") {
                let mut labels = vec![self.name()?];
                while self.take_punct(',') {
                    labels.push(self.name()?);
                }
                self.expect(';')?;
                items.push(Item::Targets(name, labels, line));
            } else {
                items.push(Item::Label(name, line));
            }
            return Ok(());
        }
        items.push(Item::Instruction(self.instruction()?));
        Ok(())
    }

    fn instruction(&mut self) -> Result<Raw, Error> {
        let line = self.line();
        let start = self.tokens.get(self.at).map_or(0, |placed| placed.start);
        let guard = if self.take_punct('@') {
            let negated = self.take_punct('!');
            Some((self.name()?, negated))
        } else {
            None
        };
        let mut parts = vec![self.name()?];
        while let Some(part) = self.peek_dot().map(str::to_string) {
            parts.push(part);
            self.at += 1;
        }
        let mut operands = Vec::new();
        while !self.is_punct(';') {
            if !operands.is_empty() {
                self.expect(',')?;
            }
            operands.push(self.operand(0)?);
        }
        let end = self.tokens[self.at].end;
        self.at += 1;
        Ok(Raw { line, start, end, guard, parts, operands })
    }

    fn operand(&mut self, nesting: usize) -> Result<Operand, Error> {
        if nesting > MAX_NESTING {
            return self.fail("an operand with less nesting");
        }
        let first = self.simple_operand(nesting)?;
        if self.take_punct('|') {
            let second = self.simple_operand(nesting)?;
            return Ok(Operand::Pair(Box::new(first), Box::new(second)));
        }
        Ok(first)
    }

    fn list(&mut self, close: char, nesting: usize) -> Result<Vec<Operand>, Error> {
        let mut all = Vec::new();
        while !self.take_punct(close) {
            if !all.is_empty() {
                self.expect(',')?;
            }
            all.push(self.operand(nesting + 1)?);
        }
        Ok(all)
    }

    fn simple_operand(&mut self, nesting: usize) -> Result<Operand, Error> {
        if self.take_punct('!') {
            return Ok(Operand::Not(Box::new(self.operand(nesting + 1)?)));
        }
        if self.take_punct('{') {
            return Ok(Operand::Vector(self.list('}', nesting)?));
        }
        if self.take_punct('(') {
            return Ok(Operand::List(self.list(')', nesting)?));
        }
        if self.take_punct('[') {
            let base = self.operand(nesting + 1)?;
            let (base, mut offset) = match base {
                Operand::Sum(name, offset) => (Operand::Name(name, None), offset),
                other => (other, 0),
            };
            offset = offset.wrapping_add(self.offset()?);
            self.expect(']')?;
            return Ok(Operand::Address(Box::new(base), offset));
        }
        let negative = self.take_punct('-');
        let operand = match self.peek().cloned() {
            Some(Token::Integer(value)) => {
                Operand::Integer(if negative { value.wrapping_neg() } else { value })
            }
            Some(Token::Float(bits, width)) => {
                Operand::Float(if negative { bits ^ (1 << (width - 1)) } else { bits }, width)
            }
            Some(Token::Name(name)) if !negative => {
                self.at += 1;
                if self.is_punct('+') || self.is_punct('-') {
                    return Ok(Operand::Sum(name, self.offset()?));
                }
                let part = self.peek_dot().map(str::to_string);
                self.at += usize::from(part.is_some());
                return Ok(Operand::Name(name, part));
            }
            _ => return self.fail("an operand"),
        };
        self.at += 1;
        Ok(operand)
    }
}
