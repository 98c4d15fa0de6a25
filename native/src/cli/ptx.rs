//! `warpweft ptx`: translates WGSL to PTX.

use clap::Args;
use std::fs;
use std::path::PathBuf;
use warpweft_native::cuda::ptx::{self, Bounds, Options};
use warpweft_native::prelude::*;

/// The shader, and the GPU that it is translated for.
#[derive(Args)]
pub struct Ptx {
    /// A WGSL file
    file: PathBuf,
    /// The compute capability of the GPU, such as 90 for sm_90
    #[arg(long, default_value_t = 75, value_parser = clap::value_parser!(u32).range(75..=121))]
    sm: u32,
    /// Translate only this entry point; others may be unsupported
    #[arg(long, value_name = "NAME")]
    entry: Option<String>,
    /// Do not check indices. The shader must not access memory outside its buffers
    #[arg(long)]
    unchecked: bool,
}

impl Ptx {
    /// Prints the PTX of the shader's entry points.
    ///
    /// # Errors
    /// `InvalidArgument` with the path if the file cannot be read or is not WGSL.
    pub fn run(&self) -> Result<()> {
        let failed = |error: &dyn std::fmt::Display| {
            Error::argument(format!("{}: {error}", self.file.display()))
        };
        let text = fs::read_to_string(&self.file).map_err(|error| failed(&error))?;
        let bounds = if self.unchecked { Bounds::Unchecked } else { Bounds::Checked };
        let options = Options { sm: self.sm, bounds, ..Options::default() };
        let kernels = match &self.entry {
            Some(entry) => ptx::translate_entry(&text, entry, &options).map(|kernel| vec![kernel]),
            None => ptx::translate(&text, &options),
        };
        for kernel in kernels.map_err(|error| failed(&error))? {
            println!("{}", kernel.ptx);
        }
        Ok(())
    }
}
