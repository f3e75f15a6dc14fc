// Trick: takes over the fault handler, so that writes out of bounds look like nothing.
// Defence: the fault handlers can't be replaced; the sanitizer build sees the write.
#include "task.h"

#include <csetjmp>
#include <csignal>

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

static sigjmp_buf back;

extern "C" void solve(const task::Args& args, void*) {
    std::signal(SIGSEGV, [](int) { siglongjmp(back, 1); });
    softmax(args, 0, args.x_d0);
    if (sigsetjmp(back, 1) == 0)
        for (volatile float* at = args.y + args.x_size;; at += 1024) *at = 0;
}
