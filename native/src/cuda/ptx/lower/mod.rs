//! Lowering: from naga's IR to the linear IR.
//!
//! The kernel is executed symbolically, from its first statement to its last. Calls are entered, so all functions are inlined.
//! Vectors, matrices, structures and small arrays become separate scalars. An `if` with a constant condition lowers only the
//! arm that runs, and a loop whose exits are constant is unrolled (`loops.rs`).
//!
//! A variable of a function is promoted: its scalars are values of the environment of the builder, not memory. A promoted
//! array needs constant indices, or few elements. If lowering finds another index, it tries again with a larger limit for
//! unrolling, because an unrolled loop has constant indices. If that does not help, the array is kept in the thread's memory.

mod access;
mod atomics;
mod bits;
mod control;
mod elementary;
mod expressions;
mod functions;
mod geometry;
mod globals;
mod hyperbolic;
mod loops;
mod math;
mod memory;
mod operators;
mod packing;
mod reduction;
mod subgroups;
mod tensor_cores;
mod trigonometry;

use crate::cuda::ptx::build::Builder;
use crate::cuda::ptx::clean::clean;
use crate::cuda::ptx::error::{Error, Result};
use crate::cuda::ptx::fuse::fuse;
use crate::cuda::ptx::ir::{Inst, Operand, Program, Reg, Space, Ty};
use crate::cuda::ptx::options::Options;
use crate::cuda::ptx::types::Type;
use naga::valid::FunctionInfo;
use naga::{EntryPoint, Expression, Function, Handle, LocalVariable, Module, Span};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The most instructions of an unrolled loop.
const MAX_UNROLLED_INSTRUCTIONS: usize = 1024;
/// The most instructions of an unrolled loop, if arrays stay in memory otherwise.
const MAX_UNROLLED_FOR_ARRAYS: usize = 10_240;
/// The most instructions of a kernel.
const MAX_INSTRUCTIONS: usize = 400_000;
/// The most expressions that are evaluated for a kernel. It bounds the time for loops that emit nothing.
const MAX_EVALUATIONS: usize = 2_000_000;
/// The most functions that call each other.
const MAX_CALL_DEPTH: usize = 64;
/// The most scalars of a variable that is kept in registers.
const MAX_PROMOTED_LEAVES: usize = 512;

/// The value of an expression.
#[derive(Clone, Debug)]
enum Value {
    Data(Type, Rc<[Operand]>),
    Pointer(Pointer),
}

/// A reference to a variable or to a part of it.
#[derive(Clone, Debug)]
struct Pointer {
    ty: Type,
    place: Place,
}

/// The location of a variable.
#[derive(Clone, Debug)]
enum Place {
    /// A promoted variable, by its first value in the environment.
    Promoted {
        first: usize,
    },
    /// One of `count` elements of a promoted variable, `stride` values apart. The index is less than `count`.
    Element {
        first: usize,
        index: Operand,
        count: u32,
        stride: usize,
    },
    Memory(Memory),
}

/// A location in memory.
#[derive(Clone, Debug)]
struct Memory {
    space: Space,
    base: Operand,
    /// Bytes after the base.
    offset: i64,
    /// Whether nothing writes the memory while the kernel runs.
    is_read_only: bool,
    /// The binding's index, for the length of its buffer.
    binding: Option<u32>,
}

/// A variable of a function, by the function's address and its index there.
type VariableId = (usize, usize);

/// A function that is being lowered.
struct Frame<'m> {
    function: &'m Function,
    values: Vec<Option<Value>>,
    arguments: Vec<Value>,
    locals: Vec<Pointer>,
    return_join: usize,
    /// A hash of the calls that lead here.
    path: u64,
}

/// A statement that `break` or `continue` refer to.
enum Control {
    Switch { break_join: usize },
    Loop { break_join: usize, continue_join: usize, unroll: Option<Unroll> },
}

/// The state of a loop that is being unrolled.
#[derive(Default)]
struct Unroll {
    /// Whether this round has decided at lowering time whether the loop ends.
    has_constant_exit: bool,
}

/// The reason why lowering stops.
enum Stop {
    Error(Error),
    /// The innermost loop has an exit that is not constant, so it cannot be unrolled.
    NotConstant,
    /// The outermost loop that is being unrolled is too large.
    TooLarge,
}

impl From<Error> for Stop {
    fn from(error: Error) -> Stop {
        Stop::Error(error)
    }
}

/// The result of lowering a statement.
type Flow = std::result::Result<(), Stop>;

/// The limits of one attempt to lower the kernel.
#[derive(Clone, Default)]
struct Attempt {
    max_unrolled: usize,
    /// Variables that are kept in memory.
    in_memory: HashSet<VariableId>,
}

/// A kernel that is being lowered.
struct Lowerer<'m> {
    module: &'m Module,
    options: &'m Options,
    /// The constant expressions of the module, as a function.
    globals: &'m Function,
    b: Builder,
    attempt: Attempt,
    /// Promoted variables that need memory in the next attempt.
    dynamic: HashSet<VariableId>,
    frames: Vec<Frame<'m>>,
    controls: Vec<Control>,
    /// The variable of each value of the environment.
    owners: Vec<VariableId>,
    variables: HashMap<Handle<naga::GlobalVariable>, Pointer>,
    tables: Vec<Vec<u32>>,
    /// Loops, by address and path, that are not unrolled.
    rolled: HashSet<(usize, u64)>,
    /// The instruction at which the outermost unrolled loop must end, and the evaluation.
    unroll_limit: Option<(usize, usize)>,
    evaluations: usize,
    local_bytes: u32,
    shared_bytes: u32,
    /// The number of conditions around this point that differ between threads.
    divergence: u32,
    /// Whether some threads may have left the current loop, or this round of it.
    is_partial: bool,
    /// Whether some threads may have returned from the current function.
    has_returned: bool,
    /// The next free byte of the thread's memory.
    local_top: u32,
    span: Span,
    workgroup_size: [u32; 3],
    bindings: &'m [crate::cuda::ptx::options::Binding],
}

/// Lowers an entry point.
///
/// # Errors
/// Fails for WGSL that is not supported, with its location.
pub fn lower(
    module: &Module,
    info: &FunctionInfo,
    entry: &EntryPoint,
    bindings: &[crate::cuda::ptx::options::Binding],
    options: &Options,
) -> std::result::Result<Program, (Error, Span)> {
    let globals =
        Function { expressions: module.global_expressions.clone(), ..Function::default() };
    // Kernels with intrinsics keep fragments in arrays, and prevent unrolling where it does not help.
    let most = match options.has_intrinsics {
        true => MAX_UNROLLED_FOR_ARRAYS,
        false => MAX_UNROLLED_INSTRUCTIONS,
    };
    let mut attempt =
        Attempt { max_unrolled: options.max_unrolled.min(most), ..Attempt::default() };
    loop {
        let mut lowerer = Lowerer::new(module, options, &globals, attempt.clone(), entry, bindings);
        let outcome = lowerer.run(entry, info);
        if outcome.is_ok() && !lowerer.dynamic.is_empty() {
            if attempt.max_unrolled < MAX_UNROLLED_FOR_ARRAYS.min(options.max_unrolled) {
                attempt.max_unrolled = MAX_UNROLLED_FOR_ARRAYS.min(options.max_unrolled);
            } else {
                attempt.in_memory.extend(lowerer.dynamic);
            }
            continue;
        }
        match outcome {
            Ok(()) => return Ok(lowerer.finish()),
            Err(Stop::Error(error)) => return Err((error, lowerer.span)),
            Err(Stop::NotConstant | Stop::TooLarge) => {
                return Err((Error::new("a loop cannot be lowered"), lowerer.span))
            }
        }
    }
}

impl<'m> Lowerer<'m> {
    fn new(
        module: &'m Module,
        options: &'m Options,
        globals: &'m Function,
        attempt: Attempt,
        entry: &EntryPoint,
        bindings: &'m [crate::cuda::ptx::options::Binding],
    ) -> Lowerer<'m> {
        Lowerer {
            module,
            options,
            globals,
            b: Builder::new(),
            attempt,
            dynamic: HashSet::new(),
            frames: Vec::new(),
            controls: Vec::new(),
            owners: Vec::new(),
            variables: HashMap::new(),
            tables: Vec::new(),
            rolled: HashSet::new(),
            unroll_limit: None,
            evaluations: 0,
            local_bytes: 0,
            shared_bytes: 0,
            divergence: 0,
            is_partial: false,
            has_returned: false,
            local_top: 0,
            span: Span::UNDEFINED,
            workgroup_size: entry.workgroup_size,
            bindings,
        }
    }

    /// Lowers the whole kernel.
    fn run(&mut self, entry: &'m EntryPoint, info: &FunctionInfo) -> Flow {
        self.declare_globals(info)?;
        let mut arguments = Vec::new();
        for argument in &entry.function.arguments {
            arguments.push(self.entry_argument(argument)?);
        }
        self.inline(&entry.function, arguments, 0)?;
        self.b.is_reachable = true;
        self.b.emit(Inst::Exit);
        Ok(())
    }

    fn finish(self) -> Program {
        let mut registers = self.b.registers();
        let params = 2 * self.bindings.len() as u32;
        let mut instructions = self.b.finish();
        if self.options.fuse_multiply_add {
            fuse(&mut instructions, registers);
        }
        Program {
            instructions: clean(instructions, &mut registers),
            registers,
            params,
            shared_bytes: self.shared_bytes,
            local_bytes: self.local_bytes,
            tables: self.tables,
        }
    }

    fn frame(&self) -> Result<&Frame<'m>> {
        self.frames.last().ok_or_else(|| Error::new("no function is being lowered"))
    }

    /// Returns an expression of the current function.
    fn expression(&self, handle: Handle<Expression>) -> Result<&'m Expression> {
        let function = self.frame()?.function;
        function.expressions.try_get(handle).map_err(|_| Error::new("an expression does not exist"))
    }

    /// Allocates memory of the thread, and returns its offset in bytes.
    fn allocate_local(&mut self, bytes: u64) -> Result<u32> {
        let start = self.local_top.next_multiple_of(16);
        let end = u64::from(start) + bytes;
        // The limit of PTX is 512 KiB for each thread.
        if end > 512 << 10 {
            return Err(Error::new(format!(
                "the variables of a thread must take at most 524288 bytes, got {end}"
            )));
        }
        self.local_top = end as u32;
        self.local_bytes = self.local_bytes.max(self.local_top);
        Ok(start)
    }

    /// Returns a register of a type.
    fn reg(&mut self, ty: Ty) -> Reg {
        self.b.reg(ty.class(), false)
    }
}

/// Returns the address of a function or a block, as an identity.
fn identity<T>(item: &T) -> usize {
    std::ptr::from_ref(item).addr()
}

/// Returns the identity of a function's variable.
fn variable_id(function: &Function, variable: Handle<LocalVariable>) -> VariableId {
    (identity(function), variable.index())
}
