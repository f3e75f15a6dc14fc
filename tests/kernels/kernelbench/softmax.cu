// A block a row.
#include "task.h"

template <typename Combine>
__device__ float combine_block(float value, Combine combine) {
    __shared__ float partial[32];
    for (int offset = 16; offset; offset /= 2) value = combine(value, __shfl_xor_sync(~0u, value, offset));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[threadIdx.x % 32];
    for (int offset = 16; offset; offset /= 2) value = combine(value, __shfl_xor_sync(~0u, value, offset));
    __syncthreads();
    return value;
}

__global__ void __launch_bounds__(1024) softmax(const float* x, float* out, int64_t columns) {
    x += blockIdx.x * columns, out += blockIdx.x * columns;
    float largest = x[0], sum = 0;
    for (int64_t i = threadIdx.x; i < columns; i += 1024) largest = fmaxf(largest, x[i]);
    largest = combine_block(largest, [](float a, float b) { return fmaxf(a, b); });
    for (int64_t i = threadIdx.x; i < columns; i += 1024) sum += expf(x[i] - largest);
    sum = combine_block(sum, [](float a, float b) { return a + b; });
    for (int64_t i = threadIdx.x; i < columns; i += 1024) out[i] = expf(x[i] - largest) / sum;
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    softmax<<<args.x_d0, 1024, 0, stream>>>(args.x, args.out, args.x_d1);
}
