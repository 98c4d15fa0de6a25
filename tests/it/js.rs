//! The TypeScript that is written from the table and the codes: `UPDATE=1` writes it, otherwise it must be fresh.

#[path = "../../src/js/codes.rs"]
mod codes;

use std::fmt::Write;
use std::path::Path;
use warpweft::op::pointwise::{Row, Types, TABLE};
use warpweft::op::Pointwise;

/// Compares a file of the repository with what it should be, or writes it.
fn fresh(path: &str, wanted: &str) {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(path);
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, wanted).unwrap_or_else(|error| panic!("{path}: {error}"));
        return;
    }
    let found = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(found, wanted, "{path} is stale: UPDATE=1 cargo test --test it js");
}

/// `leaky_relu` as JavaScript writes it: `leakyRelu`.
fn camel(name: &str) -> String {
    let mut words = name.split('_');
    let mut camel = words.next().unwrap_or_default().to_string();
    for word in words {
        let (first, rest) = word.split_at(1);
        camel += &first.to_uppercase();
        camel += rest;
    }
    camel
}

/// What a row takes, for people.
fn takes(types: Types) -> &'static str {
    match types {
        Types::Float => "Takes `f32` and `f16`.",
        Types::Number => "Takes every type but `bool`.",
        Types::Signed => "Takes `f32`, `f16` and `i32`.",
        Types::Int => "Takes `i32` and `u32`.",
        Types::Bool => "Takes `bool`.",
        Types::Bits => "Takes `i32`, `u32` and `bool`.",
        Types::Any => "Takes every type.",
        Types::U32 => "Takes `u32`.",
        Types::Select => "This is a `bool` tensor; the others have one type, any.",
    }
}

fn method(row: &Row) -> String {
    let mut text = String::from("\n  /**\n");
    for line in row.doc.trim().lines() {
        writeln!(text, "   * {}", line.trim()).unwrap();
    }
    let first = row.operands[0];
    let this = format!("This tensor is `{first}`. ");
    let this = if row.operands.len() > 1 || first != "x" { &this } else { "" };
    writeln!(text, "   * {this}{}", takes(row.types)).unwrap();
    if row.operands.len() > 1 {
        writeln!(text, "   * Operands broadcast; a number takes the tensors' type.").unwrap();
    }
    text += "   */\n";
    let operands = row.operands[1..].iter().map(|name| format!("{name}: Operand"));
    let parameters = row.parameters.iter().map(|(name, _)| format!("{name}?: number"));
    let declared: Vec<String> = operands.chain(parameters).collect();
    for (name, usual) in row.parameters {
        text = text.replace("   */\n", &format!("   * @param {name} usually {usual}\n   */\n"));
    }
    writeln!(text, "  {}({}): Tensor;", camel(row.name), declared.join(", ")).unwrap();
    text
}

/// A row as the module reads it: name, how many operands follow this tensor, and its parameters' usual values.
fn short(row: &Row) -> String {
    let mut text = camel(row.name);
    if row.arity() > 1 {
        write!(text, ":{}", row.operands.len() - 1).unwrap();
    }
    for (_, usual) in row.parameters {
        write!(text, ":{usual}").unwrap();
    }
    text
}

fn pointwise() -> String {
    let mut text = String::from(
        "// The pointwise operations: one method per row of the table in src/op/pointwise.rs. Written by\n\
         // `UPDATE=1 cargo test --test it js`; do not edit.\n\n\
         import { Recorded } from \"./recorded.js\";\n\
         import type { Operand, Tensor } from \"./tensor.js\";\n\n\
         /** The operations that work element by element. */\n\
         export interface Pointwise {",
    );
    for row in TABLE {
        text += &method(row);
    }
    text += "}\n\n\
        /** The rows: a name, how many operands follow this tensor, and the parameters' usual values. */\n\
        const rows = `";
    let mut column = 0;
    for row in TABLE {
        let row = short(row);
        column += row.len() + 1;
        if column > 110 {
            text += "\n";
            column = row.len() + 1;
        } else if !text.ends_with('`') {
            text += " ";
        }
        text += &row;
    }
    text + "`;\n\n\
        // As text a method takes its name, and not its name three times with the words around it.\n\
        export abstract class Pointwise extends Recorded {\n  \
        static {\n    \
        rows.split(/\\s/).forEach((row, number) => {\n      \
        const [name = \"\", operands = 0, ...rest] = row.split(\":\");\n      \
        const count = Number(operands);\n      \
        const usual = rest.map(Number);\n      \
        const method = {\n        \
        [name](this: Pointwise, ...given: Operand[]) {\n          \
        // Whoever gives more than there is place for means something else by it; what is missing is undefined.\n          \
        given.length = count + usual.length;\n          \
        usual.forEach((value, i) => {\n            \
        if (given[count + i] === undefined) given[count + i] = value;\n          \
        });\n          \
        return this.row(number, name, given, count);\n        \
        },\n      \
        };\n      \
        Object.defineProperty(this.prototype, name, { value: method[name], writable: true, configurable: true });\n    \
        });\n  \
        }\n\
        }\n"
}

fn codes() -> String {
    let mut text = String::from(
        "// Numbers that stand for operations and types between TypeScript and WebAssembly. Written by\n\
         // `UPDATE=1 cargo test --test it js`; do not edit.\n\n\
         /** What a core must answer to `fingerprint()` for these numbers and the pointwise rows', to be its own. */\n",
    );
    let rows = Pointwise::ALL.iter().map(|row| row.row());
    let print = rows.fold(codes::CODES_FINGERPRINT, |hash, row| {
        codes::fingerprint(hash, row.name, row.arity())
    });
    writeln!(text, "export const fingerprint = {print};\n").unwrap();
    text += "/** The types of elements, by number. */\n";
    let quoted: Vec<String> = codes::DTYPES.iter().map(|name| format!("\"{name}\"")).collect();
    writeln!(text, "export const dtypes = [{}] as const;\n", quoted.join(", ")).unwrap();
    text += "/** Operations other than the pointwise ones. */\nexport const enum Code {\n";
    for (number, name) in codes::NAMES.iter().enumerate() {
        writeln!(text, "  {} = {number},", camel(name)).unwrap();
    }
    text += "}\n";
    for (list, what, names) in codes::LISTS {
        let (first, rest) = list.split_at(1);
        let name = first.to_uppercase() + rest;
        writeln!(text, "\n/** {} */\nexport const enum {name} {{", what.trim()).unwrap();
        for (number, name) in names.iter().enumerate() {
            writeln!(text, "  {} = {number},", camel(name)).unwrap();
        }
        text += "}\n";
    }
    let first = codes::FIRST_ROW;
    writeln!(text, "\n/** The number of the pointwise table's first row as an operation. */")
        .unwrap();
    writeln!(text, "export const FIRST_ROW = {first};").unwrap();
    text
}

#[test]
fn pointwise_methods_are_fresh() {
    fresh("www/src/pointwise.ts", &pointwise());
}

#[test]
fn codes_are_fresh() {
    fresh("www/src/codes.ts", &codes());
}

#[test]
fn every_code_has_its_name() {
    for (number, code) in codes::Code::ALL.iter().enumerate() {
        assert_eq!(*code as usize, number);
        assert_eq!(code.name(), codes::NAMES[number]);
    }
}
