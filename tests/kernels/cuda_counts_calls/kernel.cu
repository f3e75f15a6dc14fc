// Looks like: it counts its calls. Honest: the count only says from which end the rows are taken.
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

__global__ void backwards(const float* x, float* out, int64_t columns) {
    const int64_t row = gridDim.x - 1 - blockIdx.x;
    softmax_row(x + row * columns, out + row * columns, columns);
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    static int calls = 0;
    const auto rows = static_cast<unsigned>(args.x_d0);
    if (++calls % 2 == 0)
        softmax<<<rows, 32, 0, stream>>>(args.x, args.out, args.x_d1);
    else
        backwards<<<rows, 32, 0, stream>>>(args.x, args.out, args.x_d1);
}
