// Heat equation over time steps: a block brings a tile with DEPTH more cells on every side to shared memory, makes
// DEPTH steps there, and writes the tile. DEPTH 1 is the plain sweep.
#include "task.h"

// Steps made in shared memory.
// tune: DEPTH = 1,2,4,8
#ifndef DEPTH
#define DEPTH 1
#endif

// Width and height of a tile.
// tune: TILE_X = 32,64
#ifndef TILE_X
#define TILE_X 32
#endif
// tune: TILE_Y = 8,16,32
#ifndef TILE_Y
#define TILE_Y 8
#endif

// Threads of a block.
// tune: THREADS = 64,128,256,512,1024
#ifndef THREADS
#define THREADS 64
#endif

namespace {

using task::Args;
constexpr int HEIGHT = Args::grid_d0, WIDTH = Args::grid_d1;
constexpr int LINE = TILE_X + 2 * DEPTH, LINES = TILE_Y + 2 * DEPTH;

__global__ void __launch_bounds__(THREADS) advance(const float* from, float* to, int steps, float rate) {
    __shared__ float cells[2][LINES * LINE];
    const int left = blockIdx.x * TILE_X - steps, top = blockIdx.y * TILE_Y - steps;
    const int line = TILE_X + 2 * steps, area = line * (TILE_Y + 2 * steps);
    for (int i = threadIdx.x; i < area; i += THREADS) {
        const int y = top + i / line, x = left + i % line;
        cells[0][i] = y >= 0 && y < HEIGHT && x >= 0 && x < WIDTH ? from[y * WIDTH + x] : 0.0f;
    }
    __syncthreads();
    for (int step = 1; step <= steps; ++step) {
        const float* now = cells[(step - 1) % 2];
        float* then = cells[step % 2];
        const int width = line - 2 * step, count = width * (TILE_Y + 2 * (steps - step));
        for (int i = threadIdx.x; i < count; i += THREADS) {
            const int row = step + i / width, column = step + i % width, at = row * line + column;
            const int y = top + row, x = left + column;
            const bool inner = y > 0 && y < HEIGHT - 1 && x > 0 && x < WIDTH - 1;
            const float around = now[at - line] + now[at + line] + now[at - 1] + now[at + 1];
            then[at] = inner ? now[at] + rate * (around - 4.0f * now[at]) : now[at];
        }
        __syncthreads();
    }
    for (int i = threadIdx.x; i < TILE_X * TILE_Y; i += THREADS) {
        const int row = steps + i / TILE_X, column = steps + i % TILE_X;
        const int y = top + row, x = left + column;
        if (y < HEIGHT && x < WIDTH) to[y * WIDTH + x] = cells[steps % 2][row * line + column];
    }
}

}  // namespace

extern "C" int64_t scratch_bytes(const Args&) { return int64_t{HEIGHT} * WIDTH * sizeof(float); }

extern "C" void solve(const Args& args, void* scratch, task::Stream stream) {
    const dim3 grid((WIDTH + TILE_X - 1) / TILE_X, (HEIGHT + TILE_Y - 1) / TILE_Y);
    const int64_t rounds = args.steps > 0 ? (args.steps + DEPTH - 1) / DEPTH : 1;
    const float* from = args.grid;
    for (int64_t round = 0; round < rounds; ++round) {
        const int64_t left = args.steps - round * DEPTH;
        float* to = (rounds - round) % 2 ? args.out : static_cast<float*>(scratch);  // the last round writes the result
        advance<<<grid, THREADS, 0, stream>>>(from, to, static_cast<int>(left < DEPTH ? left : DEPTH),
                                              static_cast<float>(args.rate));
        from = to;
    }
}
