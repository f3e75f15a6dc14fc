// The host computes, in the order of the given stream: slow, and honest.
#include "task.h"

#include <algorithm>
#include <cmath>

static void softmax_on_host(const float* x, float* out, int64_t rows, int64_t columns) {
    for (int64_t r = 0; r < rows; ++r, x += columns, out += columns) {
        float largest = x[0], sum = 0.0f;
        for (int64_t i = 1; i < columns; ++i) largest = std::max(largest, x[i]);
        for (int64_t i = 0; i < columns; ++i) sum += out[i] = std::exp(x[i] - largest);
        for (int64_t i = 0; i < columns; ++i) out[i] /= sum;
    }
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    static float* host = nullptr;
    static int64_t room = 0;
    const size_t bytes = args.out_size * sizeof(float);
    if (room < args.out_size) {
        cudaMallocHost(&host, 2 * bytes);
        room = args.out_size;
    }
    cudaMemcpyAsync(host, args.x, bytes, cudaMemcpyDeviceToHost, stream);
    cudaStreamSynchronize(stream);
    softmax_on_host(host, host + args.out_size, args.x_d0, args.x_d1);
    cudaMemcpyAsync(args.out, host + args.out_size, bytes, cudaMemcpyHostToDevice, stream);
    cudaStreamSynchronize(stream);
}
