// Convolution where threads that meet cost more than they save (a CPU that plays a GPU): a thread has four neighbours of a
// row of the result in four channels, and goes through the window by itself. See matmul.wgsl for other machines, where
// a convolution is a product.

@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read> in1: array<f32>;
@group(0) @binding(3) var<storage, read_write> out0: array<f32>;

const BATCH = 1u;
const GROUPS = 2u;
// Of a group.
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
// Zeros before.
const BEFORE_Y = 0u;
const BEFORE_X = 0u;

// Threads of a workgroup.
const THREADS = 16u;
const STRIPS = (OUT_WIDTH + 3u) / 4u;
const QUARTETS = (OUT + 3u) / 4u;

fn load_x(image: u32, channel: u32, y: u32, x: u32) -> f32 {
  return in0[((image * GROUPS * CHANNELS + channel) * HEIGHT + y) * WIDTH + x];
}

fn load_w(out: u32, channel: u32, ky: u32, kx: u32) -> f32 {
  return in1[((out * CHANNELS + channel) * KERNEL_Y + ky) * KERNEL_X + kx];
}

fn epilogue(image: u32, out: u32, y: u32, x: u32, accumulator: f32) {
  out0[((image * GROUPS * OUT + out) * OUT_HEIGHT + y) * OUT_WIDTH + x] = accumulator;
}

// What lies left of the picture is beyond its end, too.
fn inside_x(image: u32, channel: u32, y: u32, x: u32) -> f32 {
  return select(0.0, load_x(image, channel, y, min(x, WIDTH - 1u)), x < WIDTH);
}

fn quad_x(image: u32, channel: u32, y: u32, x: u32) -> vec4<f32> {
  return vec4<f32>(inside_x(image, channel, y, x), inside_x(image, channel, y, x + STRIDE_X),
    inside_x(image, channel, y, x + 2u * STRIDE_X), inside_x(image, channel, y, x + 3u * STRIDE_X));
}

fn finish(image: u32, group: u32, row: u32, y: u32, x: u32, sums: vec4<f32>) {
  if (row < OUT) {
    for (var i = 0u; i < 4u && x + i < OUT_WIDTH; i++) {
      epilogue(image, group * OUT + row, y, x + i, sums[i]);
    }
  }
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32) {
  let work = (group_id.x + group_id.y * groups.x) * THREADS + lane;
  if (work >= BATCH * GROUPS * QUARTETS * OUT_HEIGHT * STRIPS) {
    return;
  }
  let x = work % STRIPS * 4u;
  let y = work / STRIPS % OUT_HEIGHT;
  let row = work / (STRIPS * OUT_HEIGHT) % QUARTETS * 4u;
  let group = work / (STRIPS * OUT_HEIGHT * QUARTETS) % GROUPS;
  let image = work / (STRIPS * OUT_HEIGHT * QUARTETS * GROUPS);
  // Rows beyond the last compute that again, and nobody takes it.
  let last = group * OUT + OUT - 1u;
  let row0 = group * OUT + row;
  let row1 = min(row0 + 1u, last);
  let row2 = min(row0 + 2u, last);
  let row3 = min(row0 + 3u, last);
  var sums0 = vec4<f32>();
  var sums1 = vec4<f32>();
  var sums2 = vec4<f32>();
  var sums3 = vec4<f32>();
  for (var c = 0u; c < CHANNELS; c++) {
    for (var ky = 0u; ky < KERNEL_Y; ky++) {
      let from_y = y * STRIDE_Y + ky * DILATION_Y - BEFORE_Y;
      if (from_y < HEIGHT) {
        for (var kx = 0u; kx < KERNEL_X; kx++) {
          let from_x = x * STRIDE_X + kx * DILATION_X - BEFORE_X;
          let seen = quad_x(image, group * CHANNELS + c, from_y, from_x);
          sums0 += load_w(row0, c, ky, kx) * seen;
          sums1 += load_w(row1, c, ky, kx) * seen;
          sums2 += load_w(row2, c, ky, kx) * seen;
          sums3 += load_w(row3, c, ky, kx) * seen;
        }
      }
    }
  }
  finish(image, group, row, y, x, sums0);
  finish(image, group, row + 1u, y, x, sums1);
  finish(image, group, row + 2u, y, x, sums2);
  finish(image, group, row + 3u, y, x, sums3);
}
