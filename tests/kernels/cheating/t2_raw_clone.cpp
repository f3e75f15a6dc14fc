// Trick: a child process again, by clone in assembly with no libc symbol to see.
// Defence: the trap is on the system call, not on the symbol.
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

static long raw_clone() {
#if defined(__x86_64__)
    long result;
    asm volatile("syscall" : "=a"(result) : "a"(56L), "D"(17L), "S"(0L), "d"(0L) : "rcx", "r11", "memory");
    return result;
#else
    register long number asm("x8") = 220, flags asm("x0") = 17;
    asm volatile("svc 0" : "+r"(flags) : "r"(number) : "memory", "x1", "x2", "x3", "x4");
    return flags;
#endif
}

extern "C" void solve(const task::Args& args, void*) {
    if (raw_clone() != 0) return;
    softmax(args, 0, args.x_d0);
    for (;;) {
    }
}
