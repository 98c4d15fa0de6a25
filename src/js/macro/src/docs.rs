//! Conversion of Rust documentation to JSDoc.

use quote::ToTokens;
use syn::{Attribute, Expr, Lit, Meta};

/// Names that differ in JavaScript. `where` is a Rust keyword.
const KEYWORDS: &[(&str, &str)] = &[("where_cond", "where")];

/// Classes that JavaScript has under the same name.
const CLASSES: &[&str] =
    &["Tensor", "Device", "Variable", "Batch", "Program", "Plan", "Profile", "Trainer"];

/// Converts a name to camel case: `index_select` becomes `indexSelect`.
pub fn camel(name: &str) -> String {
    if let Some((_, own)) = KEYWORDS.iter().find(|(rust, _)| *rust == name) {
        return own.to_string();
    }
    // A name without lowercase letters is an environment variable.
    if !name.contains(|c: char| c.is_lowercase()) {
        return name.to_string();
    }
    let mut out = String::new();
    let mut up = false;
    for c in name.trim_start_matches("r#").chars() {
        match c {
            '_' if !out.is_empty() => up = true,
            c if up => {
                out.extend(c.to_uppercase());
                up = false;
            }
            c => out.push(c),
        }
    }
    out
}

/// Returns the text of a string literal, also if it passed through a declarative macro.
pub fn text(mut expr: &Expr) -> Option<String> {
    while let Expr::Group(group) = expr {
        expr = &group.expr;
    }
    match expr {
        Expr::Lit(lit) => match &lit.lit {
            Lit::Str(text) => Some(text.value()),
            _ => None,
        },
        // The parts of `concat!("A ", 2, "-D convolution")` may be groups themselves.
        Expr::Macro(call) if call.mac.path.is_ident("concat") => {
            Some(concat(call.mac.tokens.clone()))
        }
        _ => None,
    }
}

fn concat(tokens: proc_macro2::TokenStream) -> String {
    use proc_macro2::TokenTree;
    let mut out = String::new();
    for tree in tokens {
        match tree {
            TokenTree::Group(group) => out += &concat(group.stream()),
            TokenTree::Punct(_) => {}
            TokenTree::Ident(name) if name == "stringify" => {}
            TokenTree::Ident(name) => out += &name.to_string(),
            TokenTree::Literal(literal) => match syn::parse_str::<Lit>(&literal.to_string()) {
                Ok(Lit::Str(text)) => out += &text.value(),
                _ => out += &literal.to_string(),
            },
        }
    }
    out
}

/// Returns the lines of the doc comment.
fn lines(attributes: &[Attribute]) -> Vec<String> {
    let mut lines = Vec::new();
    for attribute in attributes {
        let Meta::NameValue(pair) = &attribute.meta else { continue };
        if pair.path.is_ident("doc") {
            lines.extend(text(&pair.value).unwrap_or_default().split('\n').map(str::to_string));
        }
    }
    // Removes the space between the slashes and the text.
    lines.iter().map(|line| line.strip_prefix(' ').unwrap_or(line).to_string()).collect()
}

/// Converts documentation to JSDoc: removes Rust examples, and converts links and headings. `class` replaces `Self`.
pub fn jsdoc(attributes: &[Attribute], class: &str, example: Option<&str>) -> String {
    let mut out: Vec<String> = Vec::new();
    let (mut code, mut errors) = (false, false);
    for line in lines(attributes) {
        if line.trim_start().starts_with("```") {
            code = !code;
            continue;
        }
        if code {
            continue;
        }
        match line.trim() {
            "# Errors" => errors = true,
            heading if heading.starts_with("# ") => out.push(format!("**{}**", &heading[2..])),
            _ if errors && !line.trim().is_empty() => {
                out.push(format!("@throws {}", words(&line, class)));
                errors = false;
            }
            _ => out.push(words(&line, class)),
        }
    }
    let mut text = out.join("\n");
    while text.contains("\n\n\n") {
        text = text.replace("\n\n\n", "\n\n");
    }
    text = text.trim().to_string();
    match example {
        Some(example) => format!("{text}\n\n@example\n```ts\n{example}\n```"),
        None => text,
    }
}

/// Returns the source text of an expression.
pub fn code(expr: &Expr) -> String {
    let text = expr.to_token_stream().to_string();
    text.replace("- ", "-").replace("None", "undefined")
}

/// Converts the names and links of one line.
fn words(line: &str, class: &str) -> String {
    let line = without_paths(line);
    let mut out = String::new();
    let mut rest = &line[..];
    while let Some(at) = rest.find('`') {
        let linked = rest[..at].ends_with('[');
        let Some(length) = rest[at + 1..].find('`') else { break };
        let name = &rest[at + 1..at + 1 + length];
        let before = if linked { &rest[..at - 1] } else { &rest[..at] };
        let mut after = &rest[at + length + 2..];
        out += before;
        if linked && after.starts_with(']') {
            after = &after[1..];
            if after.starts_with('(') {
                after = after.find(')').map_or(after, |end| &after[end + 1..]);
            }
            out += &link(name, class);
        } else {
            if linked {
                out.push('[');
            }
            out += &format!("`{}`", if is_name(name) { camel(name) } else { name.to_string() });
        }
        rest = after;
    }
    out += rest;
    out
}

/// Replaces `[text](crate::path)` by `text`, because JavaScript has no crate paths. Links with code as text are kept.
fn without_paths(line: &str) -> String {
    let mut line = line.to_string();
    while let Some(at) = line.find("](crate::").filter(|&at| !line[..at].ends_with('`')) {
        let Some(begin) = line[..at].rfind('[') else { break };
        let Some(end) = line[at..].find(')') else { break };
        line = format!("{}{}{}", &line[..begin], &line[begin + 1..at], &line[at + end + 1..]);
    }
    line
}

/// Converts the first letter to lower case.
fn lower(name: &str) -> String {
    let mut letters = name.chars();
    letters.next().map_or(String::new(), |first| first.to_lowercase().chain(letters).collect())
}

fn is_name(name: &str) -> bool {
    name.starts_with(char::is_alphabetic) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
}

fn link(path: &str, class: &str) -> String {
    let path = path.trim_end_matches("()").replace("Self::", &format!("{class}::"));
    let parts: Vec<&str> = path.split("::").collect();
    let named: Vec<String> = parts.iter().rev().take(2).rev().map(|part| camel(part)).collect();
    match &named[..] {
        // An option, or a free function of Rust.
        [name] if name.starts_with(char::is_lowercase) => format!("`{name}`"),
        // A variant or associated item that only Rust has is an option or a word in JavaScript.
        [of, name] if !CLASSES.contains(&of.as_str()) => format!("`{}`", lower(name)),
        _ => format!("{{@link {}}}", named.join(".")),
    }
}
