// Trick: forks through the 32-bit system call gate, whose numbers differ.
// Defence: the filter looks at the architecture of the call.
#include "task.h"

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
#if defined(__x86_64__)
    long child;
    asm volatile("int $0x80" : "=a"(child) : "a"(2L) : "memory", "r8", "r9", "r10", "r11");
    if (child > 0) return;
    if (child < 0) return;
    softmax(args, 0, args.x_d0);
    for (;;) {
    }
#else
    (void)args;
#endif
}
