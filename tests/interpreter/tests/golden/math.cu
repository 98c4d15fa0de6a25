// Functions of the CUDA library, which NVRTC inlines, and conversions.
extern "C" __global__ void functions(unsigned n, const float* x, const float* y, float* out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], b = y[i]; float* o = out + i * 20;
    o[0] = expf(a); o[1] = logf(b); o[2] = sinf(a); o[3] = cosf(a); o[4] = powf(b, a * 0.25f); o[5] = erff(a); o[6] = tanhf(a);
    o[7] = sqrtf(b); o[8] = a / b; o[9] = rsqrtf(b); o[10] = tanf(a); o[11] = atan2f(a, b); o[12] = fmodf(a, b);
    o[13] = floorf(a) + ceilf(b) + rintf(a) + truncf(b) + roundf(a); o[14] = exp2f(a); o[15] = log2f(b); o[16] = log1pf(b);
    o[17] = cbrtf(a); o[18] = asinf(a / 40.0f); o[19] = erfcf(a * 0.25f);
}
extern "C" __global__ void doubles(unsigned n, const double* x, const double* y, double* out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    double a = x[i], b = y[i]; double* o = out + i * 12;
    o[0] = a + b; o[1] = a * b - a; o[2] = a / b; o[3] = sqrt(b); o[4] = exp(a); o[5] = log(b); o[6] = sin(a);
    o[7] = pow(b, 1.75);
    o[8] = fma(a, b, -a); o[9] = 1.0 / b; o[10] = floor(a) + rint(b); o[11] = fmin(a, b) + fmax(a, -b);
}
extern "C" __global__ void conversions(unsigned n, const float* x, const double* y, const int* z, long long* out, float* fout) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i]; double b = y[i]; int c = z[i]; long long* o = out + i * 14; float* f = fout + i * 8;
    o[0] = (int)a; o[1] = (unsigned)a; o[2] = (long long)a; o[3] = __float2int_rn(a); o[4] = __float2int_rd(a);
    o[5] = __float2uint_ru(a); o[6] = (int)b; o[7] = (long long)b; o[8] = __double2ll_rn(b); o[9] = (unsigned long long)b;
    o[10] = (short)c; o[11] = (unsigned char)c; o[12] = (signed char)(int)a; o[13] = __float_as_int(a);
    f[0] = (float)c; f[1] = (float)(unsigned)c; f[2] = (float)b; f[3] = __int2float_rz(c); f[4] = __double2float_ru(b);
    f[5] = (float)((long long)c * 1234567891ll); f[6] = __uint2float_rd((unsigned)c); f[7] = __int2float_ru(c);
}
extern "C" __global__ void rounding(unsigned n, const float* x, const float* y, float* out, double* dout) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    float a = x[i], b = y[i]; float* o = out + i * 14; double* d = dout + i * 6; double p = a * 1.1, q = b * 0.7;
    o[0] = __fadd_rz(a, b); o[1] = __fadd_rd(a, b); o[2] = __fadd_ru(a, b); o[3] = __fmul_rz(a, b); o[4] = __fmul_rd(a, b);
    o[5] = __fmul_ru(a, b); o[6] = __fmaf_rz(a, b, a); o[7] = __fmaf_rd(a, b, a); o[8] = __fmaf_ru(a, b, a);
    o[9] = __fdiv_rz(a, b); o[10] = __fdiv_ru(a, b); o[11] = __fsqrt_rd(b); o[12] = __frcp_ru(b); o[13] = __saturatef(a);
    d[0] = __dadd_rz(p, q); d[1] = __dadd_ru(p, q); d[2] = __dmul_rd(p, q); d[3] = __fma_ru(p, q, p); d[4] = __ddiv_rd(p, q);
    d[5] = __dsqrt_ru(q);
}
