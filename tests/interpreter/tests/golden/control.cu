// Switches, calls, divergent loops, early exits.
extern "C" __global__ void switches(unsigned n, const int* a, int* out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = a[i], r;
    switch (x & 15) {
        case 0: r = x * 3; break;
        case 1: r = x - 17; break;
        case 2: r = x ^ 0x55; out[n + i] = 1; break;
        case 3: r = x / 5;
        case 4: r = x % 9 + 2; break;
        case 5: r = __popc(x); break;
        case 6: r = -x; out[n + i] = 2; break;
        case 7: r = x << 3; break;
        case 8: r = x >> 2; out[n + i] = 3; break;
        case 9: r = x & 0xff0; break;
        case 11: r = __clz(x); break;
        case 13: r = x * x; out[n + i] = 4; break;
        default: r = 1000 + x;
    }
    out[i] = r;
}
struct Pair { float a; int b; double c; };
__device__ __noinline__ float square_sum(float a, float b) { return a * a + b * b; }
__device__ __noinline__ Pair combine(Pair p, int k) {
    Pair q; q.a = square_sum(p.a, (float)k); q.b = p.b + k; q.c = p.c * k; return q;
}
extern "C" __global__ void calls(unsigned n, const float* x, float* out) {
    unsigned i = threadIdx.x;
    if (i >= n) return;
    Pair p; p.a = x[i]; p.b = (int)i; p.c = 0.5;
    if (i & 1) p = combine(p, 3); else p = combine(p, (int)i);
    if (p.b % 3 == 0) p.a = square_sum(p.a, 1.0f);
    out[i] = p.a + p.b + (float)p.c;
}
extern "C" __global__ void collatz(unsigned n, const unsigned* a, unsigned* out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    unsigned x = a[i], steps = 0;
    while (x != 1) { x = x & 1 ? 3 * x + 1 : x / 2; steps++; }
    out[i] = steps;
}
extern "C" __global__ void nested(unsigned n, const int* a, int* out) {
    unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int total = 0;
    for (int j = 0; j < (int)(i % 7); j++) {
        for (int k = j; k < 10; k++) {
            if (a[(i + k) % n] < 0) continue;
            if (a[(i + k) % n] > 90) break;
            total += a[(i + j) % n] * k;
        }
        if (total > 5000) break;
    }
    out[i] = total;
}

// A dense switch with calls in its cases, which becomes an indexed branch.
extern "C" __global__ void dense_switch(const int* a, volatile int* out) {
    int x = a[threadIdx.x];
    volatile int* o = out + threadIdx.x * 2;
    switch (x) {
        case 0: *o = 5; o[1] = 1; break;
        case 1: *o = x + 10; break;
        case 2: o[1] = x; *o = 20; break;
        case 3: *o = 31; __threadfence(); break;
        case 4: *o = 44; o[1] = 4; break;
        case 5: o[1] = 5; break;
        case 6: *o = *o + 7; break;
        case 7: *o = 70; o[1] = 71; break;
        case 8: o[1] = *o + 80; break;
        case 9: *o = 1000; break;
    }
}
