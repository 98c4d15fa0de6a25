//! Tests weights in several safetensors files. The index states which file has which tensor.

use super::cpu;
use pollster::block_on;
use std::collections::BTreeMap;
use std::fs;
use std::io::Cursor;
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::io::{save_safetensors, Safetensors, SafetensorsIndex};
use warpweft_native::files;

const FILES: [&str; 2] = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"];

/// Returns two files of weights: one with `a` and `b`, and one with `c` and another `a`.
fn shards() -> BTreeMap<&'static str, Vec<u8>> {
    let device = cpu();
    let file = |tensors: &[(&str, f32)], note: &str| {
        let tensor = |&(name, number): &(&str, f32)| {
            (name.to_string(), device.tensor(&[number], &[1]).expect("there is room"))
        };
        let notes = BTreeMap::from([("format".to_string(), note.to_string())]);
        block_on(save_safetensors(&tensors.iter().map(tensor).collect(), &notes))
            .expect("it is saved")
    };
    BTreeMap::from([
        (FILES[0], file(&[("a", 1.0), ("b", 2.0)], "pt")),
        (FILES[1], file(&[("c", 3.0), ("a", 4.0)], "np")),
    ])
}

fn load(index: &str) -> Result<Safetensors> {
    let shards = shards();
    SafetensorsIndex::read(index.as_bytes())?.load(&cpu(), |name| {
        let file =
            shards.get(name).ok_or_else(|| Error::format(format!("{name}: no such file")))?;
        Ok(Cursor::new(file.clone()))
    })
}

fn map(places: &[(&str, &str)]) -> String {
    let places: BTreeMap<_, _> = places.iter().copied().collect();
    serde_json::json!({"metadata": {"total_size": 12}, "weight_map": places}).to_string()
}

#[test]
fn each_tensor_comes_from_the_file_that_the_index_names() {
    let index = map(&[("b", FILES[0]), ("c", FILES[1]), ("a", FILES[1])]);
    let folder = std::env::temp_dir().join(format!("warpweft-index-{}", std::process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    for (name, bytes) in shards() {
        fs::write(folder.join(name), bytes).expect("a file");
    }
    let path = folder.join("model.safetensors.index.json");
    fs::write(&path, &index).expect("a file");
    let from_disk = files::load_safetensors(&cpu(), &path);
    fs::remove_file(folder.join(FILES[1])).expect("it was there");
    let missing = files::load_safetensors(&cpu(), &path);
    fs::remove_dir_all(&folder).expect("it was there");
    for loaded in [load(&index), from_disk] {
        let loaded = loaded.expect("it loads");
        let numbers = |name: &str| block_on(loaded.tensors[name].read::<f32>()).expect("numbers");
        assert_eq!(loaded.tensors.keys().collect::<Vec<_>>(), ["a", "b", "c"]);
        assert_eq!([numbers("a"), numbers("b"), numbers("c")], [[4.0], [2.0], [3.0]]);
        assert_eq!(loaded.metadata["format"], "pt", "the note of the first file");
    }
    let message = missing.expect_err("a file is missing").message().to_string();
    assert!(message.starts_with("load_safetensors: ") && message.contains(FILES[1]), "{message}");
}

#[test]
fn a_wrong_index_is_refused() {
    let first = FILES[0];
    let cases = [
        (String::new(), "`weight_map`, the file of each tensor"),
        ("[]".into(), "`weight_map`, the file of each tensor"),
        ("{}".into(), "missing field `weight_map`"),
        (r#"{"weight_map": {"a": 1}}"#.into(), "`weight_map`, the file of each tensor"),
        (map(&[("a", "")]), "beside it, got \"\" for \"a\""),
        (map(&[("a", "../secret")]), "beside it, got \"../secret\""),
        (map(&[("a", "/etc/secret")]), "beside it, got \"/etc/secret\""),
        (map(&[("a", "..")]), "beside it, got \"..\""),
        (map(&[("a", "C:\\secret")]), "beside it"),
        (map(&[("z", first)]), "model-00001-of-00002.safetensors: the file must have \"z\""),
        (map(&[("a", "model.bin")]), "model.bin: no such file"),
    ];
    for (index, what) in cases {
        let error = load(&index).expect_err(what);
        assert_eq!(error.kind(), ErrorKind::Format, "{index}");
        assert!(error.message().contains(what), "{index}: {}", error.message());
    }
    // The message names the damaged file.
    let index = SafetensorsIndex::read(map(&[("a", first)]).as_bytes()).expect("it is right");
    let error = index.load(&cpu(), |_| Ok(Cursor::new(vec![1, 2, 3]))).expect_err("it is cut");
    let message = error.message();
    assert!(message.starts_with(&format!("load_safetensors: {first}: the file must")), "{message}");
}

#[test]
fn an_index_with_wrong_bytes_is_read_or_refused() {
    let whole = map(&[("b", FILES[0]), ("c", FILES[1])]).into_bytes();
    for n in 0..4_000u32 {
        let mut bytes = whole.clone();
        let at = crate::shared::array::word(3, n as usize) as usize % bytes.len();
        bytes[at] = crate::shared::array::word(5, n as usize) as u8;
        if n % 3 == 0 {
            bytes.truncate(at);
        }
        if let Err(error) = SafetensorsIndex::read(&bytes) {
            assert_eq!(error.kind(), ErrorKind::Format);
        }
    }
}
