//! `warpweft-api FILE...` prints the public API of crates, one item per line, from their rustdoc JSON.
//!
//! The program is also a rustdoc that can write JSON with a stable compiler. For that, cargo starts it as `RUSTDOC`, and
//! `WARPWEFT_RUSTDOC` names the real rustdoc. Only rustdoc gets `RUSTC_BOOTSTRAP`, which enables unstable options. In the
//! environment of cargo, this variable would make cargo compile most dependencies again.

use public_api::{Builder, PublicItem};
use std::collections::HashSet;
use std::env;
use std::process::{Command, ExitCode};

fn main() -> ExitCode {
    if let Some(rustdoc) = env::var_os("WARPWEFT_RUSTDOC") {
        let mut command = Command::new(&rustdoc);
        command.args(env::args_os().skip(1)).env("RUSTC_BOOTSTRAP", "1");
        return match command.status() {
            Ok(status) if status.success() => ExitCode::SUCCESS,
            Ok(_) => ExitCode::FAILURE,
            Err(error) => failed(&rustdoc.to_string_lossy(), &error),
        };
    }
    for file in env::args().skip(1) {
        match items(&file) {
            Ok(items) => println!("{}", items.join("\n")),
            Err(error) => return failed(&file, &error),
        }
    }
    ExitCode::SUCCESS
}

fn failed(what: &str, error: &dyn std::error::Error) -> ExitCode {
    eprintln!("warpweft-api: {what}: {error}");
    ExitCode::FAILURE
}

/// Returns the items of a crate, each next to its members.
///
/// An implementation of a trait is one item, with its associated types. Its methods are left out, because the trait has them.
/// Implementations that every type has, such as `Any`, and auto traits, such as `Send`, are also left out.
fn items(file: &str) -> Result<Vec<String>, public_api::Error> {
    let api = Builder::from_rustdoc_json(file)
        .omit_blanket_impls(true)
        .omit_auto_trait_impls(true)
        .include_function_parameter_names(true)
        .build()?;
    let is_of_trait = |text: &str| text.contains("impl") && text.contains(" for ");
    let traits = api.items().filter(|item| is_of_trait(&item.to_string())).map(PublicItem::id);
    let traits: HashSet<_> = traits.collect();
    let is_listed = |item: &&PublicItem| {
        let text = item.to_string();
        let is_method = item.parent_id().is_some_and(|parent| traits.contains(&parent));
        // Rust adds the trait `StructuralPartialEq` to types that derive `PartialEq`.
        (!is_method || text.starts_with("pub type")) && !text.contains("StructuralPartialEq")
    };
    Ok(api.items().filter(is_listed).map(PublicItem::to_string).collect())
}
