// Residual add and RMSNorm, row by row: sum and sum of squares in one pass, scaling in a second.
#include "task.h"

#include <omp.h>

#include <algorithm>
#include <cmath>

// Partial sums of squares: one is a chain of dependent additions, many fill vector registers.
// tune: LANES = 1,8,16,32,64
#ifndef LANES
#define LANES 1
#endif

// Threads that share the rows; 0 takes one a core.
// tune: THREADS = 1,2,4,0
#ifndef THREADS
#define THREADS 1
#endif

// Rows that a thread takes at a time.
// tune: CHUNK = 1,8,64
#ifndef CHUNK
#define CHUNK 1
#endif

// Cache lines of the next row to ask for while a row is scaled; 0 asks for none.
// tune: AHEAD = 0,64,128
#ifndef AHEAD
#define AHEAD 0
#endif

namespace {

/// Writes x + residual to `total` and returns the sum of its squares.
float add(const float* x, const float* residual, float* total, int64_t n) {
    float lane[LANES] = {};
    const int64_t full = n / LANES * LANES;
    for (int64_t i = 0; i < full; i += LANES) {
#pragma omp simd
        for (int l = 0; l < LANES; ++l) {
            const float value = x[i + l] + residual[i + l];
            total[i + l] = value;
            lane[l] += value * value;
        }
    }
    float sum = 0.0f;
    for (int64_t i = full; i < n; ++i) {
        total[i] = x[i] + residual[i];
        sum += total[i] * total[i];
    }
    for (int l = 0; l < LANES; ++l) sum += lane[l];
    return sum;
}

}  // namespace

extern "C" void solve(const task::Args& args, void*) {
    const int64_t rows = args.x_d0, columns = args.x_d1;
    const float epsilon = static_cast<float>(args.epsilon);
#pragma omp parallel for schedule(static, CHUNK) num_threads(THREADS ? THREADS : omp_get_num_procs())
    for (int64_t row = 0; row < rows; ++row) {
        const int64_t start = row * columns;
        float* total = args.total + start;
        float* out = args.out + start;
        const float squares = add(args.x + start, args.residual + start, total, columns);
        const float scale = 1.0f / std::sqrt(squares / static_cast<float>(columns) + epsilon);
        if (row + 1 < rows) {
            for (int64_t i = 0; i < std::min<int64_t>(columns, AHEAD * 16); i += 16) {
                __builtin_prefetch(args.x + start + columns + i);
                __builtin_prefetch(args.residual + start + columns + i);
            }
        }
#pragma omp simd
        for (int64_t i = 0; i < columns; ++i) out[i] = total[i] * scale * args.weight[i];
    }
}
