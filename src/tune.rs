//! Measures which kernels are fastest on a device, where there are several for the same work: what wins on one adapter
//! loses on another, and no table written beforehand knows all of them.

use crate::device::{Device, F16Matmul, KernelConfig, Rows, Tile, Transpose};
use crate::dtype::DType;
use crate::error::Result;
use crate::sorted;
use crate::tensor::{AttentionOptions, Conv2dOptions, Padding, Program, Tensor};

/// What was measured.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// The fastest kernels, which the device runs from now on.
    pub config: KernelConfig,
    /// What each choice took.
    pub figures: Vec<Figure>,
}

/// What a choice took for one kind of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The kind of work.
    pub work: &'static str,
    /// The kernels it was tried with.
    pub config: KernelConfig,
    /// How long it took: the median of some runs, in turns with the others. `None` where its first run took several times
    /// as long as the best, so that no more were made; where the device refused it; and where its result was wrong.
    pub milliseconds: Option<f64>,
}

/// Kernels that are tried.
struct Contestant {
    config: KernelConfig,
    /// The work, planned for them; `None` where that is not worth measuring.
    program: Option<Program>,
    /// What its runs took, in milliseconds.
    times: Vec<f64>,
}

/// A choice must be faster by this much than what the device runs already.
const GAIN: f64 = 0.95;
/// What has taken so many times as long as the best in its first timed run gets no other.
const HOPELESS: f64 = 3.0;
/// Timed runs of each choice, and the milliseconds a choice after which there are no more.
const RUNS: usize = 7;
const ENOUGH: f64 = 300.0;

/// The kinds of work, in the order in which they are decided.
const WORK: [&str; 13] = [
    "rows",
    "few products",
    "products",
    "many products",
    "long products",
    "small convolutions",
    "convolutions",
    "large convolutions",
    "long convolutions",
    "decoding",
    "attention",
    "transpositions",
    "half products",
];

/// Measures which kernels are fastest on this device, and has it run them from now on; `clock` gives milliseconds. Other
/// work that the device does meanwhile disturbs the measurement, and programs that were compiled before keep their kernels.
/// Each result is compared with that of the kernels the device ran before; a choice that differs is not taken.
///
/// It took 10 to 45 seconds on a software GPU; nobody has timed it on a real one. The CPU has nothing to choose
/// from.
///
/// ```
/// # pollster::block_on(async {
/// # use warpweft::{device::{Device, Preference}, tune::tune};
/// let device = Device::with(Preference::Cpu).await?;
/// let start = std::time::Instant::now();
/// let tuned = tune(&device, || start.elapsed().as_secs_f64() * 1e3).await?;
/// assert_eq!(tuned.config, device.kernel_config());
/// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
/// ```
///
/// # Errors
/// `Memory` and `DeviceLost`; the device runs the kernels then that it ran before.
pub async fn tune(device: &Device, clock: impl Fn() -> f64) -> Result<Tuned> {
    let before = device.kernel_config();
    let mut tuned = Tuned { config: before, figures: Vec::new() };
    if device.info().backend == "cpu" {
        return Ok(tuned);
    }
    // Where there is something to choose for halves.
    let halves = device.limits().f16 && device.limits().cooperative;
    for work in 0..WORK.len() - usize::from(!halves) {
        let decided = decide(device, &clock, work, &mut tuned).await;
        device.set_kernel_config(if decided.is_ok() { tuned.config } else { before })?;
        decided?;
    }
    device.trim();
    Ok(tuned)
}

/// Measures the answers to a question in turns, so that whatever else the machine does meets them alike.
async fn decide(
    device: &Device,
    clock: &impl Fn() -> f64,
    work: usize,
    tuned: &mut Tuned,
) -> Result<()> {
    let inputs = inputs(device, work)?;
    let mut expected = Vec::new();
    let mut contestants = Vec::new();
    for config in answers(device, work, tuned.config) {
        device.set_kernel_config(config)?;
        let program = prepare(device, work, &inputs, &mut expected).await;
        let program = match program {
            Ok(program) => program,
            // What the device ran before must run.
            Err(error) if contestants.is_empty() => return Err(error),
            Err(_) => None,
        };
        contestants.push(Contestant { config, program, times: Vec::with_capacity(RUNS) });
    }
    let begin = clock();
    for _ in 0..RUNS {
        let mut best = f64::INFINITY;
        for contestant in &mut contestants {
            let Some(program) = &contestant.program else { continue };
            let start = clock();
            let results = program.run(&[])?;
            results[0].read_range::<f32>(0, 1).await?;
            let time = clock() - start;
            contestant.times.push(time);
            best = best.min(time);
        }
        for contestant in &mut contestants {
            if contestant.times.len() == 1 && contestant.times[0] > HOPELESS * best {
                contestant.program = None;
            }
        }
        if clock() - begin > ENOUGH * contestants.len() as f64 {
            break;
        }
    }
    let (mut usual, mut best) = (f64::INFINITY, f64::INFINITY);
    for (at, contestant) in contestants.into_iter().enumerate() {
        let Contestant { config, program, mut times } = contestant;
        sorted::by(&mut times, f64::total_cmp);
        let milliseconds = program.map(|_| times[times.len() / 2]);
        tuned.figures.push(Figure { work: WORK[work], config, milliseconds });
        let milliseconds = milliseconds.unwrap_or(f64::INFINITY);
        if at == 0 {
            usual = milliseconds;
        }
        if milliseconds < best && (at == 0 || milliseconds < usual * GAIN) {
            (best, tuned.config) = (milliseconds, config);
        }
    }
    Ok(())
}

/// The kernels that are tried for a kind of work, what the device runs now being the first.
fn answers(device: &Device, work: usize, now: KernelConfig) -> Vec<KernelConfig> {
    let mut answers = vec![now];
    let mut may = |config: KernelConfig| {
        if !answers.contains(&config) {
            answers.push(config);
        }
    };
    const TILES: [Tile; 4] = [Tile::Thread, Tile::Small, Tile::Medium, Tile::Large];
    match work {
        0 => {
            for rows in [Rows::Thread, Rows::SharedMemory, Rows::Subgroups] {
                if rows != Rows::Subgroups || device.limits().subgroups {
                    may(KernelConfig { rows, ..now });
                }
            }
        }
        1..=3 => {
            for tile in TILES {
                let mut matmul_tiles = now.matmul_tiles;
                matmul_tiles[work - 1] = tile;
                may(KernelConfig { matmul_tiles, ..now });
            }
        }
        4 => may(KernelConfig { split_k_matmul: !now.split_k_matmul, ..now }),
        8 => may(KernelConfig { split_k_conv: !now.split_k_conv, ..now }),
        5..=7 => {
            for tile in TILES {
                let mut conv_tiles = now.conv_tiles;
                conv_tiles[work - 5] = tile;
                may(KernelConfig { conv_tiles, ..now });
            }
        }
        9 => may(KernelConfig { fuse_short_attention: !now.fuse_short_attention, ..now }),
        10 => may(KernelConfig { fuse_long_attention: !now.fuse_long_attention, ..now }),
        11 => {
            for transpose in [Transpose::Direct, Transpose::Tiled] {
                may(KernelConfig { transpose, ..now });
            }
        }
        _ => {
            may(KernelConfig { f16_matmul: F16Matmul::Tiles, ..now });
            may(KernelConfig { f16_matmul: F16Matmul::CooperativeMatrices, ..now });
        }
    }
    answers
}

/// The work's operands. Products and convolutions come several at a time, so that a submission weighs less.
fn inputs(device: &Device, work: usize) -> Result<Vec<Tensor>> {
    let shapes: &[&[usize]] = match work {
        0 => &[&[1024, 1024]],
        1 => &[&[256, 256], &[256, 256], &[256, 256], &[256, 256]],
        2 => &[&[256, 1024], &[1024, 256], &[1024, 256]],
        3 => &[&[128, 1024], &[2048, 128], &[2048, 128]],
        4 => &[&[4096, 128], &[128, 4096]],
        5 => &[&[64, 64, 3, 3], &[1, 64, 28, 28], &[1, 64, 28, 28]],
        6 => &[&[64, 32, 3, 3], &[1, 32, 80, 80]],
        7 => &[&[128, 16, 3, 3], &[1, 16, 128, 128]],
        8 => &[&[32, 64, 14, 14], &[16, 64, 14, 14]],
        9 => &[&[1, 8, 1, 64], &[1, 8, 2048, 64], &[1, 8, 2048, 64]],
        10 => &[&[1, 4, 256, 64], &[1, 4, 256, 64], &[1, 4, 256, 64]],
        11 => &[&[1024, 1024]],
        _ => &[&[512, 512], &[512, 512], &[512, 512]],
    };
    let mut inputs = Vec::with_capacity(shapes.len());
    for (seed, shape) in shapes.iter().enumerate() {
        let mut input = device.uniform(*shape, -0.5, 0.5, seed as u32)?;
        if work == 12 {
            input = input.cast(DType::F16)?;
        }
        // Computed here, not by what uses it.
        input.run()?;
        inputs.push(input);
    }
    Ok(inputs)
}

fn program(device: &Device, work: usize, inputs: &[Tensor]) -> Result<Program> {
    device.compile(&[], |_| {
        let mut results = Vec::with_capacity(inputs.len());
        let first = &inputs[0];
        match work {
            0 => {
                let rows = first.softmax(-1)?;
                results.push(rows.sum(&[0])?);
                results.push(first.reshape(&[64, 16384])?.layer_norm(&[-1], None, None, 1e-5)?);
            }
            1..=4 | 12 => {
                for input in &inputs[1..] {
                    results.push(input.matmul(first)?);
                }
            }
            5..=8 => {
                let padding = Padding::Explicit([(1, 1); 2]);
                for input in &inputs[1..] {
                    let options = Conv2dOptions { padding, ..Default::default() };
                    results.push(input.conv2d(first, None, options)?);
                }
            }
            9 | 10 => results.push(first.attention(
                &inputs[1],
                &inputs[2],
                AttentionOptions::default(),
            )?),
            // Written, not only seen: what is added needs it.
            _ => {
                results.push(first.transpose(0, 1)?.add(1.0)?);
                results.push(first.reshape(&[64, 64, 256])?.permute(&[2, 0, 1])?.add(1.0)?);
            }
        }
        Ok(results)
    })
}

/// The work, planned for the device's kernels, and run once; `None` where its results are not those of the first.
async fn prepare(
    device: &Device,
    work: usize,
    inputs: &[Tensor],
    expected: &mut Vec<Vec<f32>>,
) -> Result<Option<Program>> {
    let program = program(device, work, inputs)?;
    let mut right = true;
    for (at, result) in program.run(&[])?.iter().enumerate() {
        let values = result.read::<f32>().await?;
        match expected.get(at) {
            Some(expected) => right &= agree(&values, expected),
            None => expected.push(values),
        }
    }
    Ok(right.then_some(program))
}

/// Whether two results are the same but for rounding.
fn agree(result: &[f32], expected: &[f32]) -> bool {
    let mut largest = 0.0f32;
    for value in expected {
        largest = largest.max(value.abs());
    }
    // A NaN is not near to anything.
    result.iter().zip(expected).all(|(x, y)| (x - y).abs() <= 1e-3 * largest)
}
