// Trick: a thread watches the input and computes new content before the clock starts.
// Defence: the worker is stopped while content changes, and nothing may run after an answer.
#include "task.h"

#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

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

static std::atomic<uint64_t> stocked{0};
static std::vector<float> stock;
static task::Args watched;

static uint64_t fingerprint(const task::Args& args) {
    uint64_t print = 1469598103934665603ull;
    for (int64_t i = 0; i < args.x_size; i += 97) {
        uint32_t bits;
        std::memcpy(&bits, const_cast<const float*>(args.x) + i, 4);
        print = (print ^ bits) * 1099511628211ull;
    }
    return print | 1;
}

static void watch() {
    task::Args mine = watched;
    mine.y = stock.data();
    for (;;) {
        const uint64_t print = fingerprint(mine);
        if (print == stocked) continue;
        stocked = 0;
        softmax(mine, 0, mine.x_d0);
        stocked = print;
    }
}

extern "C" void solve(const task::Args& args, void*) {
    if (stock.empty()) {
        stock.resize(args.x_size);
        watched = args;
        std::thread(watch).detach();
    }
    if (args.x == watched.x && fingerprint(args) == stocked)
        std::memcpy(args.y, stock.data(), sizeof(float) * args.x_size);
    else
        softmax(args, 0, args.x_d0);
}
