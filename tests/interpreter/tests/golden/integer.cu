// Bit tricks, division, 64-bit arithmetic, wide products, carries, dot products.
typedef unsigned u32; typedef unsigned long long u64; typedef long long i64;
extern "C" __global__ void bit_tricks(u32 n, const u32* a, const u32* b, u32* out) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u32 x = a[i], y = b[i], *o = out + i * 16;
    o[0] = __popc(x); o[1] = __clz(x); o[2] = __brev(x); o[3] = __ffs(x);
    o[4] = __byte_perm(x, y, y & 0x7777); o[5] = __funnelshift_l(x, y, y & 63); o[6] = __funnelshift_rc(x, y, y & 63);
    o[7] = (x << (y & 31)) | (x >> (32 - (y & 31) & 31)); o[8] = (x & y) ^ (~x | y); o[9] = __umulhi(x, y);
    o[10] = __mulhi((int)x, (int)y); o[11] = __sad((int)x, (int)y, 7u); o[12] = __usad(x, y, 9u);
    o[13] = __uhadd(x, y); o[14] = min((int)x, (int)y); o[15] = max(x, y);
}
extern "C" __global__ void bit_fields(u32 n, const u32* a, const u32* b, u32* out) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    u32 x = a[i], y = b[i], r; int s; u32* o = out + i * 8;
    u32 start = y & 63, len = y >> 8 & 63;
    asm("bfe.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(start), "r"(len)); o[0] = r;
    asm("bfe.s32 %0, %1, %2, %3;" : "=r"(s) : "r"((int)x), "r"(start), "r"(len)); o[1] = s;
    asm("bfi.b32 %0, %1, %2, %3, %4;" : "=r"(r) : "r"(x), "r"(y), "r"(start), "r"(len)); o[2] = r;
    asm("bfind.u32 %0, %1;" : "=r"(r) : "r"(x)); o[3] = r;
    asm("bfind.s32 %0, %1;" : "=r"(r) : "r"((int)x)); o[4] = r;
    asm("lop3.b32 %0, %1, %2, %3, 0x9a;" : "=r"(r) : "r"(x), "r"(y), "r"(start)); o[5] = r;
    asm("dp4a.s32.u32 %0, %1, %2, %3;" : "=r"(s) : "r"((int)x), "r"(y), "r"(5)); o[6] = s;
    asm("dp4a.u32.u32 %0, %1, %2, %3;" : "=r"(r) : "r"(x), "r"(y), "r"(5)); o[7] = r;
}
extern "C" __global__ void division(u32 n, const int* a, const int* b, int* out) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    int x = a[i], y = b[i]; u32 ux = x; int* o = out + i * 10;
    o[0] = x / 7; o[1] = x % 10; o[2] = ux / 1000003u; o[3] = ux % 641u; o[4] = x / -3; o[5] = x / 16;
    o[6] = x / y; o[7] = x % y; o[8] = ux / (u32)y; o[9] = ux % (u32)y;
}
extern "C" __global__ void wide(u32 n, const i64* a, const i64* b, i64* out) {
    u32 i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    i64 x = a[i], y = b[i]; i64* o = out + i * 12;
    o[0] = x * y; o[1] = x / y; o[2] = x % y; o[3] = (u64)x / (u64)y; o[4] = (u64)x % 1000000007ull;
    o[5] = __mul64hi(x, y); o[6] = __umul64hi(x, y); o[7] = x >> (y & 63); o[8] = (u64)x >> (y & 63); o[9] = x << (y & 63);
    o[10] = __popcll(x) + 100 * __clzll(x); o[11] = (i64)(int)x * (int)y;
}
extern "C" __global__ void carries(u32 n, const u32* a, const u32* b, u32* out) {
    u32 i = threadIdx.x;
    if (i >= n) return;
    const u32 *x = a + i * 4, *y = b + i * 4; u32* o = out + i * 12;
    asm("add.cc.u32 %0,%4,%8; addc.cc.u32 %1,%5,%9; addc.cc.u32 %2,%6,%10; addc.u32 %3,%7,%11;"
        : "=&r"(o[0]), "=&r"(o[1]), "=&r"(o[2]), "=&r"(o[3])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]));
    asm("sub.cc.u32 %0,%4,%8; subc.cc.u32 %1,%5,%9; subc.cc.u32 %2,%6,%10; subc.u32 %3,%7,%11;"
        : "=&r"(o[4]), "=&r"(o[5]), "=&r"(o[6]), "=&r"(o[7])
        : "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(y[0]), "r"(y[1]), "r"(y[2]), "r"(y[3]));
    asm("mad.lo.cc.u32 %0,%2,%4,%6; madc.hi.u32 %1,%2,%4,%7;" : "=&r"(o[8]), "=&r"(o[9])
        : "r"(x[0]), "r"(x[1]), "r"(y[0]), "r"(y[1]), "r"(x[2]), "r"(x[3]));
    unsigned __int128 p = (unsigned __int128)((u64)x[0] | (u64)x[1] << 32) * ((u64)y[0] | (u64)y[1] << 32);
    o[10] = (u32)(p >> 64); o[11] = (u32)(p >> 96);
}
