// Direct 3x3 convolution: for a row of the result and FILTERS filters at once, the taps are added row by row.
// Sums stay in a small buffer; FILTERS sums share each loaded piece of the image.
#include "task.h"

#include <omp.h>

#include <algorithm>

// Filters computed together.
// tune: FILTERS = 1,2,4,8,16
#ifndef FILTERS
#define FILTERS 1
#endif

// Columns computed together.
// tune: COLUMNS = 8,16,28,32,56
#ifndef COLUMNS
#define COLUMNS 8
#endif

// Rows of the result that a thread takes at a time.
// tune: ROWS = 1,4,14,28
#ifndef ROWS
#define ROWS 1
#endif

// Threads that share the work; 0 takes one a core.
// tune: THREADS = 1,2,4,0
#ifndef THREADS
#define THREADS 1
#endif

namespace {

using task::Args;
constexpr int64_t CHANNELS = Args::images_d1, HEIGHT = Args::images_d2, WIDTH = Args::images_d3;
// Three rows of every channel with a zero on either side, and room for a piece that reaches beyond the end.
constexpr int64_t LINE = WIDTH + 2 + COLUMNS, LINES = CHANNELS * 3 * LINE;

void pad_lines(const float* image, float* lines, int64_t y) {
    std::fill(lines, lines + LINES, 0.0f);
    for (int64_t c = 0; c < CHANNELS; ++c)
        for (int64_t dy = std::max<int64_t>(0, 1 - y); dy < std::min<int64_t>(3, HEIGHT + 1 - y); ++dy) {
            const float* row = image + (c * HEIGHT + y + dy - 1) * WIDTH;
            std::copy(row, row + WIDTH, lines + (c * 3 + dy) * LINE + 1);
        }
}

/// One piece of a row: `count` filters from `filter` on, `columns` columns from `x` on.
void add_taps(const Args& args, const float* lines, float* out, int64_t filter, int64_t count, int64_t x,
              int64_t columns) {
    float sum[FILTERS][COLUMNS];
    const float* weights[FILTERS];
    for (int f = 0; f < FILTERS; ++f) {
        const int64_t known = filter + std::min<int64_t>(f, count - 1);  // beyond the last filter: the last one again
        weights[f] = args.weights + known * CHANNELS * 9;
        std::fill(sum[f], sum[f] + COLUMNS, args.bias[known]);
    }
    for (int64_t c = 0; c < CHANNELS; ++c)
        for (int tap = 0; tap < 9; ++tap) {
            const float* line = lines + (c * 3 + tap / 3) * LINE + x + tap % 3;
#pragma GCC unroll 16
            for (int f = 0; f < FILTERS; ++f) {
                const float weight = weights[f][c * 9 + tap];
#pragma omp simd
                for (int i = 0; i < COLUMNS; ++i) sum[f][i] += weight * line[i];
            }
        }
    for (int64_t f = 0; f < count; ++f) std::copy(sum[f], sum[f] + columns, out + f * HEIGHT * WIDTH + x);
}

int thread_count() { return THREADS ? THREADS : omp_get_num_procs(); }

}  // namespace

extern "C" int64_t scratch_bytes(const Args&) { return thread_count() * LINES * static_cast<int64_t>(sizeof(float)); }

extern "C" void solve(const Args& args, void* scratch) {
    const int64_t batch = args.images_d0, filters = args.weights_d0;
    constexpr int64_t strips = (HEIGHT + ROWS - 1) / ROWS;
#pragma omp parallel for num_threads(thread_count())
    for (int64_t strip = 0; strip < batch * strips; ++strip) {
        const int64_t image = strip / strips, first = strip % strips * ROWS;
        float* lines = static_cast<float*>(scratch) + omp_get_thread_num() * LINES;
        for (int64_t y = first; y < std::min<int64_t>(first + ROWS, HEIGHT); ++y) {
            pad_lines(args.images + image * CHANNELS * HEIGHT * WIDTH, lines, y);
            for (int64_t f = 0; f < filters; f += FILTERS) {
                float* out = args.out + ((image * filters + f) * HEIGHT + y) * WIDTH;
                const int64_t count = std::min<int64_t>(FILTERS, filters - f);
                for (int64_t x = 0; x < WIDTH; x += COLUMNS)
                    add_taps(args, lines, out, f, count, x, std::min<int64_t>(COLUMNS, WIDTH - x));
            }
        }
    }
}
