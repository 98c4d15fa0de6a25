// Warp votes, matches, shuffles, reductions, divergence.
extern "C" __global__ void votes(const int* x, unsigned* out) {
    int t = threadIdx.x, v = x[t];
    unsigned* o = out + t * 8;
    o[0] = __ballot_sync(0xffffffffu, v & 1); o[1] = __all_sync(0xffffffffu, v >= 0); o[2] = __any_sync(0xffffffffu, v == 3);
    o[3] = __match_any_sync(0xffffffffu, v);
    int pred; o[4] = __match_all_sync(0xffffffffu, v >> 30, &pred); o[4] ^= pred * 5;
    unsigned half = t & 16 ? 0xffff0000u : 0x0000ffffu;
    o[5] = __ballot_sync(half, v > 4); o[6] = __activemask(); o[7] = __match_any_sync(half, (unsigned long long)v << 33);
}
extern "C" __global__ void shuffles(const int* x, int* out) {
    int t = threadIdx.x, v = x[t]; int* o = out + t * 8;
    const unsigned all = 0xffffffffu;
    o[0] = __shfl_sync(all, v, t * 5 + 3); o[1] = __shfl_up_sync(all, v, 3); o[2] = __shfl_down_sync(all, v, 5);
    o[3] = __shfl_xor_sync(all, v, 13); o[4] = __shfl_sync(all, v, t * 3, 8); o[5] = __shfl_up_sync(all, v, 2, 16);
    o[6] = __shfl_down_sync(all, v, 1, 4); o[7] = __shfl_xor_sync(all, v, 9, 8);
}
extern "C" __global__ void reductions(const int* x, int* out) {
    int t = threadIdx.x, v = x[t]; int* o = out + t * 8; const unsigned all = 0xffffffffu;
    o[0] = __reduce_add_sync(all, v); o[1] = __reduce_min_sync(all, v); o[2] = __reduce_max_sync(all, (unsigned)v);
    o[3] = __reduce_and_sync(all, (unsigned)v | 0xff); o[4] = __reduce_or_sync(all, (unsigned)v);
    o[5] = __reduce_xor_sync(all, (unsigned)v); o[6] = __reduce_max_sync(all, v); o[7] = __reduce_min_sync(all, (unsigned)v);
}
extern "C" __global__ void divergent(const int* x, int* out) {
    int t = threadIdx.x, v = x[t], r;
    unsigned mask = __ballot_sync(0xffffffffu, v % 3 == 0);
    if (v % 3 == 0) { r = __reduce_add_sync(mask, v); for (int i = 0; i < t; i++) r ^= i; r += __popc(mask); }
    else { for (int i = 0; i < 40 - t; i++) v += x[(i + t) & 31]; r = __shfl_sync(~mask, v, __ffs(~mask) - 1); }
    __syncwarp();
    out[t] = __shfl_down_sync(0xffffffffu, r, 1) + (t == 31);
}
extern "C" __global__ void warp_shared(const float* x, float* out) {
    __shared__ volatile float plain[64];
    __shared__ float buffer[64];
    int t = threadIdx.x, lane = t & 31, base = t & ~31;
    plain[t] = 0;
    buffer[t] = x[t];
    __syncwarp();
    for (int d = 16; d > 0; d >>= 1) {
        float other = lane < d ? buffer[base + lane + d] : 0.0f;
        __syncwarp();
        if (lane < d) buffer[t] += other;
        __syncwarp();
    }
    out[t] = buffer[base];
}
