@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> in1: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> in2: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> out0: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> out1: array<vec4<f32>>;
const BATCH = 6u;
const M = 36u;
const N = 44u;
const K = 20u;
const LAST_K = 19u;
const THREADS_M = 8u;
const THREADS_N = 8u;
const A_ALONG_K = true;
const B_ALONG_K = false;
const DEPTH = 16u;
const BLOCK = 256u;
const TILE_M = 4u * THREADS_M;
const TILE_N = 4u * THREADS_N;
const TILES_M = (M + TILE_M - 1u) / TILE_M;
const TILES_N = (N + TILE_N - 1u) / TILE_N;
const THREADS = THREADS_M * THREADS_N;
const PITCH_A = DEPTH / 4u + 1u;
const PITCH_B = THREADS_N + 1u;
var<workgroup> tile_a: array<vec4<f32>, TILE_M * PITCH_A>;
var<workgroup> tile_b: array<vec4<f32>, DEPTH * PITCH_B>;
fn a_vec4(any_batch: u32, any_row: u32, any_col: u32) -> vec4<f32> {
  let batch = any_batch;
  let row = min(any_row, 35u);
  let col = min(any_col, 16u);
  let c0 = i32(batch / 3u % 2u);
  let c2 = i32(row);
  let c3 = i32(col);
  let v0 = in0[u32(c0 * 720 + c2 * 20 + c3) >> 2u];
  return select(vec4<f32>(), v0, any_row < 36u && any_col < 20u);
}
fn b_vec4(any_batch: u32, any_row: u32, any_col: u32) -> vec4<f32> {
  let batch = any_batch;
  let row = min(any_row, 19u);
  let col = min(any_col, 40u);
  let c1 = i32(batch / 1u % 3u);
  let c2 = i32(row);
  let c3 = i32(col);
  let v0 = in1[u32(c1 * 880 + c2 * 44 + c3) >> 2u];
  let v1 = 2f;
  let v2 = 1f;
  let v3 = v0 * vec4<f32>(v1);
  let v4 = v3 + vec4<f32>(v2);
  return select(vec4<f32>(), v4, any_row < 20u && any_col < 44u);
}
fn finish(batch: u32, row: u32, col: u32, accumulator: vec4<f32>) {
  if (row < 36u && col < 44u) {
    let c0 = i32(batch / 3u % 2u);
    let c1 = i32(batch / 1u % 3u);
    let c2 = i32(row);
    let c3 = i32(col);
    let v0 = accumulator;
    let v1 = in2[u32(c3) >> 2u];
    let v2 = v0 + v1;
    let v3 = 0f;
    let v4 = max_nan4(v2, vec4<f32>(v3));
    out0[u32(c0 * 4752 + c1 * 1584 + c2 * 44 + c3) >> 2u] = v4;
    out1[u32(c0 * 4752 + c1 * 1584 + c2 * 44 + c3) >> 2u] = v0;
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
fn is_nan4(x: vec4<f32>) -> vec4<bool> {
  return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}
fn max_nan4(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
  return select(select(max(x, y), y, is_nan4(y)), x, is_nan4(x));
}
