// Trick: rows run in parallel but share one static sum.
// Defence: repeated runs on new content.
#include "task.h"

static volatile double sum;

extern "C" void solve(const task::Args& args, void*) {
#pragma omp parallel for schedule(dynamic, 1) num_threads(2)
    for (int64_t r = 0; r < args.x_d0; ++r) {
        const float* x = args.x + r * args.x_d1;
        float* y = args.y + r * args.x_d1;
        float top = x[0];
        for (int64_t c = 1; c < args.x_d1; ++c)
            if (x[c] > top) top = x[c];
        sum = 0;
        for (int64_t c = 0; c < args.x_d1; ++c) sum = sum + (y[c] = __builtin_expf(x[c] - top));
        for (int64_t c = 0; c < args.x_d1; ++c) y[c] = static_cast<float>(y[c] / sum);
    }
}
