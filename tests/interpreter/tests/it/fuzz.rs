//! Malformed PTX gives errors. It never panics and never hangs.

use crate::common::{golden, Random, ARCHITECTURES};
use ptx_interpreter::{Argument, Launch, Memory, Module};

const FILES: [&str; 9] =
    ["basic", "integer", "control", "shared", "warp", "half", "math", "fast", "tensor"];
const ROUNDS: usize = 10_000;

/// Cuts one kernel out of a module, because short texts give more different failures per second.
fn kernels() -> Vec<String> {
    let mut all = Vec::new();
    for (file, architecture) in FILES.iter().flat_map(|file| ARCHITECTURES.map(|a| (file, a))) {
        let text = golden(file, architecture);
        let first = text.find(".visible .entry").unwrap_or(text.len());
        for kernel in text[first..].split(".visible .entry").skip(1) {
            if kernel.len() < 20_000 {
                all.push(format!("{}.visible .entry{kernel}", &text[..first]));
            }
        }
    }
    all
}

fn mutate(text: &str, random: &mut Random) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let mut pick = |n: usize| random.next() as usize % n.max(1);
    match pick(7) {
        0 => {
            let mut end = pick(text.len());
            while !text.is_char_boundary(end) {
                end -= 1;
            }
            text[..end].to_string()
        }
        1 => {
            let mut bytes = text.as_bytes().to_vec();
            for _ in 0..1 + pick(4) {
                let at = pick(bytes.len());
                bytes[at] = b"0123456789%.,;:@!{}[]()<>|+-_abrx\n\"/"[pick(36)];
            }
            String::from_utf8_lossy(&bytes).into_owned()
        }
        2 => {
            let (a, b) = (pick(lines.len()), pick(lines.len()));
            let mut lines = lines;
            lines.swap(a, b);
            lines.join("\n")
        }
        3 => {
            let mut lines = lines;
            lines.remove(pick(lines.len()));
            lines.join("\n")
        }
        4 => {
            let mut lines = lines;
            let (from, to) = (pick(lines.len()), pick(lines.len()));
            lines.insert(to, lines[from]);
            lines.join("\n")
        }
        5 => {
            // Swap two words, so that types, registers and opcodes change.
            let words: Vec<&str> = text
                .split(|c: char| !c.is_alphanumeric())
                .filter(|word| !word.is_empty())
                .collect();
            let (from, to) = (words[pick(words.len())], words[pick(words.len())]);
            text.replacen(from, to, 1 + pick(30))
        }
        _ => {
            let digits: Vec<usize> =
                text.char_indices().filter(|(_, c)| c.is_ascii_digit()).map(|(i, _)| i).collect();
            let at = digits[pick(digits.len())];
            format!(
                "{}{}{}",
                &text[..at],
                ["0", "9", "4294967295", "18446744073709551615", "0x80000000"][pick(5)],
                &text[at + 1..]
            )
        }
    }
}

#[test]
fn mutated_kernels_give_errors() {
    let kernels = kernels();
    let mut random = Random(2026);
    let (mut parsed, mut rejected, mut ran) = (0, 0, 0);
    for round in 0..ROUNDS {
        let mut text = mutate(&kernels[round % kernels.len()], &mut random);
        if round % 3 == 0 && text.len() > 100 {
            text = mutate(&text, &mut random);
        }
        match Module::parse(&text) {
            Err(error) => {
                assert!(!error.to_string().is_empty());
                rejected += 1;
            }
            Ok(module) => {
                parsed += 1;
                ran += usize::from(execute(&module, &mut random));
            }
        }
    }
    // Both outcomes must be common, so that the test means something.
    assert!(
        parsed > ROUNDS / 10 && rejected > ROUNDS / 10 && ran > ROUNDS / 100,
        "{parsed} {rejected} {ran}"
    );
}

/// Executes the first kernel with arguments of the sizes that it declares. Returns whether it succeeded.
fn execute(module: &Module, random: &mut Random) -> bool {
    let Some(entry) = module.entries().first().map(|name| (*name).to_string()) else {
        return false;
    };
    let mut memory = Memory::new();
    let arguments: Vec<Argument> = module
        .parameter_sizes(&entry)
        .unwrap_or_default()
        .into_iter()
        .map(|size| match size {
            8 => Argument::Pointer(
                memory.alloc_u32(&(0..2048).map(|_| random.next() % 64).collect::<Vec<u32>>()),
            ),
            4 => Argument::U32(random.next() % 48),
            _ => Argument::Bytes(vec![1; size.min(1 << 16)]),
        })
        .collect();
    let launch =
        Launch::linear(1, 32).with_shared(1024).with(|options| options.instruction_limit = 200_000);
    module.run(&entry, &launch, &mut memory, &arguments).is_ok()
}

#[test]
fn nesting_is_limited() {
    for open in ["{", "(", "[", "!", "{{[(", "/*", "\""] {
        let text = format!(
            ".version 7.0\n.target sm_80\n.visible .entry k() {{ mov.u32 {}",
            open.repeat(100_000)
        );
        assert!(Module::parse(&text).is_err());
    }
    let text = format!(".version 7.0\n.global .b32 x[4] = {};", "{".repeat(100_000));
    assert!(Module::parse(&text).is_err());
    for text in [
        "",
        "\0",
        ".",
        "@",
        ".version",
        ".entry",
        ".reg",
        ".global .b32 x[4294967295][4294967295];",
        "\u{e9}",
        "0x",
        "0f",
        "1.",
    ] {
        let _ = Module::parse(text);
    }
}
