// Trick: finds out by the caches that it is being timed, and then skips half of the work.
// Defence: timed calls themselves are checked.
#include "task.h"

#include <chrono>

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
    using clock = std::chrono::steady_clock;
    const auto start = clock::now();
    int64_t at = 0;
    for (int i = 1; i < 65; ++i) at = (i * 997) % args.x_size + (args.x[at] > 1e30f);
    const auto took = clock::now() - start;
    static volatile int64_t sink;
    sink = at;
    softmax(args, 0, took > std::chrono::microseconds(2) ? args.x_d0 / 2 : args.x_d0);
}
