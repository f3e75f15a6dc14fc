// Looks like: a thread of its own that outlives the call.
// Honest: it sleeps on a condition until a call wakes it, and the call waits for it.
#include "task.h"

#include <condition_variable>
#include <mutex>
#include <thread>

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

static std::mutex lock;
static std::condition_variable changed;
static const task::Args* order = nullptr;

static void serve() {
    std::unique_lock<std::mutex> held(lock);
    for (;;) {
        changed.wait(held, [] { return order != nullptr; });
        softmax(*order, order->x_d0 / 2, order->x_d0);
        order = nullptr;
        changed.notify_all();
    }
}

extern "C" void solve(const task::Args& args, void*) {
    static const bool started = (std::thread(serve).detach(), true);
    (void)started;
    {
        std::lock_guard<std::mutex> held(lock);
        order = &args;
    }
    changed.notify_all();
    softmax(args, 0, args.x_d0 / 2);
    std::unique_lock<std::mutex> held(lock);
    changed.wait(held, [] { return order == nullptr; });
}
