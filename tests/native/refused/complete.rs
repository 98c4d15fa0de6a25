//! Tests that the lists of rejected calls contain every public operation that can reject its arguments, with each kind of error
//! that its documentation names, and that all messages have one form.
//!
//! The operations are found in the sources: every `pub fn` in `impl Tensor` and similar types that returns a `Result`. Kinds
//! are the words under `# Errors`. References such as "As [`Tensor::sum`]" and "The same" are followed.

use super::learning::{DEVICES, LAYERS, LOSSES, READING, TRAINING};
use super::Refusal;
use crate::shared::refusals::{is, LISTS};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// The types whose methods are operations, in these folders.
const TYPES: [&str; 7] =
    ["Tensor", "Device", "Variable", "Program", "ElementFunction", "Shader", "Batch"];
const FOLDERS: [&str; 3] = ["src/tensor", "src/nn/loss", "src/data"];

/// Kinds that depend only on arguments and on state, not on the device.
const KINDS: [&str; 5] = ["Shape", "DType", "InvalidArgument", "InvalidState", "Format"];

/// Operations whose messages have another operation's name.
const ALIASES: &[(&str, &str)] = &[
    ("arange_step", "arange"),
    ("slice_step", "slice"),
    ("read_range", "read"),
    ("read_bytes", "read"),
    ("read_bytes_range", "read"),
    ("tensor_from_bytes", "tensor"),
    ("tensor_from_data", "tensor"),
    ("element_function", "element function"),
    ("call", "square"),
    ("with_gradients", "square"),
    ("run", "program"),
    ("item", "read"),
    ("add", "batch"),
    ("reduce", "any"),
];

/// Operations without such an error, each with the reason.
const NEVER: &[(&str, &str, &str)] = &[
    ("find_non_finite", "*", "as `read`, of what is f32"),
    ("to", "*", "as `read`, by the tensor's own type"),
    ("to_data", "*", "as `read`, by the tensor's own type"),
    ("to_ndarray", "*", "as `read`"),
    ("to_image", "InvalidArgument", "as `read`"),
    ("masked_select", "InvalidArgument", "as `read`"),
    ("read_bytes", "*", "as `read`"),
    ("ready", "*", "tells what `run` tells"),
    ("plan", "*", "of programs whose axes have names"),
    ("call", "Shape", "the row `sum_of`"),
    ("reduce", "Shape", "the row `sum`"),
    ("median", "InvalidArgument", "its q is 0.5"),
    ("nll_loss", "InvalidArgument", "it smooths no labels"),
    ("vjp", "InvalidState", "the row `grad`"),
    ("vjp_all", "DType", "the row `vjp`"),
    ("vjp_all", "InvalidState", "the row `grad`"),
    ("tensor_from_image", "Shape", "pictures have a shape"),
    ("tensor_from_ndarray", "Shape", "arrays have a shape"),
];

/// The lists that need features which not all backends have.
const NATIVE: [&[Refusal]; 5] = [LOSSES, LAYERS, TRAINING, READING, DEVICES];

/// An operation as the sources declare it.
struct Operation {
    name: String,
    kinds: BTreeSet<&'static str>,
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("it is readable").path();
        match path.is_dir() {
            true => sources(&path, found),
            false => found.push(path),
        }
    }
}

/// Returns the kinds that a comment names, including those of referenced operations.
fn kinds(errors: &str, before: &BTreeSet<&'static str>, known: &Known) -> BTreeSet<&'static str> {
    let mut kinds: BTreeSet<&'static str> =
        KINDS.into_iter().filter(|kind| errors.contains(&format!("`{kind}`"))).collect();
    if errors.contains("The same") {
        kinds.extend(before);
    }
    for other in errors.split("[`").skip(1) {
        let name = other.split('`').next().unwrap_or_default();
        let name = name.rsplit("::").next().unwrap_or_default();
        kinds.extend(known.get(name).into_iter().flatten());
    }
    kinds
}

type Known = BTreeMap<String, BTreeSet<&'static str>>;

/// Returns the operations of one file.
fn operations(text: &str, known: &Known) -> Vec<Operation> {
    let (mut found, mut inside, mut comment) = (Vec::<Operation>::new(), false, String::new());
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        if let Some(rest) = line.strip_prefix("impl ") {
            inside = TYPES.iter().any(|name| rest == format!("{name} {{"));
        }
        let inner = line.trim_start();
        if let Some(text) = inner.strip_prefix("///") {
            comment += text;
            continue;
        }
        let is_public = line.starts_with("    pub fn ") || line.starts_with("    pub async fn ");
        if inside && is_public {
            let name = inner.split("fn ").nth(1).unwrap_or_default();
            let name = name.split(['(', '<']).next().unwrap_or_default().to_string();
            let mut head = line.to_string();
            while !head.ends_with('{') {
                head += lines.next().expect("it has a body");
            }
            let errors = comment.split("# Errors").nth(1).unwrap_or_default();
            let errors = errors.split("```").next().unwrap_or_default();
            if head.rsplit("->").next().is_some_and(|made| made.contains("Result<")) {
                let before = found.last().map(|last| last.kinds.clone()).unwrap_or_default();
                let kinds = kinds(errors, &before, known);
                found.push(Operation { name, kinds });
            }
        }
        if !inner.starts_with("#[") && !inner.starts_with("//") {
            comment.clear();
        }
    }
    found
}

/// Returns all operations. Follows references until no more kinds are found.
fn all() -> Known {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut files = Vec::new();
    FOLDERS.iter().for_each(|folder| sources(&root.join(folder), &mut files));
    files.sort();
    let mut known = Known::new();
    for _ in 0..3 {
        for file in &files {
            let text = std::fs::read_to_string(file).expect("it is readable");
            for Operation { name, kinds } in operations(&text, &known) {
                known.entry(name).or_default().extend(kinds);
            }
        }
    }
    known
}

fn lists() -> impl Iterator<Item = &'static Refusal> {
    LISTS.into_iter().chain(NATIVE).flatten()
}

#[test]
fn every_operation_is_refused_in_some_list() {
    let operations = all();
    assert!(operations.len() > 150, "only {} operations were found", operations.len());
    let listed: BTreeSet<(String, String)> =
        lists().map(|(name, kind, _)| (name.to_string(), format!("{kind:?}"))).collect();
    let is_row = |name: &str| warpweft::op::pointwise::TABLE.iter().any(|row| row.name == name);
    let mut missing = Vec::new();
    for (name, kinds) in &operations {
        let alias = ALIASES.iter().find(|(own, _)| own == name);
        let listed_name = alias.map_or(&name[..], |(_, other)| other);
        for kind in kinds {
            let is_never =
                NEVER.iter().any(|(own, which, _)| own == name && [kind, "*"].contains(which));
            let is_listed = listed.contains(&(listed_name.to_string(), kind.to_string()));
            if !is_never && !is_listed && !is_row(name) {
                missing.push(format!("{name} {kind}"));
            }
        }
    }
    assert!(
        missing.is_empty(),
        "no list refuses {} of {}: {missing:#?}",
        missing.len(),
        operations.len()
    );
}

/// Checks the native lists. The lists of `tests/shared` run on every backend.
#[test]
fn native_refusals_have_one_form() {
    let device = crate::reference::device();
    let mut wrong = Vec::new();
    for &(name, kind, refused) in NATIVE.into_iter().flatten() {
        wrong.extend(is(refused(&device), name, kind).err());
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}
