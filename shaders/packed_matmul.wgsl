// Product with a packed matrix: acc[row, col] = sum over k of x[row, k] * w[col, k]. A unit is 32 neighbors along k. LANES
// threads share the units of some columns. Each decodes its units in registers, and multiplies them with some rows of x. Then
// the sums of the lanes are added. On software GPUs, LANES is 1.
//
// A thread computes ROWS rows and COLUMNS columns. A paragraph with EACH or a name that ends with _each is repeated for each
// row, and one with OTHER or _other for each column.
//
// In this file the matrix holds f32. The functions of w, and the region `unit`, are printed for each format.

@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read> in1: array<u32>;
@group(0) @binding(3) var<storage, read_write> out0: array<f32>;

const M = 1u;
const N = 64u;
const K = 64u;
// K - 1, or 0 if the sum is empty.
const LAST_K = 63u;
const ROWS = 1u;
const COLUMNS = 1u;
// The threads that share columns, and all threads of a workgroup.
const LANES = 8u;
const THREADS = 64u;

const EACH = 0u;
const OTHER = 0u;
// The columns of a workgroup.
const WIDTH = THREADS / LANES * COLUMNS;
const STRIPS = (M + ROWS - 1u) / ROWS;
const BLOCKS = (N + WIDTH - 1u) / WIDTH;
const UNITS = (K + 31u) / 32u;

var<workgroup> parts: array<f32, ROWS * COLUMNS * THREADS>;

fn load_x(row: u32, col: u32) -> f32 {
  return in0[row * K + col];
}

fn load_w(row: u32, word: u32) -> u32 {
  return in1[row * K + word];
}

fn inside_x(row: u32, col: u32) -> f32 {
  return select(0.0, load_x(row, min(col, LAST_K)), col < K);
}

fn x_vec4(row: u32, col: u32) -> vec4<f32> {
  return vec4<f32>(inside_x(row, col), inside_x(row, col + 1u), inside_x(row, col + 2u), inside_x(row, col + 3u));
}

fn w_vec4(row: u32, col: u32) -> vec4<f32> {
  return bitcast<vec4<f32>>(vec4<u32>(load_w(row, col), load_w(row, col + 1u), load_w(row, col + 2u), load_w(row, col + 3u)));
}

fn epilogue(row: u32, col: u32, accumulator: f32) {
  out0[row * N + col] = accumulator;
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  if (group >= STRIPS * BLOCKS) {
    return;
  }
  let row = group % STRIPS * ROWS;
  let first_col = group / STRIPS * WIDTH;
  let col = first_col + lane / LANES * COLUMNS;
  // Threads beyond the last row or column compute it again. Their results are not stored.
  let row_each = min(row + EACH, M - 1u);
  let col_other = min(col + OTHER, N - 1u);
  var sum_each_other = 0.0;
  for (var unit = lane % LANES; unit < UNITS; unit += LANES) {
    // begin unit
    for (var at = 32u * unit; at < 32u * unit + 32u; at += 4u) {
      let x_each = x_vec4(row_each, at);
      let w_other = w_vec4(col_other, at);
      sum_each_other += dot(w_other, x_each);
    }
    // end unit
  }
  // begin results
  parts[(EACH * COLUMNS + OTHER) * THREADS + lane] = sum_each_other;
  workgroupBarrier();
  for (var i = lane; i < ROWS * WIDTH; i += THREADS) {
    let own_row = i / WIDTH;
    let own_col = i % WIDTH;
    let first = (own_row * COLUMNS + own_col % COLUMNS) * THREADS + own_col / COLUMNS * LANES;
    var sum = 0.0;
    for (var part = first; part < first + LANES; part++) {
      sum += parts[part];
    }
    if (row + own_row < M && first_col + own_col < N) {
      epilogue(row + own_row, first_col + own_col, sum);
    }
  }
  // end results
}
