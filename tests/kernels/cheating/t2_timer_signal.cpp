// Trick: a timer's signal handler does the work after the kernel has returned.
// Defence: frozen at the answer; timers are not among the allowed system calls.
#include "task.h"

#include <csignal>
#include <sys/time.h>

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

static task::Args later;

static void on_alarm(int) { softmax(later, 0, later.x_d0); }

extern "C" void solve(const task::Args& args, void*) {
    later = args;
    std::signal(SIGALRM, on_alarm);
    const itimerval soon{{0, 0}, {0, 2000}};
    setitimer(ITIMER_REAL, &soon, nullptr);
}
