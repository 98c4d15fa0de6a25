//! The form of error messages: `op: what must hold, got what`, and the remedy after a semicolon.

/// Phrases that a message may contain instead of `must` and `got`.
const OTHERS: [&str; 3] = [" is not supported", "the device was lost", "out of memory"];

/// Checks a message that belongs to an operation.
///
/// # Errors
/// Returns the part that is missing in the message.
pub fn check(name: &str, message: &str) -> Result<(), String> {
    let Some(rest) = message.strip_prefix(name).and_then(|rest| rest.strip_prefix(": ")) else {
        return Err(format!("{message:?} must begin with {name:?} and a colon"));
    };
    if OTHERS.iter().any(|other| rest.contains(other)) {
        return Ok(());
    }
    let Some(at) = rest.find(" must ") else {
        return Err(format!("{message:?} does not say what must hold"));
    };
    match rest[at..].find(", got ") {
        Some(got) if rest[at + got + 6..].chars().next().is_some_and(|c| !c.is_whitespace()) => {
            Ok(())
        }
        _ => Err(format!("{message:?} does not say what it got")),
    }
}
