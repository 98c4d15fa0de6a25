// Matrix product, batched, where threads that meet cost more than they save (a CPU that plays a GPU): as matmul.wgsl, but
// each thread reads what its 4 x 4 results need by itself, and there is neither workgroup memory nor a barrier.

@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read> in1: array<f32>;
@group(0) @binding(3) var<storage, read_write> out0: array<f32>;

const BATCH = 1u;
const M = 64u;
const N = 64u;
const K = 64u;
// K - 1, or 0 where there is nothing to add up.
const LAST_K = 63u;
// A workgroup's threads along rows and columns.
const THREADS_M = 16u;
const THREADS_N = 16u;
const TILE_M = 4u * THREADS_M;
const TILE_N = 4u * THREADS_N;
const TILES_M = (M + TILE_M - 1u) / TILE_M;
const TILES_N = (N + TILE_N - 1u) / TILE_N;
const THREADS = THREADS_M * THREADS_N;

fn load_a(batch: u32, row: u32, col: u32) -> f32 {
  return in0[(batch * M + row) * K + col];
}

fn load_b(batch: u32, row: u32, col: u32) -> f32 {
  return in1[(batch * K + row) * N + col];
}

fn inside_a(batch: u32, row: u32, col: u32) -> f32 {
  return select(0.0, load_a(batch, min(row, M - 1u), min(col, LAST_K)), row < M && col < K);
}

fn inside_b(batch: u32, row: u32, col: u32) -> f32 {
  return select(0.0, load_b(batch, min(row, LAST_K), min(col, N - 1u)), row < K && col < N);
}

fn quad_a(batch: u32, row: u32, col: u32) -> vec4<f32> {
  return vec4<f32>(inside_a(batch, row, col), inside_a(batch, row, col + 1u),
    inside_a(batch, row, col + 2u), inside_a(batch, row, col + 3u));
}

fn quad_b(batch: u32, row: u32, col: u32) -> vec4<f32> {
  return vec4<f32>(inside_b(batch, row, col), inside_b(batch, row, col + 1u),
    inside_b(batch, row, col + 2u), inside_b(batch, row, col + 3u));
}

fn epilogue(batch: u32, row: u32, col: u32, accumulator: f32) {
  out0[(batch * M + row) * N + col] = accumulator;
}

fn finish(batch: u32, row: u32, col: u32, sums: vec4<f32>) {
  if (row < M) {
    for (var i = 0u; i < 4u && col + i < N; i++) {
      epilogue(batch, row, col + i, sums[i]);
    }
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  if (group >= BATCH * TILES_M * TILES_N) {
    return;
  }
  let batch = group / (TILES_M * TILES_N);
  let tile = group % (TILES_M * TILES_N);
  let first_row = tile / TILES_N * TILE_M;
  let first_col = tile % TILES_N * TILE_N;
  let y = lane / THREADS_N;
  let x = lane % THREADS_N;
  var sums0 = vec4<f32>();
  var sums1 = vec4<f32>();
  var sums2 = vec4<f32>();
  var sums3 = vec4<f32>();
  let row = first_row + 4u * y;
  let col = first_col + 4u * x;
  for (var k = 0u; k < K; k += 4u) {
    let a0 = quad_a(batch, row, k);
    let a1 = quad_a(batch, row + 1u, k);
    let a2 = quad_a(batch, row + 2u, k);
    let a3 = quad_a(batch, row + 3u, k);
    let b0 = quad_b(batch, k, col);
    sums0 += a0.x * b0;
    sums1 += a1.x * b0;
    sums2 += a2.x * b0;
    sums3 += a3.x * b0;
    let b1 = quad_b(batch, k + 1u, col);
    sums0 += a0.y * b1;
    sums1 += a1.y * b1;
    sums2 += a2.y * b1;
    sums3 += a3.y * b1;
    let b2 = quad_b(batch, k + 2u, col);
    sums0 += a0.z * b2;
    sums1 += a1.z * b2;
    sums2 += a2.z * b2;
    sums3 += a3.z * b2;
    let b3 = quad_b(batch, k + 3u, col);
    sums0 += a0.w * b3;
    sums1 += a1.w * b3;
    sums2 += a2.w * b3;
    sums3 += a3.w * b3;
  }
  finish(batch, row, col, sums0);
  finish(batch, row + 1u, col, sums1);
  finish(batch, row + 2u, col, sums2);
  finish(batch, row + 3u, col, sums3);
}
