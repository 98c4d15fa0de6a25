// Matrix product, batched, where threads that meet cost more than they save (a CPU that plays a GPU): a thread has eight
// neighbours in each of ROWS rows and reads what they need by itself. Lines with _0 stand for ROWS such paragraphs, in
// which the 0 of _0 and of `row + 0u` is the row's number.

@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read> in1: array<f32>;
@group(0) @binding(3) var<storage, read_write> out0: array<f32>;

const BATCH = 1u;
const M = 64u;
const N = 64u;
const K = 64u;
const ROWS = 1u;

// Threads of a workgroup.
const THREADS = 8u;
const STRIPS = (M + ROWS - 1u) / ROWS;
const OCTETS = (N + 7u) / 8u;

fn load_a(batch: u32, row: u32, col: u32) -> f32 {
  return in0[(batch * M + row) * K + col];
}

fn load_b(batch: u32, row: u32, col: u32) -> f32 {
  return in1[(batch * K + row) * N + col];
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
  let work = group * THREADS + lane;
  if (work >= BATCH * STRIPS * OCTETS) {
    return;
  }
  let col = work % OCTETS * 8u;
  let row = work / OCTETS % STRIPS * ROWS;
  let batch = work / (OCTETS * STRIPS);
  // Rows and columns beyond the last compute that again, and nobody takes it.
  let col1 = min(col + 1u, N - 1u);
  let col2 = min(col + 2u, N - 1u);
  let col3 = min(col + 3u, N - 1u);
  let col4 = min(col + 4u, N - 1u);
  let col5 = min(col + 5u, N - 1u);
  let col6 = min(col + 6u, N - 1u);
  let col7 = min(col + 7u, N - 1u);
  let row_0 = min(row + 0u, M - 1u);
  var near_0 = vec4<f32>();
  var far_0 = vec4<f32>();
  for (var k = 0u; k < K; k++) {
    let near = vec4<f32>(load_b(batch, k, col), load_b(batch, k, col1), load_b(batch, k, col2), load_b(batch, k, col3));
    let far = vec4<f32>(load_b(batch, k, col4), load_b(batch, k, col5), load_b(batch, k, col6), load_b(batch, k, col7));
    let a_0 = load_a(batch, row_0, k);
    near_0 += a_0 * near;
    far_0 += a_0 * far;
  }
  finish(batch, row + 0u, col, near_0);
  finish(batch, row + 0u, col + 4u, far_0);
}
