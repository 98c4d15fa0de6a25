//! The only error type. It has a stable kind, and a message that starts with the operation's name.

use std::fmt;

/// The kind of an error, which programs can match. JavaScript's `Error` has the name of the kind as `code`.
///
/// More kinds may follow, so a `match` needs an arm for the others.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Shapes, axes or indices do not fit the operation.
    Shape,
    /// The element types do not fit the operation.
    DType,
    /// The value, the name or the type of an argument or an option is wrong.
    InvalidArgument,
    /// The call is not allowed in the current state. For example, the object was disposed of, or a loss was used up.
    InvalidState,
    /// A file, a stream, a state dictionary or a text in a format is damaged or incomplete, or contradicts itself or the model.
    Format,
    /// The device or this build does not support the operation.
    Unsupported,
    /// The device does not have enough free memory.
    Memory,
    /// The device was lost. A new one can be opened.
    DeviceLost,
    /// No device fits the request.
    NoDevice,
    /// A limit of the device or of this library is exceeded. The message has both numbers.
    Limit,
}

impl ErrorKind {
    /// Returns the stable name of the kind, such as `"Shape"`.
    pub fn name(self) -> &'static str {
        match self {
            ErrorKind::Shape => "Shape",
            ErrorKind::DType => "DType",
            ErrorKind::InvalidArgument => "InvalidArgument",
            ErrorKind::InvalidState => "InvalidState",
            ErrorKind::Format => "Format",
            ErrorKind::Unsupported => "Unsupported",
            ErrorKind::Memory => "Memory",
            ErrorKind::DeviceLost => "DeviceLost",
            ErrorKind::NoDevice => "NoDevice",
            ErrorKind::Limit => "Limit",
        }
    }
}

/// An error with a [kind](ErrorKind) and a message that names the operation and its arguments.
///
/// ```
/// # use warpweft::error::Error;
/// // What a program prints whose `main` returns it.
/// assert_eq!(format!("{:?}", Error::shape("add: the shapes must agree")), "Shape: add: the shapes must agree");
/// ```
// Boxed, because nearly every function returns a result, and moving one word takes less code than moving four.
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
    /// Creates an error of `kind`. By convention, `message` is `op: what must hold, got what`, with the remedy after a
    /// semicolon.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Error {
        Error(Box::new(Inner { kind, message: message.into() }))
    }

    /// Creates an error about shapes, axes or indices.
    pub fn shape(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Shape, message)
    }

    /// Creates an error about element types.
    pub fn dtype(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::DType, message)
    }

    /// Creates an error about the value, the name or the type of an argument.
    pub fn argument(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidArgument, message)
    }

    /// Creates an error about a call that is not allowed in the current state.
    pub fn state(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::InvalidState, message)
    }

    /// Creates an error about the bytes of a file, a stream or a text in a format.
    pub fn format(message: impl Into<String>) -> Error {
        Error::new(ErrorKind::Format, message)
    }

    /// Creates an error about a shape that `op` does not accept. `must` is the rule.
    pub fn wrong_shape(op: &str, must: &str, got: &[usize]) -> Error {
        Error::shape(format!("{op}: {must}, got shape {}", brief(got)))
    }

    /// Creates an error about two shapes that do not fit together in `op`. `must` is the rule.
    pub fn shapes(op: &str, must: &str, a: &[usize], b: &[usize]) -> Error {
        Error::shape(format!("{op}: {must}, got {} and {}", brief(a), brief(b)))
    }

    /// Creates an error about a dtype that `op` does not accept. `wanted` lists the accepted ones.
    pub fn wrong_dtype(op: &str, wanted: &str, got: impl fmt::Display) -> Error {
        Error::dtype(format!("{op}: the dtype must be {wanted}, got {got}; cast it first"))
    }

    /// Creates an error about operands of two dtypes, where `op` needs one.
    pub fn mixed_dtypes(op: &str, a: impl fmt::Display, b: impl fmt::Display) -> Error {
        Error::dtype(format!("{op}: the operands must have one dtype, got {a} and {b}; cast one"))
    }

    /// Creates an error about tensors of two devices, where `op` needs one. `what` is on the wrong device.
    pub fn wrong_device(op: &str, what: &str) -> Error {
        let must = "must be on the device of the others";
        Error::argument(format!("{op}: {what} {must}, got one of another; move it with `to`"))
    }

    /// Replaces the operation in the message by `name`, which called that operation.
    pub fn within(self, name: &str) -> Error {
        match self.0.message.find(": ") {
            Some(at) => Error::new(self.0.kind, name.to_string() + &self.0.message[at..]),
            None => self,
        }
    }

    /// Returns the kind, which programs can match.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Returns the message, which is for people.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

/// Formats the kind and the message. `unwrap` prints them, and so does a program whose `main` returns the error.
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

/// The most bytes of a user's argument in a message.
const BRIEF: usize = 100;

/// Formats a user's argument for a message. A long one is truncated.
pub fn brief(given: impl fmt::Debug) -> String {
    let mut text = Brief(String::new());
    match fmt::Write::write_fmt(&mut text, format_args!("{given:?}")) {
        Ok(()) => text.0,
        Err(fmt::Error) => text.0 + "...",
    }
}

/// A text of at most [`BRIEF`] bytes.
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

/// Checks that `bytes` can be allocated at once, because JavaScript's glue traps if they cannot.
///
/// # Errors
/// `Memory`, and the message names `what`.
#[cfg(target_arch = "wasm32")]
pub fn need_room(what: &str, bytes: u64) -> Result<()> {
    let mut room = Vec::<u8>::new();
    let reserved = usize::try_from(bytes).is_ok_and(|bytes| room.try_reserve_exact(bytes).is_ok());
    // Prevents compilers from removing an allocation that is freed at once.
    std::hint::black_box(room);
    if reserved {
        return Ok(());
    }
    let message = format!("{what}: the bytes must fit into the memory of WebAssembly, got {bytes}");
    Err(Error::new(ErrorKind::Memory, message))
}
