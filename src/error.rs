//! The one error type: a stable kind, and a message that starts with the operation's name.

use std::fmt;

/// What went wrong, as a program can act on it. The JavaScript `Error` carries the same word as `code`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ErrorKind {
    /// Shapes, axes or indices do not fit the operation.
    Shape,
    /// The element types do not fit the operation.
    DType,
    /// The device, or this build, cannot do it.
    Unsupported,
    /// The device has no memory left for it.
    Memory,
    /// The device is gone; a new one can be made.
    DeviceLost,
    /// No device answers to what was asked for.
    NoDevice,
    /// The data passed in is not what it claims to be, or a tensor was already freed.
    Data,
    /// A limit of the device or of this library is exceeded; the message names both numbers.
    Limit,
}

impl ErrorKind {
    /// The stable word for this kind, e.g. `"Shape"`.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Shape => "Shape",
            ErrorKind::DType => "DType",
            ErrorKind::Unsupported => "Unsupported",
            ErrorKind::Memory => "Memory",
            ErrorKind::DeviceLost => "DeviceLost",
            ErrorKind::NoDevice => "NoDevice",
            ErrorKind::Data => "Data",
            ErrorKind::Limit => "Limit",
        }
    }
}

/// An error as a value: a [kind](ErrorKind) and a sentence that names the operation and what it was given.
///
/// ```
/// # use warpweft::error::Error;
/// // What a program prints whose `main` returns it.
/// assert_eq!(format!("{:?}", Error::shape("add: the shapes must agree")), "Shape: add: the shapes must agree");
/// ```
// Boxed: results carry errors everywhere, and a word is moved with less code than four.
#[derive(Clone, PartialEq, Eq)]
pub struct Error(Box<Inner>);

#[derive(Clone, PartialEq, Eq)]
struct Inner {
    kind: ErrorKind,
    message: String,
}

/// `Result` with this crate's [`Error`].
pub type Result<T> = std::result::Result<T, Error>;

impl Error {
    /// An error of `kind`. By convention `message` is `op: what must hold, got what`, and the remedy after a semicolon.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { kind, message: message.into() }))
    }

    /// Shapes, axes or indices that do not fit.
    pub fn shape(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Shape, message)
    }

    /// Element types that do not fit.
    pub fn dtype(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::DType, message)
    }

    /// Data that is not what it claims to be.
    pub fn data(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Data, message)
    }

    /// A shape that `op` does not take: `must` says what must hold.
    pub fn wrong_shape(op: &str, must: &str, got: &[usize]) -> Error {
        Error::shape(format!("{op}: {must}, got shape {}", brief(got)))
    }

    /// Two shapes that do not fit together in `op`: `must` says what must hold.
    pub fn shapes(op: &str, must: &str, a: &[usize], b: &[usize]) -> Error {
        Error::shape(format!("{op}: {must}, got {} and {}", brief(a), brief(b)))
    }

    /// A dtype that `op` does not take; `wanted` lists those that it takes.
    pub fn wrong_dtype(op: &str, wanted: &str, got: impl fmt::Display) -> Error {
        Error::dtype(format!("{op}: the dtype must be {wanted}, got {got}; cast it first"))
    }

    /// Operands of two dtypes where `op` takes one.
    pub fn mixed_dtypes(op: &str, a: impl fmt::Display, b: impl fmt::Display) -> Error {
        Error::dtype(format!("{op}: the operands must have one dtype, got {a} and {b}; cast one"))
    }

    /// Tensors of two devices where `op` takes those of one; `what` is on the wrong one.
    pub fn wrong_device(op: &str, what: &str) -> Error {
        let must = "must be on the device of the others";
        Error::data(format!("{op}: {what} {must}, got one of another; move it with `to`"))
    }

    /// The same error, told by the operation `name` in a part of whose work it arose.
    pub fn within(self, name: &str) -> Error {
        match self.0.message.find(": ") {
            Some(at) => Error::new(self.0.kind, name.to_string() + &self.0.message[at..]),
            None => self,
        }
    }

    /// What a program can act on.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The sentence for a person.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

/// The kind and the message. `unwrap` prints it, and a program whose `main` returns the error.
impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0.message)
    }
}

impl std::error::Error for Error {}

/// So many letters of a list or of a text that a user passed stand in a message.
const BRIEF: usize = 100;

/// What a user passed, for a message: its beginning where it is long.
pub fn brief(given: impl fmt::Debug) -> String {
    let mut text = Brief(String::new());
    match fmt::Write::write_fmt(&mut text, format_args!("{given:?}")) {
        Ok(()) => text.0,
        Err(fmt::Error) => text.0 + "...",
    }
}

/// A text that takes no more than [`BRIEF`] letters.
struct Brief(String);

impl fmt::Write for Brief {
    fn write_str(&mut self, more: &str) -> fmt::Result {
        let room = BRIEF - self.0.len().min(BRIEF);
        match more.char_indices().find(|(at, letter)| at + letter.len_utf8() > room) {
            None => self.0.push_str(more),
            Some((end, _)) => {
                self.0.push_str(&more[..end]);
                return Err(fmt::Error);
            }
        }
        Ok(())
    }
}

/// Whether there is room for so many bytes in one piece: JavaScript's glue traps where there is none.
///
/// # Errors
/// `Memory`, in the name of `what`.
#[cfg(target_arch = "wasm32")]
pub fn need_room(what: &str, bytes: u64) -> Result<()> {
    let mut room = Vec::<u8>::new();
    let reserved = usize::try_from(bytes).is_ok_and(|bytes| room.try_reserve_exact(bytes).is_ok());
    // Else compilers leave out what is freed again at once.
    std::hint::black_box(room);
    if reserved {
        return Ok(());
    }
    let message = format!("{what}: the bytes must fit into the memory of WebAssembly, got {bytes}");
    Err(Error::new(ErrorKind::Memory, message))
}
