// Looks like: rounds the operands to bfloat16.
// Honest: three parts each carry all 24 bits of a float32, and every product is formed.
#include "task.h"

#include <cstring>
#include <vector>

static float low(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits &= 0xffff0000u;
    std::memcpy(&value, &bits, 4);
    return value;
}

extern "C" void solve(const task::Args& args, void*) {
    const int64_t m = args.a_d0, k = args.a_d1, n = args.b_d1;
    std::vector<float> part[3];
    std::vector<float> rest(args.a, args.a + m * k);
    for (auto& values : part)
        for (float& value : rest) {
            values.push_back(low(value));
            value -= values.back();
        }
    for (int64_t i = 0; i < m; ++i)
        for (int64_t j = 0; j < n; ++j) {
            double sum = 0;
            for (int64_t p = 0; p < k; ++p)
                for (const auto& values : part) sum += static_cast<double>(values[i * k + p]) * args.b[p * n + j];
            args.c[i * n + j] = static_cast<float>(sum);
        }
}
