//! An interpreter of NVIDIA PTX on the CPU, for tests.
//!
//! It executes PTX text without a GPU and reports undefined behavior: accesses outside buffers, misaligned accesses, races,
//! barriers that not all threads reach, and reads of values that were never written.
//!
//! ```text
//! text --lexer--> tokens --parser--> syntax tree --lower, decode--> program --launch, exec--> memory and report
//! ```

#![forbid(unsafe_code)]

mod decode;
mod error;
mod exec;
mod float;
mod launch;
mod lexer;
mod lower;
mod memory;
mod options;
mod parser;
mod program;
mod resolve;
mod shadow;
mod syntax;
mod types;

pub use error::{Error, ErrorKind};
pub use launch::Module;
pub use memory::Memory;
pub use options::{Argument, Count, Launch, Options, Report, Schedule};
