//! All native tests: one binary.

mod table;
