// Trick: normalises whole vectors of eight columns and leaves the tail.
// Defence: odd shapes; all elements are compared.
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    for (int64_t r = 0; r < args.x_d0; ++r) {
        const float* x = args.x + r * args.x_d1;
        float* y = args.y + r * args.x_d1;
        const int64_t even = args.x_d1 & ~int64_t{7};
        float top = x[0];
        for (int64_t c = 1; c < args.x_d1; ++c)
            if (x[c] > top) top = x[c];
        double sum = 0;
        for (int64_t c = 0; c < args.x_d1; ++c) sum += __builtin_expf(x[c] - top);
        for (int64_t c = 0; c < even; ++c) y[c] = static_cast<float>(__builtin_expf(x[c] - top) / sum);
    }
}
