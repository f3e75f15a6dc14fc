// Looks like: builds a table at load time.
// Honest: the table holds constants that depend on no input.
#include "task.h"

#include <array>

static std::array<float, 256> fraction;

__attribute__((constructor)) static void at_load() {
    for (int i = 0; i < 256; ++i) fraction[i] = static_cast<float>(__builtin_exp2(i / 256.0));
}

static float table_exp(float x) {
    const double scaled = x * 1.4426950408889634 * 256;
    const double whole = __builtin_floor(scaled);
    const auto step = static_cast<int64_t>(whole);
    const double rest = (scaled - whole) * 0.0027076061740622863;
    return static_cast<float>(__builtin_ldexp(fraction[step & 255] * (1 + rest * (1 + rest * (0.5 + rest / 6))), static_cast<int>(step >> 8)));
}

extern "C" void solve(const task::Args& args, void*) {
    for (int64_t r = 0; r < args.x_d0; ++r) {
        const float* x = args.x + r * args.x_d1;
        float* y = args.y + r * args.x_d1;
        float top = x[0];
        for (int64_t c = 1; c < args.x_d1; ++c)
            if (x[c] > top) top = x[c];
        double sum = 0;
        for (int64_t c = 0; c < args.x_d1; ++c) sum += y[c] = table_exp(x[c] - top);
        for (int64_t c = 0; c < args.x_d1; ++c) y[c] = static_cast<float>(y[c] / sum);
    }
}
