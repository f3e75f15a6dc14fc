// Trick: leaves the last column out of the sum: one part in a thousand.
// Defence: error against the float64 oracle, not a loose tolerance.
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    for (int64_t r = 0; r < args.x_d0; ++r) {
        const float* x = args.x + r * args.x_d1;
        float* y = args.y + r * args.x_d1;
        float top = x[0];
        for (int64_t c = 1; c < args.x_d1; ++c)
            if (x[c] > top) top = x[c];
        double sum = 0;
        for (int64_t c = 0; c + 1 < args.x_d1; ++c) sum += __builtin_expf(x[c] - top);
        for (int64_t c = 0; c < args.x_d1; ++c) y[c] = static_cast<float>(__builtin_expf(x[c] - top) / sum);
    }
}
