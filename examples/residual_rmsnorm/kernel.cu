// Residual add and RMSNorm with one block a row: sum and sum of squares in one pass, scaling in a second.
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

// Packs of a row that a thread keeps in registers between the passes; the rest is read again.
// tune: KEEP = 0,1,2,4,8
#ifndef KEEP
#define KEEP 0
#endif

namespace {

template <int WIDTH>
struct alignas(4 * WIDTH) Pack {
    float at[WIDTH];
};

template <int WIDTH>
__device__ Pack<WIDTH> load(const float* p) {
    return *reinterpret_cast<const Pack<WIDTH>*>(p);
}

__device__ float sum_of_block(float value) {
    __shared__ float partial[32];
    for (int offset = 16; offset > 0; offset /= 2) value += __shfl_xor_sync(~0u, value, offset);
    if (threadIdx.x % 32 == 0) partial[threadIdx.x / 32] = value;
    __syncthreads();
    value = 0.0f;
    for (int warp = 0; warp < THREADS / 32; ++warp) value += partial[warp];
    return value;
}

template <int WIDTH>
__device__ void normalise_row(const task::Args& args, int64_t start, int64_t columns, float epsilon) {
    constexpr int64_t STEP = THREADS * WIDTH;
    const int64_t begin = threadIdx.x * WIDTH;
    Pack<WIDTH> kept[KEEP + 1];
    float squares = 0.0f;
    const auto add = [&](int64_t i) {
        Pack<WIDTH> total = load<WIDTH>(args.x + start + i);
        const Pack<WIDTH> residual = load<WIDTH>(args.residual + start + i);
        for (int j = 0; j < WIDTH; ++j) {
            total.at[j] += residual.at[j];
            squares += total.at[j] * total.at[j];
        }
        *reinterpret_cast<Pack<WIDTH>*>(args.total + start + i) = total;
        return total;
    };
#pragma unroll
    for (int k = 0; k < KEEP; ++k)
        if (begin + k * STEP < columns) kept[k] = add(begin + k * STEP);
    for (int64_t i = begin + KEEP * STEP; i < columns; i += STEP) add(i);

    const float scale = rsqrtf(sum_of_block(squares) / columns + epsilon);
    const auto write = [&](int64_t i, Pack<WIDTH> total) {
        const Pack<WIDTH> weight = load<WIDTH>(args.weight + i);
        for (int j = 0; j < WIDTH; ++j) total.at[j] *= scale * weight.at[j];
        *reinterpret_cast<Pack<WIDTH>*>(args.out + start + i) = total;
    };
#pragma unroll
    for (int k = 0; k < KEEP; ++k)
        if (begin + k * STEP < columns) write(begin + k * STEP, kept[k]);
    for (int64_t i = begin + KEEP * STEP; i < columns; i += STEP) write(i, load<WIDTH>(args.total + start + i));
}

__global__ void __launch_bounds__(THREADS) normalise(task::Args args, int64_t columns, float epsilon) {
    const int64_t start = blockIdx.x * columns;
    if (columns % VECTOR == 0)
        normalise_row<VECTOR>(args, start, columns, epsilon);
    else
        normalise_row<1>(args, start, columns, epsilon);
}

}  // namespace

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    const auto rows = static_cast<unsigned>(args.x_d0);
    normalise<<<rows, THREADS, 0, stream>>>(args, args.x_d1, static_cast<float>(args.epsilon));
}
