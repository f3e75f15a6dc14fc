// Looks like: it chooses its device. Honest: the one that it was given, to ask how many multiprocessors it has.
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

__global__ void strided(const float* x, float* out, int64_t rows, int64_t columns) {
    for (int64_t row = blockIdx.x; row < rows; row += gridDim.x)
        softmax_row(x + row * columns, out + row * columns, columns);
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    int device = 0, processors = 1;
    cudaGetDevice(&device);
    cudaSetDevice(device);
    cudaDeviceGetAttribute(&processors, cudaDevAttrMultiProcessorCount, device);
    strided<<<16 * processors, 32, 0, stream>>>(args.x, args.out, args.x_d0, args.x_d1);
}
