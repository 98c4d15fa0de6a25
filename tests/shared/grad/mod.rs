//! Tests gradients against finite differences of the reference functions, and against another library.

mod agree;
mod golden;
mod higher;
mod operations;
mod ordering;
mod past;
mod reading;
mod rows;
mod sequences;
mod windows;

pub use agree::{holds, twice};

use super::check::Suite;

pub fn cases() -> Suite {
    let mut suite = Suite::new("grad");
    rows::cases(&mut suite);
    operations::cases(&mut suite);
    windows::cases(&mut suite);
    sequences::cases(&mut suite);
    ordering::cases(&mut suite);
    golden::cases(&mut suite);
    past::cases(&mut suite);
    reading::cases(&mut suite);
    higher::cases(&mut suite);
    suite
}
