//! No file of a folder needs another that needs it, on whatever way: who reads one can begin at the bottom.

use super::{files, File};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The folders whose files form no circle.
const FOLDERS: [&str; 3] = ["src/backend/cpu/", "src/codegen/", "src/schedule/"];

/// A path of modules from the crate's root.
type Module = Vec<String>;

/// The module that a file is.
fn module(path: &str) -> Module {
    let path = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_string).collect()
}

/// Words, and `::`, and whatever else stands between them, sign by sign.
fn tokens(code: &str) -> Vec<String> {
    let word = |c: char| c.is_alphanumeric() || c == '_';
    let mut tokens: Vec<String> = Vec::new();
    for c in code.chars() {
        match tokens.last_mut() {
            Some(last) if word(c) && last.ends_with(word) => last.push(c),
            Some(last) if c == ':' && last == ":" => last.push(c),
            _ => tokens.push(c.to_string()),
        }
    }
    tokens.retain(|token| !token.trim().is_empty());
    tokens
}

/// All paths of two words or more: `a::b`, and for `a::{b, c::d}` each of `a::b` and `a::c::d`.
fn paths(tokens: &[String]) -> Vec<Module> {
    let is_word = |token: &String| token.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let mut found = Vec::new();
    // What stands before each brace that is open.
    let mut open: Vec<Module> = vec![Module::new()];
    let mut at = 0;
    while at < tokens.len() {
        match &*tokens[at] {
            "{" => open.push(Module::new()),
            "}" if open.len() > 1 => drop(open.pop()),
            _ if is_word(&tokens[at]) => {
                let mut path = open.last().cloned().unwrap_or_default();
                path.push(tokens[at].clone());
                while tokens.get(at + 1).is_some_and(|t| t == "::") {
                    match tokens.get(at + 2) {
                        Some(next) if is_word(next) => path.push(next.clone()),
                        Some(next) if next == "{" => open.push(std::mem::take(&mut path)),
                        _ => {}
                    }
                    at += 2;
                }
                if path.len() > 1 {
                    found.push(path);
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// The modules that a file declares: `mod x;`.
fn children(tokens: &[String]) -> BTreeSet<&str> {
    let declared = tokens.windows(3).filter(|three| three[0] == "mod" && three[2] == ";");
    declared.map(|three| &*three[1]).collect()
}

/// A path from the root, if it begins with a word that says where it is.
fn absolute(path: &[String], here: &Module, names: &HashMap<&str, Module>) -> Option<Module> {
    let mut base = match &*path[0] {
        "crate" => Module::new(),
        "self" => here.clone(),
        "super" => here[..here.len() - 1].to_vec(),
        name => names.get(name)?.clone(),
    };
    for word in &path[1..] {
        match &**word {
            "super" => drop(base.pop()),
            "self" => {}
            _ => base.push(word.clone()),
        }
    }
    Some(base)
}

/// For each file the others of `files` that it names.
fn needs<'a>(files: &[&'a File]) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let modules: HashMap<Module, &str> =
        files.iter().map(|file| (module(&file.path), &*file.path)).collect();
    let mut needs = BTreeMap::new();
    for file in files {
        let here = module(&file.path);
        let code: Vec<String> = file.code().map(|(_, code)| code).collect();
        let tokens = tokens(&code.join("\n"));
        let below = |name| (name, [&here[..], &[str::to_string(name)]].concat());
        let mut names: HashMap<&str, Module> = children(&tokens).into_iter().map(below).collect();
        let paths = paths(&tokens);
        // Modules that are imported have a name, too.
        for path in &paths {
            let imported = absolute(path, &here, &names).filter(|path| modules.contains_key(path));
            if let (Some(imported), Some(name)) = (imported, path.last()) {
                names.insert(name, imported);
            }
        }
        let owner = |path: &Vec<String>| {
            let path = absolute(path, &here, &names)?;
            (1..=path.len()).rev().find_map(|len| modules.get(&path[..len]).copied())
        };
        let found = paths.iter().filter_map(owner).filter(|other| *other != file.path);
        needs.insert(&*file.path, found.collect());
    }
    needs
}

/// All files that one leads to.
fn reach<'a>(from: &'a str, needs: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        let more = needs.get(file).into_iter().flatten().copied();
        open.extend(more.filter(|file| reached.insert(*file)));
    }
    reached
}

/// The files of each circle.
fn circles(files: &[&File]) -> Vec<Vec<String>> {
    let needs = needs(files);
    let reach: BTreeMap<&str, _> = needs.keys().map(|file| (*file, reach(file, &needs))).collect();
    let mut circles = BTreeSet::new();
    for (file, far) in reach.iter().filter(|(file, far)| far.contains(*file)) {
        let round = far.iter().filter(|other| reach[*other].contains(file));
        circles.insert(round.map(|file| file.to_string()).collect::<Vec<_>>());
    }
    circles.into_iter().collect()
}

#[test]
fn files_form_no_circle() {
    let all = files();
    for folder in FOLDERS {
        let files: Vec<&File> =
            all.iter().filter(|f| f.path.starts_with(folder) && f.path.ends_with(".rs")).collect();
        let known: usize = needs(&files).values().map(BTreeSet::len).sum();
        assert!(files.len() >= 10 && known > 20, "{folder}: {} files, {known} uses", files.len());
        let circles = circles(&files);
        assert!(circles.is_empty(), "{folder}: files need each other: {circles:#?}");
    }
}

#[test]
fn circles_are_seen() {
    let found = |texts: &[(&str, &str)]| {
        let files: Vec<File> = texts.iter().map(|(path, text)| File::new(path, text)).collect();
        circles(&files.iter().collect::<Vec<_>>())
    };
    let two = ["src/m/a.rs", "src/m/b.rs"];
    let back = |text: &str| found(&[(two[0], "use crate::m::b::B;"), (two[1], text)]);
    for text in [
        "use super::a::A;",
        "use super::{c, a::{self, A}};",
        "use crate::m::{\n    // A comment.\n    a,\n};",
        "fn f() { let x = super::a::f(); }",
        "mod c { fn f() { crate::m::a::f() } }",
    ] {
        assert_eq!(back(text), [two], "{text}");
    }
    for text in
        ["use super::c::A;", "// super::a::A", "use crate::a::A;", "fn a() {} fn b() { a() }"]
    {
        assert!(back(text).is_empty(), "{text}");
    }
    // A folder's first file names what is in it; only who names that file in turn closes a circle.
    let within = |text: &str| found(&[("src/m/mod.rs", "mod a;\npub use a::A;"), (two[0], text)]);
    assert!(within("use crate::n::A;").is_empty());
    assert!(found(&[
        ("src/m/mod.rs", "mod a;\nuse a::A;"),
        (two[0], "use crate::m::{b, b::B};"),
        (two[1], "")
    ])
    .is_empty());
    assert_eq!(within("use crate::m::Other;").len(), 1);
    assert_eq!(within("use super::Other;").len(), 1);
    // By the name under which a module was imported, and over three files.
    let three = found(&[
        ("src/m/a.rs", "use super::n;\nfn f() { n::b::g() }"),
        ("src/m/n/mod.rs", ""),
        ("src/m/n/b.rs", "use crate::m::c::h;"),
        ("src/m/c.rs", "use super::a;"),
    ]);
    assert_eq!(three, [["src/m/a.rs", "src/m/c.rs", "src/m/n/b.rs"]]);
}
