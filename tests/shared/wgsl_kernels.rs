//! Hand-written kernels and batches, for the tests of the GPU backends, natively and in browsers.

use std::sync::Arc;
use warpweft::backend::{Backend, BufferId};
use warpweft::codegen::{Features, Source};
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::kernel::{Dispatch, Kernel, Plan, Program, Slot, SlotStorage, Space};

/// Returns a batch of dispatches that each read the first slot and write the second. `params` has the scalars that each takes.
pub fn batch(bytes: u64, params: &[&[usize]], scalars: usize) -> Arc<Plan> {
    let slot = |place| Slot { storage: place, bytes, dtype: DType::F32 };
    let dispatches = params.iter().map(|params| Dispatch {
        // A separate kernel, because sources are given by kernel.
        kernel: Arc::new(Kernel::Loop {
            space: Space { dims: Vec::new(), outer: 0 },
            program: Program::default(),
        }),
        inputs: vec![0],
        outputs: vec![1],
        params: params.to_vec(),
        label: "by hand".to_string(),
    });
    Arc::new(Plan {
        slots: vec![slot(SlotStorage::Input(0)), slot(SlotStorage::Output(0))],
        dispatches: dispatches.collect(),
        outputs: vec![bytes],
        inputs: 1,
        scalars,
        operations: params.len(),
        ..Plan::default()
    })
}

/// Returns a kernel with `body` for each `i` below `count`, which reads `a` and writes `o`, both `u32`.
pub fn source(count: u64, params: usize, body: &str) -> Source {
    let words = params.div_ceil(4) + 1;
    let text = format!(
        "@group(0) @binding(0) var<uniform> params: array<vec4<u32>, {words}>;
@group(0) @binding(1) var<storage, read> a: array<u32>;
@group(0) @binding(2) var<storage, read_write> o: array<u32>;
@compute @workgroup_size(64)
fn main(
    @builtin(workgroup_id) group: vec3<u32>,
    @builtin(num_workgroups) groups: vec3<u32>,
    @builtin(local_invocation_index) local: u32,
) {{
    let i = (group.x + group.y * groups.x) * 64u + local;
    if (i >= {count}u) {{ return; }}
    {body}
}}"
    );
    Source {
        text,
        workgroups: count.div_ceil(64),
        grid: None,
        params: words,
        head: true,
        features: Features::default(),
        sizes: Vec::new(),
    }
}

/// Returns two buffers of `words` words. The first contains 0, 1, 2...
pub fn two(backend: &dyn Backend, words: u32) -> Result<[BufferId; 2]> {
    let bytes = u64::from(words) * 4;
    let buffers = [backend.allocate(bytes)?, backend.allocate(bytes)?];
    let counted: Vec<u32> = (0..words).collect();
    backend.write(buffers[0], 0, bytemuck::cast_slice(&counted))?;
    Ok(buffers)
}

/// Converts bytes to words.
pub fn to_words(bytes: &[u8]) -> Vec<u32> {
    bytemuck::pod_collect_to_vec(bytes)
}

/// Returns pseudorandom bytes.
pub fn pattern(len: usize) -> Vec<u8> {
    (0..len as u64).map(|i| (i.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 40) as u8).collect()
}

/// Returns a kernel that keeps the device busy for a while.
pub fn busy(rounds: u32) -> Source {
    let body = format!(
        "var x = a[i];
    for (var round = 0u; round < {rounds}u; round++) {{ x = x * 1664525u + (x >> 7u) + round; }}
    o[i] = x;"
    );
    source(64, 0, &body)
}
