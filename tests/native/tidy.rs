//! Tests the conventions of this codebase: which modules may name which, the lengths of files and lines, and the first line of
//! every file. Each check is a function from a file to its findings, and a test proves that it finds something.

mod circles;

use std::fs;
use std::path::{Path, PathBuf};

/// A file: its path from the root with `/`, and its text.
struct File {
    path: String,
    text: String,
}

impl File {
    fn new(path: &str, text: &str) -> File {
        File { path: path.into(), text: text.into() }
    }

    fn extension(&self) -> &str {
        self.path.rsplit('.').next().unwrap_or_default()
    }

    /// Returns numbered lines, from 1.
    fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        self.text.lines().enumerate().map(|(n, line)| (n + 1, line))
    }

    /// Returns numbered lines without comments and the contents of strings.
    fn code(&self) -> impl Iterator<Item = (usize, String)> + '_ {
        self.lines().map(|(n, line)| (n, without_words(line)))
    }

    fn finding(&self, line: usize, what: impl std::fmt::Display) -> String {
        format!("{}:{line}: {what}", self.path)
    }
}

/// Returns a line of code without its comment and the contents of its strings.
fn without_words(line: &str) -> String {
    let mut code = String::new();
    let mut quoted = false;
    let mut previous = ' ';
    for c in line.chars() {
        match c {
            '"' if previous != '\\' && previous != '\'' => quoted = !quoted,
            '/' if !quoted && previous == '/' => {
                code.pop();
                break;
            }
            c if !quoted => code.push(c),
            _ => {}
        }
        previous = if previous == '\\' { ' ' } else { c };
    }
    code
}

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

/// Adds all files below a folder, except downloaded and generated ones.
fn walk(folder: &Path, found: &mut Vec<PathBuf>) {
    let Ok(entries) = fs::read_dir(folder) else { return };
    for path in entries.map(|entry| entry.expect("it can be listed").path()) {
        let name = path.file_name().and_then(|n| n.to_str()).unwrap_or_default();
        if path.is_dir()
            && !matches!(name, "node_modules" | "dist" | "target" | "pkg" | "snapshots")
        {
            walk(&path, found);
        } else if path.is_file() {
            found.push(path);
        }
    }
}

/// Returns the repository's Rust, WGSL and TypeScript, and the JavaScript in the Rust crate.
fn files() -> Vec<File> {
    let mut paths = Vec::new();
    for folder in ["src", "native", "tests", "shaders", "www"] {
        walk(&root().join(folder), &mut paths);
    }
    paths.sort();
    let own = |path: &PathBuf| {
        let name = path.to_string_lossy();
        !name.ends_with(".d.ts")
            && ([".rs", ".wgsl", ".ts", ".mjs"].iter().any(|end| name.ends_with(end))
                || path.starts_with(root().join("src")) && name.ends_with(".js"))
    };
    let read = |path: PathBuf| {
        let name = path.strip_prefix(root()).expect("it lies below the root");
        let text = fs::read_to_string(&path).expect("it can be read");
        File { path: name.to_string_lossy().replace('\\', "/"), text }
    };
    paths.into_iter().filter(own).map(read).collect()
}

/// Fails with all findings of `check` in the repository.
fn all_files(check: impl Fn(&File) -> Vec<String>) {
    let files = files();
    assert!(files.len() > 50, "only {} files were found", files.len());
    let findings: Vec<String> = files.iter().flat_map(check).collect();
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// Returns the modules of `src/lib.rs`, each with the number of its paragraph.
fn paragraphs(lib: &str) -> Vec<(String, usize)> {
    let mut found = Vec::new();
    for (number, paragraph) in lib.split("\n\n").enumerate() {
        for line in paragraph.lines() {
            let line = line.trim().trim_start_matches("pub ").trim_start_matches("pub(crate) ");
            if let Some(name) = line.strip_prefix("mod ").and_then(|l| l.strip_suffix(';')) {
                found.push((name.to_string(), number));
            }
        }
    }
    found
}

/// Returns the modules that a line of code names as `crate::x` or `crate::{x, y}`.
fn named(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for (at, start) in code.match_indices("crate::") {
        let rest = &code[at + start.len()..];
        let list = match rest.strip_prefix('{') {
            Some(list) => list.split('}').next().unwrap_or_default(),
            None => rest,
        };
        let names = if rest.starts_with('{') { list.split(',').collect() } else { vec![list] };
        for name in names {
            let end = name.trim_start().find(|c: char| !c.is_alphanumeric() && c != '_');
            let name = name.trim_start();
            found.push(&name[..end.unwrap_or(name.len())]);
        }
    }
    found
}

/// Checks that a module names only modules of earlier paragraphs.
fn floors(lib: &str, file: &File) -> Vec<String> {
    let order = paragraphs(lib);
    let floor = |name: &str| order.iter().find(|(n, _)| n == name).map(|(_, floor)| *floor);
    let own = file.path.strip_prefix("src/").map(|p| p.split(['/', '.']).next().unwrap_or(p));
    let Some(own) = own.filter(|own| *own != "lib" && file.extension() == "rs") else {
        return Vec::new();
    };
    let Some(here) = floor(own) else {
        return vec![file.finding(1, "no paragraph of src/lib.rs names this module")];
    };
    let mut findings = Vec::new();
    for (line, code) in file.code() {
        for name in named(&code) {
            if name != own && floor(name).is_some_and(|there| there >= here) {
                findings.push(file.finding(line, format!("{own} must not know crate::{name}")));
            }
        }
    }
    findings
}

#[test]
fn modules_name_only_lower_floors() {
    let lib = fs::read_to_string(root().join("src/lib.rs")).expect("the crate has a root");
    assert!(paragraphs(&lib).len() > 10, "the modules were not found");
    all_files(|file| floors(&lib, file));
}

/// Returns the most lines of a file. Tables and tests may have more.
fn budget(path: &str) -> usize {
    if path.starts_with("tests/") || path.contains("/pointwise.") {
        800
    } else {
        700
    }
}

fn lengths(file: &File) -> Vec<String> {
    let (count, budget) = (file.text.lines().count(), budget(&file.path));
    let long = (count > budget).then(|| file.finding(count, format!("more than {budget} lines")));
    long.into_iter().collect()
}

#[test]
fn files_are_short() {
    all_files(lengths);
}

/// The most columns of a line. rustfmt keeps code within 100 columns. Comments, tables, macros and TypeScript may use more.
const WIDTH: usize = 128;

fn widths(file: &File) -> Vec<String> {
    let wide = file.lines().filter(|(_, line)| line.chars().count() > WIDTH);
    wide.map(|(n, _)| file.finding(n, format!("wider than {WIDTH} columns"))).collect()
}

#[test]
fn lines_are_narrow() {
    all_files(widths);
}

/// The most lines of a function. A list of a hundred cases should be a table instead.
const FUNCTION: usize = 100;

fn functions(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    let mut open: Option<(usize, usize)> = None;
    let indent = |line: &str| line.len() - line.trim_start().len();
    for (n, line) in file.lines().filter(|_| file.extension() == "rs") {
        let words: Vec<&str> = line.split_whitespace().take_while(|w| !w.contains('(')).collect();
        let begins = line.contains('(')
            && line
                .split('(')
                .next()
                .is_some_and(|head| head.split_whitespace().any(|w| w == "fn"));
        let is_declaration = line.ends_with(';');
        let begins = (begins || words.last() == Some(&"fn")) && !is_declaration;
        if open.is_none() && begins && !line.contains('}') {
            open = Some((n, indent(line)));
        }
        let Some((start, depth)) = open else { continue };
        if indent(line) == depth && n > start && (line.trim() == "}" || line.ends_with(");")) {
            if n - start > FUNCTION {
                findings.push(file.finding(start, format!("a function of {} lines", n - start)));
            }
            open = None;
        }
    }
    findings
}

#[test]
fn functions_are_short() {
    all_files(functions);
}

fn beginnings(file: &File) -> Vec<String> {
    let first = file.text.lines().next().unwrap_or_default();
    let fine = match file.extension() {
        "rs" => first.starts_with("//! "),
        "mjs" => first.starts_with("//") || first.starts_with("/*") || first.starts_with("#!"),
        _ => first.starts_with("//") || first.starts_with("/*"),
    };
    if fine {
        Vec::new()
    } else {
        vec![file.finding(1, "it does not say what it is")]
    }
}

#[test]
fn every_file_says_what_it_is() {
    all_files(beginnings);
}

/// Checks that only the wgpu backend, and the code that shares wgpu with an app, name `wgpu`.
fn speaks_wgpu(file: &File) -> Vec<String> {
    let allowed = ["src/backend/wgpu/", "src/interop/"];
    if !file.path.starts_with("src/") || allowed.iter().any(|a| file.path.starts_with(a)) {
        return Vec::new();
    }
    let says = |code: &str| code.replace("backend::wgpu::", "").contains("wgpu::");
    let lines = file.code().filter(|(_, code)| says(code));
    lines
        .map(|(n, _)| file.finding(n, "only src/backend/wgpu and src/interop speak wgpu"))
        .collect()
}

#[test]
fn only_the_backend_speaks_wgpu() {
    all_files(speaks_wgpu);
}

/// Checks that only the JavaScript API, and the browser's part of WebGPU, name `wasm_bindgen`.
fn speaks_javascript(file: &File) -> Vec<String> {
    let allowed = ["src/js/", "src/backend/wgpu/web/"];
    if !file.path.starts_with("src/") || allowed.iter().any(|a| file.path.starts_with(a)) {
        return Vec::new();
    }
    let words = ["wasm_bindgen", "js_sys", "web_sys"];
    let says = |code: &str| words.iter().any(|word| code.contains(word));
    let lines = file.code().filter(|(_, code)| says(code));
    lines
        .map(|(n, _)| file.finding(n, "only src/js and the web's GPU speak to JavaScript"))
        .collect()
}

#[test]
fn only_the_face_speaks_javascript() {
    all_files(speaks_javascript);
}

/// The files outside `native/` that may be unsafe: the call into `gemm`, which takes pointers, the consent to an experimental
/// feature of wgpu, a Vulkan query that wgpu lacks, and the mock of a library in C.
const UNSAFE: [&str; 6] = [
    "src/backend/cpu/routines/gemm.rs",
    "src/backend/wgpu/native/matrices.rs",
    "src/backend/wgpu/native/memory.rs",
    "tests/mock-driver/src/lib.rs",
    "tests/mock-driver/src/out.rs",
    "tests/mock-nccl/src/lib.rs",
];

fn safety(file: &File) -> Vec<String> {
    if file.path.starts_with("native/") || UNSAFE.contains(&&*file.path) || file.extension() != "rs"
    {
        return Vec::new();
    }
    let word = concat!("un", "safe");
    let says = |code: &str| {
        code.split(|c: char| !c.is_alphanumeric() && c != '_').any(|found| found == word)
    };
    let lines = file.code().filter(|(_, code)| says(code));
    lines.map(|(n, _)| file.finding(n, format!("{word} outside native/"))).collect()
}

#[test]
fn nothing_is_unsafe() {
    all_files(safety);
}

/// Words that mark unfinished code, in pieces, so that this file does not contain them.
const UNFINISHED: [&str; 7] = [
    concat!("to", "do!"),
    concat!("unimple", "mented!"),
    concat!("#[ig", "nore"),
    concat!("dbg", "!("),
    concat!("TO", "DO"),
    concat!("FIX", "ME"),
    concat!("XX", "X"),
];

fn finished(file: &File) -> Vec<String> {
    let mut findings = Vec::new();
    for (n, line) in file.lines() {
        let unfinished = UNFINISHED.iter().filter(|word| line.contains(**word));
        findings.extend(unfinished.map(|word| file.finding(n, format!("{word} is not finished"))));
    }
    findings
}

#[test]
fn everything_is_finished() {
    all_files(finished);
}

/// Checks that every `pub fn` of tensors and devices has a doc comment, also in macros.
fn documented(file: &File) -> Vec<String> {
    let public = ["src/tensor/", "src/device/"];
    if !public.iter().any(|folder| file.path.starts_with(folder)) {
        return Vec::new();
    }
    let lines: Vec<&str> = file.text.lines().map(str::trim).collect();
    let mut findings = Vec::new();
    for (n, line) in lines.iter().enumerate() {
        if !line.starts_with("pub fn ") && !line.starts_with("pub async fn ") {
            continue;
        }
        let above = lines[..n].iter().rev();
        let first = above.clone().find(|l| !l.starts_with("#[") || l.starts_with("#[doc"));
        let is_documented = first.is_some_and(|l| {
            l.starts_with("///") || l.starts_with("#[doc") || l.starts_with("$(#[doc")
        });
        if !is_documented {
            findings.push(file.finding(n + 1, "a public function without a word"));
        }
    }
    findings
}

#[test]
fn the_handle_is_documented() {
    all_files(documented);
}

/// Returns the files of `tests/native` that are missing in its `main.rs`.
fn uncompiled(main: &str, files: &[File]) -> Vec<String> {
    let names = files.iter().filter_map(|file| {
        let name = file.path.strip_prefix("tests/native/")?.strip_suffix(".rs")?;
        (!name.contains('/') && name != "main").then_some((file, name))
    });
    let lost = names.filter(|(_, name)| !main.lines().any(|l| l == format!("mod {name};")));
    lost.map(|(file, _)| file.finding(1, "tests/native/main.rs does not compile it")).collect()
}

#[test]
fn every_test_is_compiled() {
    let main =
        fs::read_to_string(root().join("tests/native/main.rs")).expect("the tests have a root");
    let findings = uncompiled(&main, &files());
    assert!(findings.is_empty(), "\n{}", findings.join("\n"));
}

/// Returns the files of the library that name a dtype, in Rust or in TypeScript.
fn naming(files: &[File], rust: &str, script: &str) -> Vec<String> {
    let names_dtype = |file: &&File| match (file.path.starts_with("src/"), file.extension()) {
        (true, "rs") => file.code().any(|(_, code)| code.contains(rust)),
        (_, "ts") => file.path.contains("src/") && file.text.contains(script),
        _ => false,
    };
    files.iter().filter(names_dtype).map(|file| file.path.clone()).collect()
}

/// Checks that one table has the facts about dtypes. A new dtype changes at most eight files, those that encode elements in
/// memory.
#[test]
fn an_element_type_is_known_in_few_files() {
    for (rust, script) in [("DType::I8", " i8: "), ("DType::U16", " u16: ")] {
        let naming = naming(&files(), rust, script);
        assert!((4..=8).contains(&naming.len()), "{rust}: {naming:#?}");
    }
}

/// Tests that each check finds its violations, and ignores code that only resembles them.
#[test]
fn the_checks_see() {
    let lib =
        "//! x\n\npub mod error;\n\npub mod graph;\npub mod kernel;\n\n#[cfg(x)]\nmod device;\n";
    let at = |path: &str, text: &str| floors(lib, &File::new(path, text)).len();
    assert_eq!(at("src/graph/mod.rs", "use crate::device::Device;"), 1);
    assert_eq!(at("src/graph/mod.rs", "use crate::kernel::Batch;"), 1);
    assert_eq!(at("src/graph/mod.rs", "use crate::{error::Error, device};"), 1);
    assert_eq!(at("src/graph/deep.rs", "let x = crate::device::new();"), 1);
    assert_eq!(at("src/stray.rs", ""), 1);
    assert_eq!(
        at("src/graph/mod.rs", "use crate::error::Error; // crate::device\n\"crate::device\""),
        0
    );
    assert_eq!(
        at("src/device/mod.rs", "use crate::{error, kernel, graph}; crate::some_macro!()"),
        0
    );
    let count = |check: fn(&File) -> Vec<String>, path: &str, text: &str| {
        check(&File::new(path, text)).len()
    };
    assert_eq!(count(lengths, "src/x.rs", &"\n".repeat(701)), 1);
    assert_eq!(count(lengths, "tests/x.rs", &"\n".repeat(701)), 0);
    assert_eq!(count(widths, "src/x.rs", &"x".repeat(129)), 1);
    assert_eq!(count(widths, "src/x.rs", &"ä".repeat(128)), 0);
    let long = format!("    pub fn f(\n    ) {{\n{}    }}\n", "        x();\n".repeat(101));
    assert_eq!(count(functions, "src/x.rs", &long), 1);
    let two = format!("fn f() {{\n{0}}}\nfn g() {{\n{0}}}\n", "    x();\n".repeat(60));
    assert_eq!(count(functions, "src/x.rs", &two), 0);
    assert_eq!(count(beginnings, "src/x.rs", "// what\n"), 1);
    assert_eq!(count(beginnings, "shaders/x.wgsl", "fn main() {}"), 1);
    assert_eq!(count(beginnings, "www/x.ts", "// What.\n"), 0);
    assert_eq!(count(speaks_wgpu, "src/device/mod.rs", "use wgpu::Device;"), 1);
    assert_eq!(
        count(speaks_wgpu, "src/device/mod.rs", "crate::backend::wgpu::open() // wgpu::"),
        0
    );
    assert_eq!(count(speaks_wgpu, "src/backend/wgpu/mod.rs", "use wgpu::Device;"), 0);
    assert_eq!(count(speaks_wgpu, "src/interop/mod.rs", "use wgpu::Device;"), 0);
    assert_eq!(count(speaks_javascript, "src/tensor/mod.rs", "use wasm_bindgen::JsValue;"), 1);
    assert_eq!(count(speaks_javascript, "src/backend/wgpu/x.rs", "use js_sys::Promise;"), 1);
    assert_eq!(count(speaks_javascript, "src/js/mod.rs", "use wasm_bindgen::JsValue;"), 0);
    assert_eq!(count(speaks_javascript, "src/backend/wgpu/web/x.rs", "use js_sys::Promise;"), 0);
    let bad = concat!("un", "safe { x() }");
    assert_eq!(count(safety, "src/tensor/mod.rs", bad), 1);
    assert_eq!(count(safety, "native/src/cuda.rs", bad), 0);
    assert_eq!(count(safety, "src/tensor/mod.rs", concat!("#![deny(un", "safe_code)]")), 0);
    for word in UNFINISHED {
        assert_eq!(count(finished, "src/x.rs", &format!("    {word}")), 1);
    }
    let files = [
        File::new("src/a.rs", "match x { DType::I8 => 1 } // DType::U8"),
        File::new("src/b.rs", "// DType::I8"),
        File::new("www/src/a.ts", "const types = { i8: 1 }"),
        File::new("www/tests/a.ts", "{ u8: 1 }"),
    ];
    assert_eq!(naming(&files, "DType::I8", " i8: ").len(), 2);
    assert_eq!(naming(&files, "DType::U8", " u8: ").len(), 0);
    let files = [File::new("tests/native/a.rs", ""), File::new("tests/native/a/b.rs", "")];
    assert_eq!(uncompiled("mod b;\n", &files).len(), 1);
    assert_eq!(uncompiled("mod a;\n", &files).len(), 0);
    let bare = "    #[must_use]\n    pub fn f() {}\n";
    assert_eq!(count(documented, "src/tensor/x.rs", bare), 1);
    assert_eq!(count(documented, "src/tensor/x.rs", &format!("    /// What.\n{bare}")), 0);
    assert_eq!(count(documented, "src/kernel.rs", bare), 0);
}
