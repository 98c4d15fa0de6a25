//! The compiler of custom functions for machines without WGSL, from naga's modules to steps. Both sides of a branch are
//! computed, and the result is selected. Function calls are inlined, and loops are unrolled.

use super::element::{Element, Steps, WHAT};
use super::steps::{unsupported, Value, Writer};
use super::tokens::located;
use crate::error::{Error, ErrorKind, Result};
use crate::expr::Binary;
use crate::sorted;
use naga::{Block, Expression, Function, Handle, LocalVariable, Module, Span, Statement};
use std::collections::HashMap;

/// The most rounds of a loop.
const MOST_ROUNDS: usize = 1024;
/// The deepest nesting of calls.
const MOST_CALLS: usize = 32;
/// The most statements that are compiled.
const MOST_STATEMENTS: usize = 1 << 16;

/// Parses and validates the function's module. Sets its steps, or the reason why it has none.
///
/// # Errors
/// `InvalidArgument`, with line and column, for invalid WGSL.
pub fn compiled(mut element: Element) -> Result<Element> {
    let module = super::check::parsed(WHAT, &element.module(), element.source())?;
    let found = module.functions.iter().find(|(_, f)| f.name.as_ref() == Some(&element.name));
    let Some((_, function)) = found else {
        return Err(Error::argument(format!(
            "{WHAT}: there must be a function {}, got none",
            element.name
        )));
    };
    element.steps = steps(&element, &module, function);
    Ok(element)
}

fn steps(element: &Element, module: &Module, function: &Function) -> Result<Steps> {
    let mut writer = Writer::default();
    let arguments = element.parameters.iter().enumerate();
    let arguments = arguments.map(|(n, &dtype)| writer.argument(n, dtype)).collect();
    let mut compiler = Compiler {
        source: element.source(),
        module,
        writer,
        statements: MOST_STATEMENTS,
        calls: 0,
    };
    let value = compiler.call(function, arguments)?;
    let Some(Value::Scalar(last)) = value else {
        return Err(unsupported(
            "a function that does not return on every path is not supported on the CPU",
        ));
    };
    compiler.writer.finish(last)
}

/// The compiler of a module's functions.
pub(super) struct Compiler<'a> {
    source: &'a str,
    pub module: &'a Module,
    pub writer: Writer,
    statements: usize,
    /// The depth of the current call.
    calls: usize,
}

/// The variables of a function, and the elements that they are valid for.
#[derive(Clone)]
pub(super) struct State {
    pub locals: HashMap<Handle<LocalVariable>, Value>,
    /// Whether an element reaches this point, as a `bool` step.
    alive: u32,
}

/// A function call in progress.
pub(super) struct Frame<'a> {
    pub function: &'a Function,
    pub arguments: Vec<Value>,
    pub values: HashMap<Handle<Expression>, Value>,
    pub state: State,
    returned: Option<Value>,
    loops: Vec<Loop>,
}

/// The states that left a round by `continue`, and the states that left the loop by `break`.
#[derive(Default)]
struct Loop {
    continued: Vec<State>,
    broken: Vec<State>,
}

impl<'a> Compiler<'a> {
    /// Creates the error for a construct that has no steps.
    pub fn refuse(&self, span: Span, construct: &str) -> Error {
        let at = span.to_range().map_or(0, |range| range.start);
        let message = format!("{construct} is not supported on the CPU");
        let error = located(WHAT, self.source, at.min(self.source.len()), &message);
        Error::new(ErrorKind::Unsupported, error.to_string())
    }

    fn call(&mut self, function: &'a Function, arguments: Vec<Value>) -> Result<Option<Value>> {
        let state = State { locals: HashMap::new(), alive: self.writer.truth(true) };
        let values = HashMap::new();
        let mut frame =
            Frame { function, arguments, values, state, returned: None, loops: Vec::new() };
        for (handle, variable) in function.local_variables.iter() {
            let value = match variable.init {
                Some(init) => self.value(&mut frame, init)?,
                None => self.zero(variable.ty, function.local_variables.get_span(handle))?,
            };
            frame.state.locals.insert(handle, value);
        }
        self.calls += 1;
        if self.calls > MOST_CALLS {
            return Err(unsupported("calls must be nested at most 32 deep, got more"));
        }
        self.block(&mut frame, &function.body)?;
        self.calls -= 1;
        Ok(frame.returned)
    }

    fn is_dead(&self, frame: &Frame) -> bool {
        self.writer.known(frame.state.alive) == Some(0)
    }

    fn block(&mut self, frame: &mut Frame<'a>, block: &'a Block) -> Result<()> {
        for (statement, &span) in block.span_iter() {
            if self.is_dead(frame) {
                return Ok(());
            }
            self.statements -= 1;
            if self.statements == 0 {
                return Err(self.refuse(span, "a function of this many statements"));
            }
            self.statement(frame, statement, span)?;
        }
        Ok(())
    }

    fn statement(
        &mut self,
        frame: &mut Frame<'a>,
        statement: &'a Statement,
        span: Span,
    ) -> Result<()> {
        match statement {
            Statement::Emit(range) => {
                for handle in range.clone() {
                    // Pointers are evaluated where they are used.
                    if self.place(frame, handle)?.is_none() {
                        frame.values.remove(&handle);
                        self.value(frame, handle)?;
                    }
                }
            }
            Statement::Block(inner) => self.block(frame, inner)?,
            Statement::If { condition, accept, reject } => {
                let condition = self.scalar(frame, *condition)?;
                self.choice(frame, condition, accept, reject)?;
            }
            Statement::Loop { body, continuing, break_if } => {
                self.repeat(frame, (body, continuing, *break_if), span)?;
            }
            Statement::Break | Statement::Continue => {
                let state = frame.state.clone();
                let Some(around) = frame.loops.last_mut() else {
                    return Err(self.refuse(span, "a switch"));
                };
                match statement {
                    Statement::Break => around.broken.push(state),
                    _ => around.continued.push(state),
                }
                frame.state.alive = self.writer.truth(false);
            }
            Statement::Return { value } => {
                let Some(value) = value else {
                    return Err(self.refuse(span, "a function without a result"));
                };
                let value = self.value(frame, *value)?;
                frame.returned = Some(match frame.returned.take() {
                    Some(before) => self.writer.choose(frame.state.alive, &value, &before),
                    None => value,
                });
                frame.state.alive = self.writer.truth(false);
            }
            Statement::Store { pointer, value } => {
                let value = self.value(frame, *value)?;
                let Some((variable, parts)) = self.place(frame, *pointer)? else {
                    return Err(self.refuse(span, "a pointer"));
                };
                let whole = frame.state.locals[&variable].clone();
                let stored = self.put(&whole, &parts, &value);
                frame.state.locals.insert(variable, stored);
            }
            Statement::Call { function, arguments, result } => {
                let mut values = Vec::with_capacity(arguments.len());
                for &argument in arguments {
                    values.push(self.value(frame, argument)?);
                }
                let value = self.call(&self.module.functions[*function], values)?;
                if let (Some(result), Some(value)) = (result, value) {
                    frame.values.insert(*result, value);
                }
            }
            Statement::Switch { .. } => return Err(self.refuse(span, "a switch")),
            _ => return Err(self.refuse(span, "this statement")),
        }
        Ok(())
    }

    fn choice(
        &mut self,
        frame: &mut Frame<'a>,
        condition: u32,
        accept: &'a Block,
        reject: &'a Block,
    ) -> Result<()> {
        if let Some(known) = self.writer.known(condition) {
            return self.block(frame, if known != 0 { accept } else { reject });
        }
        let before = frame.state.clone();
        let yes = self.writer.binary(Binary::And, before.alive, condition);
        frame.state.alive = yes;
        self.block(frame, accept)?;
        let accepted = std::mem::replace(&mut frame.state, before.clone());
        let not = self.writer.not(condition);
        let no = self.writer.binary(Binary::And, before.alive, not);
        frame.state.alive = no;
        self.block(frame, reject)?;
        let all = accepted.alive == yes && frame.state.alive == no;
        let rejected = std::mem::replace(&mut frame.state, before.clone());
        frame.state = self.join(condition, accepted, rejected);
        if all {
            frame.state.alive = before.alive;
        }
        Ok(())
    }

    /// Joins two states: `a` for elements where `condition` holds, and `b` for the others.
    fn join(&mut self, condition: u32, a: State, b: State) -> State {
        if self.writer.known(a.alive) == Some(0) {
            return b;
        }
        if self.writer.known(b.alive) == Some(0) {
            return a;
        }
        let alive = self.writer.binary(Binary::Or, a.alive, b.alive);
        // Variables are in the order of their declarations, so that equal functions have equal steps.
        let mut variables: Vec<_> = a.locals.keys().copied().collect();
        sorted::sort(&mut variables);
        let mut locals = HashMap::new();
        for variable in variables {
            let (x, y) = (&a.locals[&variable], &b.locals[&variable]);
            locals.insert(variable, self.writer.choose(condition, x, y));
        }
        State { locals, alive }
    }

    fn repeat(
        &mut self,
        frame: &mut Frame<'a>,
        (body, continuing, break_if): (&'a Block, &'a Block, Option<Handle<Expression>>),
        span: Span,
    ) -> Result<()> {
        frame.loops.push(Loop::default());
        let mut rounds = 0;
        while !self.is_dead(frame) {
            rounds += 1;
            if rounds > MOST_ROUNDS {
                return Err(self.refuse(
                    span,
                    "a loop whose number of iterations is not constant, or is above 1024,",
                ));
            }
            self.block(frame, body)?;
            let around = frame.loops.last_mut().map(|all| std::mem::take(&mut all.continued));
            for state in around.unwrap_or_default() {
                let here = frame.state.clone();
                frame.state = self.join(state.alive, state, here);
            }
            self.block(frame, continuing)?;
            if let (Some(ends), false) = (break_if, self.is_dead(frame)) {
                let ends = self.scalar(frame, ends)?;
                let mut left = frame.state.clone();
                left.alive = self.writer.binary(Binary::And, left.alive, ends);
                if let Some(around) = frame.loops.last_mut() {
                    around.broken.push(left);
                }
                let stays = self.writer.not(ends);
                frame.state.alive = self.writer.binary(Binary::And, frame.state.alive, stays);
            }
        }
        // Joins the states that left the loop. States that no element reaches have no effect.
        for state in frame.loops.pop().unwrap_or_default().broken {
            let here = frame.state.clone();
            frame.state = self.join(state.alive, state, here);
        }
        Ok(())
    }
}
