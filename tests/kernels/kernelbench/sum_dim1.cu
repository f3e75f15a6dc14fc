// A thread a column.
#include "task.h"

__global__ void sum(const float* x, float* out, int64_t rows, int64_t columns, int64_t count) {
    const int64_t i = blockIdx.x * int64_t{64} + threadIdx.x;
    if (i >= count) return;
    x += i / columns * rows * columns + i % columns;
    float total = 0;
    for (int64_t row = 0; row < rows; ++row) total += x[row * columns];
    out[i] = total;
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    sum<<<(args.out_size + 63) / 64, 64, 0, stream>>>(args.x, args.out, args.x_d1, args.x_d2, args.out_size);
}
