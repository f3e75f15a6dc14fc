// Writes a float4 to an address that is not a multiple of 16.
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

__global__ void crooked(float* out) {
    const float value = static_cast<float>(threadIdx.x);
    reinterpret_cast<float4*>(out + 1)[threadIdx.x] = make_float4(value, value, value, value);
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    crooked<<<1, 32, 0, stream>>>(args.out);
}
