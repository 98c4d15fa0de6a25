// Convolution for software GPUs, where barriers cost more than they save. A thread computes eight neighbors of a result row in
// ROWS channels, and reads the whole window alone. On other GPUs, a convolution is a matrix product (matmul.wgsl).
// matmul_plain.wgsl explains EACH and _each.

@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read> in1: array<f32>;
@group(0) @binding(3) var<storage, read_write> out0: array<f32>;

const BATCH = 1u;
const GROUPS = 2u;
// The channels of a group.
const CHANNELS = 3u;
const OUT = 5u;
const HEIGHT = 16u;
const WIDTH = 16u;
const OUT_HEIGHT = 14u;
const OUT_WIDTH = 14u;
const KERNEL_Y = 3u;
const KERNEL_X = 3u;
const STRIDE_Y = 1u;
const STRIDE_X = 1u;
const DILATION_Y = 1u;
const DILATION_X = 1u;
// The padding before the input.
const BEFORE_Y = 0u;
const BEFORE_X = 0u;
const ROWS = 1u;
// The threads of a workgroup.
const THREADS = 8u;

const EACH = 0u;
const STRIPS = (OUT_WIDTH + 7u) / 8u;
const BANDS = (OUT + ROWS - 1u) / ROWS;
const TAPS = CHANNELS * KERNEL_Y * KERNEL_X;

fn load_x(image: u32, channel: u32, y: u32, x: u32) -> f32 {
  return in0[((image * GROUPS * CHANNELS + channel) * HEIGHT + y) * WIDTH + x];
}

fn load_w(out: u32, channel: u32, ky: u32, kx: u32) -> f32 {
  return in1[((out * CHANNELS + channel) * KERNEL_Y + ky) * KERNEL_X + kx];
}

fn epilogue(image: u32, out: u32, y: u32, x: u32, accumulator: f32) {
  out0[((image * GROUPS * OUT + out) * OUT_HEIGHT + y) * OUT_WIDTH + x] = accumulator;
}

// Places above or left of the input are unsigned and wrap around, so they are also beyond its end.
fn seen(image: u32, channel: u32, y: u32, x: u32) -> f32 {
  let value = load_x(image, channel, min(y, HEIGHT - 1u), min(x, WIDTH - 1u));
  return select(0.0, value, y < HEIGHT && x < WIDTH);
}

fn x_vec4(image: u32, channel: u32, y: u32, x: u32) -> vec4<f32> {
  return vec4<f32>(seen(image, channel, y, x), seen(image, channel, y, x + STRIDE_X),
    seen(image, channel, y, x + 2u * STRIDE_X), seen(image, channel, y, x + 3u * STRIDE_X));
}

fn finish(image: u32, part: u32, row: u32, y: u32, x: u32, sums: vec4<f32>) {
  if (row < OUT) {
    for (var i = 0u; i < 4u && x + i < OUT_WIDTH; i++) {
      epilogue(image, part * OUT + row, y, x + i, sums[i]);
    }
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  let work = group * THREADS + lane;
  if (work >= BATCH * GROUPS * BANDS * OUT_HEIGHT * STRIPS) {
    return;
  }
  let x = work % STRIPS * 8u;
  let y = work / STRIPS % OUT_HEIGHT;
  let row = work / (STRIPS * OUT_HEIGHT) % BANDS * ROWS;
  let part = work / (STRIPS * OUT_HEIGHT * BANDS) % GROUPS;
  let image = work / (STRIPS * OUT_HEIGHT * BANDS * GROUPS);
  // Threads beyond the last row compute it again. Their results are not stored.
  let row_each = part * OUT + min(row + EACH, OUT - 1u);
  var near_each = vec4<f32>();
  var far_each = vec4<f32>();
  // begin taps
  // One loop over a block of taps. Two nested short loops would cost a software GPU more than the division.
  for (var first = 0u; first < TAPS; first += 128u) {
    let end = min(first + 128u, TAPS);
    var some_near_each = vec4<f32>();
    var some_far_each = vec4<f32>();
    for (var tap = first; tap < end; tap++) {
      let kx = tap % KERNEL_X;
      let ky = tap / KERNEL_X % KERNEL_Y;
      let c = tap / (KERNEL_X * KERNEL_Y);
      let from_y = y * STRIDE_Y + ky * DILATION_Y - BEFORE_Y;
      let from_x = x * STRIDE_X + kx * DILATION_X - BEFORE_X;
      // These loads come first, as in matmul_plain.wgsl.
      let w_each = load_w(row_each, c, ky, kx);
      let near = x_vec4(image, part * CHANNELS + c, from_y, from_x);
      let far = x_vec4(image, part * CHANNELS + c, from_y, from_x + 4u * STRIDE_X);
      some_near_each += w_each * near;
      some_far_each += w_each * far;
    }
    near_each += some_near_each;
    far_each += some_far_each;
  }
  // end taps
  finish(image, part, row + EACH, y, x, near_each);
  finish(image, part, row + EACH, y, x + 4u, far_each);
}
