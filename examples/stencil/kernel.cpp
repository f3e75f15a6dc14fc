// Heat equation over time steps. DEPTH steps are made on one band of rows before the next band is touched: the band is
// copied with DEPTH more rows on either side, and loses one valid row a side with each step. DEPTH 1 is the plain sweep.
#include "task.h"

#include <omp.h>

#include <algorithm>

// Steps made on a band while it is in a near cache.
// tune: DEPTH = 1,2,4,8,16
#ifndef DEPTH
#define DEPTH 1
#endif

// Rows of a band.
// tune: BAND = 8,16,32,64,128
#ifndef BAND
#define BAND 8
#endif

// 0: leave vectorisation to the compiler's flags; 1: ask for it.
// tune: SIMD = 0,1
#ifndef SIMD
#define SIMD 0
#endif

// Threads that share the bands; 0 takes one a core.
// tune: THREADS = 1,2,4,0
#ifndef THREADS
#define THREADS 1
#endif

namespace {

using task::Args;
constexpr int64_t HEIGHT = Args::grid_d0, WIDTH = Args::grid_d1;

void step_row(const float* now, float* then, float rate) {
    then[0] = now[0];
#if SIMD
#pragma omp simd
#endif
    for (int64_t x = 1; x < WIDTH - 1; ++x) {
        const float around = now[x - WIDTH] + now[x + WIDTH] + now[x - 1] + now[x + 1];
        then[x] = now[x] + rate * (around - 4.0f * now[x]);
    }
    then[WIDTH - 1] = now[WIDTH - 1];
}

/// Makes `steps` steps on rows [first, last) of `from` and writes them to `to`; `rows` holds two bands with their margins.
void advance_band(const float* from, float* to, float* rows, int64_t first, int64_t last, int64_t steps, float rate) {
    const int64_t low = std::max<int64_t>(first - steps, 0);
    float* spare[2] = {rows, rows + (BAND + 2 * DEPTH) * WIDTH};
    const float* now = from + low * WIDTH;
    for (int64_t step = 1; step <= steps; ++step) {
        const int64_t begin = std::max(first - (steps - step), int64_t{0}), end = std::min(last + steps - step, HEIGHT);
        float* then = step == steps ? to + low * WIDTH : spare[step % 2];
        for (int64_t y = begin; y < end; ++y) {
            const float* row = now + (y - low) * WIDTH;
            if (y == 0 || y == HEIGHT - 1)
                std::copy(row, row + WIDTH, then + (y - low) * WIDTH);
            else
                step_row(row, then + (y - low) * WIDTH, rate);
        }
        now = then;
    }
}

int thread_count() { return THREADS ? THREADS : omp_get_num_procs(); }

}  // namespace

extern "C" int64_t scratch_bytes(const Args&) {
    return (HEIGHT * WIDTH + thread_count() * 2 * (BAND + 2 * DEPTH) * WIDTH) * static_cast<int64_t>(sizeof(float));
}

extern "C" void solve(const Args& args, void* scratch) {
    float* other = static_cast<float*>(scratch);
    float* margins = other + HEIGHT * WIDTH;
    const float rate = static_cast<float>(args.rate);
    const int64_t rounds = (args.steps + DEPTH - 1) / DEPTH;
    if (rounds == 0) std::copy(args.grid, args.grid + HEIGHT * WIDTH, args.out);
    const float* from = args.grid;
    for (int64_t round = 0; round < rounds; ++round) {
        const int64_t steps = std::min<int64_t>(DEPTH, args.steps - round * DEPTH);
        float* to = (rounds - round) % 2 ? args.out : other;  // the last round writes the result
#pragma omp parallel for schedule(static) num_threads(thread_count())
        for (int64_t first = 0; first < HEIGHT; first += BAND) {
            float* rows = margins + omp_get_thread_num() * 2 * (BAND + 2 * DEPTH) * WIDTH;
            advance_band(from, to, rows, first, std::min<int64_t>(first + BAND, HEIGHT), steps, rate);
        }
        from = to;
    }
}
