//! Checks that no files depend on each other in a cycle, so that a reader can begin at the bottom. The first file of a folder
//! (`mod.rs`) has shared items, such as a `struct` to which the other files add methods. References from it to its folder
//! therefore do not count, except in the folders that need no shared items.

use super::{files, File};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The root of each crate.
const CRATES: [&str; 3] = ["src/", "src/js/macro/src/", "native/src/"];

/// The folders whose first files come last: no file in them depends on the first file.
const FOLDERS: [&str; 5] =
    ["src/backend/cpu/", "src/codegen/", "src/grad/", "src/plan/", "src/schedule/"];

/// A path of modules from the crate's root.
type Module = Vec<String>;

/// The modules that the names in a file, including imported ones, refer to.
type Names = HashMap<String, Vec<Module>>;

/// Returns the module of a file.
fn module(path: &str) -> Module {
    let path = path.rsplit_once("src/").map_or(path, |(_, path)| path);
    let path = path.trim_end_matches(".rs").trim_end_matches("/mod");
    path.split('/').map(str::to_string).collect()
}

/// Returns words, `::`, and all other characters one by one.
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

/// Returns all paths of two words or more. `a::b::{c, d::e}` gives `a::b::c` and `a::b::d::e`. For a `use`, includes the name
/// under which the item is imported.
fn paths(tokens: &[String]) -> Vec<(Module, Option<String>)> {
    let is_word = |token: &String| token.starts_with(|c: char| c.is_alphanumeric() || c == '_');
    let mut found = Vec::new();
    // The prefix of each open brace.
    let mut open: Vec<Module> = vec![Module::new()];
    let (mut at, mut importing) = (0, false);
    while at < tokens.len() {
        match &*tokens[at] {
            "use" => importing = true,
            ";" => importing = false,
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
                let renamed = tokens.get(at + 1).filter(|t| importing && *t == "as");
                let name = renamed.and(tokens.get(at + 2)).or(path.last()).cloned();
                if path.len() > 1 || renamed.is_some() {
                    found.push((path, name.filter(|_| importing)));
                }
            }
            _ => {}
        }
        at += 1;
    }
    found
}

/// Returns the modules that a file declares: `mod x;`.
fn children(tokens: &[String]) -> BTreeSet<&str> {
    let declared = tokens.windows(3).filter(|three| three[0] == "mod" && three[2] == ";");
    declared.map(|three| &*three[1]).collect()
}

/// Returns the paths from the root, if the path begins with a known name. There is more than one if the meaning of a name
/// depends on the platform.
fn absolute(path: &[String], here: &Module, names: &Names) -> Vec<Module> {
    let mut bases = match &*path[0] {
        "crate" => vec![Module::new()],
        "self" => vec![here.clone()],
        "super" => vec![here[..here.len() - 1].to_vec()],
        name => names.get(name).cloned().unwrap_or_default(),
    };
    for base in &mut bases {
        for word in &path[1..] {
            match &**word {
                "super" => drop(base.pop()),
                "self" => {}
                _ => base.push(word.clone()),
            }
        }
    }
    bases
}

/// The parsed contents of a file.
struct Source {
    here: Module,
    paths: Vec<Module>,
    names: Names,
}

impl Source {
    fn new(file: &File) -> Source {
        let code: Vec<String> = file.code().map(|(_, code)| code).collect();
        let tokens = tokens(&code.join("\n"));
        let here = module(&file.path);
        let below =
            |name: &str| (name.to_string(), vec![[&here[..], &[name.to_string()]].concat()]);
        let mut names: Names = children(&tokens).into_iter().map(below).collect();
        let mut paths = Vec::new();
        for (path, name) in self::paths(&tokens) {
            if let Some(name) = name {
                let full = absolute(&path, &here, &names);
                names.entry(name).or_default().extend(full);
            }
            paths.push(path);
        }
        Source { here, paths, names }
    }
}

/// Returns for each file the other files that it depends on. An item that a file only reexports belongs to the file that
/// defines it. With `shared`, the first files of folders depend on nothing in their folders.
fn needs<'a>(files: &[&'a File], shared: bool) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let modules: HashMap<Module, (&str, Source)> =
        files.iter().map(|file| (module(&file.path), (&*file.path, Source::new(file)))).collect();
    let owners = |path: Module| {
        let (mut owners, mut open) = (Vec::new(), vec![(path, 0)]);
        while let Some((path, times)) = open.pop() {
            let longest = |len: usize| Some((len, modules.get(&path[..len])?));
            // Reexports form chains of a few steps at most.
            let found = (1..=path.len()).rev().find_map(longest).filter(|_| times < 8);
            let Some((len, (file, source))) = found else { continue };
            let from = path.get(len).and_then(|name| source.names.get(name));
            let elsewhere = from.into_iter().flatten().filter(|from| **from != path[..=len]);
            let before = open.len();
            open.extend(elsewhere.map(|from| ([from, &path[len + 1..]].concat(), times + 1)));
            if open.len() == before {
                owners.push(*file);
            }
        }
        owners
    };
    let mut needs = BTreeMap::new();
    for (file, source) in modules.values() {
        let below = |other: &str| shared && module(other).starts_with(&source.here);
        let paths =
            source.paths.iter().flat_map(|path| absolute(path, &source.here, &source.names));
        let found = paths.flat_map(owners);
        needs.insert(*file, found.filter(|other| other != file && !below(other)).collect());
    }
    needs
}

/// Returns all files that can be reached from a file.
fn reach<'a>(from: &'a str, needs: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let (mut reached, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(file) = open.pop() {
        let more = needs.get(file).into_iter().flatten().copied();
        open.extend(more.filter(|file| reached.insert(*file)));
    }
    reached
}

/// Returns the files of each cycle.
fn circles(files: &[&File], shared: bool) -> Vec<Vec<String>> {
    let needs = needs(files, shared);
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
    let check = |folder: &str, shared: bool| {
        // A crate inside another has a separate root.
        let own = |path: &str| path.starts_with(folder) && !path[folder.len()..].contains("/src/");
        let files: Vec<&File> =
            all.iter().filter(|f| own(&f.path) && f.path.ends_with(".rs")).collect();
        let known: usize = needs(&files, shared).values().map(BTreeSet::len).sum();
        assert!(known > files.len() / 2, "{folder}: {} files, {known} uses", files.len());
        let circles = circles(&files, shared);
        assert!(circles.is_empty(), "{folder}: files need each other: {circles:#?}");
    };
    CRATES.iter().for_each(|folder| check(folder, true));
    FOLDERS.iter().for_each(|folder| check(folder, false));
}

#[test]
fn circles_are_seen() {
    let circles_of = |texts: &[(&str, &str)], shared: bool| {
        let files: Vec<File> = texts.iter().map(|(path, text)| File::new(path, text)).collect();
        circles(&files.iter().collect::<Vec<_>>(), shared)
    };
    let found = |texts: &[(&str, &str)]| circles_of(texts, true);
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
    // If a folder's first file names its files, only a file that names an item of the first file closes a cycle, where that
    // counts.
    let first = ("src/m/mod.rs", "mod a;\npub use a::A;\npub struct Other;");
    for (text, circles) in [
        ("use crate::n::A;", 0),
        ("use crate::m::Other;", 1),
        ("use super::Other;", 1),
        ("use super::A;", 0),
    ] {
        assert_eq!(circles_of(&[first, (two[0], text)], false).len(), circles, "{text}");
        assert!(found(&[first, (two[0], text)]).is_empty(), "{text}");
    }
    let apart =
        [("src/m/mod.rs", "mod a;\nuse a::A;"), (two[0], "use crate::m::{b, b::B};"), (two[1], "")];
    assert!(circles_of(&apart, false).is_empty());
    // A reexported item does not belong to the first file, under any name.
    for (first, text) in [
        ("pub use b::B;", "use super::B;"),
        ("pub use self::b::{C, B as D};", "use crate::m::D as E;"),
        ("use b::B;", "fn f() { super::B::new() }"),
        ("pub use crate::n::B;", "use super::B;"),
    ] {
        let first = format!("mod a;\nmod b;\n{first}");
        let texts = [
            ("src/m/mod.rs", &*first),
            (two[0], text),
            (two[1], "use super::a::A;"),
            ("src/n.rs", "pub use crate::m::b::B;"),
        ];
        assert_eq!(found(&texts), [two], "{first}: {text}");
    }
    // Through each of the names of a module.
    for order in [["b", "c"], ["c", "b"]] {
        let first = order.map(|name| format!("use {name} as other;\nmod {name};")).join("\n");
        let first = format!("mod b;\nmod c;\n{first}");
        let texts = [
            ("src/m/mod.rs", &*first),
            (two[0], "use super::other::B;"),
            (two[1], "use super::a::A;"),
            ("src/m/c.rs", ""),
        ];
        assert_eq!(found(&texts), [two], "{first}");
    }
    // Through the name under which a module was imported, and through three files.
    let three = found(&[
        ("src/m/a.rs", "use super::n;\nfn f() { n::b::g() }"),
        ("src/m/n/mod.rs", ""),
        ("src/m/n/b.rs", "use crate::m::c::h;"),
        ("src/m/c.rs", "use super::a;"),
    ]);
    assert_eq!(three, [["src/m/a.rs", "src/m/c.rs", "src/m/n/b.rs"]]);
}
