// Trick: computes once, keeps the result in static memory, copies it later.
// Defence: new content in every call; timed calls are checked.
#include "task.h"

#include <cstring>
#include <map>
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

extern "C" void solve(const task::Args& args, void*) {
    static std::map<int64_t, std::vector<float>> kept;
    auto& result = kept[args.x_size];
    if (result.empty()) {
        softmax(args, 0, args.x_d0);
        result.assign(args.y, args.y + args.x_size);
        return;
    }
    std::memcpy(args.y, result.data(), sizeof(float) * args.x_size);
}
