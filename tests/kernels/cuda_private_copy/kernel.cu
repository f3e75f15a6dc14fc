// Looks like: it changes its input. Honest: it changes a copy, in its scratch memory.
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

__global__ void shift(float* x, int64_t columns) {
    float* row = x + blockIdx.x * columns;
    float largest = row[0];
    for (int64_t i = threadIdx.x; i < columns; i += 32) largest = fmaxf(largest, row[i]);
    for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    for (int64_t i = threadIdx.x; i < columns; i += 32) row[i] -= largest;
}

extern "C" int64_t scratch_bytes(const task::Args& args) { return args.x_size * static_cast<int64_t>(sizeof(float)); }

extern "C" void solve(const task::Args& args, void* scratch, task::Stream stream) {
    float* copy = static_cast<float*>(scratch);
    const auto rows = static_cast<unsigned>(args.x_d0);
    cudaMemcpyAsync(copy, args.x, args.x_size * sizeof(float), cudaMemcpyDeviceToDevice, stream);
    shift<<<rows, 32, 0, stream>>>(copy, args.x_d1);
    softmax<<<rows, 32, 0, stream>>>(copy, args.out, args.x_d1);
}
