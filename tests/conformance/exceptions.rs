//! Cases that are known to differ, each with the reason. A case that fails and is not listed fails the test; so does a
//! listed case that passes.

use super::vectors::Case;

/// Cases of a suite that differ for one reason in some places.
pub struct Exception {
    pub suite: &'static str,
    /// The places' names, as reports give them.
    pub places: &'static [&'static str],
    pub why: &'static str,
    pub cases: &'static [&'static str],
}

impl Exception {
    /// Whether it is about this case in this place.
    pub fn names(&self, case: &Case, place: &str) -> bool {
        *self.suite == *case.suite
            && self.places.contains(&place)
            && self.cases.contains(&case.name.as_str())
    }
}

/// All of them.
pub const EXCEPTIONS: &[Exception] = &[];
