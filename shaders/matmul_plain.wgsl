// Batched matrix product for software GPUs, where barriers cost more than they save. A thread computes eight neighbors in each
// of ROWS rows, and reads all operands alone. A paragraph with EACH or a name that ends with _each is repeated ROWS times. The
// number of the row replaces `each`.
//
// Sums are computed in blocks of 128 products, because one long sum would collect a rounding error per product.

@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read> in1: array<f32>;
@group(0) @binding(3) var<storage, read_write> out0: array<f32>;

const BATCH = 1u;
const M = 64u;
const N = 64u;
const K = 64u;
const ROWS = 1u;
// The threads of a workgroup.
const THREADS = 8u;

const EACH = 0u;
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
  // Threads beyond the last row or column compute it again. Their results are not stored.
  let col1 = min(col + 1u, N - 1u);
  let col2 = min(col + 2u, N - 1u);
  let col3 = min(col + 3u, N - 1u);
  let col4 = min(col + 4u, N - 1u);
  let col5 = min(col + 5u, N - 1u);
  let col6 = min(col + 6u, N - 1u);
  let col7 = min(col + 7u, N - 1u);
  let row_each = min(row + EACH, M - 1u);
  var near_each = vec4<f32>();
  var far_each = vec4<f32>();
  for (var first = 0u; first < K; first += 128u) {
    let end = min(first + 128u, K);
    var some_near_each = vec4<f32>();
    var some_far_each = vec4<f32>();
    for (var k = first; k < end; k++) {
      // These loads come first. SwiftShader's code is 10% slower if they are between the other loads and the products.
      let a_each = load_a(batch, row_each, k);
      let near = vec4<f32>(load_b(batch, k, col), load_b(batch, k, col1), load_b(batch, k, col2), load_b(batch, k, col3));
      let far = vec4<f32>(load_b(batch, k, col4), load_b(batch, k, col5), load_b(batch, k, col6), load_b(batch, k, col7));
      some_near_each += a_each * near;
      some_far_each += a_each * far;
    }
    near_each += some_near_each;
    far_each += some_far_each;
  }
  finish(batch, row + EACH, col, near_each);
  finish(batch, row + EACH, col + 4u, far_each);
}
