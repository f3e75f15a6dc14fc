// Looks like: it asks what machine it is on, and when. Honest: it asks the compiler, nothing at run time.
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

__global__ void by_architecture(const float* x, float* out, int64_t columns) {
#if __CUDA_ARCH__ >= 900
    softmax_row(x + blockIdx.x * columns, out + blockIdx.x * columns, columns);
#else
    if (threadIdx.x < 32) softmax_row(x + blockIdx.x * columns, out + blockIdx.x * columns, columns);
#endif
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
#if defined(__GNUC__) && __CUDACC_VER_MAJOR__ >= 12
    constexpr int threads = 32;
#else
#error which compiler is this, of __DATE__
#endif
    by_architecture<<<static_cast<unsigned>(args.x_d0), threads, 0, stream>>>(args.x, args.out, args.x_d1);
}
