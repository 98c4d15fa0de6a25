//! Stored shaders, which are completed for each kernel. A stored shader is valid WGSL on disk. Its parts are replaced by
//! name:
//!
//! - The constants in its first paragraph of constants are parameters. Each must be set.
//! - The functions that use its buffers are placeholders for operands and results. Each must be replaced.
//! - The lines between `// begin NAME` and `// end NAME` may be replaced.
//! - A paragraph whose lines all name `EACH`, or a word that ends in `_each`, is repeated. The word becomes a number in each
//!   copy. `OTHER` and `_other` work likewise.
//!
//! A name that a shader does not have is a bug in this crate and panics, so that no kernel is compiled with the text on disk.

use crate::codegen::sizes::Unsigned;

/// The text of a shader while its parts are replaced.
pub struct Shader {
    parts: Vec<Part>,
    /// The parameters that were not set yet.
    parameters: Vec<&'static str>,
}

/// A declaration, up to the next one.
struct Part {
    name: &'static str,
    text: String,
    /// Whether the declaration uses the buffers that are declared on disk.
    is_placeholder: bool,
}

impl Shader {
    /// Parses a stored shader. Comments, directives and the bindings on disk are removed.
    pub fn new(stored: &'static str) -> Shader {
        let (mut parts, mut parameters) = (Vec::<Part>::new(), Vec::new());
        let (mut before, mut first) = ("", true);
        for line in stored.lines() {
            let ends = before.starts_with("const ") && line.is_empty();
            first &= !ends;
            before = line;
            let region = ["// begin ", "// end "].iter().any(|mark| line.trim().starts_with(mark));
            let left_out = ["//", "@group", "enable "].iter().any(|it| line.trim().starts_with(it));
            if left_out && !region {
                continue;
            }
            let name = declared(line);
            if let (true, Some(name), true) = (first, name, line.starts_with("const ")) {
                parameters.push(name);
            }
            if line.starts_with(|c: char| c.is_ascii_alphabetic() || c == '@') {
                let name = name.unwrap_or_default();
                parts.push(Part { name, text: String::new(), is_placeholder: false });
            }
            if let Some(part) = parts.last_mut() {
                part.is_placeholder |= line.contains("in0[") || line.contains("out0[");
                part.is_placeholder |= line.contains("in1[") || line.contains("in2[");
                part.text += line;
                part.text.push('\n');
            }
        }
        Shader { parts, parameters }
    }

    /// Replaces a function or a workgroup variable by a text, which may be empty.
    pub fn replace(&mut self, function: &str, text: &str) {
        let part = self.part(function);
        part.text = text.to_string();
        part.is_placeholder = false;
    }

    /// Whether the shader declares this name.
    pub fn has(&self, name: &str) -> bool {
        self.parts.iter().any(|part| part.name == name)
    }

    /// Adds a placeholder for a function that the stored shader does not have. It must be replaced.
    pub fn add(&mut self, name: &'static str) {
        self.parts.push(Part { name, text: String::new(), is_placeholder: true });
    }

    /// Sets a constant.
    fn set(&mut self, name: &str, value: &str) {
        self.parameters.retain(|parameter| *parameter != name);
        self.part(name).text = format!("const {name} = {value};\n");
    }

    /// Sets a constant of type `bool`.
    pub fn choose(&mut self, name: &str, value: bool) {
        self.set(name, if value { "true" } else { "false" });
    }

    /// Sets constants of type `u32` that depend on sizes.
    pub fn sizes(&mut self, sizes: &[(&str, usize)]) {
        for &(name, value) in sizes {
            self.set(name, &Unsigned(value).to_string());
        }
    }

    /// Sets constants of type `u32`.
    pub fn constants(&mut self, constants: &[(&str, usize)]) {
        for (name, value) in constants {
            self.set(name, &format!("{value}u"));
        }
    }

    /// Replaces the lines from `// begin NAME` to `// end NAME` by a text.
    pub fn replace_region(&mut self, name: &str, text: &str) {
        let (begin, end) = (format!("// begin {name}\n"), format!("// end {name}\n"));
        let found = self.parts.iter_mut().find_map(|part| {
            let (from, to) = (part.text.find(&begin)?, part.text.find(&end)?);
            Some((part, from..to + end.len()))
        });
        let Some((part, lines)) = found else { unreachable!("the shader has no region {name}") };
        part.text.replace_range(lines, text);
    }

    /// Repeats each `EACH` paragraph `count` times.
    pub fn repeat(&mut self, count: usize) {
        self.repeat_named(["_each", "EACH"], count);
    }

    /// Repeats each `OTHER` paragraph `count` times.
    pub fn repeat_other(&mut self, count: usize) {
        self.repeat_named(["_other", "OTHER"], count);
    }

    fn repeat_named(&mut self, names: [&'static str; 2], count: usize) {
        let is_each = |line: &str| names.iter().any(|name| line.contains(name));
        self.parts.retain(|part| part.name != names[1]);
        assert!(self.parts.iter().any(|part| is_each(&part.text)), "the shader repeats nothing");
        for part in self.parts.iter_mut().filter(|part| is_each(&part.text)) {
            let whole = std::mem::take(&mut part.text);
            let lines: Vec<&str> = whole.split_inclusive('\n').collect();
            for paragraph in lines.chunk_by(|a, b| is_each(a) == is_each(b)) {
                let paragraph = paragraph.concat();
                let times = if is_each(&paragraph) { count } else { 1 };
                for number in 0..times {
                    let named = paragraph.replace(names[0], &format!("_{number}"));
                    part.text += &named.replace(names[1], &format!("{number}u"));
                }
            }
        }
    }

    /// Returns the text. All parameters must be set and all placeholders replaced.
    pub fn finish(self) -> String {
        let mut text = String::new();
        for part in &self.parts {
            assert!(!part.is_placeholder, "the shader's {} was not replaced", part.name);
            for line in part.text.lines().filter(|line| !line.trim_start().starts_with("//")) {
                text += line;
                text.push('\n');
            }
        }
        assert!(self.parameters.is_empty(), "the shader's {:?} were not set", self.parameters);
        text
    }

    fn part(&mut self, name: &str) -> &mut Part {
        match self.parts.iter_mut().find(|part| part.name == name) {
            Some(part) => part,
            None => unreachable!("the shader declares no {name}"),
        }
    }
}

/// Returns the name that a line declares.
fn declared(line: &str) -> Option<&str> {
    let rest = ["const ", "fn ", "var<workgroup> "].iter().find_map(|it| line.strip_prefix(it))?;
    rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next()
}
