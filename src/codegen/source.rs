//! The text of a kernel, and its variant with dynamic sizes, which reads some sizes from the params.

use crate::codegen::dialect::Features;
use crate::codegen::sizes::Size;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// Splits a number of workgroups into a grid of two dimensions, each at most `limit`, with less than one row too many. Returns
/// `None` if two dimensions do not suffice.
pub fn fold(workgroups: u64, limit: u32) -> Option<[u32; 3]> {
    let limit = u64::from(limit.max(1));
    let rows = workgroups.div_ceil(limit).max(1);
    (rows <= limit).then(|| [workgroups.div_ceil(rows) as u32, rows as u32, 1])
}

/// A kernel's text, ready to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The shader. The entry point is `main`, and all bindings are in group 0. Binding 0 is the params uniform
    /// (`array<vec4<u32>, n>`). Then come the inputs (`storage, read`), and the outputs (`storage, read_write`).
    pub text: String,
    /// The number of workgroups. If it exceeds one dimension, the backend folds it into two. The shader computes its number
    /// as `workgroup_id.x + workgroup_id.y * num_workgroups.x`, and returns if the number is out of range.
    pub workgroups: u64,
    /// The workgroups along each dimension, if the shader distinguishes them.
    pub grid: Option<[u32; 3]>,
    /// The number of `vec4`s in the params uniform: one for the head, and then four of the user's numbers in each.
    pub params: usize,
    /// Whether the params begin with the head.
    pub head: bool,
    /// The features that the device must have. The text enables them.
    pub features: Features,
    /// The numbers in the text that depend on sizes, in order. The first one is the extent of the params.
    pub sizes: Vec<Size>,
}

impl Source {
    /// Returns a hash of the text without its sizes. Kernels that differ only in sizes have equal hashes.
    pub fn structure(&self) -> u64 {
        let mut hasher = FxHasher::default();
        let mut from = 0;
        for size in &self.sizes {
            self.text[from..size.at].hash(&mut hasher);
            from = size.at + size.len;
        }
        self.text[from..].hash(&mut hasher);
        hasher.finish()
    }

    /// Returns the kernel with some sizes read from its params. `words` has a word for each such size, counted from the end
    /// of the current [`params`](Source::params), or `None` for a size that stays. Constants that depend on such sizes are
    /// inlined.
    pub fn dynamic(&self, words: &[Option<usize>]) -> Source {
        let count = words.iter().flatten().max().map_or(0, |last| last + 1);
        let params = self.params + count.div_ceil(4);
        let mut text = String::with_capacity(self.text.len());
        let mut from = 0;
        // The first one is the extent of the params.
        for (n, size) in self.sizes.iter().enumerate() {
            text += &self.text[from..size.at];
            from = size.at + size.len;
            let printed = &self.text[size.at..from];
            match words[n] {
                _ if n == 0 => put!(text, "{params}"),
                Some(word) => {
                    let kind = if printed.ends_with('u') { "u32" } else { "i32" };
                    let component = ["x", "y", "z", "w"][word % 4];
                    put!(text, "{kind}(params[{}].{component})", self.params + word / 4);
                }
                None => text += printed,
            }
        }
        text += &self.text[from..];
        Source { text: inline_constants(&text), sizes: Vec::new(), params, ..*self }
    }
}

/// Inlines declarations of constants that are no longer constant.
fn inline_constants(text: &str) -> String {
    let (mut all, mut known) = (String::with_capacity(text.len()), Vec::new());
    for line in text.lines() {
        let line = inlined(line, &known);
        let constant = line.strip_prefix("const ").filter(|rest| rest.contains("params["));
        if let Some((name, value)) = constant.and_then(|rest| rest.split_once(" = ")) {
            known.push((name.to_string(), format!("({})", value.trim_end_matches(';'))));
        } else {
            all += &line;
            all.push('\n');
        }
    }
    all
}

/// Replaces names in a line by their values.
fn inlined(line: &str, known: &[(String, String)]) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let (mut text, mut rest) = (String::new(), line);
    while let Some(start) = rest.find(word) {
        let (before, from) = rest.split_at(start);
        let (name, after) = from.split_at(from.find(|c| !word(c)).unwrap_or(from.len()));
        let value = known.iter().find(|(known, _)| known == name);
        text += before;
        text += value.map_or(name, |(_, value)| value);
        rest = after;
    }
    text + rest
}
