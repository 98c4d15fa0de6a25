//! Tuning: measures the fastest kernels of a device where several exist for the same work. The fastest kernel of one adapter
//! can be slow on another, and no table can list all adapters.

use crate::device::{Device, F16Matmul, KernelConfig, Rows, Tile, Transpose};
use crate::dtype::DType;
use crate::error::Result;
use crate::sorted;
use crate::tensor::{AttentionOptions, Conv2dOptions, NormOptions, Padding, Program, Tensor};

/// The result of tuning.
#[derive(Clone, Debug, PartialEq)]
pub struct Tuned {
    /// The fastest kernels, which the device now uses.
    pub config: KernelConfig,
    /// The measured time of each choice.
    pub figures: Vec<Figure>,
}

/// The measured time of a choice for one kind of work.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// The kind of work.
    pub work: &'static str,
    /// The kernels of the choice.
    pub config: KernelConfig,
    /// The median of some runs in milliseconds, measured in turns with the other choices. `None` if the device rejected the
    /// choice, its result was wrong, or its first run took several times as long as the best.
    pub milliseconds: Option<f64>,
}

/// A choice of kernels that is measured.
struct Contestant {
    config: KernelConfig,
    /// The program, planned with these kernels, or `None` if it is not measured further.
    program: Option<Program>,
    /// The times of its runs, in milliseconds.
    times: Vec<f64>,
}

/// The factor on the current kernels' time that a choice must stay below.
const GAIN: f64 = 0.95;
/// A choice whose first timed run takes more than this multiple of the best has no further run.
const HOPELESS: f64 = 3.0;
/// The most timed runs of each choice, and the milliseconds for each choice after which no more are made.
const RUNS: usize = 7;
const ENOUGH: f64 = 300.0;

/// The kinds of work, in the order in which they are measured.
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

/// Measures the fastest kernels of this device, which then uses them. `clock` returns milliseconds. Other work on the device
/// disturbs the measurement. Programs that were compiled before keep their kernels. Each result is compared with the result
/// of the previous kernels, and a choice with a different result is rejected.
///
/// Tuning took 10 to 45 seconds on a software GPU, and has not been timed on a hardware GPU. The CPU has only one choice.
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
/// `Memory` and `DeviceLost`. The device then uses the previous kernels.
pub async fn tune(device: &Device, clock: impl Fn() -> f64) -> Result<Tuned> {
    let before = device.kernel_config();
    let mut tuned = Tuned { config: before, figures: Vec::new() };
    if device.info().backend == "cpu" {
        return Ok(tuned);
    }
    // Kernels for `f16` are measured only if the device has several.
    let halves = device.limits().f16 && device.limits().cooperative;
    for work in 0..WORK.len() - usize::from(!halves) {
        let decided = decide(device, &clock, work, &mut tuned).await;
        device.set_kernel_config(if decided.is_ok() { tuned.config } else { before })?;
        decided?;
    }
    device.trim();
    Ok(tuned)
}

/// Measures the choices for a kind of work in turns, so that other load on the machine affects all of them equally.
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
            // An error of the first choice, which the device already uses, is final.
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

/// Returns the choices for a kind of work. The first is what the device uses now.
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

/// Creates the operands of a kind of work. Products and convolutions have several, so that the overhead of a submission
/// matters less.
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
        // Computed here, so that the measured program does not compute the input.
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
                results
                    .push(first.reshape(&[64, 16384])?.layer_norm(&[-1], NormOptions::default())?);
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
            // The addition forces the transposed values to be written, because a transpose alone is a view.
            _ => {
                results.push(first.transpose(0, 1)?.add(1.0)?);
                results.push(first.reshape(&[64, 64, 256])?.permute(&[2, 0, 1])?.add(1.0)?);
            }
        }
        Ok(results)
    })
}

/// Compiles the work with the device's kernels, and runs it once. Returns `None` if the results differ from the first
/// choice's.
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

/// Whether two results are equal except for rounding.
fn agree(result: &[f32], expected: &[f32]) -> bool {
    let mut largest = 0.0f32;
    for value in expected {
        largest = largest.max(value.abs());
    }
    // A NaN agrees with no number.
    result.iter().zip(expected).all(|(x, y)| (x - y).abs() <= 1e-3 * largest)
}
