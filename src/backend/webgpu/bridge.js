// WebGPU for the Rust side, in few calls: it knows buffers, pipelines and batches by number, and runs a batch by one call.
//
// Each call that can fail is made inside error scopes and carries a number; `tell` says later how it went. A method here
// does not throw.

/** Bind groups kept at most, beside those of one batch. */
const GROUPS = 8192;
/** Buffers to read through that are kept, and their bytes. */
const READBACKS = { buffers: 8, bytes: 2 ** 26 };

/** The bytes of a buffer to read so many bytes through. */
const sizeFor = (bytes) =>
  bytes < 2 ** 24 ? Math.max(2 ** Math.ceil(Math.log2(bytes)), 2 ** 16) : Math.ceil(bytes / 16) * 16;

/** What each call is watched for. */
const SCOPES = ["validation", "internal", "out-of-memory"];

/** What `work` throws, if it does. */
const attempt = (work) => {
  try {
    work();
  } catch (error) {
    return error;
  }
};

const pause = (milliseconds) => new Promise((resolve) => setTimeout(resolve, milliseconds));

/**
 * A step of a batch. `slots` and `sizes` are what it binds after its params.
 * @typedef {{ pipeline: Pipeline, x: number, y: number, offsets: Uint32Array, block: number, slots: number[],
 *   sizes: number[] }} Step
 * A batch, and the bind groups of its steps for each set of buffers that it ran with, as long as none was dropped.
 * @typedef {{ steps: Step[], groups: Map<string, GPUBindGroup[]>, age: number }} Batch
 * A compiled kernel; without a pipeline where there could not be one.
 * @typedef {{ pipeline?: GPUComputePipeline, layout: Layout }} Pipeline
 * @typedef {{ name: string, bindings: GPUBindGroupLayout, pipelines: GPUPipelineLayout }} Layout
 * @typedef {{ group: GPUBindGroup, numbers: number[] }} Group
 */

/** An open device. */
export class Gpu {
  /** Bind groups ever made. */
  bindGroups = 0;
  /** @type {Map<number, GPUBuffer>} */
  #buffers = new Map();
  /** @type {Map<string, Layout>} */
  #layouts = new Map();
  /** @type {Pipeline[]} */
  #pipelines = [];
  /** @type {Map<number, Batch>} */
  #batches = new Map();
  #recorded = 0;
  /** Bind groups and the buffers they bind, by a name that says all of it. @type {Map<string, Group>} */
  #groups = new Map();
  /** The names of the groups a buffer is in. @type {Map<number, Set<string>>} */
  #groupsOf = new Map();
  /** How often groups were dropped. */
  #age = 0;
  /** Free buffers to read through, the oldest first. @type {GPUBuffer[]} */
  #readbacks = [];
  /** Resolves when all error scopes so far have answered. */
  #settled = Promise.resolve();
  /** What to do for those who wait when the device is lost. @type {Set<() => void>} */
  #waiting = new Set();
  #lost = false;
  /** A batch that waits for its read, inside error scopes: its call, its commands, and what was thrown. */
  #pending;
  /** Reads and waits under way. */
  #open = 0;
  #closing = false;
  #device;
  #tell;

  /**
   * @param {GPUDevice} device
   * @param {(call: number, error?: string) => void} tell
   */
  constructor(device, tell) {
    this.#device = device;
    this.#tell = tell;
    device.lost.then(({ message, reason }) => {
      this.#lost = true;
      tell(0, message.trim().replace(/\.$/, "") || reason);
      for (const reject of this.#waiting) reject();
    });
  }

  /** Does `work` inside error scopes, and tells how it went. */
  #watch(call, work) {
    this.#flush();
    this.#begin();
    this.#end(call, attempt(work));
  }

  #begin() {
    for (const scope of SCOPES) this.#device.pushErrorScope(scope);
  }

  #end(call, thrown) {
    const answers = SCOPES.map(() => this.#device.popErrorScope());
    const told = Promise.all(answers).then(
      // That there was no memory explains all that follows from it.
      ([memory, internal, validation]) => {
        const wrong = validation ?? internal ?? thrown;
        this.#tell(call, memory ? "" : wrong && (wrong.message?.trim() || "it failed"));
      },
      // The device is lost, which is told elsewhere.
      () => this.#tell(call),
    );
    const before = this.#settled;
    this.#settled = told.then(() => before);
  }

  /** `work`, or a rejection as soon as the device is lost. */
  async #unlessLost(work) {
    work.catch(() => {});
    if (this.#lost) throw new Error("lost");
    let reject;
    const lost = new Promise((_, no) => this.#waiting.add((reject = no)));
    return Promise.race([work, lost]).finally(() => this.#waiting.delete(reject));
  }

  create(call, number, bytes, uniform) {
    const { STORAGE, UNIFORM, COPY_SRC, COPY_DST } = GPUBufferUsage;
    const usage = uniform ? UNIFORM | COPY_DST : STORAGE | COPY_SRC | COPY_DST;
    this.#watch(call, () => this.#buffers.set(number, this.#device.createBuffer({ size: bytes, usage })));
  }

  /** Frees a buffer now; work already submitted still sees it. */
  discard(number) {
    this.#flush();
    this.#buffers.get(number)?.destroy();
    this.#buffers.delete(number);
    for (const name of this.#groupsOf.get(number) ?? []) {
      for (const other of this.#groups.get(name).numbers) this.#groupsOf.get(other).delete(name);
      this.#groups.delete(name);
      this.#age++;
    }
    this.#groupsOf.delete(number);
  }

  /** Compiles a kernel; its number. */
  compile(call, text, inputs, outputs, label) {
    const layout = this.#layout(inputs, outputs);
    /** @type {Pipeline} */
    const made = { layout };
    this.#watch(call, () => {
      const module = this.#device.createShaderModule({ label, code: text });
      const compute = { module, entryPoint: "main" };
      made.pipeline = this.#device.createComputePipeline({ label, layout: layout.pipelines, compute });
    });
    return this.#pipelines.push(made) - 1;
  }

  /** The bindings of all kernels with as many inputs and outputs. */
  #layout(inputs, outputs) {
    const name = `${inputs},${outputs}`;
    if (this.#layouts.has(name)) return this.#layouts.get(name);
    const buffers = [{ type: "uniform", hasDynamicOffset: true }];
    for (let i = 0; i < inputs + outputs; i++) buffers.push({ type: i < inputs ? "read-only-storage" : "storage" });
    const entries = buffers.map((buffer, binding) => ({ binding, visibility: GPUShaderStage.COMPUTE, buffer }));
    const bindings = this.#device.createBindGroupLayout({ entries });
    const pipelines = this.#device.createPipelineLayout({ bindGroupLayouts: [bindings] });
    const layout = { name, bindings, pipelines };
    this.#layouts.set(name, layout);
    return layout;
  }

  /**
   * Keeps a batch; its number. For each step: pipeline, two dimensions of workgroups, offset and bytes of the params, how
   * many buffers, and of each its slot and sixteenths of its bytes.
   * @param {Uint32Array} words
   */
  record(words) {
    const steps = [];
    for (let at = 0; at < words.length; ) {
      const [pipeline, x, y, offset, block, count] = words.subarray(at);
      const bound = words.subarray(at + 6, (at += 6 + 2 * count));
      const slots = [...bound.filter((_, i) => i % 2 === 0)];
      const sizes = [...bound.filter((_, i) => i % 2 === 1)].map((sixteenths) => sixteenths * 16);
      steps.push({ pipeline: this.#pipelines[pipeline], x, y, offsets: Uint32Array.of(offset), block, slots, sizes });
    }
    this.#batches.set(++this.#recorded, { steps, groups: new Map(), age: this.#age });
    return this.#recorded;
  }

  forget(batch) {
    this.#batches.delete(batch);
  }

  /**
   * Submits a batch with the buffers of its slots, by number.
   * @param {Uint8Array} params what is to be written for it before, or nothing
   * @param {Float64Array} slots
   * @param {boolean} held whether a read follows: one submission for both, which browsers take long over
   */
  submit(call, batch, uniform, params, slots, held) {
    this.#flush();
    this.#begin();
    const encoder = this.#device.createCommandEncoder();
    const thrown = attempt(() => {
      const recorded = this.#batches.get(batch);
      if (params.length) this.#device.queue.writeBuffer(this.#buffers.get(uniform), 0, params);
      const groups = this.#groupsFor(recorded, uniform, slots);
      const pass = encoder.beginComputePass();
      let last;
      recorded.steps.forEach(({ pipeline, x, y, offsets }, i) => {
        if (pipeline !== last) pass.setPipeline(pipeline.pipeline);
        last = pipeline;
        pass.setBindGroup(0, groups[i], offsets, 0, 1);
        pass.dispatchWorkgroups(x, y);
      });
      pass.end();
    });
    this.#pending = { call, encoder, thrown };
    if (held) queueMicrotask(() => this.#flush());
    else this.#flush();
  }

  #flush() {
    if (!this.#pending) return;
    const { call, encoder, thrown } = this.#pending;
    this.#pending = undefined;
    this.#end(call, thrown ?? attempt(() => this.#device.queue.submit([encoder.finish()])));
  }

  /** The bind groups of a batch's steps: those of the last time, or from all there are, or new ones. */
  #groupsFor(recorded, uniform, slots) {
    // So many sets of buffers alternate at most.
    if (recorded.age !== this.#age || recorded.groups.size > 64) recorded.groups.clear();
    recorded.age = this.#age;
    const key = `${uniform}:${slots.join()}`;
    let groups = recorded.groups.get(key);
    if (!groups) {
      if (this.#groups.size > GROUPS + recorded.steps.length) {
        this.#groups.clear();
        this.#groupsOf.clear();
        this.#age++;
      }
      groups = recorded.steps.map((step) => this.#group(step, uniform, slots));
      recorded.groups.set(key, groups);
    }
    return groups;
  }

  #group({ pipeline: { layout }, block, slots: own, sizes }, uniform, slots) {
    const numbers = [uniform, ...own.map((slot) => slots[slot])];
    const bytes = [block, ...sizes];
    const name = `${layout.name};${numbers};${bytes}`;
    const found = this.#groups.get(name);
    if (found) return found.group;
    const bound = (binding) => ({ buffer: this.#buffers.get(numbers[binding]), size: bytes[binding] });
    const entries = numbers.map((_, binding) => ({ binding, resource: bound(binding) }));
    const group = this.#device.createBindGroup({ layout: layout.bindings, entries });
    this.bindGroups++;
    this.#groups.set(name, { group, numbers });
    for (const number of numbers) {
      this.#groupsOf.set(number, (this.#groupsOf.get(number) ?? new Set()).add(name));
    }
    return group;
  }

  /** Copies bytes into a buffer; `data` may lie in WebAssembly's memory. */
  write(call, number, offset, data) {
    this.#watch(call, () => this.#device.queue.writeBuffer(this.#buffers.get(number), offset, data));
  }

  /** Starts to read bytes of a buffer: copies them into one that can be mapped, and maps it. */
  read(call, number, offset, bytes) {
    this.#open++;
    let mapping;
    const copy = (encoder) => encoder.copyBufferToBuffer(this.#buffers.get(number), offset, buffer, 0, bytes);
    // A new buffer may be none, and its copy would take the batch along.
    let buffer = this.#pending && !this.#pending.thrown ? this.#vacant(bytes) : undefined;
    if (buffer) this.#pending.thrown = attempt(() => copy(this.#pending.encoder));
    this.#watch(call, () => {
      if (!buffer) {
        buffer = this.#vacant(bytes) ?? this.#readback(bytes);
        const encoder = this.#device.createCommandEncoder();
        copy(encoder);
        this.#device.queue.submit([encoder.finish()]);
      }
      mapping = buffer.mapAsync(GPUMapMode.READ, 0, bytes);
    });
    let known = false;
    // Browsers look whether work is done where commands come in, and else every few milliseconds.
    setTimeout(() => known || this.#device.queue.submit([]), 1);
    return new Reading(buffer, bytes, this.#whenKnown(mapping ?? Promise.reject()), (mapped) => {
      known = true;
      if (mapped) this.#recycle(buffer);
      else buffer?.destroy();
      this.#ended();
    });
  }

  /** Resolves when `mapping` and all error scopes before have; rejected where the mapping is, or the device is lost. */
  async #whenKnown(mapping) {
    const settled = this.#settled;
    try {
      await this.#unlessLost(mapping);
    } catch (error) {
      // Browsers may refuse a mapping a moment before they say that the device is lost.
      await Promise.race([this.#device.lost, pause(200)]);
      throw error;
    } finally {
      await this.#unlessLost(settled);
    }
  }

  #readback(bytes) {
    return this.#device.createBuffer({ size: sizeFor(bytes), usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST });
  }

  /** The smallest free buffer that is large enough and not much too large, if there is one. */
  #vacant(bytes) {
    const fits = (buffer) => buffer.size >= bytes && buffer.size <= 4 * sizeFor(bytes);
    const [found] = this.#readbacks.filter(fits).sort((a, b) => a.size - b.size);
    if (found) this.#readbacks.splice(this.#readbacks.indexOf(found), 1);
    return found;
  }

  #recycle(buffer) {
    buffer.unmap();
    const free = this.#readbacks;
    free.push(buffer);
    const bytes = () => free.reduce((sum, { size }) => sum + size, 0);
    while (free.length > READBACKS.buffers || bytes() > READBACKS.bytes) free.shift().destroy();
  }

  /** Resolves when the work submitted so far is done and its errors are told. */
  async done() {
    this.#flush();
    this.#open++;
    const work = Promise.all([this.#device.queue.onSubmittedWorkDone(), this.#settled]);
    await this.#unlessLost(work).finally(() => this.#ended());
  }

  #ended() {
    this.#open--;
    if (this.#closing && !this.#open) this.#device.destroy();
  }

  destroy() {
    this.#device.destroy();
  }

  /** Gives everything back, once what is under way has ended. */
  close() {
    this.#closing = true;
    this.#open++;
    this.#ended();
  }
}

/** Bytes on their way. */
class Reading {
  #ready = false;

  constructor(buffer, bytes, known, finish) {
    Object.assign(this, { buffer, bytes, finish });
    this.mapped = known.then(() => (this.#ready = true));
  }

  /** What was read, if it could be. */
  copy() {
    try {
      return new Uint8Array(this.buffer.getMappedRange(0, this.bytes));
    } catch {}
  }

  /** It is not needed any more. */
  end() {
    this.finish(this.#ready);
  }
}
