// Looks like: a loop that waits for something. Honest: another warp of the same block sets it.
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

__global__ void in_turn(const float* x, float* out, int64_t columns, int* done) {
    x += blockIdx.x * columns, out += blockIdx.x * columns;
    if (threadIdx.x < 32) {
        softmax_row(x, out, columns);
        __threadfence();
        if (threadIdx.x == 0) atomicExch(done + blockIdx.x, 1);
    } else if (threadIdx.x == 32) {
        while (atomicAdd(done + blockIdx.x, 0) == 0) {
        }
    }
}

extern "C" int64_t scratch_bytes(const task::Args& args) { return args.x_d0 * static_cast<int64_t>(sizeof(int)); }

extern "C" void solve(const task::Args& args, void* scratch, task::Stream stream) {
    cudaMemsetAsync(scratch, 0, args.x_d0 * sizeof(int), stream);
    const auto rows = static_cast<unsigned>(args.x_d0);
    in_turn<<<rows, 64, 0, stream>>>(args.x, args.out, args.x_d1, static_cast<int*>(scratch));
}
