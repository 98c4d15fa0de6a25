//! Runs WGSL through the translator and the interpreter `ptx_interpreter`.
#![allow(dead_code)]

use ptx_interpreter::{Argument, Launch, Memory, Module};
use warpweft_native::cuda::ptx::{self, Kernel, Options};

/// Translates the only entry point for `sm_80`.
pub fn kernel(wgsl: &str) -> Kernel {
    kernel_with(wgsl, &Options { sm: 80, ..Options::default() })
}

/// Translates the only entry point.
pub fn kernel_with(wgsl: &str, options: &Options) -> Kernel {
    let kernels = ptx::translate(wgsl, options).unwrap_or_else(|error| panic!("{error}\n{wgsl}"));
    kernels.into_iter().next().unwrap()
}

/// Runs a kernel on buffers of words, and returns them.
pub fn run_kernel(kernel: &Kernel, groups: u32, buffers: &[Vec<u32>]) -> Vec<Vec<u32>> {
    let module =
        Module::parse(&kernel.ptx).unwrap_or_else(|error| panic!("{error}\n{}", kernel.ptx));
    let mut memory = Memory::new();
    let mut arguments = Vec::new();
    assert_eq!(kernel.bindings.len(), buffers.len(), "buffers");
    let addresses: Vec<u64> = buffers.iter().map(|words| memory.alloc_u32(words)).collect();
    for (address, words) in addresses.iter().zip(buffers) {
        arguments.push(Argument::Pointer(*address));
        arguments.push(Argument::U64(4 * words.len() as u64));
    }
    let [x, y, z] = kernel.workgroup_size;
    let launch = Launch::new([groups, 1, 1], [x, y, z])
        .with_shared(kernel.dynamic_shared_bytes as usize)
        .with(|options| options.allow_equal_writes = true);
    module
        .run(&kernel.symbol, &launch, &mut memory, &arguments)
        .unwrap_or_else(|error| panic!("{error}\n{}", kernel.ptx));
    let read =
        |(address, words): (&u64, &Vec<u32>)| memory.read_u32(*address, words.len()).unwrap();
    addresses.iter().zip(buffers).map(read).collect()
}

/// Runs WGSL on buffers of words, in one workgroup, and returns the last buffer.
pub fn run(wgsl: &str, buffers: &[Vec<u32>]) -> Vec<u32> {
    run_kernel(&kernel(wgsl), 1, buffers).pop().unwrap()
}

/// Runs the body of a kernel of `count` threads, which reads `x` and writes `y`, both `u32`.
pub fn run_body(body: &str, x: &[u32], y: usize) -> Vec<u32> {
    run_module("", body, x, y)
}

/// Like [`run_body`], with declarations before the kernel.
pub fn run_module(declarations: &str, body: &str, x: &[u32], y: usize) -> Vec<u32> {
    let wgsl = format!(
        "{declarations}
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(32)
fn main(@builtin(local_invocation_index) i: u32) {{
  {body}
}}"
    );
    run(&wgsl, &[x.to_vec(), vec![0; y]])
}

/// Runs an expression of `a: ty`, `b: ty` and `c: ty` for each row of arguments. Types of 32 bits only.
pub fn evaluate(ty: &str, result: &str, expression: &str, rows: &[[u32; 3]]) -> Vec<u32> {
    let wgsl = format!(
        "@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<{result}>;
@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {{
  let i = id.x;
  if (i >= {count}u) {{ return; }}
  let a = bitcast<{ty}>(x[3u * i]);
  let b = bitcast<{ty}>(x[3u * i + 1u]);
  let c = bitcast<{ty}>(x[3u * i + 2u]);
  y[i] = {expression};
}}",
        count = rows.len()
    );
    let groups = rows.len().div_ceil(64) as u32;
    run_kernel(&kernel(&wgsl), groups, &[rows.concat(), vec![0; rows.len()]]).pop().unwrap()
}

/// Pseudorandom words.
pub fn words(count: usize, seed: u64) -> Vec<u32> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 16) as u32
    };
    (0..count).map(|_| next()).collect()
}

/// The distance of a result from the exact value, in units of the last place of the `f32` next to it.
pub fn ulp(result: f32, exact: f64) -> f64 {
    if exact.is_nan() || result.is_nan() {
        return if exact.is_nan() && result.is_nan() { 0.0 } else { f64::INFINITY };
    }
    let rounded = exact as f32;
    if rounded.is_infinite() || result.is_infinite() {
        return if rounded == result { 0.0 } else { f64::INFINITY };
    }
    let exponent = ((exact.abs().to_bits() >> 52) as i32 - 1023).max(-126);
    (f64::from(result) - exact).abs() / 2f64.powi(exponent - 23)
}
