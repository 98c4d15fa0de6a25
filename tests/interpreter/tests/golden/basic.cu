// Elementwise kernels, vectors, byte loads, structs by value, constant memory.
extern "C" __global__ void saxpy(unsigned n, float a, const float* __restrict__ x, float* y) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = a * x[i] + y[i];
}
extern "C" __global__ void saxpy4(unsigned n, float a, const float4* __restrict__ x, float4* y) {
    unsigned stride = gridDim.x * blockDim.x;
    for (unsigned i = blockIdx.x * blockDim.x + threadIdx.x; i < n / 4; i += stride) {
        float4 u = x[i], v = y[i];
        v.x += a * u.x; v.y += a * u.y; v.z += a * u.z; v.w += a * u.w;
        y[i] = v;
    }
}
struct Affine { float scale[3]; int shift; unsigned char flag; double bias; };
extern "C" __global__ void by_value(Affine p, unsigned n, double* out) {
    unsigned i = threadIdx.x;
    if (i < n) out[i] = p.scale[i % 3] * i + p.shift + (p.flag ? p.bias : -p.bias);
}
__constant__ float table[8] = {0.5f, -1.5f, 2.25f, 3.0f, -4.0f, 5.5f, 6.0f, -7.0f};
__constant__ short small_table[4] = {-3, 7, -32768, 32767};
extern "C" __global__ void constants(unsigned n, float* out) {
    unsigned i = threadIdx.x;
    if (i < n) out[i] = table[(i * 5) & 7] * small_table[i & 3];
}
extern "C" __global__ void bytes(unsigned n, const signed char* a, const unsigned char* b, short* c, unsigned short* d) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int s = a[i] * (int)b[i];
    c[i] = (short)s;
    d[i] = (unsigned short)(s >> 3) ^ (unsigned short)a[i];
}
__device__ unsigned total = 100;
__device__ int lookup[4] = {10, -20, 30, -40};
extern "C" __global__ void globals(int* out) {
    atomicAdd(&total, 2u);
    out[threadIdx.x] = lookup[threadIdx.x & 3];
}
extern "C" __global__ void local_array(const int* index, float* out) {
    float values[16];
    for (int i = 0; i < 16; i++) values[(i * 7 + index[0]) & 15] = i * 1.5f;
    float sum = 0;
    for (int i = 0; i < 4; i++) sum = sum * 2 + values[index[threadIdx.x * 4 + i] & 15];
    out[threadIdx.x] = sum;
}
