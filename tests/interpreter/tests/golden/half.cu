// Half and bf16 arithmetic.
#include <cuda_fp16.h>
#include <cuda_bf16.h>
extern "C" __global__ void half_math(unsigned n, const __half2* a, const __half2* b, __half2* out) {
    unsigned i = threadIdx.x;
    if (i >= n) return;
    __half2 x = a[i], y = b[i]; __half2* o = out + i * 10;
    o[0] = __hadd2(x, y); o[1] = __hmul2(x, y); o[2] = __hfma2(x, y, x); o[3] = __hsub2(x, y); o[4] = __hmax2(x, y);
    o[5] = __hmin2(x, y); o[6] = __hneg2(x); o[7] = __habs2(x);
    o[8] = __floats2half2_rn(__half2float(x.x) / __half2float(y.x), sqrtf(fabsf(__half2float(y.y))));
    o[9] = __halves2half2(__hgt(x.x, y.x) ? x.x : y.y, __hle(x.y, y.y) ? __hadd(x.x, y.y) : __hmul(x.y, y.x));
}
extern "C" __global__ void bf16_math(unsigned n, const __nv_bfloat162* a, const __nv_bfloat162* b, __nv_bfloat162* out) {
    unsigned i = threadIdx.x;
    if (i >= n) return;
    __nv_bfloat162 x = a[i], y = b[i]; __nv_bfloat162* o = out + i * 8;
    o[0] = __hadd2(x, y); o[1] = __hmul2(x, y); o[2] = __hfma2(x, y, x); o[3] = __hsub2(x, y); o[4] = __hmax2(x, y);
    o[5] = __hmin2(x, y); o[6] = __floats2bfloat162_rn(__bfloat162float(x.x) * 1.2345f, __bfloat162float(y.y) + 3.0f);
    o[7] = __halves2bfloat162(__hlt(x.x, y.x) ? x.x : y.y, __hge(x.y, y.y) ? x.y : y.x);
}
extern "C" __global__ void half_convert(unsigned n, const float* x, unsigned short* out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned short* o = out + i * 8; float v = x[i];
    o[0] = __half_as_ushort(__float2half_rn(v)); o[1] = __half_as_ushort(__float2half_rz(v));
    o[2] = __half_as_ushort(__float2half_rd(v)); o[3] = __half_as_ushort(__float2half_ru(v));
    o[4] = __bfloat16_as_ushort(__float2bfloat16_rn(v)); o[5] = __bfloat16_as_ushort(__float2bfloat16_rz(v));
    o[6] = (unsigned short)__half2int_rn(__float2half_rn(v)); o[7] = __half_as_ushort(__int2half_rn((int)v));
}
