// Convolution where threads that meet cost more than they save (a CPU that plays a GPU): a thread has eight neighbours of
// a row of the result in eight channels, and goes through the window by itself. See matmul.wgsl for other machines, where
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
const STRIPS = (OUT_WIDTH + 7u) / 8u;
// Whether the next element of the window sees the same but one.
const SLIDES = STRIDE_X == 1u && DILATION_X == 1u;
const OCTETS = (OUT + 7u) / 8u;

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
  if (work >= BATCH * GROUPS * OCTETS * OUT_HEIGHT * STRIPS) {
    return;
  }
  let x = work % STRIPS * 8u;
  let y = work / STRIPS % OUT_HEIGHT;
  let row = work / (STRIPS * OUT_HEIGHT) % OCTETS * 8u;
  let part = work / (STRIPS * OUT_HEIGHT * OCTETS) % GROUPS;
  let image = work / (STRIPS * OUT_HEIGHT * OCTETS * GROUPS);
  // Rows beyond the last compute that again, and nobody takes it.
  let last = part * OUT + OUT - 1u;
  let row0 = part * OUT + row;
  let row1 = min(row0 + 1u, last);
  let row2 = min(row0 + 2u, last);
  let row3 = min(row0 + 3u, last);
  let row4 = min(row0 + 4u, last);
  let row5 = min(row0 + 5u, last);
  let row6 = min(row0 + 6u, last);
  let row7 = min(row0 + 7u, last);
  var near0 = vec4<f32>();
  var far0 = vec4<f32>();
  var near1 = vec4<f32>();
  var far1 = vec4<f32>();
  var near2 = vec4<f32>();
  var far2 = vec4<f32>();
  var near3 = vec4<f32>();
  var far3 = vec4<f32>();
  var near4 = vec4<f32>();
  var far4 = vec4<f32>();
  var near5 = vec4<f32>();
  var far5 = vec4<f32>();
  var near6 = vec4<f32>();
  var far6 = vec4<f32>();
  var near7 = vec4<f32>();
  var far7 = vec4<f32>();
  for (var c = 0u; c < CHANNELS; c++) {
    for (var ky = 0u; ky < KERNEL_Y; ky++) {
      let from_y = y * STRIDE_Y + ky * DILATION_Y - BEFORE_Y;
      if (from_y < HEIGHT) {
        let channel = part * CHANNELS + c;
        let first = x * STRIDE_X - BEFORE_X;
        var near = quad_x(image, channel, from_y, first);
        var far = quad_x(image, channel, from_y, first + 4u * STRIDE_X);
        for (var kx = 0u; kx < KERNEL_X; kx++) {
          if (kx > 0u) {
            if (SLIDES) {
              near = vec4<f32>(near.yzw, far.x);
              far = vec4<f32>(far.yzw, inside_x(image, channel, from_y, first + kx + 7u));
            } else {
              near = quad_x(image, channel, from_y, first + kx * DILATION_X);
              far = quad_x(image, channel, from_y, first + kx * DILATION_X + 4u * STRIDE_X);
            }
          }
          let w0 = load_w(row0, c, ky, kx);
          near0 += w0 * near;
          far0 += w0 * far;
          let w1 = load_w(row1, c, ky, kx);
          near1 += w1 * near;
          far1 += w1 * far;
          let w2 = load_w(row2, c, ky, kx);
          near2 += w2 * near;
          far2 += w2 * far;
          let w3 = load_w(row3, c, ky, kx);
          near3 += w3 * near;
          far3 += w3 * far;
          let w4 = load_w(row4, c, ky, kx);
          near4 += w4 * near;
          far4 += w4 * far;
          let w5 = load_w(row5, c, ky, kx);
          near5 += w5 * near;
          far5 += w5 * far;
          let w6 = load_w(row6, c, ky, kx);
          near6 += w6 * near;
          far6 += w6 * far;
          let w7 = load_w(row7, c, ky, kx);
          near7 += w7 * near;
          far7 += w7 * far;
        }
      }
    }
  }
  finish(image, part, row, y, x, near0);
  finish(image, part, row, y, x + 4u, far0);
  finish(image, part, row + 1u, y, x, near1);
  finish(image, part, row + 1u, y, x + 4u, far1);
  finish(image, part, row + 2u, y, x, near2);
  finish(image, part, row + 2u, y, x + 4u, far2);
  finish(image, part, row + 3u, y, x, near3);
  finish(image, part, row + 3u, y, x + 4u, far3);
  finish(image, part, row + 4u, y, x, near4);
  finish(image, part, row + 4u, y, x + 4u, far4);
  finish(image, part, row + 5u, y, x, near5);
  finish(image, part, row + 5u, y, x + 4u, far5);
  finish(image, part, row + 6u, y, x, near6);
  finish(image, part, row + 6u, y, x + 4u, far6);
  finish(image, part, row + 7u, y, x, near7);
  finish(image, part, row + 7u, y, x + 4u, far7);
}
