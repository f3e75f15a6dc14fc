// Over everything but the batch: sums of pieces in double, then the pieces again with their picture's mean and variance.
#include "task.h"

constexpr int THREADS = 256, PIECES = 128;

__device__ double add_up(double value) {
    __shared__ double partial[THREADS];
    partial[threadIdx.x] = value;
    for (int half = THREADS / 2; half; half /= 2) {
        __syncthreads();
        if (threadIdx.x < half) partial[threadIdx.x] += partial[threadIdx.x + half];
    }
    __syncthreads();
    value = partial[0];
    __syncthreads();
    return value;
}

__global__ void sums(const float* x, double* found, int64_t length) {
    x += blockIdx.y * length;
    double sum = 0, squares = 0;
    for (int64_t i = blockIdx.x * THREADS + threadIdx.x; i < length; i += PIECES * THREADS) {
        sum += x[i];
        squares += static_cast<double>(x[i]) * x[i];
    }
    sum = add_up(sum), squares = add_up(squares);
    if (threadIdx.x == 0) found[2 * (blockIdx.y * PIECES + blockIdx.x)] = sum;
    if (threadIdx.x == 0) found[2 * (blockIdx.y * PIECES + blockIdx.x) + 1] = squares;
}

__global__ void normalise(const float* x, const float* weight, const float* bias, const double* found, float* out,
                          int64_t length) {
    const double* mine = found + 2 * blockIdx.y * PIECES;
    const double sum = add_up(threadIdx.x < PIECES ? mine[2 * threadIdx.x] : 0) / length;
    const double squares = add_up(threadIdx.x < PIECES ? mine[2 * threadIdx.x + 1] : 0) / length;
    const float mean = sum, scale = 1 / sqrt(squares - sum * sum + 1e-5);
    x += blockIdx.y * length, out += blockIdx.y * length;
    for (int64_t i = blockIdx.x * THREADS + threadIdx.x; i < length; i += PIECES * THREADS)
        out[i] = (x[i] - mean) * scale * weight[i] + bias[i];
}

extern "C" int64_t scratch_bytes(const task::Args& args) { return args.x_d0 * PIECES * 2 * sizeof(double); }

extern "C" void solve(const task::Args& args, void* scratch, task::Stream stream) {
    const int64_t length = args.x_size / args.x_d0;
    const dim3 grid(PIECES, args.x_d0);
    sums<<<grid, THREADS, 0, stream>>>(args.x, (double*)scratch, length);
    normalise<<<grid, THREADS, 0, stream>>>(args.x, args.ln_weight, args.ln_bias, (const double*)scratch, args.out, length);
}
