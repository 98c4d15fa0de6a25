// The matrix product of matmul.wgsl for f16 operands, with cooperative matrices: the threads of a subgroup together hold and
// multiply square matrices. The tile of a workgroup has four parts, one per subgroup. Fewer subgroups take turns.

enable f16;
enable wgpu_cooperative_matrix;

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
// The rows and columns of a matrix.
const SIZE = 8u;
// The matrices along a side of a part, 2 or 4.
const ACROSS = 4u;
// The direction in which neighboring threads read an operand. It is the contiguous one.
const A_ALONG_K = true;
const B_ALONG_K = false;

alias Left = coop_mat8x8<f16, A>;
alias Right = coop_mat8x8<f16, B>;
alias Sums = coop_mat8x8<f32, C>;

const MANY = ACROSS > 2u;
const PART = ACROSS * SIZE;
const TILE = 2u * PART;
const DEPTH = 256u / SIZE;
const TILES_M = (M + TILE - 1u) / TILE;
const TILES_N = (N + TILE - 1u) / TILE;
const THREADS = 128u;
// The elements of a line, and eight more to avoid bank conflicts.
const PITCH_A = DEPTH + 8u;
const PITCH_B = TILE + 8u;
// The matrices of a part that are stored at a time, and the vec4s of one.
const LEAVING = 256u / (SIZE * SIZE);
const QUADS = SIZE * SIZE / 4u;

var<workgroup> tile_a: array<f16, TILE * PITCH_A>;
var<workgroup> tile_b: array<f16, DEPTH * PITCH_B>;
var<workgroup> leaving: array<f32, 1024>;

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
  @builtin(local_invocation_index) lane: u32, @builtin(subgroup_id) subgroup: u32,
  @builtin(num_subgroups) subgroups: u32) {
  let group = group_id.x + group_id.y * groups.x;
  if (group >= BATCH * TILES_M * TILES_N) {
    return;
  }
  let batch = group / (TILES_M * TILES_N);
  let tile = group % (TILES_M * TILES_N);
  let first_row = tile / TILES_N * TILE;
  let first_col = tile % TILES_N * TILE;
  for (var turn = 0u; turn < 4u; turn += subgroups) {
    // A subgroup without a part computes the last one again. Its results are not stored.
    let part = min(turn + subgroup, 3u);
    let part_a = part / 2u * PART * PITCH_A;
    let part_b = part % 2u * PART;
    // In squares of 2 x 2 matrices.
    var c0 = Sums();
    var c1 = Sums();
    var c2 = Sums();
    var c3 = Sums();
    var c4 = Sums();
    var c5 = Sums();
    var c6 = Sums();
    var c7 = Sums();
    var c8 = Sums();
    var c9 = Sums();
    var c10 = Sums();
    var c11 = Sums();
    var c12 = Sums();
    var c13 = Sums();
    var c14 = Sums();
    var c15 = Sums();
    for (var start = 0u; start < K; start += DEPTH) {
      for (var i = lane; i < TILE * DEPTH / 4u; i += THREADS) {
        let row = select(i % TILE, i / (DEPTH / 4u), A_ALONG_K);
        let col = 4u * select(i / TILE, i % (DEPTH / 4u), A_ALONG_K);
        let quad = vec4<f16>(a_vec4(batch, first_row + row, start + col));
        let at = row * PITCH_A + col;
        tile_a[at] = quad.x;
        tile_a[at + 1u] = quad.y;
        tile_a[at + 2u] = quad.z;
        tile_a[at + 3u] = quad.w;
      }
      for (var i = lane; i < TILE * DEPTH / 4u; i += THREADS) {
        let row = select(i / (TILE / 4u), i % DEPTH, B_ALONG_K);
        let col = 4u * select(i % (TILE / 4u), i / DEPTH, B_ALONG_K);
        let quad = vec4<f16>(b_vec4(batch, start + row, first_col + col));
        let at = row * PITCH_B + col;
        tile_b[at] = quad.x;
        tile_b[at + 1u] = quad.y;
        tile_b[at + 2u] = quad.z;
        tile_b[at + 3u] = quad.w;
      }
      workgroupBarrier();
      for (var deep = 0u; deep < DEPTH; deep += SIZE) {
        let from_a = part_a + deep;
        let from_b = deep * PITCH_B + part_b;
        let a0 = coopLoadT<Left>(&tile_a[from_a], PITCH_A);
        let a1 = coopLoadT<Left>(&tile_a[from_a + SIZE * PITCH_A], PITCH_A);
        let b0 = coopLoadT<Right>(&tile_b[from_b], PITCH_B);
        let b1 = coopLoadT<Right>(&tile_b[from_b + SIZE], PITCH_B);
        c0 = coopMultiplyAdd(a0, b0, c0);
        c1 = coopMultiplyAdd(a0, b1, c1);
        c2 = coopMultiplyAdd(a1, b0, c2);
        c3 = coopMultiplyAdd(a1, b1, c3);
        if (MANY) {
          let a2 = coopLoadT<Left>(&tile_a[from_a + 2u * SIZE * PITCH_A], PITCH_A);
          let a3 = coopLoadT<Left>(&tile_a[from_a + 3u * SIZE * PITCH_A], PITCH_A);
          let b2 = coopLoadT<Right>(&tile_b[from_b + 2u * SIZE], PITCH_B);
          let b3 = coopLoadT<Right>(&tile_b[from_b + 3u * SIZE], PITCH_B);
          c4 = coopMultiplyAdd(a0, b2, c4);
          c5 = coopMultiplyAdd(a0, b3, c5);
          c6 = coopMultiplyAdd(a1, b2, c6);
          c7 = coopMultiplyAdd(a1, b3, c7);
          c8 = coopMultiplyAdd(a2, b0, c8);
          c9 = coopMultiplyAdd(a2, b1, c9);
          c10 = coopMultiplyAdd(a3, b0, c10);
          c11 = coopMultiplyAdd(a3, b1, c11);
          c12 = coopMultiplyAdd(a2, b2, c12);
          c13 = coopMultiplyAdd(a2, b3, c13);
          c14 = coopMultiplyAdd(a3, b2, c14);
          c15 = coopMultiplyAdd(a3, b3, c15);
        }
      }
      workgroupBarrier();
    }
    for (var first = 0u; first < ACROSS * ACROSS; first += LEAVING) {
      if (turn + subgroup < 4u) {
        for (var i = 0u; i < LEAVING; i++) {
          // Arguments of the store must be variables.
          let to = (part * LEAVING + i) * SIZE * SIZE;
          let pitch = SIZE;
          switch first + i {
            case 0u: {
              let sums = c0;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 1u: {
              let sums = c1;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 2u: {
              let sums = c2;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 3u: {
              let sums = c3;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 4u: {
              let sums = c4;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 5u: {
              let sums = c5;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 6u: {
              let sums = c6;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 7u: {
              let sums = c7;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 8u: {
              let sums = c8;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 9u: {
              let sums = c9;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 10u: {
              let sums = c10;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 11u: {
              let sums = c11;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 12u: {
              let sums = c12;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 13u: {
              let sums = c13;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            case 14u: {
              let sums = c14;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
            default: {
              let sums = c15;
              let place = &leaving[to];
              coopStoreT(sums, place, pitch);
            }
          }
        }
      }
      workgroupBarrier();
      for (var i = lane; i < 256u; i += THREADS) {
        let held = i / (QUADS * LEAVING);
        if (held >= turn && held < turn + subgroups) {
          let number = first + i / QUADS % LEAVING;
          let square = number / 4u;
          let down = square / 2u * 2u + number % 4u / 2u;
          let right = square % 2u * 2u + number % 2u;
          let row = first_row + held / 2u * PART + down * SIZE + i % QUADS / (SIZE / 4u);
          let col = first_col + held % 2u * PART + right * SIZE + 4u * (i % (SIZE / 4u));
          finish(batch, row, col, vec4<f32>(leaving[4u * i], leaving[4u * i + 1u],
            leaving[4u * i + 2u], leaving[4u * i + 3u]));
        }
      }
      workgroupBarrier();
    }
  }
}
