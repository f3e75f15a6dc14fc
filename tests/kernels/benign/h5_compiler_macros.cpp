// Looks like: asks what machine it is on.
// Honest: it asks the compiler's macros, nothing at run time.
#include "task.h"

#include <algorithm>

static void softmax(const task::Args& args, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
        const float* x = args.x + r * args.x_d1;
        float* y = args.y + r * args.x_d1;
        float top = x[0];
        for (int64_t c = 1; c < args.x_d1; ++c)
            if (x[c] > top) top = x[c];
        double sum = 0;
        for (int64_t c = 0; c < args.x_d1; ++c) sum += y[c] = __builtin_expf(x[c] - top);
        for (int64_t c = 0; c < args.x_d1; ++c) y[c] = static_cast<float>(y[c] / sum);
    }
}

extern "C" void solve(const task::Args& args, void*) {
#if defined(__AVX2__)
    const int64_t tile = 8;
#else
    const int64_t tile = 4;
#endif
    for (int64_t first = 0; first < args.x_d0; first += tile) softmax(args, first, std::min(first + tile, args.x_d0));
}
