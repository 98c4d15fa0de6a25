//! Filters an image: reads bytes, computes a blur and edges with convolutions, and writes bytes.
//! `cargo run -p warpweft-native --example image_filters -- out.pgm`

use warpweft_native::prelude::*;

const SIZE: usize = 128;

/// Returns a white disc on black, one byte per pixel.
fn picture() -> Vec<u8> {
    let inside = |at: usize| {
        let from = |x: usize| x as f32 + 0.5 - SIZE as f32 / 2.0;
        from(at % SIZE).hypot(from(at / SIZE)) < 40.0
    };
    (0..SIZE * SIZE).map(|at| if inside(at) { 255 } else { 0 }).collect()
}

/// Converts `[height, width]` bytes to floats from 0 to 1 of the shape `[1, 1, height, width]`, as convolutions take them.
fn to_tensor(device: &Device, bytes: &[u8]) -> Result<Tensor> {
    let words: Vec<u32> = bytes.iter().map(|&byte| byte.into()).collect();
    device.tensor(&words, &[1, 1, SIZE, SIZE])?.cast(DType::F32)?.div(255)
}

fn filter(image: &Tensor, kernel: &[f32]) -> Result<Tensor> {
    let side = kernel.len().isqrt();
    let kernel = image.device().tensor(kernel, &[1, 1, side, side])?;
    image.conv2d(&kernel, None, Conv2dOptions { padding: Padding::Same, ..Default::default() })
}

fn main() -> Result<()> {
    let device = Device::new_blocking()?;
    // Compiled once. All images of a camera would run through the same few kernels.
    let program = device.compile(&[(&[1, 1, SIZE, SIZE], DType::F32)], |inputs| {
        let blurred = filter(&inputs[0], &[1.0 / 25.0; 25])?;
        let across = filter(&blurred, &[-1.0, 0.0, 1.0, -2.0, 0.0, 2.0, -1.0, 0.0, 1.0])?;
        let down = filter(&blurred, &[-1.0, -2.0, -1.0, 0.0, 0.0, 0.0, 1.0, 2.0, 1.0])?;
        let edges = across.hypot(&down)?.clamp(0.0, 1.0)?;
        Ok(vec![blurred, edges.mul(255)?.round().cast(DType::U32)?])
    })?;
    let picture = picture();
    let results = program.run(&[&to_tensor(&device, &picture)?])?;

    let mean = results[0].mean(&[])?.item_blocking::<f32>()?;
    println!("mean of the picture: {:.4}", mean_of(&picture));
    println!("mean of the blurred one: {mean:.4}");
    let edges: Vec<u8> = results[1].read_blocking::<u32>()?.into_iter().map(|x| x as u8).collect();
    println!("pixels on an edge: {}", edges.iter().filter(|&&byte| byte > 127).count());
    if let Some(file) = std::env::args().nth(1) {
        let mut pgm = format!("P5 {SIZE} {SIZE} 255\n").into_bytes();
        pgm.extend(&edges);
        std::fs::write(&file, pgm).expect("the file can be written");
        println!("the edges are in {file}");
    }
    Ok(())
}

fn mean_of(bytes: &[u8]) -> f64 {
    bytes.iter().map(|&byte| f64::from(byte) / 255.0).sum::<f64>() / bytes.len() as f64
}
