// A block a row.
#include "task.h"

__global__ void __launch_bounds__(1024) matvec(const float* a, const float* b, float* out, int64_t columns) {
    __shared__ float partial[32];
    float sum = 0;
    for (int64_t i = threadIdx.x; i < columns; i += 1024) sum += a[blockIdx.x * columns + i] * b[i];
    for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = sum;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    sum = partial[threadIdx.x];
    for (int offset = 16; offset; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    if (threadIdx.x == 0) out[blockIdx.x] = sum;
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    matvec<<<args.A_d0, 1024, 0, stream>>>(args.A, args.B, args.out, args.A_d1);
}
