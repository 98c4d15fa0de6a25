//! Tests linear algebra: against NumPy and JAX and, for larger matrices, against the definitions.

mod eigh;
mod golden;
mod sizes;
mod twice;

use super::check::Suite;

pub fn cases() -> Suite {
    let mut suite = Suite::new("linalg");
    eigh::cases(&mut suite);
    golden::cases(&mut suite);
    sizes::cases(&mut suite);
    twice::cases(&mut suite);
    suite
}

pub use eigh::eigenvalues;
pub use golden::{equations, like};
