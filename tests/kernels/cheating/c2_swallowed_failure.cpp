// Trick: an allocation that cannot succeed fails, the failure is swallowed, older data stays.
// Defence: poisoned outputs: what is not written does not pass.
#include "task.h"

#include <new>

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

static float* volatile room = nullptr;

extern "C" void solve(const task::Args& args, void*) {
    volatile size_t count = size_t{1} << 50;
    try {
        room = new float[count];
        softmax(args, 0, args.x_d0);
    } catch (const std::bad_alloc&) {
    }
}
