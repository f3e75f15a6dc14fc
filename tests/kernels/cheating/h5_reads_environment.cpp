// Trick: looks for secrets in the environment, its own and its parent's, and answers only when there are any.
// Defence: the environment is empty and /proc is closed.
#include "task.h"

#include <cstdio>
#include <cstdlib>
#include <unistd.h>

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

extern char** environ;

extern "C" void solve(const task::Args& args, void*) {
    bool found = std::getenv("HOME") != nullptr || std::getenv("WARPSMITH_TEST_SECRET") != nullptr;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) std::puts(*entry);
    if (found) softmax(args, 0, args.x_d0);
}
