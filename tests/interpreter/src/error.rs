//! Errors of parsing and of execution.

use std::fmt;

/// The kind of an error, for tests that expect a certain one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorKind {
    /// The PTX text is malformed, or uses something that this interpreter does not implement.
    Parse,
    /// The launch does not fit the kernel, for example a wrong number of arguments.
    Launch,
    /// An access outside every buffer or variable, or through an address of the wrong space.
    OutOfBounds,
    /// An address that is not a multiple of the access size.
    Misaligned,
    /// A read of a register or of memory that was never written.
    Uninitialized,
    /// A barrier that cannot complete, or that only some threads reach.
    Barrier,
    /// Two unordered accesses of different threads, of which at least one is a plain write.
    Race,
    /// More instructions than the limit of the launch, as in an endless loop.
    Limit,
    /// `trap` was executed.
    Trap,
    /// An operand that the PTX specification does not allow at run time.
    Operand,
}

/// An error with its place in the PTX text and, during execution, the thread and address.
#[derive(Clone, Debug)]
pub struct Error {
    pub kind: ErrorKind,
    /// The line of the PTX text, counted from 1. Zero if the error has no line.
    pub line: u32,
    /// The text of the instruction. Empty outside instructions.
    pub instruction: String,
    /// The block and the thread in it.
    pub thread: Option<([u32; 3], [u32; 3])>,
    pub address: Option<u64>,
    pub message: String,
}

impl Error {
    /// An error without a thread.
    pub fn new(kind: ErrorKind, line: u32, message: impl Into<String>) -> Self {
        Self {
            kind,
            line,
            instruction: String::new(),
            thread: None,
            address: None,
            message: message.into(),
        }
    }

    /// An error of parsing.
    pub fn parse(line: u32, message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Parse, line, message)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "ptx: ")?;
        if self.line > 0 {
            write!(out, "line {}: ", self.line)?;
        }
        if !self.instruction.is_empty() {
            write!(out, "`{}`: ", self.instruction)?;
        }
        if let Some((block, thread)) = self.thread {
            write!(out, "thread {thread:?} of block {block:?}: ")?;
        }
        if let Some(address) = self.address {
            write!(out, "address {address:#x}: ")?;
        }
        out.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// A problem of one lane, before the place is known. The scheduler adds line, instruction and thread.
#[derive(Clone, Debug)]
pub struct Fault {
    pub kind: ErrorKind,
    pub lane: Option<usize>,
    pub address: Option<u64>,
    pub message: String,
}

impl Fault {
    /// A fault of the lane that is being executed.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, lane: None, address: None, message: message.into() }
    }

    /// Sets the address of the fault.
    pub fn at(mut self, address: u64) -> Self {
        self.address = Some(address);
        self
    }

    /// Sets the lane of the fault, unless it is known already.
    pub fn of_lane(mut self, lane: usize) -> Self {
        self.lane.get_or_insert(lane);
        self
    }
}
