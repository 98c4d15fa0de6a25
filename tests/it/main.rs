//! All native tests: one binary.

mod cpu;
