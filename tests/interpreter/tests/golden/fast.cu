// fast: compiled with --use_fast_math, which uses the approximate instructions.
extern "C" __global__ void fast_functions(unsigned n, const float* x, const float* y, float* out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], b = y[i]; float* o = out + i * 8;
    o[0] = expf(a); o[1] = logf(b); o[2] = sinf(a); o[3] = cosf(a); o[4] = a / b; o[5] = sqrtf(b); o[6] = rsqrtf(b);
    asm("tanh.approx.f32 %0, %1;" : "=f"(o[7]) : "f"(a));
}
