// Softmax with one block a row: the largest element, then the exponentials and their sum, then the division.
#include "task.h"

// Threads of a block.
// tune: THREADS = 32,64,128,256,512,1024
#ifndef THREADS
#define THREADS 32
#endif

// Floats loaded at a time, where the rows are aligned for it.
// tune: VECTOR = 1,2,4
#ifndef VECTOR
#define VECTOR 1
#endif

// 0: exp as in the library; 1: by the special function unit, which loses a bit for each doubling of the argument.
// tune: FAST_EXP = 0,1
#ifndef FAST_EXP
#define FAST_EXP 0
#endif

namespace {

struct alignas(4 * VECTOR) Pack {
    float at[VECTOR];
};

__device__ float exp_of(float x) { return FAST_EXP ? __expf(x) : expf(x); }

template <typename Combine>
__device__ float combine_block(float value, Combine combine) {
    __shared__ float partial[32];
    for (int offset = 16; offset > 0; offset /= 2) value = combine(value, __shfl_xor_sync(~0u, value, offset));
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = partial[0];
    for (int warp = 1; warp < THREADS / 32; ++warp) value = combine(value, partial[warp]);
    __syncthreads();
    return value;
}

template <int WIDTH, typename Load>
__device__ void softmax_row(const float* x, float* out, int64_t columns, Load load) {
    float largest = x[0];
    for (int64_t i = threadIdx.x * WIDTH; i < columns; i += THREADS * WIDTH) {
        const auto pack = load(x + i);
        for (int j = 0; j < WIDTH; ++j) largest = fmaxf(largest, pack.at[j]);
    }
    largest = combine_block(largest, [](float a, float b) { return fmaxf(a, b); });
    float sum = 0.0f;
    for (int64_t i = threadIdx.x * WIDTH; i < columns; i += THREADS * WIDTH) {
        const auto pack = load(x + i);
        for (int j = 0; j < WIDTH; ++j) sum += exp_of(pack.at[j] - largest);
    }
    const float scale = 1.0f / combine_block(sum, [](float a, float b) { return a + b; });
    for (int64_t i = threadIdx.x * WIDTH; i < columns; i += THREADS * WIDTH) {
        auto pack = load(x + i);
        for (int j = 0; j < WIDTH; ++j) pack.at[j] = exp_of(pack.at[j] - largest) * scale;
        *reinterpret_cast<decltype(pack)*>(out + i) = pack;
    }
}

struct Single {
    float at[1];
};

__global__ void __launch_bounds__(THREADS) softmax(const float* x, float* out, int64_t columns) {
    x += blockIdx.x * columns;
    out += blockIdx.x * columns;
    if (columns % VECTOR == 0)
        softmax_row<VECTOR>(x, out, columns, [](const float* p) { return *reinterpret_cast<const Pack*>(p); });
    else
        softmax_row<1>(x, out, columns, [](const float* p) { return Single{{*p}}; });
}

}  // namespace

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    softmax<<<static_cast<unsigned>(args.x_d0), THREADS, 0, stream>>>(args.x, args.out, args.x_d1);
}
