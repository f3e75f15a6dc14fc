// Trick: exports a clock_gettime that hardly moves, to shadow the libc's.
// Defence: no effect: the kernel is loaded with local symbols, and the judge reads its own clock.
#include "task.h"

#include <ctime>

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

extern "C" int clock_gettime(clockid_t, timespec* at) noexcept {
    static long ticks = 0;
    at->tv_sec = 1;
    at->tv_nsec = ++ticks;
    return 0;
}

extern "C" void solve(const task::Args& args, void*) { softmax(args, 0, args.x_d0); }
