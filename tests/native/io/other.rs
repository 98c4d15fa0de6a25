//! Tests unusual but undamaged files: with dtypes that tensors do not support, with extra bytes, and files of another format.

use super::{are, cpu, golden, is};
use pollster::block_on;
use std::io::Cursor;
use warpweft::error::ErrorKind;
use warpweft::io;
use warpweft_native::files;

/// Returns a safetensors file of entries `name, type, shape, bytes`, one after the other.
fn weights(entries: &[(&str, &str, &str, &[u8])]) -> Vec<u8> {
    let (mut header, mut data) = (Vec::new(), Vec::new());
    for (name, dtype, shape, bytes) in entries {
        let (start, end) = (data.len(), data.len() + bytes.len());
        header.push(format!(
            r#""{name}":{{"dtype":"{dtype}","shape":{shape},"data_offsets":[{start},{end}]}}"#
        ));
        data.extend_from_slice(bytes);
    }
    let header = format!("{{{}}}", header.join(","));
    [&(header.len() as u64).to_le_bytes()[..], header.as_bytes(), &data].concat()
}

#[test]
fn tensors_of_unknown_types_are_skipped_and_listed() {
    let device = cpu();
    let (one, two) = (1.0f32.to_le_bytes(), 2.0f32.to_le_bytes());
    let file = weights(&[
        ("a", "F32", "[1]", &one),
        ("b", "F8_E4M3", "[3]", &[0x38, 0x40, 0x44]),
        ("c", "F8_E5M2", "[1,2]", &[0x3c, 0x40]),
        ("d", "F32", "[1]", &two),
        ("e", "C64", "[1]", &[7; 8]),
        ("f", "F4", "[4]", &[0x12, 0x34]),
        ("g", "f32", "[]", &one),
    ]);
    let loaded = io::load_safetensors(&device, &file).expect("the others are there");
    let names: Vec<&str> = loaded.tensors.keys().map(String::as_str).collect();
    assert_eq!(names, ["a", "d"]);
    assert_eq!(block_on(loaded.tensors["d"].read::<f32>()).expect("a value"), [2.0]);
    let types = |name: &str| (loaded.skipped[name].dtype.as_str(), &loaded.skipped[name].shape[..]);
    assert_eq!(loaded.skipped.len(), 5);
    assert_eq!(types("b"), ("F8_E4M3", &[3][..]));
    assert_eq!(types("c"), ("F8_E5M2", &[1, 2][..]));
    assert_eq!(types("e"), ("C64", &[1][..]));
    assert_eq!(types("f"), ("F4", &[4][..]));
    assert_eq!(types("g"), ("f32", &[][..]));
    let bytes = |name: &str| loaded.skipped[name].read(&mut Cursor::new(&file)).expect("bytes");
    assert_eq!(bytes("b"), [0x38, 0x40, 0x44]);
    assert_eq!(bytes("c"), [0x3c, 0x40]);
    assert_eq!(bytes("f"), [0x12, 0x34]);
    // Reads from another, shorter file.
    let error = loaded.skipped["f"].read(&mut Cursor::new(&file[..20])).expect_err("too short");
    assert_eq!(error.kind(), ErrorKind::Format);
    assert!(error.message().contains("inside the file of 20 bytes"), "{error}");
}

#[test]
fn places_of_unknown_types_are_checked() {
    let device = cpu();
    let file = weights(&[("a", "F8_E4M3", "[3]", &[1, 2, 3]), ("b", "F32", "[1]", &[0; 4])]);
    for (what, bytes, why) in [
        (
            "cut",
            file[..file.len() - 5].to_vec(),
            "tensor \"a\": offsets must be inside 2 bytes, got 0 to 3",
        ),
        (
            "a byte more",
            [&file[..], &[0]].concat(),
            "tensors must fill the 8 bytes after the header",
        ),
    ] {
        let error = io::load_safetensors(&device, &bytes).expect_err(what);
        assert!(error.message().contains(why), "{what}: {error}");
    }
    let text = String::from_utf8(file).expect("text");
    let huge = text.replace("[0,3]", "[0,9]");
    let error = io::load_safetensors(&device, huge.as_bytes()).expect_err("beyond the file");
    assert!(
        error.message().contains("tensor \"a\": offsets must be inside 7 bytes, got 0 to 9"),
        "{error}"
    );
}

const PAGES: [&str; 4] = [
    "<!DOCTYPE html>\n<html><head><title>Sign in</title></head><body></body></html>",
    "<html lang=\"en\"><body>404</body></html>",
    "\n\n   \t <!doctype HTML><p>",
    "\u{feff}<HTML>",
];
const POINTER: &str = "version https://git-lfs.github.com/spec/v1\n\
    oid sha256:4d7a214614ab2935c943f9e0ff69d22eadbb8f32b1258daaa5e2ca24d17e2393\nsize 12345\n";

#[test]
fn pages_and_pointers_are_named() {
    let device = cpu();
    let pages = PAGES.iter().map(|page| (*page, "got an HTML page"));
    for (text, why) in pages.chain([(POINTER, "got a git-lfs pointer")]) {
        let bytes = text.as_bytes();
        let errors = [
            io::load_safetensors(&device, bytes).map(drop).expect_err(text),
            io::load_npy(&device, bytes).map(drop).expect_err(text),
            io::load_npz(&device, bytes).map(drop).expect_err(text),
        ];
        for (error, name) in errors.iter().zip(["load_safetensors", "load_npy", "load_npz"]) {
            assert_eq!(error.kind(), ErrorKind::Format);
            assert!(error.message().starts_with(&format!("{name}: the file must be")), "{error}");
            assert!(error.message().contains(why), "{error}");
        }
    }
}

#[test]
fn errors_of_files_name_their_path() {
    let device = cpu();
    let folder = std::env::temp_dir().join(format!("warpweft-files-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("a folder");
    let page = folder.join("page");
    std::fs::write(&page, PAGES[0]).expect("a file");
    let load = |name: &str, path: &std::path::Path| {
        let result = match name {
            "load_safetensors" => files::load_safetensors(&device, path).map(drop),
            "load_npy" => files::load_npy(&device, path).map(drop),
            _ => files::load_npz(&device, path).map(drop),
        };
        result.expect_err(name)
    };
    for name in ["load_safetensors", "load_npy", "load_npz"] {
        let missing = folder.join("missing");
        for (path, kind, why) in [
            (&missing, ErrorKind::InvalidArgument, ""),
            (&folder, ErrorKind::InvalidArgument, "the path must be a file"),
            (&page, ErrorKind::Format, "the file must be"),
        ] {
            let error = load(name, path);
            assert_eq!(error.kind(), kind, "{error}");
            let start = format!("{name}: {}: {why}", path.display());
            assert!(error.message().starts_with(&start), "{error}");
        }
    }
    std::fs::remove_dir_all(&folder).expect("it is there");
}

/// Returns the file with a text in its header replaced by another of the same length.
fn with(bytes: &[u8], from: &str, to: &str) -> Vec<u8> {
    assert_eq!(from.len(), to.len());
    let mut changed = bytes.to_vec();
    let at = bytes.windows(from.len()).position(|part| part == from.as_bytes()).expect(from);
    changed[at..at + to.len()].copy_from_slice(to.as_bytes());
    changed
}

#[test]
fn numpys_native_byte_order_is_read() {
    let device = cpu();
    for (name, from, to) in [
        ("npy <f4", "'<f4'", "'=f4'"),
        ("npy <i2", "'<i2'", "'=i2'"),
        ("npy <u1", "'|u1'", "'=u1'"),
    ] {
        let (bytes, want) = golden(name);
        let tensor = io::load_npy(&device, &with(&bytes, from, to)).expect(name);
        is(name, &tensor, &want["x"]);
    }
}

#[test]
fn bytes_behind_an_array_are_ignored() {
    let device = cpu();
    for name in ["npy <f4", "npy >i8 column-major", "npy ?"] {
        let (mut bytes, want) = golden(name);
        bytes.extend(b"and more");
        is(name, &io::load_npy(&device, &bytes).expect(name), &want["x"]);
    }
}

#[test]
fn bytes_before_an_archive_are_ignored() {
    let device = cpu();
    for name in ["npz stored", "npz deflated"] {
        let (bytes, want) = golden(name);
        for before in [&b"\0"[..], b"#!/bin/sh\nexec python3 \"$0\"\n", b"PK\x03\x04"] {
            let archive = [before, &bytes[..]].concat();
            are(name, &io::load_npz(&device, &archive).expect(name), &want);
        }
        // With a comment at the end, as a ZIP archive may have.
        let mut archive = [b"before", &bytes[..], b"behind"].concat();
        let length = archive.len() - 8;
        archive[length..length + 2].copy_from_slice(&6u16.to_le_bytes());
        are(name, &io::load_npz(&device, &archive).expect(name), &want);
    }
}
