// Matrix product by register blocks: ROWS x COLS results are summed in registers while k runs over a panel of TILE_K.
// The columns that do not fill a block are summed one by one.
#include "task.h"

#include <omp.h>

#include <algorithm>

// Rows of the result that share each loaded piece of b.
// tune: ROWS = 1,2,4,6,8
#ifndef ROWS
#define ROWS 1
#endif

// Columns of the result held in registers at a time.
// tune: COLS = 16,32,48,64
#ifndef COLS
#define COLS 16
#endif

// Depth of a panel: its part of b stays in a near cache.
// tune: TILE_K = 64,128,256,512
#ifndef TILE_K
#define TILE_K 64
#endif

// Threads that share the rows; 0 takes one a core.
// tune: THREADS = 1,2,4,0
#ifndef THREADS
#define THREADS 1
#endif

namespace {

constexpr int LANES = 16;
typedef float Vector __attribute__((vector_size(LANES * sizeof(float)), aligned(sizeof(float))));

Vector& vector_at(float* p) { return *reinterpret_cast<Vector*>(p); }
const Vector& vector_at(const float* p) { return *reinterpret_cast<const Vector*>(p); }

/// Adds a panel of depth `depth` to a block of `HEIGHT` rows and COLS columns of `out`.
template <int HEIGHT>
void add_block(const float* a, int64_t a_stride, const float* b, float* out, int64_t n, int64_t depth) {
    Vector sum[HEIGHT][COLS / LANES];
    for (int r = 0; r < HEIGHT; ++r)
        for (int v = 0; v < COLS / LANES; ++v) sum[r][v] = vector_at(out + r * n + v * LANES);
    for (int64_t k = 0; k < depth; ++k) {
#pragma GCC unroll 8
        for (int v = 0; v < COLS / LANES; ++v) {
            const Vector piece = vector_at(b + k * n + v * LANES);
#pragma GCC unroll 8
            for (int r = 0; r < HEIGHT; ++r) sum[r][v] += a[r * a_stride + k] * piece;
        }
    }
    for (int r = 0; r < HEIGHT; ++r)
        for (int v = 0; v < COLS / LANES; ++v) vector_at(out + r * n + v * LANES) = sum[r][v];
}

/// Adds a panel to `HEIGHT` whole rows of `out`.
template <int HEIGHT>
void add_rows(const float* a, int64_t a_stride, const float* b, float* out, int64_t n, int64_t depth) {
    const int64_t full = n / COLS * COLS;
    for (int64_t j = 0; j < full; j += COLS) add_block<HEIGHT>(a, a_stride, b + j, out + j, n, depth);
    for (int64_t j = full; j < n; ++j) {
        float sum[HEIGHT] = {};
        for (int64_t k = 0; k < depth; ++k)
            for (int r = 0; r < HEIGHT; ++r) sum[r] += a[r * a_stride + k] * b[k * n + j];
        for (int r = 0; r < HEIGHT; ++r) out[r * n + j] += sum[r];
    }
}

}  // namespace

extern "C" void solve(const task::Args& args, void*) {
    const int64_t m = args.a_d0, depth = args.a_d1, n = args.b_d1;
    const int64_t blocks = (m + ROWS - 1) / ROWS;
#pragma omp parallel for num_threads(THREADS ? THREADS : omp_get_num_procs())
    for (int64_t block = 0; block < blocks; ++block) {
        const int64_t first = block * ROWS, height = std::min<int64_t>(ROWS, m - first);
        float* out = args.out + first * n;
        std::fill(out, out + height * n, 0.0f);
        for (int64_t k = 0; k < depth; k += TILE_K) {
            const int64_t panel = std::min<int64_t>(TILE_K, depth - k);
            const float* a = args.a + first * depth + k;
            const float* b = args.b + k * n;
            if (height == ROWS)
                add_rows<ROWS>(a, depth, b, out, n, panel);
            else
                for (int64_t r = 0; r < height; ++r) add_rows<1>(a + r * depth, depth, b, out + r * n, n, panel);
        }
    }
}
