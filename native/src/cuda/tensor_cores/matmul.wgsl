// The product of f16 matrices on tensor cores. The functions `ptx_...` are instructions of NVIDIA GPUs (ptx/lower/
// tensor_cores.rs). Codegen replaces the constants and the operands, as in shaders/matmul_matrices.wgsl.
//
// Problem. Tensor cores multiply faster than memory delivers. Each number must be read from global memory rarely, and early
// enough to be there in time.
//
// Idea. A workgroup has a tile of TILE x TILE results. It walks along K in steps of DEPTH. The operands of a step are a stage
// in shared memory. While one stage is multiplied, cp.async fills the others:
//
//   step:        0           1           2
//   wait for     stage 0     stage 1     stage 2
//   copy into    stage 2     stage 0     stage 1      (the data of two steps later)
//   multiply     stage 0     stage 1     stage 2
//
// One barrier per step is enough. It makes the copies of all threads visible, and all threads have then multiplied the stage
// of the last step, which the next copies overwrite.
//
// A warp has a part of WARP_M x WARP_N results as fragments: each lane holds a few numbers of a matrix, in an order that only
// mma and ldmatrix must know. ldmatrix reads four matrices of 8 x 8 from shared memory. It transposes them on the way if the
// operand is stored the other way round, so all four combinations of transposed operands take the same time.
//
// Swizzle. ldmatrix reads eight chunks of 16 bytes at a time, one from each of eight lines. Shared memory delivers them at
// once only if they are at different positions modulo 128 bytes. In lines of 128 bytes, chunk c of all lines would be at one
// position. So chunk c of line l is stored at c xor (l mod 8). In lines of 64 bytes (DEPTH numbers), two lines are 128 bytes,
// so it is c xor (l / 2 mod 4):
//
//   line 0:  c0 c1 c2 c3     line 1:  c0 c1 c2 c3
//   line 2:  c1 c0 c3 c2     line 3:  c1 c0 c3 c2
//   line 4:  c2 c3 c0 c1     line 5:  c2 c3 c0 c1
//   line 6:  c3 c2 c1 c0     line 7:  c3 c2 c1 c0
//
// Edges. A copy beyond the edge of a matrix writes zeros, which change no sum. Rows that are not aligned to 16 bytes are
// copied 8 or 4 bytes at a time. If even that is not possible, or if an operand is computed while it is read, threads load the
// numbers and store them in the stage.
//
// Cost. A 128 x 128 tile reads 16 KiB from global memory for a step of 2^20 operations, and 3 stages take 48 KiB.

enable f16;

@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f16>;
@group(0) @binding(2) var<storage, read> in1: array<f16>;
@group(0) @binding(3) var<storage, read_write> out0: array<f32>;

const BATCH = 1u;
const M = 64u;
const N = 64u;
const K = 64u;
// K - 1, or 0 if the sum is empty.
const LAST_K = 63u;
// A tile has 2 * ACROSS * SIZE rows and columns: 32, 64 or 128.
const SIZE = 8u;
const ACROSS = 4u;
// The direction in which an operand is contiguous.
const A_ALONG_K = true;
const B_ALONG_K = false;
// The bytes of a copy: 16, 8 or 4, or 0 if threads load the operand.
const COPY_A = 16u;
const COPY_B = 16u;

const TILE = 2u * ACROSS * SIZE;
const DEPTH = 32u;
const STAGES = 3u;
const STEPS = (K + DEPTH - 1u) / DEPTH;
const TILES_M = (M + TILE - 1u) / TILE;
const TILES_N = (N + TILE - 1u) / TILE;
// The rows of tiles in a band.
const BAND = 8u;
const WARPS_M = 2u;
const WARPS_N = 2u + TILE / 128u * 2u;
const WARP_M = TILE / WARPS_M;
const WARP_N = TILE / WARPS_N;
const THREADS = 32u * WARPS_M * WARPS_N;
// The fragments of a warp's results, of 16 x 8.
const DOWN = WARP_M / 16u;
const RIGHT = WARP_N / 8u;
// Whether the lines of an operand in a stage are along the axis of the results, and not along K. Loaded numbers are always
// stored as the matrix is.
const A_LINES_ALONG_M = COPY_A > 0u && !A_ALONG_K;
const B_LINES_ALONG_N = COPY_B == 0u || !B_ALONG_K;
// The bytes of an operand in a stage, and the chunks of 16 bytes in a line.
const SIDE = TILE * DEPTH * 2u;
const LONG = TILE / 8u;
const SHORT = DEPTH / 8u;
// The floats in a line of leaving results, with eight more to avoid bank conflicts.
const PITCH = WARP_N + 8u;

// The stages, and at the end the results that leave.
var<workgroup> stage: array<vec2<u32>, STAGES * SIDE / 4u>;

fn load_a(batch: u32, row: u32, col: u32) -> f32 {
  return f32(in0[(batch * M + row) * K + col]);
}

fn load_b(batch: u32, row: u32, col: u32) -> f32 {
  return f32(in1[(batch * K + row) * N + col]);
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

fn copy_a(to: u32, batch: u32, row: u32, col: u32, bytes: u32) {
  stage[to] = vec2<u32>(u32(in0[(batch * M + row) * K + col]));
}

fn copy_b(to: u32, batch: u32, row: u32, col: u32, bytes: u32) {
  stage[to] = vec2<u32>(u32(in1[(batch * K + row) * N + col]));
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

fn ptx_mma(a: vec4<u32>, b: vec2<u32>, c: vec4<f32>) -> vec4<f32> {
  return c;
}

fn ptx_ldmatrix(at: u32) -> vec4<u32> {
  return stage[at].xyxy;
}

fn ptx_ldmatrix_trans(at: u32) -> vec4<u32> {
  return stage[at].xyxy;
}

fn ptx_cp_async_commit_group() {
}

fn ptx_cp_async_wait_group_1() {
}

// The byte of a chunk of 16 bytes, in lines of `chunks`.
fn place(line: u32, chunk: u32, chunks: u32) -> u32 {
  let swizzle = select(line & 7u, line >> 1u & 3u, chunks == 4u);
  return 16u * (line * chunks + (chunk ^ swizzle));
}

// The bytes to copy at a position, of a piece of `bytes` bytes along an axis.
fn rest(position: u32, extent: u32, bytes: u32) -> u32 {
  return select(0u, 2u * min(bytes / 2u, extent - position), position < extent);
}

fn fill_a(at: u32, batch: u32, first_row: u32, start: u32, lane: u32) {
  if (COPY_A > 0u) {
    const EACH = max(COPY_A, 4u) / 2u;
    const CHUNKS = SHORT + u32(A_LINES_ALONG_M) * (LONG - SHORT);
    for (var turn = 0u; turn < TILE * DEPTH / EACH / THREADS; turn++) {
      let i = turn * THREADS + lane;
      let line = i / (CHUNKS * 8u / EACH);
      let along = i % (CHUNKS * 8u / EACH) * EACH;
      let to = at + place(line, along / 8u, CHUNKS) + along % 8u * 2u;
      if (A_LINES_ALONG_M) {
        let bytes = select(0u, rest(first_row + along, M, COPY_A), start + line < K);
        copy_a(to, batch, first_row + along, start + line, bytes);
      } else {
        let bytes = select(0u, rest(start + along, K, COPY_A), first_row + line < M);
        copy_a(to, batch, first_row + line, start + along, bytes);
      }
    }
  } else {
    for (var turn = 0u; turn < TILE * DEPTH / 4u / THREADS; turn++) {
      let i = turn * THREADS + lane;
      let row = select(i % TILE, i / (DEPTH / 4u), A_ALONG_K);
      let col = 4u * select(i / TILE, i % (DEPTH / 4u), A_ALONG_K);
      let quad = a_vec4(batch, first_row + row, start + col);
      stage[(at + place(row, col / 8u, SHORT) + col % 8u * 2u) / 8u] =
        vec2<u32>(pack2x16float(quad.xy), pack2x16float(quad.zw));
    }
  }
}

fn fill_b(at: u32, batch: u32, first_col: u32, start: u32, lane: u32) {
  if (COPY_B > 0u) {
    const EACH = max(COPY_B, 4u) / 2u;
    const CHUNKS = SHORT + u32(B_LINES_ALONG_N) * (LONG - SHORT);
    for (var turn = 0u; turn < TILE * DEPTH / EACH / THREADS; turn++) {
      let i = turn * THREADS + lane;
      let line = i / (CHUNKS * 8u / EACH);
      let along = i % (CHUNKS * 8u / EACH) * EACH;
      let to = at + place(line, along / 8u, CHUNKS) + along % 8u * 2u;
      if (B_LINES_ALONG_N) {
        let bytes = select(0u, rest(first_col + along, N, COPY_B), start + line < K);
        copy_b(to, batch, start + line, first_col + along, bytes);
      } else {
        let bytes = select(0u, rest(start + along, K, COPY_B), first_col + line < N);
        copy_b(to, batch, start + along, first_col + line, bytes);
      }
    }
  } else {
    for (var turn = 0u; turn < TILE * DEPTH / 4u / THREADS; turn++) {
      let i = turn * THREADS + lane;
      let row = select(i / (TILE / 4u), i % DEPTH, B_ALONG_K);
      let col = 4u * select(i % (TILE / 4u), i / DEPTH, B_ALONG_K);
      let quad = b_vec4(batch, start + row, first_col + col);
      stage[(at + place(row, col / 8u, LONG) + col % 8u * 2u) / 8u] =
        vec2<u32>(pack2x16float(quad.xy), pack2x16float(quad.zw));
    }
  }
}

// The fragment of 16 rows of A, from a row and a number along K on. Both are multiples of 16.
fn fragment_a(at: u32, row: u32, deep: u32, lane: u32) -> vec4<u32> {
  if (A_LINES_ALONG_M) {
    let line = deep + lane % 8u + lane / 16u * 8u;
    return ptx_ldmatrix_trans(at + place(line, row / 8u + lane / 8u % 2u, LONG));
  }
  return ptx_ldmatrix(at + place(row + lane % 16u, deep / 8u + lane / 16u, SHORT));
}

// The fragments of 8 and 8 columns of B.
fn fragments_b(at: u32, col: u32, deep: u32, lane: u32) -> vec4<u32> {
  if (B_LINES_ALONG_N) {
    return ptx_ldmatrix_trans(at + place(deep + lane % 16u, col / 8u + lane / 16u, LONG));
  }
  let line = col + lane % 8u + lane / 16u * 8u;
  return ptx_ldmatrix(at + place(line, deep / 8u + lane / 8u % 2u, SHORT));
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
  // Workgroups that run at the same time have tiles in bands of rows, so that they share operands in the cache.
  let band = tile / (BAND * TILES_N) * BAND;
  let rows = min(TILES_M - band, BAND);
  let first_row = (band + tile % (BAND * TILES_N) % rows) * TILE;
  let first_col = tile % (BAND * TILES_N) / rows * TILE;
  let warp = lane / 32u;
  let warp_row = warp / WARPS_N * WARP_M;
  let warp_col = warp % WARPS_N * WARP_N;
  let own = lane % 32u;
  var sums: array<vec4<f32>, DOWN * RIGHT>;
  for (var step = 0u; step < STAGES - 1u; step++) {
    if (step < STEPS) {
      fill_a(step * 2u * SIDE, batch, first_row, step * DEPTH, lane);
      fill_b(step * 2u * SIDE + SIDE, batch, first_col, step * DEPTH, lane);
    }
    ptx_cp_async_commit_group();
  }
  var reads = 0u;
  var writes = (STAGES - 1u) * 2u * SIDE;
  // params[0].x is 0. It prevents that the loop is unrolled.
  let steps = STEPS + params[0].x;
  for (var step = 0u; step < steps; step++) {
    ptx_cp_async_wait_group_1();
    workgroupBarrier();
    let later = step + STAGES - 1u;
    if (later < STEPS) {
      fill_a(writes, batch, first_row, later * DEPTH, lane);
      fill_b(writes + SIDE, batch, first_col, later * DEPTH, lane);
    }
    ptx_cp_async_commit_group();
    for (var deep = 0u; deep < DEPTH; deep += 16u) {
      var a: array<vec4<u32>, DOWN>;
      for (var i = 0u; i < DOWN; i++) {
        a[i] = fragment_a(reads, warp_row + 16u * i, deep, own);
      }
      for (var j = 0u; j < RIGHT; j += 2u) {
        let b = fragments_b(reads + SIDE, warp_col + 8u * j, deep, own);
        for (var i = 0u; i < DOWN; i++) {
          sums[i * RIGHT + j] = ptx_mma(a[i], b.xy, sums[i * RIGHT + j]);
          sums[i * RIGHT + j + 1u] = ptx_mma(a[i], b.zw, sums[i * RIGHT + j + 1u]);
        }
      }
    }
    reads = select(reads + 2u * SIDE, 0u, reads == (STAGES - 1u) * 2u * SIDE);
    writes = select(writes + 2u * SIDE, 0u, writes == (STAGES - 1u) * 2u * SIDE);
  }
  // All warps have read the last stage.
  workgroupBarrier();
  // Each warp hands 16 rows at a time from fragments to neighbors of a row, in its own part of the memory.
  let strip = warp * 16u * PITCH;
  for (var i = 0u; i < DOWN; i++) {
    for (var j = 0u; j < RIGHT; j++) {
      let values = sums[i * RIGHT + j];
      let at = (strip + own / 4u * PITCH + 8u * j) / 2u + own % 4u;
      stage[at] = bitcast<vec2<u32>>(values.xy);
      stage[at + 4u * PITCH] = bitcast<vec2<u32>>(values.zw);
    }
    subgroupBarrier();
    for (var at = own; at < 4u * WARP_N; at += 32u) {
      let row = at / (WARP_N / 4u);
      let col = at % (WARP_N / 4u) * 4u;
      let first = (strip + row * PITCH + col) / 2u;
      let quad = vec4<f32>(bitcast<vec2<f32>>(stage[first]), bitcast<vec2<f32>>(stage[first + 1u]));
      finish(batch, first_row + warp_row + 16u * i + row, first_col + warp_col + col, quad);
    }
    subgroupBarrier();
  }
}
