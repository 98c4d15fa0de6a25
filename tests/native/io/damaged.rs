//! Tests damaged safetensors files: known kinds of damage, each rejected with a message that states the reason, and random
//! damage.

use super::{cpu, golden};
use crate::shared::array::word;
use warpweft::device::Device;
use warpweft::error::{Error, ErrorKind};
use warpweft::io;

/// Returns a file with this header and `data` bytes after it.
fn file(header: &str, data: usize) -> Vec<u8> {
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend(header.as_bytes());
    bytes.extend(vec![0; data]);
    bytes
}

/// Returns such a file with another header length in its prefix.
fn says(length: u64, header: &str, data: usize) -> Vec<u8> {
    let mut bytes = file(header, data);
    bytes[..8].copy_from_slice(&length.to_le_bytes());
    bytes
}

fn x(dtype: &str, shape: &str, offsets: &str) -> String {
    format!(r#"{{"x":{{"dtype":{dtype},"shape":{shape},"data_offsets":{offsets}}}}}"#)
}

fn two(first: &str, second: &str) -> String {
    let one = |name: &str, offsets: &str| {
        format!(r#""{name}":{{"dtype":"F32","shape":[2],"data_offsets":{offsets}}}"#)
    };
    format!("{{{},{}}}", one("x", first), one("y", second))
}

/// The kind of damage, a file, and a part of the expected message.
type Damage = (&'static str, Vec<u8>, &'static str);

fn outside() -> Vec<Damage> {
    let whole = file(&x("\"F32\"", "[2]", "[0,8]"), 8);
    let cut = |at: usize| whole[..at].to_vec();
    let header = whole.len() - 16;
    vec![
        ("nothing", Vec::new(), "the length of the header, got 0"),
        ("a byte", cut(1), "at least 8 bytes, the length of the header, got 1"),
        ("no length", cut(7), "at least 8 bytes, the length of the header, got 7"),
        ("a length alone", cut(8), "into the file of 8 bytes"),
        ("cut in the header", cut(20), "into the file of 20 bytes"),
        ("cut before the last of the header", cut(8 + header - 1), "from offset 8 on"),
        (
            "cut behind the header",
            cut(8 + header),
            "tensor \"x\": offsets must be inside 0 bytes, got 0 to 8",
        ),
        (
            "cut in the elements",
            cut(whole.len() - 1),
            "tensor \"x\": offsets must be inside 7 bytes, got 0 to 8",
        ),
        (
            "a byte more",
            [&whole[..], &[0]].concat(),
            "tensors must fill the 9 bytes after the header, got 8",
        ),
        ("twice", [&whole[..], &whole].concat(), "after the header, got 8"),
        ("a header of 2^60 bytes", says(1 << 60, "{}", 0), "got 1152921504606846976"),
        ("a header of 2^64-1 bytes", says(u64::MAX, "{}", 0), "got 18446744073709551615"),
        (
            "a header of 100 MB and a byte",
            says(100_000_001, "{}", 0),
            "at most 100000000 bytes, got 100000001",
        ),
        (
            "a header of 100 MB",
            says(100_000_000, "{}", 0),
            "into the file of 10 bytes, got 100000000",
        ),
        ("a header of no bytes", says(0, "", 0), "must begin with an object at offset 8"),
        (
            "a length that is one short",
            says(header as u64 - 1, &x("\"F32\"", "[2]", "[0,8]"), 8),
            "EOF",
        ),
        (
            "a length that is one long",
            says(header as u64 + 1, &x("\"F32\"", "[2]", "[0,8]"), 8),
            "the header",
        ),
        ("a big-endian length", says(2u64.swap_bytes(), "{}", 0), "at most 100000000 bytes"),
        (
            "another format",
            b"PK\x03\x04 and so on, no weights at all".to_vec(),
            "at most 100000000 bytes",
        ),
    ]
}

fn texts() -> Vec<Damage> {
    let nested = format!("{{\"x\":{}", "[".repeat(100_000));
    let deep = format!("{{\"x\":{{\"dtype\":{}", "{\"a\":".repeat(100_000));
    let mut latin = file(&x("\"F32\"", "[2]", "[0,8]"), 8);
    latin[10] = 0xe4;
    let split = [&file("{\"", 0)[..], &[0xf0, 0x9f, b'"', b'}']].concat();
    let mut split = split;
    split[..8].copy_from_slice(&6u64.to_le_bytes());
    vec![
        ("not UTF-8", latin, "must be UTF-8, got other bytes at offset 10"),
        ("a letter that is cut", split, "must be UTF-8, got other bytes at offset 10"),
        ("a list", file("[]", 0), "must begin with an object"),
        ("a space first", file(" {}", 0), "must begin with an object"),
        ("a byte order mark", file("\u{feff}{}", 0), "must begin with an object"),
        ("a number", file("1", 0), "must begin with an object"),
        ("no end", file("{", 0), "EOF"),
        ("more behind it", file("{} {}", 0), "trailing characters"),
        ("a comma too many", file("{\"x\":{},}", 0), "\"x\": missing field"),
        ("no quotes", file("{x:1}", 0), "key must be a string"),
        ("zeros behind it", file("{}\0\0", 0), "trailing characters"),
        ("a comment", file("{/*x*/}", 0), "key must be a string"),
        ("deep lists", file(&nested, 0), "\"x\""),
        ("deep objects", file(&deep, 0), "\"x\""),
        ("half a surrogate", file("{\"\\ud800\":1}", 0), "the header"),
        (
            "notes that are no object",
            file("{\"__metadata__\":3}", 0),
            "\"__metadata__\": invalid type",
        ),
        (
            "a note that is no text",
            file("{\"__metadata__\":{\"a\":1}}", 0),
            "\"__metadata__\": invalid type",
        ),
        (
            "a note twice",
            file("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0),
            "\"a\" given twice",
        ),
        (
            "notes twice",
            file("{\"__metadata__\":{},\"__metadata__\":{}}", 0),
            "\"__metadata__\": given twice",
        ),
        ("a tensor that is null", file("{\"x\":null}", 0), "\"x\": invalid type: null"),
        ("a tensor that is a number", file("{\"x\":1}", 0), "\"x\": invalid type"),
        ("a tensor of nothing", file("{\"x\":{}}", 0), "\"x\": missing field `dtype`"),
    ]
}

fn tensors() -> Vec<Damage> {
    let f = "\"F32\"";
    let same = x(f, "[2]", "[0,8]");
    let twice = format!("{},{}", &same[..same.len() - 1], &same[1..]);
    let huge = "[4294967296,4294967296,4294967296]";
    vec![
        ("the same name twice", file(&twice, 8), "\"x\": given twice"),
        (
            "no type",
            file(r#"{"x":{"shape":[2],"data_offsets":[0,8]}}"#, 8),
            "missing field `dtype`",
        ),
        (
            "no shape",
            file(r#"{"x":{"dtype":"F32","data_offsets":[0,8]}}"#, 8),
            "missing field `shape`",
        ),
        (
            "no offsets",
            file(r#"{"x":{"dtype":"F32","shape":[2]}}"#, 8),
            "missing field `data_offsets`",
        ),
        (
            "a type twice",
            file(&x("\"F32\",\"dtype\":\"I32\"", "[2]", "[0,8]"), 8),
            "duplicate field `dtype`",
        ),
        ("more than is known", file(&x("\"F32\",\"y\":1", "[2]", "[0,8]"), 8), "unknown field `y`"),
        ("a type that is a number", file(&x("32", "[2]", "[0,8]"), 8), "\"x\": invalid type"),
        ("a negative extent", file(&x(f, "[-2]", "[0,8]"), 8), "invalid value: integer `-2`"),
        ("a broken extent", file(&x(f, "[2.0]", "[0,8]"), 8), "invalid type: floating point"),
        ("an extent of 2^64", file(&x(f, "[18446744073709551616]", "[0,8]"), 8), "\"x\""),
        ("a huge shape", file(&x(f, huge, "[0,8]"), 8), "must fit 64 bits"),
        (
            "a huge shape with a zero",
            file(&x(f, "[0,18446744073709551615]", "[0,8]"), 8),
            "must have 0 bytes",
        ),
    ]
}

fn places() -> Vec<Damage> {
    let f = "\"F32\"";
    let ones = format!("[{}2]", "1,".repeat(8));
    vec![
        ("a shape that is a number", file(&x(f, "2", "[0,8]"), 8), "\"x\": invalid type"),
        ("nine axes", file(&x(f, &ones, "[0,8]"), 8), "at most 8, got 9"),
        (
            "too small a shape",
            file(&x(f, "[1]", "[0,8]"), 8),
            "must have 4 bytes, got 8 from 0 to 8",
        ),
        (
            "too large a shape",
            file(&x(f, "[3]", "[0,8]"), 8),
            "must have 12 bytes, got 8 from 0 to 8",
        ),
        (
            "another size of type",
            file(&x("\"F16\"", "[2]", "[0,8]"), 8),
            "must have 4 bytes, got 8",
        ),
        (
            "beyond the file",
            file(&x(f, "[2]", "[0,9]"), 8),
            "tensor \"x\": offsets must be inside 8 bytes, got 0 to 9",
        ),
        (
            "far beyond the file",
            file(&x(f, "[2]", "[0,18446744073709551615]"), 8),
            "got 0 to 18446",
        ),
        (
            "behind the file",
            file(&x(f, "[2]", "[1000,1008]"), 8),
            "inside 8 bytes, got 1000 to 1008",
        ),
        ("the wrong way round", file(&x(f, "[2]", "[8,0]"), 8), "inside 8 bytes, got 8 to 0"),
        ("a negative offset", file(&x(f, "[2]", "[-8,0]"), 8), "invalid value: integer `-8`"),
        ("one offset", file(&x(f, "[2]", "[0]"), 8), "invalid length 1"),
        ("three offsets", file(&x(f, "[2]", "[0,8,8]"), 8), "\"x\""),
        (
            "a gap before",
            file(&x(f, "[1]", "[4,8]"), 8),
            "tensor \"x\": the offset must be 0, got 4 (gap)",
        ),
        (
            "a gap between",
            file(&two("[0,8]", "[12,20]"), 20),
            "tensor \"y\": the offset must be 8, got 12 (gap)",
        ),
        (
            "a gap behind",
            file(&two("[0,8]", "[8,16]"), 20),
            "tensors must fill the 20 bytes after the header, got 16",
        ),
        (
            "an overlap",
            file(&two("[0,8]", "[4,12]"), 12),
            "tensor \"y\": the offset must be 8, got 4 (overlap)",
        ),
        (
            "the same place",
            file(&two("[0,8]", "[0,8]"), 8),
            "tensor \"y\": the offset must be 8, got 0 (overlap)",
        ),
        (
            "elements of none",
            file("{}", 8),
            "tensors must fill the 8 bytes after the header, got 0",
        ),
        (
            "a bool of 2",
            {
                let mut b = file(&x("\"BOOL\"", "[2]", "[0,2]"), 2);
                let last = b.len() - 1;
                b[last] = 2;
                b
            },
            "tensor \"x\": element 1 must be 0 or 1, got 2",
        ),
    ]
}

#[test]
fn damaged_weights_are_refused_with_the_reason() {
    let device = cpu();
    let all = [outside(), texts(), tensors(), places()].concat();
    assert!(all.len() >= 57, "{}", all.len());
    for (what, bytes, why) in all {
        let error = io::load_safetensors(&device, &bytes).expect_err(what);
        assert!(error.message().starts_with("load_safetensors: "), "{what}: {error}");
        assert!(error.message().contains(why), "{what}: {error}");
        let kind = if what == "nine axes" { ErrorKind::Shape } else { ErrorKind::Format };
        assert_eq!(error.kind(), kind, "{what}: {error}");
    }
    // The same header without damage.
    io::load_safetensors(&device, &file(&two("[8,16]", "[0,8]"), 16)).expect("whole");
    io::load_safetensors(&device, &file("{}", 0)).expect("empty, and whole");
}

/// Loads golden files with bytes randomly changed, removed, inserted, repeated and cut off.
pub fn by_chance(name: &str, rounds: usize, load: impl Fn(&Device, &[u8]) -> Result<(), Error>) {
    let (device, (whole, _)) = (cpu(), golden(name));
    let seed = 41 + name.len() as u32;
    let (mut at, mut refused) = (0, 0);
    let mut next = |below: usize| {
        at += 1;
        word(seed, at) as usize % below.max(1)
    };
    for _ in 0..rounds {
        let mut bytes = whole.clone();
        for _ in 0..=next(4) {
            // Most of the structure is at both ends of a file.
            let from = if next(3) == 0 { bytes.len().saturating_sub(next(300)) } else { 0 };
            let place = (from + next(400)).min(bytes.len().saturating_sub(1));
            match next(7) {
                0 => bytes.truncate(place),
                1 if !bytes.is_empty() => drop(bytes.remove(place)),
                2 => bytes.insert(place.min(bytes.len()), next(256) as u8),
                3 => {
                    let part = bytes[place.min(bytes.len())..]
                        .iter()
                        .take(next(40))
                        .copied()
                        .collect::<Vec<u8>>();
                    bytes.splice(place.min(bytes.len())..place.min(bytes.len()), part);
                }
                4 => bytes.iter_mut().skip(place).take(8).for_each(|byte| *byte = 255),
                5 => bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte ^= 1 << next(8)),
                _ => bytes.iter_mut().skip(place).take(1).for_each(|byte| *byte = next(256) as u8),
            }
        }
        refused += usize::from(load(&device, &bytes).is_err());
    }
    assert!(refused > rounds / 4, "{refused} of {rounds} were refused");
}

#[test]
fn weights_that_are_damaged_by_chance_do_no_harm() {
    by_chance("safetensors", 5_000, |device, bytes| io::load_safetensors(device, bytes).map(drop));
}
