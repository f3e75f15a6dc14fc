// Direct 3x3 convolution: a block makes a tile of the result for FILTERS filters, one pixel a thread, with the image's
// tile and the weights of STAGE channels at a time in shared memory.
#include "task.h"

// Width and height of a tile.
// tune: TILE_X = 8,16,32
#ifndef TILE_X
#define TILE_X 8
#endif
// tune: TILE_Y = 4,8,16
#ifndef TILE_Y
#define TILE_Y 8
#endif

// Filters computed by a thread.
// tune: FILTERS = 1,2,4,8,16
#ifndef FILTERS
#define FILTERS 1
#endif

// Channels brought to shared memory at a time.
// tune: STAGE = 1,2,4,8
#ifndef STAGE
#define STAGE 1
#endif

namespace {

using task::Args;
constexpr int CHANNELS = Args::images_d1, HEIGHT = Args::images_d2, WIDTH = Args::images_d3, OUTPUTS = Args::weights_d0;
constexpr int THREADS = TILE_X * TILE_Y;
constexpr int LINE = TILE_X + 2, AREA = LINE * (TILE_Y + 2);
constexpr int GROUPS = (OUTPUTS + FILTERS - 1) / FILTERS;

__global__ void __launch_bounds__(THREADS) convolve(Args args) {
    __shared__ float tile[STAGE][AREA];
    __shared__ float weights[STAGE][FILTERS][9];
    const int image = blockIdx.z / GROUPS, filter = blockIdx.z % GROUPS * FILTERS;
    const int x = blockIdx.x * TILE_X, y = blockIdx.y * TILE_Y;
    const int thread = threadIdx.y * TILE_X + threadIdx.x;
    float sum[FILTERS] = {};
    for (int channel = 0; channel < CHANNELS; channel += STAGE) {
        for (int i = thread; i < STAGE * AREA; i += THREADS) {
            const int c = channel + i / AREA, row = y + i % AREA / LINE - 1, column = x + i % AREA % LINE - 1;
            const bool inside = c < CHANNELS && row >= 0 && row < HEIGHT && column >= 0 && column < WIDTH;
            tile[i / AREA][i % AREA] =
                inside ? args.images[((int64_t{image} * CHANNELS + c) * HEIGHT + row) * WIDTH + column] : 0.0f;
        }
        for (int i = thread; i < STAGE * FILTERS * 9; i += THREADS) {
            const int c = channel + i / (FILTERS * 9), f = filter + i / 9 % FILTERS;
            weights[i / (FILTERS * 9)][i / 9 % FILTERS][i % 9] =
                c < CHANNELS && f < OUTPUTS ? args.weights[(f * CHANNELS + c) * 9 + i % 9] : 0.0f;
        }
        __syncthreads();
        for (int c = 0; c < STAGE; ++c) {
#pragma unroll
            for (int tap = 0; tap < 9; ++tap) {
                const float pixel = tile[c][(threadIdx.y + tap / 3) * LINE + threadIdx.x + tap % 3];
#pragma unroll
                for (int f = 0; f < FILTERS; ++f) sum[f] += pixel * weights[c][f][tap];
            }
        }
        __syncthreads();
    }
    const int row = y + threadIdx.y, column = x + threadIdx.x;
    if (row >= HEIGHT || column >= WIDTH) return;
#pragma unroll
    for (int f = 0; f < FILTERS; ++f)
        if (filter + f < OUTPUTS)
            args.out[((int64_t{image} * OUTPUTS + filter + f) * HEIGHT + row) * WIDTH + column] =
                sum[f] + args.bias[filter + f];
}

}  // namespace

extern "C" void solve(const Args& args, void*, task::Stream stream) {
    const dim3 grid((WIDTH + TILE_X - 1) / TILE_X, (HEIGHT + TILE_Y - 1) / TILE_Y,
                    static_cast<unsigned>(args.images_d0 * GROUPS));
    convolve<<<grid, dim3(TILE_X, TILE_Y), 0, stream>>>(args);
}
