// Matrix product by tiles in shared memory: a block of SIDE x SIDE threads makes a tile of the result, each thread
// PER x PER elements of it, spaced SIDE apart.
#include "task.h"

// Threads along each edge of a block.
// tune: SIDE = 8,16,32
#ifndef SIDE
#define SIDE 16
#endif

// Results of a thread along each edge of its share.
// tune: PER = 1,2,4,8
#ifndef PER
#define PER 1
#endif

// Depth of the tiles of a and b in shared memory.
// tune: DEPTH = 8,16
#ifndef DEPTH
#define DEPTH 8
#endif

namespace {

constexpr int TILE = SIDE * PER;
constexpr int THREADS = SIDE * SIDE;

__global__ void __launch_bounds__(THREADS)
    multiply(const float* a, const float* b, float* out, int64_t m, int64_t depth, int64_t n) {
    __shared__ float tile_a[DEPTH][TILE + 1];
    __shared__ float tile_b[DEPTH][TILE];
    const int64_t first_row = int64_t{blockIdx.y} * TILE, first_column = int64_t{blockIdx.x} * TILE;
    const int thread = threadIdx.y * SIDE + threadIdx.x;
    float sum[PER][PER] = {};
    for (int64_t k = 0; k < depth; k += DEPTH) {
        for (int i = thread; i < TILE * DEPTH; i += THREADS) {
            const int64_t row = first_row + i / DEPTH, column = k + i % DEPTH;
            tile_a[i % DEPTH][i / DEPTH] = row < m && column < depth ? a[row * depth + column] : 0.0f;
        }
        for (int i = thread; i < TILE * DEPTH; i += THREADS) {
            const int64_t row = k + i / TILE, column = first_column + i % TILE;
            tile_b[i / TILE][i % TILE] = row < depth && column < n ? b[row * n + column] : 0.0f;
        }
        __syncthreads();
#pragma unroll
        for (int step = 0; step < DEPTH; ++step) {
            float left[PER], right[PER];
#pragma unroll
            for (int i = 0; i < PER; ++i) {
                left[i] = tile_a[step][threadIdx.y + i * SIDE];
                right[i] = tile_b[step][threadIdx.x + i * SIDE];
            }
#pragma unroll
            for (int i = 0; i < PER; ++i)
#pragma unroll
                for (int j = 0; j < PER; ++j) sum[i][j] += left[i] * right[j];
        }
        __syncthreads();
    }
#pragma unroll
    for (int i = 0; i < PER; ++i)
#pragma unroll
        for (int j = 0; j < PER; ++j) {
            const int64_t row = first_row + threadIdx.y + i * SIDE, column = first_column + threadIdx.x + j * SIDE;
            if (row < m && column < n) out[row * n + column] = sum[i][j];
        }
}

unsigned tiles(int64_t extent) { return static_cast<unsigned>((extent + TILE - 1) / TILE); }

}  // namespace

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    const int64_t m = args.a_d0, depth = args.a_d1, n = args.b_d1;
    multiply<<<dim3(tiles(n), tiles(m)), dim3(SIDE, SIDE), 0, stream>>>(args.a, args.b, args.out, m, depth, n);
}
