// The matrix product of matmul.wgsl for large products, with 8 x 8 results per thread. The next tile is read while the current
// one is multiplied.

@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read> in1: array<f32>;
@group(0) @binding(3) var<storage, read_write> out0: array<f32>;

const BATCH = 1u;
const M = 256u;
const N = 256u;
const K = 64u;
// K - 1, or 0 if the sum is empty.
const LAST_K = 63u;
// The direction in which neighboring threads read an operand. It is the contiguous one.
const A_ALONG_K = true;
const B_ALONG_K = false;

const TILES_M = (M + 127u) / 128u;
const TILES_N = (N + 127u) / 128u;
// The vec4s of a line, and one more to avoid bank conflicts.
const PITCH_A = 3u;
const PITCH_B = 33u;

var<workgroup> tile_a: array<vec4<f32>, 128u * PITCH_A>;
var<workgroup> tile_b: array<vec4<f32>, 8u * PITCH_B>;

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

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  if (group >= BATCH * TILES_M * TILES_N) {
    return;
  }
  let batch = group / (TILES_M * TILES_N);
  let tile = group % (TILES_M * TILES_N);
  let first_row = tile / TILES_N * 128u;
  let first_col = tile % TILES_N * 128u;
  let y = lane / 16u;
  let x = lane % 16u;
  let a_row = select(lane % 128u, lane / 2u, A_ALONG_K);
  let a_quad = select(lane / 128u, lane % 2u, A_ALONG_K);
  let b_row = select(lane / 32u, lane % 8u, B_ALONG_K);
  let b_quad = select(lane % 32u, lane / 8u, B_ALONG_K);
  var low0 = vec4<f32>();
  var high0 = vec4<f32>();
  var low1 = vec4<f32>();
  var high1 = vec4<f32>();
  var low2 = vec4<f32>();
  var high2 = vec4<f32>();
  var low3 = vec4<f32>();
  var high3 = vec4<f32>();
  var low4 = vec4<f32>();
  var high4 = vec4<f32>();
  var low5 = vec4<f32>();
  var high5 = vec4<f32>();
  var low6 = vec4<f32>();
  var high6 = vec4<f32>();
  var low7 = vec4<f32>();
  var high7 = vec4<f32>();
  // begin sums
  // end sums
  var next_a = a_vec4(batch, first_row + a_row, 4u * a_quad);
  var next_b = b_vec4(batch, b_row, first_col + 4u * b_quad);
  for (var start = 0u; start < K; start += 8u) {
    tile_a[a_row * PITCH_A + a_quad] = next_a;
    tile_b[b_row * PITCH_B + b_quad] = next_b;
    workgroupBarrier();
    next_a = a_vec4(batch, first_row + a_row, start + 8u + 4u * a_quad);
    next_b = b_vec4(batch, start + 8u + b_row, first_col + 4u * b_quad);
    for (var quad = 0u; quad < 2u; quad++) {
      let a0 = tile_a[(y + 0u) * PITCH_A + quad];
      let a1 = tile_a[(y + 16u) * PITCH_A + quad];
      let a2 = tile_a[(y + 32u) * PITCH_A + quad];
      let a3 = tile_a[(y + 48u) * PITCH_A + quad];
      let a4 = tile_a[(y + 64u) * PITCH_A + quad];
      let a5 = tile_a[(y + 80u) * PITCH_A + quad];
      let a6 = tile_a[(y + 96u) * PITCH_A + quad];
      let a7 = tile_a[(y + 112u) * PITCH_A + quad];
      let l0 = tile_b[4u * quad * PITCH_B + x];
      let h0 = tile_b[4u * quad * PITCH_B + x + 16u];
      low0 += a0.x * l0;
      high0 += a0.x * h0;
      low1 += a1.x * l0;
      high1 += a1.x * h0;
      low2 += a2.x * l0;
      high2 += a2.x * h0;
      low3 += a3.x * l0;
      high3 += a3.x * h0;
      low4 += a4.x * l0;
      high4 += a4.x * h0;
      low5 += a5.x * l0;
      high5 += a5.x * h0;
      low6 += a6.x * l0;
      high6 += a6.x * h0;
      low7 += a7.x * l0;
      high7 += a7.x * h0;
      let l1 = tile_b[(4u * quad + 1u) * PITCH_B + x];
      let h1 = tile_b[(4u * quad + 1u) * PITCH_B + x + 16u];
      low0 += a0.y * l1;
      high0 += a0.y * h1;
      low1 += a1.y * l1;
      high1 += a1.y * h1;
      low2 += a2.y * l1;
      high2 += a2.y * h1;
      low3 += a3.y * l1;
      high3 += a3.y * h1;
      low4 += a4.y * l1;
      high4 += a4.y * h1;
      low5 += a5.y * l1;
      high5 += a5.y * h1;
      low6 += a6.y * l1;
      high6 += a6.y * h1;
      low7 += a7.y * l1;
      high7 += a7.y * h1;
      let l2 = tile_b[(4u * quad + 2u) * PITCH_B + x];
      let h2 = tile_b[(4u * quad + 2u) * PITCH_B + x + 16u];
      low0 += a0.z * l2;
      high0 += a0.z * h2;
      low1 += a1.z * l2;
      high1 += a1.z * h2;
      low2 += a2.z * l2;
      high2 += a2.z * h2;
      low3 += a3.z * l2;
      high3 += a3.z * h2;
      low4 += a4.z * l2;
      high4 += a4.z * h2;
      low5 += a5.z * l2;
      high5 += a5.z * h2;
      low6 += a6.z * l2;
      high6 += a6.z * h2;
      low7 += a7.z * l2;
      high7 += a7.z * h2;
      let l3 = tile_b[(4u * quad + 3u) * PITCH_B + x];
      let h3 = tile_b[(4u * quad + 3u) * PITCH_B + x + 16u];
      low0 += a0.w * l3;
      high0 += a0.w * h3;
      low1 += a1.w * l3;
      high1 += a1.w * h3;
      low2 += a2.w * l3;
      high2 += a2.w * h3;
      low3 += a3.w * l3;
      high3 += a3.w * h3;
      low4 += a4.w * l3;
      high4 += a4.w * h3;
      low5 += a5.w * l3;
      high5 += a5.w * h3;
      low6 += a6.w * l3;
      high6 += a6.w * h3;
      low7 += a7.w * l3;
      high7 += a7.w * h3;
    }
    workgroupBarrier();
    // begin block
    // end block
  }
  // begin total
  // end total
  let row = first_row + y;
  let col = first_col + 4u * x;
  finish(batch, row, col, low0);
  finish(batch, row, col + 64u, high0);
  finish(batch, row + 16u, col, low1);
  finish(batch, row + 16u, col + 64u, high1);
  finish(batch, row + 32u, col, low2);
  finish(batch, row + 32u, col + 64u, high2);
  finish(batch, row + 48u, col, low3);
  finish(batch, row + 48u, col + 64u, high3);
  finish(batch, row + 64u, col, low4);
  finish(batch, row + 64u, col + 64u, high4);
  finish(batch, row + 80u, col, low5);
  finish(batch, row + 80u, col + 64u, high5);
  finish(batch, row + 96u, col, low6);
  finish(batch, row + 96u, col + 64u, high6);
  finish(batch, row + 112u, col, low7);
  finish(batch, row + 112u, col + 64u, high7);
}
