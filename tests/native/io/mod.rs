//! Tests files of weights and arrays. Reads files of NumPy and safetensors, and reads written files again.
//! `tests/golden/io.txt` has the files and their contents. `tests/golden/io.py` writes it.

mod damaged;
mod gguf;
mod index;
mod memory;
mod npy;
mod other;

use crate::shared::array::{decode, Array};
use crate::shared::golden::arrays;
use pollster::block_on;
use std::collections::{BTreeMap, HashMap};
use warpweft::device::{Device, Preference};
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::io;
use warpweft::tensor::Tensor;

const GOLDEN: &str = include_str!("../../golden/io.txt");

pub fn cpu() -> Device {
    block_on(Device::with(Preference::Cpu)).expect("the CPU is there")
}

/// Returns a golden file, and the arrays in it.
pub fn golden(name: &str) -> (Vec<u8>, HashMap<String, Array<f64>>) {
    let mut found = arrays(GOLDEN, name);
    let bytes = found.remove("bytes").expect("a file of the script's");
    (bytes.data.iter().map(|&byte| byte as u8).collect(), found)
}

/// Returns the names of all golden files that begin with `start`.
fn files(start: &str) -> Vec<&'static str> {
    let names = GOLDEN.lines().filter_map(|line| line.split('|').next());
    let mut names: Vec<_> = names.filter(|name| name.starts_with(start)).collect();
    names.dedup();
    names
}

/// Checks that a tensor equals an array.
fn is(what: &str, tensor: &Tensor, want: &Array<f64>) {
    assert_eq!(tensor.shape(), &want.shape[..], "{what}");
    let got = decode(tensor.dtype(), &block_on(tensor.read_bytes()).expect(what));
    assert_eq!(got, want.data, "{what}");
}

fn are(what: &str, tensors: &BTreeMap<String, Tensor>, want: &HashMap<String, Array<f64>>) {
    assert_eq!(tensors.len(), want.len(), "{what}: {:?}", tensors.keys());
    for (name, want) in want {
        is(&format!("{what}: {name}"), &tensors[name], want);
    }
}

/// Returns a tensor of each dtype, by the name of the dtype in NumPy: 0, 1, 0, 1, 0, 1.
fn samples(device: &Device) -> Result<BTreeMap<String, Tensor>> {
    let counted = device.tensor(&[0i32, 1, 0, 1, 0, 1], &[2, 3])?;
    let types = [
        ("bool", DType::Bool),
        ("float16", DType::F16),
        ("float32", DType::F32),
        ("int16", DType::I16),
        ("int32", DType::I32),
        ("int8", DType::I8),
        ("uint16", DType::U16),
        ("uint32", DType::U32),
        ("uint8", DType::U8),
    ];
    types.iter().map(|&(name, dtype)| Ok((name.to_string(), counted.cast(dtype)?))).collect()
}

#[test]
fn numpys_arrays_are_read() {
    let device = cpu();
    let all = files("npy");
    assert!(all.len() >= 40, "{all:?}");
    for name in all {
        let (bytes, want) = golden(name);
        is(name, &io::load_npy(&device, &bytes).expect(name), &want["x"]);
    }
    for (name, dtype) in [
        ("npy ?", DType::Bool),
        ("npy <i1", DType::I8),
        ("npy <u1", DType::U8),
        ("npy >i2", DType::I16),
        ("npy <u2", DType::U16),
        ("npy <i8", DType::I32),
        ("npy <u8", DType::U32),
        ("npy <f2", DType::F16),
        ("npy <f8", DType::F32),
    ] {
        assert_eq!(io::load_npy(&device, &golden(name).0).expect(name).dtype(), dtype, "{name}");
    }
}

#[test]
fn arrays_are_written_as_numpy_writes_them() {
    let device = cpu();
    for name in ["?", "<i1", "<i2", "<i4", "<u1", "<u2", "<u4", "<f2", "<f4"]
        .map(|dtype| format!("npy {dtype}"))
    {
        let (bytes, _) = golden(&name);
        let tensor = io::load_npy(&device, &bytes).expect(&name);
        assert_eq!(block_on(io::save_npy(&tensor)).expect(&name), bytes, "{name}");
    }
    for name in files("npy of rank") {
        let (bytes, _) = golden(name);
        let tensor = io::load_npy(&device, &bytes).expect(name);
        assert_eq!(block_on(io::save_npy(&tensor)).expect(name), bytes, "{name}");
    }
}

#[test]
fn numpys_archives_are_read() {
    let device = cpu();
    for name in ["npz stored", "npz deflated"] {
        let (bytes, want) = golden(name);
        are(name, &io::load_npz(&device, &bytes).expect(name), &want);
    }
}

#[test]
fn weights_that_safetensors_wrote_are_read() {
    let device = cpu();
    let (bytes, want) = golden("safetensors");
    let loaded = io::load_safetensors(&device, &bytes).expect("it is whole");
    are("safetensors", &loaded.tensors, &want);
    let notes = [("by", "hand"), ("format", "np")].map(|(key, note)| (key.into(), note.into()));
    assert_eq!(loaded.metadata, BTreeMap::from(notes));
    let names = ["F32", "F16", "I32", "U32", "I8", "U8", "Bool"];
    for (at, dtype) in names.iter().enumerate() {
        let got = loaded.tensors[&format!("layer.{at}.weight")].dtype();
        assert_eq!(format!("{got:?}"), *dtype);
    }
    let (bytes, want) = golden("safetensors of bf16");
    let loaded = io::load_safetensors(&device, &bytes).expect("it is whole");
    assert_eq!(loaded.tensors["x"].dtype(), DType::F32);
    are("bf16", &loaded.tensors, &want);
    let (bytes, want) = golden("safetensors of other types");
    assert_eq!(want.len(), 5);
    let loaded = io::load_safetensors(&device, &bytes).expect("it is whole");
    are("other types", &loaded.tensors, &want);
    for (name, dtype) in [("int16", DType::I16), ("uint16", DType::U16), ("int64", DType::I32)] {
        assert_eq!(loaded.tensors[name].dtype(), dtype, "{name}");
    }
    let mut large = bytes;
    let last = large.len() - 1;
    // All elements of all tensors.
    let elements = 2 * 3 * (2 + 2 + 8 + 8 + 8);
    large[last + 1 - elements..].fill(0x7f);
    let error = io::load_safetensors(&device, &large).expect_err("not of 32 bits").to_string();
    assert!(error.contains("must fit"), "{error}");
}

#[test]
fn what_is_written_is_read_again() {
    let device = cpu();
    let all = samples(&device).expect("tensors");
    let want = Array::new(&[2, 3], vec![0.0, 1.0, 0.0, 1.0, 0.0, 1.0]);
    let notes = BTreeMap::from([("a \"note\"".to_string(), "\u{540d}\n".to_string())]);
    let weights = block_on(io::save_safetensors(&all, &notes)).expect("written");
    let loaded = io::load_safetensors(&device, &weights).expect("read");
    assert_eq!(loaded.metadata, notes);
    let mut files = vec![("weights.safetensors".to_string(), weights)];
    let mut read = vec![loaded.tensors];
    for compressed in [false, true] {
        let archive = block_on(io::save_npz(&all, compressed)).expect("written");
        read.push(io::load_npz(&device, &archive).expect("read"));
        files.push((format!("compressed-{compressed}.npz"), archive));
    }
    for tensors in read {
        assert_eq!(tensors.len(), all.len());
        for (name, tensor) in &tensors {
            assert_eq!(tensor.dtype(), all[name].dtype(), "{name}");
            is(name, tensor, &want);
        }
    }
    for (name, tensor) in &all {
        files.push((format!("{name}.npy"), block_on(io::save_npy(tensor)).expect("written")));
    }
    // The script reads these files with other packages.
    if let Some(folder) = std::env::var_os("WARPWEFT_FILES") {
        for (name, bytes) in files {
            std::fs::write(std::path::Path::new(&folder).join(name), bytes).expect("a folder");
        }
    }
}

#[test]
fn weights_lie_at_multiples_of_their_size() {
    let device = cpu();
    let all = samples(&device).expect("tensors");
    let file = block_on(io::save_safetensors(&all, &BTreeMap::new())).expect("written");
    let length = u64::from_le_bytes(file[..8].try_into().expect("eight bytes")) as usize;
    assert_eq!(length % 8, 0);
    let header = std::str::from_utf8(&file[8..8 + length]).expect("text");
    let mut places = Vec::new();
    let mut before = 0;
    for (name, size) in [
        ("bool", 1),
        ("float16", 2),
        ("float32", 4),
        ("int16", 2),
        ("int32", 4),
        ("int8", 1),
        ("uint16", 2),
        ("uint32", 4),
        ("uint8", 1),
    ] {
        let at = header.find(&format!("\"{name}\"")).expect("its name");
        assert!(at > before, "{name} in order: {header}");
        before = at;
        let value: serde_json::Value = serde_json::from_str(header).expect("JSON");
        let start = value[name]["data_offsets"][0].as_u64().expect("an offset");
        assert_eq!(start % size, 0, "{name}");
        places.push(start);
    }
    assert_eq!(places.len(), all.len());
}

#[test]
fn numbers_of_64_bits_become_those_of_32() {
    let device = cpu();
    let (mut bytes, _) = golden("npy <i8");
    let last = bytes.len() - 8;
    bytes[last..].copy_from_slice(&(1i64 << 31).to_le_bytes());
    let error = io::load_npy(&device, &bytes).expect_err("too large");
    assert_eq!(error.message(), "load_npy: element 5 must fit i32, got 2147483648");
    let (mut bytes, _) = golden("npy >u8");
    bytes[last..].copy_from_slice(&(1u64 << 32).to_be_bytes());
    let error = io::load_npy(&device, &bytes).expect_err("too large");
    assert_eq!(error.message(), "load_npy: element 5 must fit u32, got 4294967296");
    let (mut bytes, _) = golden("npy <f8");
    let third = 1.0f64 / 3.0;
    bytes[last..].copy_from_slice(&third.to_le_bytes());
    let read = block_on(io::load_npy(&device, &bytes).expect("read").read::<f32>());
    assert_eq!(read.expect("read")[5].to_bits(), (third as f32).to_bits());
}
