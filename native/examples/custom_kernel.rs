//! A custom elementwise function and a custom compute shader in WGSL: blurs and limits a signal, and learns how much.
//! `cargo run -p warpweft-native --example custom_kernel`

use warpweft_native::prelude::*;

/// Linear near 0, and between -limit and limit.
const SOFT_CLIP: &str = "
fn soft_clip(x: f32, limit: f32) -> f32 {
    return x / (1.0 + abs(x) / limit);
}";

/// The derivatives of the soft clip.
const BY_X: &str = "
fn by_x(x: f32, limit: f32) -> f32 {
    let d = 1.0 + abs(x) / limit;
    return 1.0 / (d * d);
}";

const BY_LIMIT: &str = "
fn by_limit(x: f32, limit: f32, clipped: f32) -> f32 {
    return clipped * clipped / (limit * limit) * sign(x);
}";

/// The mean of three neighbors on a ring.
const BLUR: &str = "
@group(0) @binding(0) var<uniform> size: u32;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read_write> blurred: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    if (id.x >= size) { return; }
    let before = x[(id.x + size - 1u) % size];
    let after = x[(id.x + 1u) % size];
    blurred[id.x] = (before + x[id.x] + after) / 3.0;
}";

/// Computes the same blur with tensors. This is the CPU fallback and, because the blur is symmetric, also the gradient.
fn blur(x: &Tensor) -> Result<Tensor> {
    x.roll(-1, 0)?.add(x)?.add(x.roll(1, 0)?)?.div(3.0)
}

/// Returns the loss before and after learning.
fn run(device: &Device) -> Result<[f32; 2]> {
    let clip = device.element_function_blocking(SOFT_CLIP)?.with_gradients(&[
        &device.element_function_blocking(BY_X)?,
        &device.element_function_blocking(BY_LIMIT)?,
    ])?;
    let shader = device
        .shader_blocking(BLUR)?
        .with_gradient(|_, _, of| Ok(vec![blur(&of[0])?]))
        .with_fallback(|x, _| Ok(vec![blur(&x[0])?]));
    let n = 256;
    let signal = device.normal(&[n], 0.0, 1.0, 7)?;
    let made = |gain: &Tensor, limit: &Tensor| -> Result<Tensor> {
        let input = signal.mul(gain)?;
        let outputs = shader.run(
            &[("x", &input)],
            &[("blurred", &[n])],
            [n.div_ceil(64) as u32, 1, 1],
            &[("size", n as f64)],
        )?;
        // One kernel with the operations around it.
        clip.call(&[&outputs[0], limit])
    };
    let wanted = made(&device.full(&[], 2.5, DType::F32)?, &device.full(&[], 1.5, DType::F32)?)?;
    let mut gain = device.full(&[], 1.0, DType::F32)?;
    let mut limit = device.full(&[], 1.0, DType::F32)?;
    let mut losses = Vec::new();
    for _ in 0..200 {
        let loss = made(&gain, &limit)?.sub(&wanted)?.square().mean(())?;
        let gradients = loss.grad(&[&gain, &limit])?;
        losses.push(loss.item_blocking::<f32>()?);
        gain = gain.sub(gradients[0].mul(2.0)?)?;
        limit = limit.sub(gradients[1].mul(2.0)?)?;
    }
    Ok([losses[0], losses[losses.len() - 1]])
}

fn main() -> Result<()> {
    let device = Device::new_blocking()?;
    let [first, last] = run(&device)?;
    println!("on {}: the loss was {first:.4}, and is {last:.6}", device.info().backend);
    Ok(())
}
