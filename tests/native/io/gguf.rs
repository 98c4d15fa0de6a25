//! Tests GGUF files: correct headers, damaged headers, and blocks of each format. The expected numbers of blocks come from the
//! `gguf` package: `tests/golden/blocks.py` writes `blocks.txt`.

use std::io::Cursor;
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::io::{BlockFormat, Gguf, GgufArray, GgufValue};

const GOLDEN: &str = include_str!("../../golden/blocks.txt");

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes(), text.as_bytes()].concat()
}

fn u32s(number: u32) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

fn u64s(number: u64) -> Vec<u8> {
    number.to_le_bytes().to_vec()
}

/// Returns a metadata entry: its name, the number of its type, and its bytes.
fn note(name: &str, kind: u32, bytes: &[u8]) -> Vec<u8> {
    [text(name), u32s(kind), bytes.to_vec()].concat()
}

/// Returns a row of the tensor table. The extents are in the order of the file.
fn row(name: &str, extents: &[u64], format: u32, offset: u64) -> Vec<u8> {
    let extents_of = extents.iter().flat_map(|extent| extent.to_le_bytes()).collect();
    [text(name), u32s(extents.len() as u32), extents_of, u32s(format), u64s(offset)].concat()
}

/// Returns a file with this metadata and these rows. Its tensors have `bytes` bytes: 0, 1, 2 and so on.
fn file(notes: &[Vec<u8>], rows: &[Vec<u8>], bytes: usize) -> Vec<u8> {
    let counts = [u64s(rows.len() as u64), u64s(notes.len() as u64)].concat();
    let mut file = [b"GGUF".to_vec(), u32s(3), counts, notes.concat(), rows.concat()].concat();
    file.resize(file.len().next_multiple_of(32), 0);
    file.extend((0..bytes).map(|n| n as u8));
    file
}

fn read(file: &[u8]) -> Result<Gguf> {
    Gguf::read(&mut Cursor::new(file))
}

/// Returns a file with every type of value and several tensors.
fn whole() -> Vec<u8> {
    let strings = [u32s(8), u64s(2), text("a"), text("bc")].concat();
    let nested = [u32s(9), u64s(1), u32s(4), u64s(2), u32s(7), u32s(8)].concat();
    let notes = [
        note("u8", 0, &[200]),
        note("i8", 1, &[200]),
        note("u16", 2, &[0, 255]),
        note("i16", 3, &[0, 255]),
        note("u32", 4, &u32s(u32::MAX)),
        note("i32", 5, &u32s(u32::MAX)),
        note("f32", 6, &1.5f32.to_le_bytes()),
        note("bool", 7, &[1]),
        note("text", 8, &text("æ")),
        note("strings", 9, &strings),
        note("nested", 9, &nested),
        note("u64", 10, &u64s(u64::MAX)),
        note("i64", 11, &u64s(u64::MAX)),
        note("f64", 12, &0.1f64.to_le_bytes()),
    ];
    file(&notes, &[row("w", &[32, 2], 2, 0), row("b", &[3], 0, 64)], 76)
}

#[test]
fn a_head_is_read_with_all_types_of_values() {
    let file = whole();
    let head = read(&file).expect("a file");
    let value = |name: &str| head.metadata[name].clone();
    let integers =
        [("u8", 200), ("i8", -56), ("u16", 65280), ("i16", -256), ("i32", -1), ("i64", -1)];
    for (name, want) in integers {
        assert_eq!(value(name), GgufValue::Integer(want), "{name}");
    }
    assert_eq!(value("u32").as_u64(), Some(u32::MAX.into()));
    assert_eq!(value("u64").as_u64(), Some(u64::MAX));
    assert_eq!(value("i64").as_u64(), None);
    assert_eq!((value("f32").as_f64(), value("f64").as_f64()), (Some(1.5), Some(0.1)));
    assert_eq!((value("bool").as_bool(), value("text").as_str()), (Some(true), Some("æ")));
    let strings = value("strings");
    let strings = strings.as_array().and_then(GgufArray::as_strings).expect("texts");
    assert_eq!(strings, ["a", "bc"]);
    let nested = GgufArray::Array(vec![GgufArray::U32(vec![7, 8])]);
    assert_eq!(value("nested"), GgufValue::Array(nested));
    let shown = |name: &str| value(name).to_string();
    assert_eq!([shown("f64"), shown("strings"), shown("text")], ["0.1", "2 strings", "\"æ\""]);

    assert_eq!((head.version, head.data as usize), (3, file.len() - 76));
    let (w, b) = (&head.tensors["w"], &head.tensors["b"]);
    assert_eq!((&w.shape[..], w.format.name(), w.numel()), (&[2, 32][..], "Q4_0", 64));
    assert_eq!((w.bytes.start, w.bytes.end), (head.data, head.data + 36));
    let bytes = b.read(&mut Cursor::new(&file)).expect("the tensor is there");
    assert_eq!(bytes, (64..76).collect::<Vec<u8>>());
    let cut = b.read(&mut Cursor::new(&file[..file.len() - 1]));
    assert!(cut.is_err_and(|error| error.message().contains("inside the file of")));
}

/// The name of a fault, a file that has it, and a part of the expected message.
type Damage = (&'static str, Vec<u8>, &'static str);

fn damaged_heads() -> Vec<Damage> {
    let start = |version: u32, tensors: u64, notes: u64| {
        [b"GGUF".to_vec(), u32s(version), u64s(tensors), u64s(notes)].concat()
    };
    let array = |kind: u32, count: u64| note("a", 9, &[u32s(kind), u64s(count)].concat());
    let deep = (0..6).flat_map(|_| [u32s(9), u64s(1)].concat()).collect::<Vec<u8>>();
    vec![
        ("nothing", Vec::new(), "at byte 0: the file must begin with `GGUF`"),
        (
            "a pointer",
            b"version https://git-lfs.github.com/spec/v1".to_vec(),
            "got a git-lfs pointer",
        ),
        ("a page", b"<!DOCTYPE html><html>".to_vec(), "got an HTML page"),
        (
            "a name of a megabyte",
            file(&[note(&"a".repeat(1 << 20), 7, &[1])], &[], 0),
            "at most 65535 bytes, got 1048576",
        ),
        ("another file", b"PK\x03\x04 and so on".to_vec(), "must begin with `GGUF`"),
        ("cut in the version", b"GGUF\x03\0".to_vec(), "at byte 4: the version must fit"),
        ("version 1", start(1, 0, 0), "at byte 4: the version must be 2 or 3, got 1"),
        ("big-endian", start(3u32.swap_bytes(), 0, 0), "the file is big-endian"),
        ("many values", start(3, 0, 1 << 60), "at byte 24: the number of metadata values"),
        ("many tensors", start(3, 1 << 60, 0), "at byte 8: the tensors of the table must fit"),
        (
            "a long name",
            [start(3, 0, 1), u64s(u64::MAX), vec![0; 99]].concat(),
            "at byte 32: the name",
        ),
        ("a name in Latin-1", file(&[[u64s(1), vec![0xe9; 13]].concat()], &[], 0), "must be UTF-8"),
        (
            "an unknown type",
            file(&[note("a", 13, &[0; 9])], &[], 0),
            "\"a\" must have a type from 0 to 12",
        ),
        ("a boolean of 2", file(&[note("a", 7, &[2])], &[], 0), "\"a\" must be 0 or 1"),
        (
            "a long text",
            file(&[note("a", 8, &u64s(1 << 40))], &[], 0),
            "\"a\" must fit into the rest",
        ),
        ("a long array", file(&[array(4, 1 << 62)], &[], 64), "got 4611686018427387904"),
        ("many texts", file(&[array(8, 1 << 61)], &[], 64), "\"a\" must fit into the rest"),
        ("many arrays", file(&[array(9, 1 << 61)], &[], 64), "\"a\" must fit into the rest"),
        ("deep arrays", file(&[note("a", 9, &deep)], &[], 64), "must not have more than 4 arrays"),
        ("twice", file(&[note("a", 7, &[1]), note("a", 7, &[1])], &[], 0), "got \"a\" twice"),
        (
            "an alignment of 0",
            file(&[note("general.alignment", 4, &u32s(0))], &[], 0),
            "must be a power of two up to 1048576, got 0",
        ),
        (
            "a huge alignment",
            file(&[note("general.alignment", 4, &u32s(1 << 30))], &[], 0),
            "must be a power of two up to 1048576, got 1073741824",
        ),
    ]
}

fn damaged_tensors() -> Vec<Damage> {
    let one = |extents: &[u64], format: u32, offset: u64| {
        file(&[], &[row("w", extents, format, offset)], 64)
    };
    let two = |first: u64, second: u64| {
        file(&[], &[row("w", &[8], 0, first), row("v", &[9], 0, second)], 128)
    };
    vec![
        (
            "many axes",
            one(&[1; 5], 0, 0),
            "at byte 24: tensor \"w\": it must have at most 4 axes, got 5",
        ),
        ("no elements", one(&[4, 0], 0, 0), "each extent must be at least 1"),
        (
            "an unknown format",
            one(&[32], 4, 0),
            "its format must be one that is known, got number 4",
        ),
        ("half a block", one(&[16], 2, 0), "whole blocks of 32, as Q4_0 has, got 16 elements"),
        ("a product that wraps", one(&[1 << 32, 1 << 32], 0, 0), "its bytes must be countable"),
        ("bytes that wrap", one(&[1 << 62], 0, 0), "its bytes must be countable"),
        ("behind the end", one(&[17], 0, 0), "its 68 bytes at offset 0 must end within the file"),
        ("an end that wraps", one(&[8], 0, u64::MAX - 31), "must end within the file"),
        ("between places", one(&[4], 0, 16), "its offset must be a multiple of 32, got 16"),
        ("one in the other", two(32, 0), "tensors must not overlap"),
        ("both at one place", two(0, 0), "tensors must not overlap"),
        (
            "the same name",
            file(&[], &[row("w", &[1], 0, 0), row("w", &[1], 0, 32)], 64),
            "must differ",
        ),
    ]
}

#[test]
fn damaged_files_are_refused_with_the_byte_and_the_reason() {
    for (what, file, says) in damaged_heads().into_iter().chain(damaged_tensors()) {
        let error = read(&file).err().unwrap_or_else(|| panic!("{what}: it was read"));
        let message = error.message();
        assert!(message.contains(says), "{what}: {message:?} does not say {says:?}");
        assert!(message.starts_with("gguf: at byte "), "{what}: {message}");
        assert_eq!(error.kind(), ErrorKind::Format, "{what}");
    }
}

/// Tests every truncation, every single-bit change, and many files with several wrong bytes.
#[test]
fn files_damaged_by_chance_are_read_or_refused() {
    let whole = whole();
    let head = read(&whole).expect("a file").data as usize;
    for end in 0..whole.len() {
        assert!(read(&whole[..end]).is_err(), "the first {end} bytes");
    }
    let mut changed = 0;
    let mut look = |file: &[u8]| match read(file) {
        Ok(read) => {
            for (name, tensor) in read.tensors {
                let bytes = tensor.read(&mut Cursor::new(file)).expect("what was checked is there");
                let decoded = tensor.format.decode(&bytes);
                let unsupported = |error: &Error| error.kind() == ErrorKind::Unsupported;
                let same = decoded.as_ref().is_ok_and(|all| all.len() == tensor.numel());
                assert!(same || decoded.is_err_and(|error| unsupported(&error)), "{name}");
            }
        }
        Err(error) => {
            assert_eq!(error.kind(), ErrorKind::Format, "{error}");
            changed += 1;
        }
    };
    for at in 0..head {
        for bit in 0..8 {
            let mut file = whole.clone();
            file[at] ^= 1 << bit;
            look(&file);
        }
    }
    let mut state = 1u32;
    let mut draw = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as usize
    };
    for _ in 0..20_000 {
        let mut file = whole.clone();
        for _ in 0..1 + draw() % 4 {
            let at = draw() % head;
            file[at] = [0, 1, 0x7f, 0x80, 0xff][draw() % 5];
        }
        look(&file);
    }
    assert!(changed > 5_000, "only {changed} were refused");
}

#[test]
fn blocks_stand_for_the_numbers_that_the_gguf_package_gives() {
    let mut formats = 0;
    for line in GOLDEN.lines() {
        let mut words = line.split(' ');
        let name = words.next().expect("a format");
        let format = BlockFormat::from_name(name).expect("a known format");
        let digits = words.next().expect("bytes");
        let byte = |at: usize| u8::from_str_radix(&digits[at..at + 2], 16).expect("two digits");
        let bytes: Vec<u8> = (0..digits.len()).step_by(2).map(byte).collect();
        let want: Vec<f32> = words.map(|word| word.parse().expect("a number")).collect();
        let got = format.decode(&bytes).expect("a format that can be decoded");
        assert_eq!(got.len(), want.len(), "{name}");
        // The numbers of a block may be differences of larger numbers, and blocks may contain only tiny numbers.
        let length = format.block_len();
        for (n, (got, want)) in got.chunks(length).zip(want.chunks(length)).enumerate() {
            let largest = want.iter().fold(0.0f32, |most, want| most.max(want.abs()));
            let near = |(got, want): (&f32, &f32)| (got - want).abs() <= 1e-6 * largest;
            assert!(got.iter().zip(want).all(near), "{name}, block {n}: {got:?}, not {want:?}");
        }
        formats += 1;
    }
    assert_eq!(formats, 15);
    let error = BlockFormat::from_name("IQ1_S").map(|format| format.decode(&[0; 50]));
    assert!(matches!(error, Some(Err(error)) if error.kind() == ErrorKind::Unsupported));
    let half = BlockFormat::from_name("Q4_K").map(|format| format.decode(&[0; 143]));
    assert!(matches!(half, Some(Err(error)) if error.message().contains("whole blocks of 144")));
}
