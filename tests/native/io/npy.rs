//! Tests damaged NumPy files. Each is rejected, and the message states the reason.

use super::damaged::by_chance;
use super::{cpu, golden};
use warpweft::error::ErrorKind;
use warpweft::io;

/// Returns a file of version 1 with this header and `data` bytes after it.
fn file(header: &str, data: usize) -> Vec<u8> {
    let length = header.len() as u16;
    let mut bytes = [b"\x93NUMPY\x01\x00", &length.to_le_bytes()[..], header.as_bytes()].concat();
    bytes.extend(vec![0; data]);
    bytes
}

fn of(descr: &str, shape: &str) -> String {
    format!("{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}\n")
}

/// The kind of damage, a file, and a part of the expected message.
type Damage = (&'static str, Vec<u8>, &'static str);

fn arrays() -> Vec<Damage> {
    let whole = file(&of("'<f4'", "(2,)"), 8);
    let cut = |at: usize| whole[..at].to_vec();
    let with = |at: usize, byte: u8| {
        let mut bytes = whole.clone();
        bytes[at] = byte;
        bytes
    };
    let f = "'<f4'";
    let order =
        |order: &str| format!("{{'descr': '<f4', 'fortran_order': {order}, 'shape': (2,)}}");
    let nines = "9".repeat(30);
    vec![
        ("nothing", Vec::new(), "got a file of 0 bytes"),
        ("a part of the beginning", cut(4), "got a file of 4 bytes"),
        ("no version", cut(6), "got a file of 6 bytes"),
        ("no length", cut(9), "must end at offset 10, got a file of 9"),
        ("cut in the header", cut(30), "got a file of 30 bytes"),
        ("cut in the elements", cut(whole.len() - 1), "got 7 from offset"),
        ("another beginning", with(0, b'N'), "must be an .npy file, got another"),
        ("version 0", with(6, 0), "got 0.0 at"),
        ("version 4", with(6, 4), "got 4.0 at"),
        ("got 1.1 at", with(7, 1), "got 1.1 at"),
        ("version 2 with a length of 2 bytes", with(6, 2), "the header must end at offset"),
        (
            "a header of 65535 bytes",
            {
                let mut b = whole.clone();
                b[8] = 255;
                b[9] = 255;
                b
            },
            "must end at offset 65545",
        ),
        ("not UTF-8", with(12, 0xff), "other bytes at offset 12"),
        ("no dictionary", file("(1, 2)", 0), "offset 10 must have '{' here"),
        ("an empty dictionary", file("{}", 0), "\"descr\", got none"),
        ("no end", file("{'descr': '<f4'", 0), "must have '}' here"),
        ("no colon", file("{'descr' '<f4'}", 0), "offset 19 must have ':' here"),
        ("more behind it", file("{'descr': '<f4'} + {}", 0), "after the dictionary"),
        ("no order", file("{'descr': '<f4', 'shape': (2,)}", 8), "\"fortran_order\", got none"),
        ("no shape", file("{'descr': '<f4', 'fortran_order': False}", 8), "\"shape\", got none"),
        ("another entry", file("{'descr': '<f4', 'dtype': 'x'}", 8), "got \"dtype\""),
        ("an entry twice", file("{'descr': '<f4', 'descr': '<f4'}", 8), "got \"descr\" twice"),
        ("an order that is a number", file(&order("0"), 8), "True or False here"),
        ("no end of a text", file("{'descr': '<f4", 0), "must have strings that end"),
        ("an escape", file("{'descr': '\\x3cf4'}", 0), "without escapes"),
        ("a record", file(&of("[('a', '<f4')]", "(2,)"), 8), "elements of several parts"),
        ("an object", file(&of("'|O'", "(1,)"), 8), "got \"|O\""),
        ("complex numbers", file(&of("'<c8'", "(1,)"), 8), "got \"<c8\""),
        ("texts", file(&of("'<U2'", "(1,)"), 8), "got \"<U2\""),
        ("no byte order", file(&of("'f4'", "(2,)"), 8), "got \"f4\""),
        ("a byte order that says nothing", file(&of("'|f4'", "(2,)"), 8), "got \"|f4\""),
        ("no type", file(&of("''", "(2,)"), 8), "got \"\""),
        (
            "a type in another alphabet",
            file(&of("'\u{540d}'", "(2,)"), 8),
            "must be one of tensors",
        ),
        ("a shape that is a number", file(&of(f, "2"), 8), "must have '(' here"),
        ("a number in parentheses", file(&of(f, "(2)"), 8), "got a number"),
        ("a list", file(&of(f, "[2]"), 8), "must have '(' here"),
        ("a negative extent", file(&of(f, "(-2,)"), 8), "extents of 64 bits"),
        (
            "an extent that is too large",
            file(&of(f, &format!("({nines},)")), 8),
            "extents of 64 bits",
        ),
        ("a huge shape", file(&of(f, "(4294967296, 4294967296, 4294967296)"), 8), "too many bytes"),
        ("too large a shape", file(&of(f, "(3,)"), 8), "must have 12 bytes"),
        (
            "2^31 elements of none",
            file(&of(f, "(0, 4294967296)"), 0),
            "at most 2147483647 elements",
        ),
        ("nine axes", file(&of(f, "(1, 1, 1, 1, 1, 1, 1, 1, 2)"), 8), "at most 8, got 9"),
        (
            "a bool of 3",
            {
                let mut b = file(&of("'|b1'", "(1,)"), 1);
                let last = b.len() - 1;
                b[last] = 3;
                b
            },
            "element 0 must be 0 or 1, got 3",
        ),
    ]
}

#[test]
fn damaged_arrays_are_refused_with_the_reason() {
    let device = cpu();
    for (what, bytes, why) in arrays() {
        let error = io::load_npy(&device, &bytes).expect_err(what);
        assert!(error.message().starts_with("load_npy: "), "{what}: {error}");
        assert!(error.message().contains(why), "{what}: {error}");
        let kind = match what {
            "nine axes" => ErrorKind::Shape,
            "2^31 elements of none" => ErrorKind::Limit,
            _ => ErrorKind::Format,
        };
        assert_eq!(error.kind(), kind, "{what}: {error}");
    }
    io::load_npy(&device, &file(&of("\"<f4\"", "(2L,)"), 8)).expect("Python 2 wrote such");
}

/// Returns the first position of a signature.
fn find(bytes: &[u8], signature: &[u8]) -> usize {
    bytes.windows(signature.len()).position(|part| part == signature).expect("it stands there")
}

fn archives() -> Vec<Damage> {
    let (whole, _) = golden("npz stored");
    let (packed, _) = golden("npz deflated");
    let end = whole.len() - 22;
    let central = find(&whole, b"PK\x01\x02");
    let with = |from: &[u8], at: usize, bytes: &[u8]| {
        let mut changed = from.to_vec();
        changed[at..at + bytes.len()].copy_from_slice(bytes);
        changed
    };
    let of = |at: usize, bytes: &[u8]| with(&whole, at, bytes);
    let start = find(&packed, b"a.npy") + 5 + 20;
    let directory = find(&packed, b"PK\x01\x02");
    vec![
        ("nothing", Vec::new(), "no end of a ZIP archive"),
        ("an array", golden("npy <f4").0, "no end of a ZIP archive"),
        ("cut at the end", whole[..whole.len() - 1].to_vec(), "no end of a ZIP archive"),
        ("cut in the middle", whole[..end / 2].to_vec(), "no end of a ZIP archive"),
        ("a byte more", [&whole[..], &[0]].concat(), "no end of a ZIP archive"),
        ("a second disk", of(end + 4, &[1, 0]), "several parts"),
        ("another count on the disk", of(end + 8, &[9, 0]), "several parts"),
        ("too many members", of(end + 8, &[9, 0, 9, 0]), "members, where the end at offset"),
        ("too few members", of(end + 8, &[1, 0, 1, 0]), "members, where the end at offset"),
        ("65535 members", of(end + 8, &[255; 4]), "64-bit form"),
        (
            "a directory that is too long",
            of(end + 12, &[255, 255, 255, 127]),
            "does not end at offset",
        ),
        ("a directory elsewhere", of(end + 16, &[1, 0, 0, 0]), "does not begin at 911"),
        ("a directory too far", of(end + 16, &[0, 0, 0, 1]), "does not end at offset"),
        ("64 bits", of(end + 16, &[255; 4]), "64-bit form"),
        ("no member", of(central, b"PK\x01\x03"), "is not of a directory"),
        ("encrypted", of(central + 8, &[1]), "\"a.npy\" at offset"),
        ("another method", of(central + 10, &[12]), "is packed by method 12"),
        ("a checksum", of(central + 16, &[0; 4]), "the checksum at offset"),
        ("stored in fewer bytes", of(central + 20, &[1, 0, 0, 0]), "is stored"),
        ("larger than 4 GiB", of(central + 20, &[255; 8]), "64-bit form"),
        (
            "beyond the archive",
            of(central + 20, &[0, 0, 0, 112, 0, 0, 0, 112]),
            "overlaps another part",
        ),
        ("a name that is too long", of(central + 28, &[255, 255]), "goes beyond the directory"),
        ("a name that is not UTF-8", of(central + 46, &[255]), "is not UTF-8"),
        ("another name", of(central + 46, b"b"), "has another name at 0"),
        ("another method before it", of(8, &[8]), "packed by another method at 0"),
        ("begins nowhere", of(central + 42, &[1, 0, 0, 0]), "does not begin at 1"),
        ("begins in the directory", of(central + 42, &(central as u32).to_le_bytes()), "does not"),
        (
            "two in one place",
            {
                let second = central + 46 + 5;
                let mut b = of(second + 42, &[0; 4]);
                let name = b[central + 46..central + 51].to_vec();
                assert_eq!(name, b"a.npy");
                b[second + 46..second + 51].copy_from_slice(&name);
                b
            },
            "at offset",
        ),
        (
            "an element",
            of(find(&whole, b"\x93NUMPY") + 130, &[1]),
            "array \"a\": the checksum at offset",
        ),
        ("damaged while deflated", with(&packed, start + 30, &[255; 8]), "array \"a\""),
        ("no deflated bytes", with(&packed, start, &[255; 20]), "array \"a\": bytes at offset"),
        (
            "fewer bytes than are said",
            with(&packed, directory + 24, &[255, 255, 255, 127]),
            "must have 2147483647 bytes",
        ),
        (
            "more bytes than are said",
            with(&packed, directory + 24, &[1, 0, 0, 0]),
            "must have 1 bytes, got 2 or more",
        ),
    ]
}

#[test]
fn damaged_archives_are_refused_with_the_reason() {
    let device = cpu();
    for (what, bytes, why) in archives() {
        let error = io::load_npz(&device, &bytes).expect_err(what);
        assert!(error.message().starts_with("load_npz: "), "{what}: {error}");
        assert!(error.message().contains(why), "{what}: {error}");
        assert_eq!(error.kind(), ErrorKind::Format, "{what}: {error}");
    }
}

#[test]
fn arrays_that_are_damaged_by_chance_do_no_harm() {
    for name in ["npy <f4", "npy >i8 column-major", "npy ? column-major"] {
        by_chance(name, 3_000, |device, bytes| io::load_npy(device, bytes).map(drop));
    }
    for name in ["npz stored", "npz deflated"] {
        by_chance(name, 3_000, |device, bytes| io::load_npz(device, bytes).map(drop));
    }
}
