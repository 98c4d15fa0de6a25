// A small read of WebGPU buffers, for libraries that have none of their own.

/** Waits until the first float of each of these buffers is here. */
export async function peek(device, buffers) {
  const size = 4 * buffers.length;
  const staging = device.createBuffer({ size, usage: GPUBufferUsage.COPY_DST | GPUBufferUsage.MAP_READ });
  const encoder = device.createCommandEncoder();
  buffers.forEach((buffer, i) => encoder.copyBufferToBuffer(buffer, 0, staging, 4 * i, 4));
  device.queue.submit([encoder.finish()]);
  await staging.mapAsync(GPUMapMode.READ);
  const values = new Float32Array(staging.getMappedRange().slice(0));
  staging.destroy();
  return values;
}
