// Tensor core products through inline PTX, with cp.async and ldmatrix.
typedef unsigned u32;
__device__ inline u32 shared_address(const void* p) { return (u32)__cvta_generic_to_shared(p); }
__device__ inline void copy16(u32 to, const void* from, u32 size) {
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" :: "r"(to), "l"(from), "r"(size) : "memory");
}
__device__ inline void commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int N> __device__ inline void wait() { asm volatile("cp.async.wait_group %0;" :: "n"(N) : "memory"); }
// C[16 x 8] = A[16 x k] B[k x 8]^T, two stages, one warp. A is row-major, B is column-major (8 rows of k).
extern "C" __global__ void mma_f16(int k, const unsigned short* a, const unsigned short* b, float* c) {
    __shared__ __align__(16) unsigned short as[2][16 * 16], bs[2][8 * 16];
    int lane = threadIdx.x;
    float d[4] = {0, 0, 0, 0};
    auto load = [&](int stage, int k0) {
        copy16(shared_address(&as[stage][lane / 2 * 16 + lane % 2 * 8]), a + lane / 2 * k + k0 + lane % 2 * 8, 16);
        if (lane < 16)
            copy16(shared_address(&bs[stage][lane / 2 * 16 + lane % 2 * 8]), b + lane / 2 * k + k0 + lane % 2 * 8, 16);
        commit();
    };
    load(0, 0);
    for (int k0 = 0, s = 0; k0 < k; k0 += 16, s ^= 1) {
        if (k0 + 16 < k) { load(s ^ 1, k0 + 16); wait<1>(); } else wait<0>();
        __syncwarp();
        u32 ra[4], rb[2];
        u32 pa = shared_address(&as[s][(lane % 16) * 16 + lane / 16 * 8]);
        u32 pb = shared_address(&bs[s][(lane % 8) * 16 + lane / 8 % 2 * 8]);
        asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
            : "=r"(ra[0]), "=r"(ra[1]), "=r"(ra[2]), "=r"(ra[3]) : "r"(pa));
        asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0,%1}, [%2];"
        : "=r"(rb[0]), "=r"(rb[1]) : "r"(pb));
        asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
            : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
        __syncwarp();
    }
    int row = lane / 4, col = lane % 4 * 2;
    c[row * 8 + col] = d[0]; c[row * 8 + col + 1] = d[1]; c[(row + 8) * 8 + col] = d[2]; c[(row + 8) * 8 + col + 1] = d[3];
}
// B is row-major here, and ldmatrix transposes it. bf16.
extern "C" __global__ void mma_bf16(const unsigned short* a, const unsigned short* b, float* c) {
    __shared__ __align__(16) unsigned short bs[16 * 8];
    int lane = threadIdx.x, g = lane / 4, p = lane % 4;
    for (int i = lane; i < 128; i += 32) bs[i] = b[i];
    __syncwarp();
    const u32* a32 = (const u32*)a;
    u32 ra[4] = {a32[g * 8 + p], a32[(g + 8) * 8 + p], a32[g * 8 + p + 4], a32[(g + 8) * 8 + p + 4]}, rb[2];
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
        : "=r"(rb[0]), "=r"(rb[1]) : "r"(shared_address(&bs[(lane % 16) * 8])));
    float d[4] = {1, 2, 3, 4};
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    c[g * 8 + p * 2] = d[0]; c[g * 8 + p * 2 + 1] = d[1]; c[(g + 8) * 8 + p * 2] = d[2]; c[(g + 8) * 8 + p * 2 + 1] = d[3];
}
extern "C" __global__ void mma_tf32(const float* a, const float* b, float* c) {
    int lane = threadIdx.x, g = lane / 4, p = lane % 4;
    auto round = [](float x) { u32 r; asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(r) : "f"(x)); return r; };
    u32 ra[4] = {round(a[g * 8 + p]), round(a[(g + 8) * 8 + p]), round(a[g * 8 + p + 4]), round(a[(g + 8) * 8 + p + 4])};
    u32 rb[2] = {round(b[p * 8 + g]), round(b[(p + 4) * 8 + g])};
    float d[4] = {0, 0, 0, 0};
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
        : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    c[g * 8 + p * 2] = d[0]; c[g * 8 + p * 2 + 1] = d[1]; c[(g + 8) * 8 + p * 2] = d[2]; c[(g + 8) * 8 + p * 2 + 1] = d[3];
}
extern "C" __global__ void mma_s8(const signed char* a, const signed char* b, int* c) {
    int lane = threadIdx.x, g = lane / 4, p = lane % 4;
    const int *a4 = (const int*)a, *b4 = (const int*)b;
    int ra[4] = {a4[g * 8 + p], a4[(g + 8) * 8 + p], a4[g * 8 + p + 4], a4[(g + 8) * 8 + p + 4]};
    int rb[2] = {b4[g * 8 + p], b4[g * 8 + p + 4]}, d[4] = {7, 8, 9, 10};
    asm volatile("mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, {%0,%1,%2,%3};"
        : "+r"(d[0]), "+r"(d[1]), "+r"(d[2]), "+r"(d[3])
        : "r"(ra[0]), "r"(ra[1]), "r"(ra[2]), "r"(ra[3]), "r"(rb[0]), "r"(rb[1]));
    c[g * 8 + p * 2] = d[0]; c[g * 8 + p * 2 + 1] = d[1]; c[(g + 8) * 8 + p * 2] = d[2]; c[(g + 8) * 8 + p * 2 + 1] = d[3];
}
// f16 accumulators and k = 8.
extern "C" __global__ void mma_f16_k8(const unsigned short* a, const unsigned short* b, u32* c) {
    int lane = threadIdx.x, g = lane / 4, p = lane % 4;
    const u32 *a2 = (const u32*)a, *b2 = (const u32*)b;
    u32 ra[2] = {a2[g * 4 + p], a2[(g + 8) * 4 + p]}, rb = b2[g * 4 + p], d[2] = {0, 0};
    asm volatile("mma.sync.aligned.m16n8k8.row.col.f16.f16.f16.f16 {%0,%1}, {%2,%3}, {%4}, {%0,%1};"
        : "+r"(d[0]), "+r"(d[1]) : "r"(ra[0]), "r"(ra[1]), "r"(rb));
    c[g * 4 + p] = d[0]; c[(g + 8) * 4 + p] = d[1];
}
extern "C" __global__ void mma_f64(const double* a, const double* b, double* c) {
    int lane = threadIdx.x, g = lane / 4, p = lane % 4;
    double d[2] = {0.5, -0.5};
    asm volatile("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%0,%1}, {%2}, {%3}, {%0,%1};"
        : "+d"(d[0]), "+d"(d[1]) : "d"(a[g * 4 + p]), "d"(b[p * 8 + g]));
    c[g * 8 + p * 2] = d[0]; c[g * 8 + p * 2 + 1] = d[1];
}
// C[m x n] = A[m x k] B[k x n] with f16 inputs, tiles of 64 x 64, four warps of 32 x 32 and three stages of copies.
extern "C" __global__ void hgemm(int n, int k, const unsigned short* a, const unsigned short* b, float* c) {
    __shared__ __align__(16) unsigned short as[3][64][24], bs[3][16][72];
    int t = threadIdx.x, lane = t & 31, warp = t >> 5, row0 = blockIdx.y * 64, col0 = blockIdx.x * 64;
    int wr = warp / 2 * 32, wc = warp % 2 * 32, steps = k / 16;
    float d[2][4][4] = {};
    auto load = [&](int step) {
        if (step < steps) {
            int s = step % 3, k0 = step * 16;
            copy16(shared_address(&as[s][t / 2][t % 2 * 8]), a + (row0 + t / 2) * k + k0 + t % 2 * 8, 16);
            copy16(shared_address(&bs[s][t / 8][t % 8 * 8]), b + (k0 + t / 8) * n + col0 + t % 8 * 8, 16);
        }
        commit();
    };
    load(0);
    load(1);
    for (int step = 0; step < steps; step++) {
        wait<1>();
        __syncthreads();
        load(step + 2);
        int s = step % 3;
        u32 ra[2][4], rb[4][2];
        for (int i = 0; i < 2; i++)
            asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0,%1,%2,%3}, [%4];"
                : "=r"(ra[i][0]), "=r"(ra[i][1]), "=r"(ra[i][2]), "=r"(ra[i][3])
                : "r"(shared_address(&as[s][wr + i * 16 + lane % 16][lane / 16 * 8])));
        for (int j = 0; j < 4; j++)
            asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0,%1}, [%2];"
                : "=r"(rb[j][0]), "=r"(rb[j][1]) : "r"(shared_address(&bs[s][lane % 16][wc + j * 8])));
        for (int i = 0; i < 2; i++)
            for (int j = 0; j < 4; j++)
                asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0,%1,%2,%3}, {%4,%5,%6,%7}, {%8,%9}, "
                    "{%0,%1,%2,%3};"
                    : "+f"(d[i][j][0]), "+f"(d[i][j][1]), "+f"(d[i][j][2]), "+f"(d[i][j][3])
                    : "r"(ra[i][0]), "r"(ra[i][1]), "r"(ra[i][2]), "r"(ra[i][3]), "r"(rb[j][0]), "r"(rb[j][1]));
    }
    for (int i = 0; i < 2; i++)
        for (int j = 0; j < 4; j++)
            for (int h = 0; h < 2; h++) {
                int row = row0 + wr + i * 16 + h * 8 + lane / 4, col = col0 + wc + j * 8 + lane % 4 * 2;
                *(float2*)&c[row * n + col] = make_float2(d[i][j][h * 2], d[i][j][h * 2 + 1]);
            }
}
