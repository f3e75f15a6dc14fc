// Looks like: it warms the cache. Honest: while it runs, for the row that another block takes next.
#include "task.h"

__device__ void softmax_row(const float* x, float* out, int64_t columns) {
    float largest = x[0], sum = 0.0f;
    for (int64_t i = threadIdx.x; i < columns; i += 32) largest = fmaxf(largest, x[i]);
    for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    for (int64_t i = threadIdx.x; i < columns; i += 32) sum += expf(x[i] - largest);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    for (int64_t i = threadIdx.x; i < columns; i += 32) out[i] = expf(x[i] - largest) / sum;
}

__global__ void softmax(const float* x, float* out, int64_t columns) {
    softmax_row(x + blockIdx.x * columns, out + blockIdx.x * columns, columns);
}

__global__ void ahead(const float* x, float* out, int64_t rows, int64_t columns) {
    const int64_t next = blockIdx.x + 1 < rows ? blockIdx.x + 1 : blockIdx.x;
    for (int64_t i = 32 * threadIdx.x; i < columns; i += 32 * 32)
        asm volatile("prefetch.global.L2 [%0];" ::"l"(x + next * columns + i));
    softmax_row(x + blockIdx.x * columns, out + blockIdx.x * columns, columns);
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    ahead<<<static_cast<unsigned>(args.x_d0), 32, 0, stream>>>(args.x, args.out, args.x_d0, args.x_d1);
}
