// What a device tells of itself in numbers.

/** What a device can do. */
export interface DeviceLimits {
  /** Storage buffers one kernel may use. */
  readonly buffersPerKernel: number;
  /** Bytes one buffer binding may have. */
  readonly bindingBytes: number;
  /** Workgroups along one dimension of a dispatch. */
  readonly workgroups: number;
  /** Threads in a workgroup. */
  readonly workgroupSize: number;
  /** Bytes of workgroup memory. */
  readonly workgroupBytes: number;
  /** Whether it stores 16-bit floats. */
  readonly f16: boolean;
}

/** What a device has made and holds. A loop that has settled leaves `plans`, `pipelines` and `buffers` as they are. */
export interface Stats {
  /** Plans made. */
  readonly plans: number;
  /** Pipelines compiled. */
  readonly pipelines: number;
  /** Buffers allocated. */
  readonly buffers: number;
  /** Bind groups made. */
  readonly bindGroups: number;
  /** Batches submitted. */
  readonly submits: number;
  /** Kernels run. */
  readonly kernels: number;
  /** Bytes allocated now, used and pooled. */
  readonly bytes: number;
  /** Bytes in use now. */
  readonly usedBytes: number;
  /** Bytes kept for reuse now. */
  readonly pooledBytes: number;
  /** The most bytes in use at once so far. */
  readonly peakBytes: number;
  /** Recorded nodes alive now: tensors and what they still need. */
  readonly nodes: number;
}
