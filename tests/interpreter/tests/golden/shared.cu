// Shared memory: reductions, scan, matrix product, transpose, histogram, softmax, dynamic shared memory.
extern "C" __global__ void block_sum(unsigned n, const float* x, float* out) {
    __shared__ float part[256];
    unsigned t = threadIdx.x;
    float sum = 0;
    for (unsigned i = blockIdx.x * 256 + t; i < n; i += gridDim.x * 256) sum += x[i];
    part[t] = sum;
    __syncthreads();
    for (unsigned s = 128; s > 0; s >>= 1) {
        if (t < s) part[t] += part[t + s];
        __syncthreads();
    }
    if (t == 0) out[blockIdx.x] = part[0];
}
extern "C" __global__ void shuffle_sum(unsigned n, const float* x, float* out) {
    __shared__ float part[32];
    unsigned t = threadIdx.x;
    float sum = t + blockIdx.x * blockDim.x < n ? x[t + blockIdx.x * blockDim.x] : 0.0f;
    for (int d = 16; d > 0; d >>= 1) sum += __shfl_xor_sync(0xffffffffu, sum, d);
    if ((t & 31) == 0) part[t >> 5] = sum;
    __syncthreads();
    if (t < 32) {
        sum = t < blockDim.x / 32 ? part[t] : 0.0f;
        for (int d = 16; d > 0; d >>= 1) sum += __shfl_down_sync(0xffffffffu, sum, d);
        if (t == 0) atomicAdd(out, sum);
    }
}
extern "C" __global__ void scan(unsigned n, const int* x, int* out) {
    extern __shared__ int buffer[];
    unsigned t = threadIdx.x;
    int* now = buffer; int* next = buffer + blockDim.x;
    now[t] = t < n ? x[t] : 0;
    __syncthreads();
    for (unsigned d = 1; d < blockDim.x; d *= 2) {
        next[t] = now[t] + (t >= d ? now[t - d] : 0);
        int* swap = now; now = next; next = swap;
        __syncthreads();
    }
    if (t < n) out[t] = now[t];
}
extern "C" __global__ void matmul(int m, int n, int k, const float* a, const float* b, float* c) {
    __shared__ float as[16][17], bs[16][17];
    int tx = threadIdx.x, ty = threadIdx.y, row = blockIdx.y * 16 + ty, col = blockIdx.x * 16 + tx;
    float sum = 0;
    for (int k0 = 0; k0 < k; k0 += 16) {
        as[ty][tx] = row < m && k0 + tx < k ? a[row * k + k0 + tx] : 0.0f;
        bs[ty][tx] = col < n && k0 + ty < k ? b[(k0 + ty) * n + col] : 0.0f;
        __syncthreads();
        for (int i = 0; i < 16; i++) sum += as[ty][i] * bs[i][tx];
        __syncthreads();
    }
    if (row < m && col < n) c[row * n + col] = sum;
}
extern "C" __global__ void transpose(int rows, int cols, const double* x, double* y) {
    __shared__ double tile[32][33];
    int c = blockIdx.x * 32 + threadIdx.x, r = blockIdx.y * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (c < cols && r + i < rows) tile[threadIdx.y + i][threadIdx.x] = x[(r + i) * cols + c];
    __syncthreads();
    int c2 = blockIdx.y * 32 + threadIdx.x, r2 = blockIdx.x * 32 + threadIdx.y;
    for (int i = 0; i < 32; i += 8)
        if (c2 < rows && r2 + i < cols) y[(r2 + i) * rows + c2] = tile[threadIdx.x][threadIdx.y + i];
}
extern "C" __global__ void histogram(unsigned n, const unsigned char* x, unsigned* out) {
    __shared__ unsigned bins[64];
    if (threadIdx.x < 64) bins[threadIdx.x] = 0;
    __syncthreads();
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n; i += gridDim.x * blockDim.x)
        atomicAdd(&bins[x[i] & 63], 1u);
    __syncthreads();
    if (threadIdx.x < 64 && bins[threadIdx.x]) atomicAdd(&out[threadIdx.x], bins[threadIdx.x]);
}
extern "C" __global__ void softmax(int columns, const float* x, float* y) {
    __shared__ float part[128];
    int t = threadIdx.x;
    const float* row = x + blockIdx.x * columns;
    float best = -3.0e38f;
    for (int i = t; i < columns; i += 128) best = fmaxf(best, row[i]);
    part[t] = best;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) { if (t < s) part[t] = fmaxf(part[t], part[t + s]); __syncthreads(); }
    best = part[0];
    __syncthreads();
    float sum = 0;
    for (int i = t; i < columns; i += 128) sum += expf(row[i] - best);
    part[t] = sum;
    __syncthreads();
    for (int s = 64; s > 0; s >>= 1) { if (t < s) part[t] += part[t + s]; __syncthreads(); }
    for (int i = t; i < columns; i += 128) y[blockIdx.x * columns + i] = expf(row[i] - best) / part[0];
}
extern "C" __global__ void barrier_votes(const int* x, int* out) {
    int t = threadIdx.x, v = x[t];
    int count = __syncthreads_count(v > 10), all = __syncthreads_and(v > 0), any = __syncthreads_or(v > 99);
    out[t] = count * 100 + all * 10 + any;
}
extern "C" __global__ void atomics(unsigned n, const int* x, int* s, unsigned* u, float* f, unsigned long long* w) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    atomicMin(&s[0], x[i]); atomicMax(&s[1], x[i]); atomicSub(&s[2], x[i]); atomicExch(&s[3], 77);
    atomicAnd(&u[0], ~(1u << (x[i] & 31))); atomicOr(&u[1], 1u << (x[i] & 31)); atomicXor(&u[2], (unsigned)x[i]);
    atomicInc(&u[3], 12u); atomicDec(&u[4], 9u); atomicAdd(f, 0.25f); atomicAdd(w, (unsigned long long)x[i] << 20);
    unsigned old = u[5], assumed;
    volatile unsigned* cell = &u[6];
    old = *cell;
    do { assumed = old; old = atomicCAS(&u[6], assumed, assumed * 3u + 1u); } while (old != assumed);
}
