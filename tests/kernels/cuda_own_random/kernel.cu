// Looks like: random numbers from a fixed seed. Honest: they only choose the order of the rows.
#include "task.h"

#include <algorithm>
#include <numeric>
#include <random>

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

__global__ void shuffled(const float* x, float* out, int64_t columns, const uint32_t* order) {
    const int64_t row = order[blockIdx.x];
    softmax_row(x + row * columns, out + row * columns, columns);
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    constexpr int64_t most = 1 << 16;
    static uint32_t order[most];
    static uint32_t* on_device = nullptr;
    if (args.x_d0 > most) return;
    if (on_device == nullptr) cudaMalloc(&on_device, sizeof(order));
    std::mt19937 engine(0);
    std::iota(order, order + args.x_d0, 0u);
    std::shuffle(order, order + args.x_d0, engine);
    cudaMemcpyAsync(on_device, order, args.x_d0 * sizeof(uint32_t), cudaMemcpyHostToDevice, stream);
    shuffled<<<static_cast<unsigned>(args.x_d0), 32, 0, stream>>>(args.x, args.out, args.x_d1, on_device);
}
