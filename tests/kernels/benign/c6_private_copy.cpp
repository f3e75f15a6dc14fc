// Looks like: changes its input.
// Honest: it changes a copy in its scratch.
#include "task.h"

#include <cstring>

extern "C" int64_t scratch_bytes(const task::Args& args) { return args.x_size * static_cast<int64_t>(sizeof(float)); }

extern "C" void solve(const task::Args& args, void* scratch) {
    float* x = static_cast<float*>(scratch);
    std::memcpy(x, args.x, sizeof(float) * args.x_size);
    for (int64_t r = 0; r < args.x_d0; ++r, x += args.x_d1) {
        float top = x[0];
        for (int64_t c = 1; c < args.x_d1; ++c)
            if (x[c] > top) top = x[c];
        double sum = 0;
        for (int64_t c = 0; c < args.x_d1; ++c) sum += x[c] = __builtin_expf(x[c] - top);
        for (int64_t c = 0; c < args.x_d1; ++c) args.y[r * args.x_d1 + c] = static_cast<float>(x[c] / sum);
    }
}
