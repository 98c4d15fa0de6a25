// Batched matrix product: acc[row, col] = sum over k of a[row, k] * b[k, col]. A thread computes 4 x 4 results. The operands
// are staged in workgroup memory as vec4s, a along k and b along columns. Convolutions also use this shader.
//
// Sums are computed in blocks of 256 products, because one long sum would collect a rounding error per product.

@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read> in1: array<f32>;
@group(0) @binding(3) var<storage, read_write> out0: array<f32>;

const BATCH = 1u;
const M = 64u;
const N = 64u;
const K = 64u;
// K - 1, or 0 if the sum is empty.
const LAST_K = 63u;
// The threads of a workgroup along rows and columns.
const THREADS_M = 16u;
const THREADS_N = 16u;
// The direction in which neighboring threads read an operand. It is the contiguous one.
const A_ALONG_K = true;
const B_ALONG_K = false;

const DEPTH = 16u;
const BLOCK = 256u;
const TILE_M = 4u * THREADS_M;
const TILE_N = 4u * THREADS_N;
const TILES_M = (M + TILE_M - 1u) / TILE_M;
const TILES_N = (N + TILE_N - 1u) / TILE_N;
const THREADS = THREADS_M * THREADS_N;
// The vec4s of a line, and one more to avoid bank conflicts.
const PITCH_A = DEPTH / 4u + 1u;
const PITCH_B = THREADS_N + 1u;

var<workgroup> tile_a: array<vec4<f32>, TILE_M * PITCH_A>;
var<workgroup> tile_b: array<vec4<f32>, DEPTH * PITCH_B>;

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

fn a_vec4(batch: u32, row: u32, col: u32) -> vec4<f32> {
  return vec4<f32>(inside_a(batch, row, col), inside_a(batch, row, col + 1u),
    inside_a(batch, row, col + 2u), inside_a(batch, row, col + 3u));
}

fn b_vec4(batch: u32, row: u32, col: u32) -> vec4<f32> {
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
  for (var first = 0u; first < K; first += BLOCK) {
    let end = min(first + BLOCK, K);
    var some0 = vec4<f32>();
    var some1 = vec4<f32>();
    var some2 = vec4<f32>();
    var some3 = vec4<f32>();
    for (var start = first; start < end; start += DEPTH) {
      for (var i = lane; i < TILE_M * DEPTH / 4u; i += THREADS) {
        let row = select(i % TILE_M, i / (DEPTH / 4u), A_ALONG_K);
        let quad = select(i / TILE_M, i % (DEPTH / 4u), A_ALONG_K);
        tile_a[row * PITCH_A + quad] = a_vec4(batch, first_row + row, start + 4u * quad);
      }
      for (var i = lane; i < DEPTH * THREADS_N; i += THREADS) {
        let row = select(i / THREADS_N, i % DEPTH, B_ALONG_K);
        let quad = select(i % THREADS_N, i / DEPTH, B_ALONG_K);
        tile_b[row * PITCH_B + quad] = b_vec4(batch, start + row, first_col + 4u * quad);
      }
      workgroupBarrier();
      for (var quad = 0u; quad < DEPTH / 4u; quad++) {
        let a0 = tile_a[4u * y * PITCH_A + quad];
        let a1 = tile_a[(4u * y + 1u) * PITCH_A + quad];
        let a2 = tile_a[(4u * y + 2u) * PITCH_A + quad];
        let a3 = tile_a[(4u * y + 3u) * PITCH_A + quad];
        let b0 = tile_b[4u * quad * PITCH_B + x];
        some0 += a0.x * b0;
        some1 += a1.x * b0;
        some2 += a2.x * b0;
        some3 += a3.x * b0;
        let b1 = tile_b[(4u * quad + 1u) * PITCH_B + x];
        some0 += a0.y * b1;
        some1 += a1.y * b1;
        some2 += a2.y * b1;
        some3 += a3.y * b1;
        let b2 = tile_b[(4u * quad + 2u) * PITCH_B + x];
        some0 += a0.z * b2;
        some1 += a1.z * b2;
        some2 += a2.z * b2;
        some3 += a3.z * b2;
        let b3 = tile_b[(4u * quad + 3u) * PITCH_B + x];
        some0 += a0.w * b3;
        some1 += a1.w * b3;
        some2 += a2.w * b3;
        some3 += a3.w * b3;
      }
      workgroupBarrier();
    }
    sums0 += some0;
    sums1 += some1;
    sums2 += some2;
    sums3 += some3;
  }
  let row = first_row + 4u * y;
  let col = first_col + 4u * x;
  finish(batch, row, col, sums0);
  finish(batch, row + 1u, col, sums1);
  finish(batch, row + 2u, col, sums2);
  finish(batch, row + 3u, col, sums3);
}
