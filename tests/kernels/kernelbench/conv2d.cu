// 3 x 3 over three channels: a thread a place, all channels of the result one after the other out of registers; the
// weights are copied to constant memory first, in the order of the stream.
#include "task.h"

constexpr int CHANNELS = task::Args::x_d1, HEIGHT = task::Args::x_d2, WIDTH = task::Args::x_d3;
constexpr int MADE = task::Args::conv2d_weight_d0, SIDE = task::Args::conv2d_weight_d2;
constexpr int TAPS = CHANNELS * SIDE * SIDE, TALL = HEIGHT - SIDE + 1, WIDE = WIDTH - SIDE + 1;

__constant__ float weights[MADE * TAPS];

__global__ void conv(const float* x, float* out, int64_t batch) {
    const int64_t i = blockIdx.x * int64_t{256} + threadIdx.x;
    if (i >= batch * TALL * WIDE) return;
    const int64_t picture = i / (TALL * WIDE), place = i % (TALL * WIDE), row = place / WIDE, column = place % WIDE;
    float taps[TAPS];
#pragma unroll
    for (int c = 0; c < CHANNELS; ++c)
#pragma unroll
        for (int y = 0; y < SIDE; ++y)
#pragma unroll
            for (int z = 0; z < SIDE; ++z)
                taps[(c * SIDE + y) * SIDE + z] = x[((picture * CHANNELS + c) * HEIGHT + row + y) * WIDTH + column + z];
    for (int made = 0; made < MADE; ++made) {
        float sum = 0;
#pragma unroll
        for (int tap = 0; tap < TAPS; ++tap) sum += taps[tap] * weights[made * TAPS + tap];
        out[(picture * MADE + made) * TALL * WIDE + place] = sum;
    }
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    const int64_t places = args.x_d0 * TALL * WIDE;
    cudaMemcpyToSymbolAsync(weights, args.conv2d_weight, sizeof weights, 0, cudaMemcpyDeviceToDevice, stream);
    conv<<<(places + 255) / 256, 256, 0, stream>>>(args.x, args.out, args.x_d0);
}
