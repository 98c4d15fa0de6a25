//! Running golden kernels.

use ptx_interpreter::{Argument, Error, Launch, Memory, Module, Report, Schedule};

pub const ARCHITECTURES: [u32; 2] = [80, 90];

/// The text of a golden file.
pub fn golden(name: &str, architecture: u32) -> String {
    let path = format!("{}/tests/golden/{name}.sm_{architecture}.ptx", env!("CARGO_MANIFEST_DIR"));
    std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Runs a kernel for each architecture and in several orders of threads and blocks, and checks each result.
pub fn run(
    (file, entry): (&str, &str),
    launch: &Launch,
    setup: impl Fn(&mut Memory) -> Vec<Argument>,
    check: impl Fn(&Memory, &[Argument], &Report),
) {
    for architecture in ARCHITECTURES {
        let module = Module::parse(&golden(file, architecture))
            .unwrap_or_else(|error| panic!("{file}: {error}"));
        let orders = [
            (Schedule::Converging, None),
            (Schedule::Random(1), Some(5)),
            (Schedule::Random(2), Some(6)),
        ];
        for (schedule, block_order) in orders {
            let mut memory = Memory::new();
            let arguments = setup(&mut memory);
            let launch = launch.clone().with(|options| {
                options.schedule = schedule;
                options.block_order = block_order;
            });
            match module.run(entry, &launch, &mut memory, &arguments) {
                Ok(report) => check(&memory, &arguments, &report),
                Err(error) => panic!("{file} {entry} sm_{architecture} {schedule:?}: {error}"),
            }
        }
    }
}

/// Runs a kernel of PTX text once.
pub fn run_text(
    text: &str,
    launch: &Launch,
    memory: &mut Memory,
    arguments: &[Argument],
) -> Result<Report, Error> {
    let module = Module::parse(text)?;
    let entry = module.entries()[0].to_string();
    module.run(&entry, launch, memory, arguments)
}

/// The address in a pointer argument.
pub fn address(argument: &Argument) -> u64 {
    match argument {
        Argument::Pointer(address) => *address,
        other => panic!("{other:?} is not a pointer"),
    }
}

/// A small random generator.
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u32 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) as u32 ^ (self.0 >> 17) as u32
    }

    /// A float in [low, high).
    pub fn float(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * (self.next() >> 8) as f32 / (1 << 24) as f32
    }

    pub fn floats(&mut self, count: usize, low: f32, high: f32) -> Vec<f32> {
        (0..count).map(|_| self.float(low, high)).collect()
    }
}

/// Integers with many special values.
pub fn special_integers(count: usize, seed: u64) -> Vec<u32> {
    let special = [
        0,
        1,
        2,
        3,
        7,
        31,
        32,
        0x7fff_ffff,
        0x8000_0000,
        0x8000_0001,
        0xffff_ffff,
        0xffff_fffe,
        0xffff,
        0x10000,
    ];
    let mut random = Random(seed);
    (0..count)
        .map(|_| match random.next() % 4 {
            0 => special[random.next() as usize % special.len()],
            1 => random.next() & 0xfff,
            2 => 1 << (random.next() % 32),
            _ => random.next(),
        })
        .collect()
}

pub fn close(got: f64, want: f64, tolerance: f64, what: &str) {
    let same = got == want
        || got.is_nan() && want.is_nan()
        || (got - want).abs() <= tolerance * want.abs().max(1.0);
    assert!(same, "{what}: got {got:e}, want {want:e}");
}
