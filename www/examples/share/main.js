// Tensors on the page's GPUDevice. They compute waves around a point in one of the page's buffers, and the page's render
// pipeline draws them from the same memory. Nothing is read or copied.

import { Device } from "warpweft";

const SIZE = 256;
const canvas = document.querySelector("canvas");
const notice = document.querySelector("#notice");

const shader = `
  @group(0) @binding(0) var<storage, read> heights: array<f32>;

  @vertex fn vertex(@builtin(vertex_index) i: u32) -> @builtin(position) vec4f {
    return vec4f(vec2f(f32(i & 1) * 4 - 1, f32(i >> 1) * 4 - 1), 0, 1);
  }

  @fragment fn fragment(@builtin(position) at: vec4f) -> @location(0) vec4f {
    let height = heights[u32(at.y) * ${SIZE} + u32(at.x)];
    return vec4f(height, 0.5, 1 - height, 1);
  }`;

/** Returns an app with a WebGPU device that draws on a canvas. */
async function page() {
  const adapter = await navigator.gpu?.requestAdapter();
  if (!adapter) throw new Error("this browser offers no WebGPU here");
  const gpu = await adapter.requestDevice();
  const context = canvas.getContext("webgpu");
  const format = navigator.gpu.getPreferredCanvasFormat();
  context.configure({ device: gpu, format });
  const module = gpu.createShaderModule({ code: shader });
  const pipeline = gpu.createRenderPipeline({
    layout: "auto",
    vertex: { module },
    fragment: { module, targets: [{ format }] },
  });
  const { STORAGE, COPY_SRC, COPY_DST } = GPUBufferUsage;
  const centre = gpu.createBuffer({ size: 16, usage: STORAGE | COPY_SRC | COPY_DST });
  return { gpu, context, format, pipeline, centre };
}

/** Returns waves around a center (x and y from -1 to 1), from 0 to 1. */
function waves(device) {
  const line = device.linspace(-1, 1, SIZE);
  return device.compile([{ shape: [2] }, { shape: [] }], (centre, time) => {
    const x = line.reshape([1, SIZE]).sub(centre.slice(0, 0, 1));
    const y = line.reshape([SIZE, 1]).sub(centre.slice(0, 1, 2));
    const distance = x.square().add(y.square()).sqrt();
    return distance.mul(24).sub(time).sin().mul(0.5).add(0.5);
  });
}

async function start() {
  const { gpu, context, format, pipeline, centre } = await page();
  const device = await Device.from(gpu);
  const program = waves(device);

  const move = (x, y) => gpu.queue.writeBuffer(centre, 0, new Float32Array([x, y]));
  canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => move((2 * offsetX) / SIZE - 1, (2 * offsetY) / SIZE - 1));

  /** Draws the waves of a moment, by default onto the canvas. */
  const draw = (time, texture = context.getCurrentTexture()) => {
    // The buffer may have changed. A tensor that is created from it now has the new contents.
    const inputs = [device.tensorFromBuffer(centre, { shape: [2] }), device.tensor(time)];
    const [heights] = program.run(...inputs);
    const shared = heights.gpuBuffer();
    const group = gpu.createBindGroup({
      layout: pipeline.getBindGroupLayout(0),
      entries: [{ binding: 0, resource: { buffer: shared.buffer, size: shared.byteLength } }],
    });
    const encoder = gpu.createCommandEncoder();
    const colour = { view: texture.createView(), loadOp: "clear", storeOp: "store" };
    const pass = encoder.beginRenderPass({ colorAttachments: [colour] });
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.draw(3);
    pass.end();
    gpu.queue.submit([encoder.finish()]);
    // After the submission, the next frame's waves may reuse the memory.
    for (const done of [shared, heights, ...inputs]) done.dispose();
  };
  return { gpu, format, device, move, draw };
}

window.ready = start().then(
  (waves) => {
    const frame = (now) => {
      waves.draw(now / 200);
      requestAnimationFrame(frame);
    };
    // With `?still`, other code calls `draw`.
    if (!new URLSearchParams(location.search).has("still")) requestAnimationFrame(frame);
    return waves;
  },
  (error) => {
    notice.textContent = String(error);
    throw error;
  },
);
