// Fault: ends the main thread while another one sleeps on.
// Expected: exited or timeout
#include "task.h"

#include <chrono>
#include <pthread.h>
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

extern "C" void solve(const task::Args& args, void*) {
    softmax(args, 0, args.x_d0);
    std::thread([] { std::this_thread::sleep_for(std::chrono::seconds(30)); }).detach();
    pthread_exit(nullptr);
}
