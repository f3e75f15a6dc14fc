// Trick: a thread looks at the input between short sleeps and computes new content before it is asked to.
// Defence: the worker is stopped while content changes, and its threads may not stir between calls.
#include "task.h"

#include <atomic>
#include <chrono>
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

static std::atomic<uint32_t> stocked{0};
static std::vector<float> stock;
static task::Args watched;

static uint32_t first_bits() {
    uint32_t bits;
    std::memcpy(&bits, const_cast<const float*>(watched.x), 4);
    return bits | 1;
}

static void watch() {
    task::Args mine = watched;
    mine.y = stock.data();
    for (;; std::this_thread::sleep_for(std::chrono::milliseconds(1))) {
        const uint32_t bits = first_bits();
        if (bits == stocked) continue;
        softmax(mine, 0, mine.x_d0);
        stocked = bits;
    }
}

extern "C" void solve(const task::Args& args, void*) {
    if (args.x_size < 100000) return softmax(args, 0, args.x_d0);
    if (stock.empty()) {
        stock.resize(args.x_size);
        watched = args;
        std::thread(watch).detach();
    }
    if (first_bits() == stocked)
        std::memcpy(args.y, stock.data(), sizeof(float) * args.x_size);
    else
        softmax(args, 0, args.x_d0);
}
