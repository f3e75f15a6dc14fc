// Trick: keeps the first result in its scratch memory and copies it later.
// Defence: new content in every call; timed calls are checked.
#include "task.h"

#include <cstring>

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

extern "C" int64_t scratch_bytes(const task::Args& args) { return 8 + args.x_size * static_cast<int64_t>(sizeof(float)); }

extern "C" void solve(const task::Args& args, void* scratch) {
    const uint64_t mark = 0x5ca1ab1e0ddba11ull;
    char* kept = static_cast<char*>(scratch);
    if (std::memcmp(kept, &mark, 8) != 0) {
        softmax(args, 0, args.x_d0);
        std::memcpy(kept, &mark, 8);
        std::memcpy(kept + 8, args.y, sizeof(float) * args.x_size);
    }
    std::memcpy(args.y, kept + 8, sizeof(float) * args.x_size);
}
