// Looks like: uses the output as working memory.
// Honest: it first copies the input there, then works in place.
#include "task.h"

#include <cstring>

extern "C" void solve(const task::Args& args, void*) {
    std::memcpy(args.y, args.x, sizeof(float) * args.x_size);
    for (int64_t r = 0; r < args.x_d0; ++r) {
        float* y = args.y + r * args.x_d1;
        float top = y[0];
        for (int64_t c = 1; c < args.x_d1; ++c)
            if (y[c] > top) top = y[c];
        double sum = 0;
        for (int64_t c = 0; c < args.x_d1; ++c) sum += y[c] = __builtin_expf(y[c] - top);
        for (int64_t c = 0; c < args.x_d1; ++c) y[c] = static_cast<float>(y[c] / sum);
    }
}
