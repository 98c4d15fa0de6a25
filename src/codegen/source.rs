//! A kernel's text, and the same with dynamic shapes: some of the sizes in it read from the params instead.

use crate::codegen::dialect::Features;
use crate::codegen::sizes::Size;
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// A kernel's text, ready to compile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Source {
    /// The shader. Entry point `main`, all bindings in group 0: binding 0 is the params uniform
    /// (`array<vec4<u32>, n>`), then the inputs (`storage, read`), then the outputs (`storage, read_write`).
    pub text: String,
    /// Number of workgroups; where it exceeds what one dimension takes, the backend folds it into two, and the shader
    /// reads its number as `workgroup_id.x + workgroup_id.y * num_workgroups.x` and stops beyond the last.
    pub workgroups: u64,
    /// The workgroups along each dimension, where the shader tells them apart.
    pub grid: Option<[u32; 3]>,
    /// `vec4`s in the params uniform: a head of one, then the user's numbers four by four.
    pub params: usize,
    /// Whether the params have that head.
    pub head: bool,
    /// What the device must have; the text enables it itself.
    pub features: Features,
    /// The numbers in the text that follow from sizes, in order; the first one is the params' extent.
    pub sizes: Vec<Size>,
}

impl Source {
    /// A hash of all but the sizes: two kernels that differ in these alone have the same.
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

    /// The same kernel, which reads sizes from its params: `words` says for each size which word it is after the
    /// [`params`](Source::params) there are, or that it stays. Constants that are made of those are written where they are
    /// used.
    pub fn dynamic(&self, words: &[Option<usize>]) -> Source {
        let count = words.iter().flatten().max().map_or(0, |last| last + 1);
        let params = self.params + count.div_ceil(4);
        let mut text = String::with_capacity(self.text.len());
        let mut from = 0;
        // The first one is the extent of the params themselves.
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

/// Writes what the module calls constants, and is none, where it is used.
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

/// A line with these values in the place of their names.
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
