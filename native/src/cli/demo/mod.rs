//! `warpweft demo`: the work of the browser demo, run natively on the GPU and on the CPU, timed and compared.

mod attention;
mod image;
mod picture;
mod report;

use std::path::Path;
use std::time::Instant;
use warpweft_native::backend::DeviceKind;
use warpweft_native::dtype::Element;
use warpweft_native::prelude::*;
use warpweft_native::tensor::Program;

const WIDTH: usize = 480;
const HEIGHT: usize = 320;

/// The results of the work on a device.
struct Results {
    /// The result of the default chain of filters.
    image: Vec<f32>,
    image_ms: f64,
    /// The result of each filter alone.
    filters: Vec<(&'static str, Vec<f32>)>,
    /// The attention weights, `[heads, count, count]`.
    weights: Vec<f32>,
    /// The product of the weights with the values.
    composed: Vec<f32>,
    /// The product with the values, computed in one step.
    fused: Vec<f32>,
    attention_ms: f64,
    /// The number of words.
    words: usize,
}

/// Runs the work on a device and on the CPU, prints the results, and writes them to a file as JSON.
///
/// # Errors
/// The errors of the devices. `InvalidState` if a result is wrong, `InvalidArgument` if the file cannot be written.
pub fn run(preference: Preference, json: Option<&Path>) -> Result<()> {
    let pixels = picture::picture(WIDTH as i32, HEIGHT as i32);
    let mut devices = other_than_cpu(preference)?;
    devices.push(Device::with_blocking(Preference::Cpu)?);
    let mut results = Vec::with_capacity(devices.len());
    for device in &devices {
        println!("computing on {} ({})", device.info().name, device.info().backend);
        results.push(work(device, &pixels)?);
    }
    let reports = report::compare(&devices, &results);
    print!("\n{}", report::table(&reports));
    if let Some(file) = json {
        let text = report::json(picture::hash(&pixels), &reports);
        std::fs::write(file, text).map_err(|error| {
            Error::argument(format!("demo: {} must be writable, got {error}", file.display()))
        })?;
    }
    report::check(&reports)
}

/// Opens the preferred device. If that is the CPU, opens a software GPU instead, if one exists.
fn other_than_cpu(preference: Preference) -> Result<Vec<Device>> {
    let device = Device::with_blocking(preference)?;
    if device.info().kind != DeviceKind::Cpu {
        return Ok(vec![device]);
    }
    let Some(why) = device.fallback() else { return Ok(Vec::new()) };
    println!("{why}");
    match Device::with_blocking(Preference::Software) {
        Ok(software) => {
            println!("comparing with {}, a software GPU", software.info().name);
            Ok(vec![software])
        }
        Err(error) if error.kind() == ErrorKind::NoDevice => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn work(device: &Device, pixels: &[u8]) -> Result<Results> {
    let input = device.tensor_from_bytes(pixels, &[HEIGHT, WIDTH], DType::U32)?;
    let chain = image::program(device, WIDTH, HEIGHT, &image::USUAL)?;
    let image = chain.run(&[&input])?[1].read_blocking()?;
    let image_ms = median_ms::<u32>(&chain, &input)?;
    let mut filters = Vec::new();
    for filter in image::ALL {
        let alone = image::program(device, WIDTH, HEIGHT, &[filter])?;
        filters.push((filter.0, alone.run(&[&input])?[1].read_blocking()?));
    }

    let words = attention::words(attention::SENTENCE);
    let block = attention::program(device, words.len(), true)?;
    let input = device.tensor(&words, &[words.len()])?;
    let outputs = block.run(&[&input])?;
    Ok(Results {
        image,
        image_ms,
        filters,
        weights: outputs[0].read_blocking()?,
        composed: outputs[1].read_blocking()?,
        fused: outputs[2].read_blocking()?,
        attention_ms: median_ms::<f32>(&block, &input)?,
        words: words.len(),
    })
}

/// Returns the median of nine times of a run, including the read of an element, of type `T`, of the first result.
fn median_ms<T: Element>(program: &Program, input: &Tensor) -> Result<f64> {
    let mut times = Vec::with_capacity(9);
    for _ in 0..9 {
        let start = Instant::now();
        program.run(&[input])?[0].read_range_blocking::<T>(0, 1)?;
        times.push(start.elapsed().as_secs_f64() * 1e3);
    }
    times.sort_by(f64::total_cmp);
    Ok(times[4])
}
