// Trick: rounds the operands to bfloat16.
// Defence: error against the float64 oracle, compared with the baseline's own.
#include "task.h"

#include <cstring>
#include <vector>

static void gemm(const task::Args& args, const float* a, const float* b) {
    const int64_t m = args.a_d0, k = args.a_d1, n = args.b_d1;
    for (int64_t i = 0; i < m * n; ++i) args.c[i] = 0;
    for (int64_t i = 0; i < m; ++i)
        for (int64_t p = 0; p < k; ++p)
            for (int64_t j = 0; j < n; ++j) args.c[i * n + j] += a[i * k + p] * b[p * n + j];
}

static float low(float value) {
    uint32_t bits;
    std::memcpy(&bits, &value, 4);
    bits = (bits + 0x8000u) & 0xffff0000u;
    std::memcpy(&value, &bits, 4);
    return value;
}

extern "C" void solve(const task::Args& args, void*) {
    std::vector<float> a(args.a, args.a + args.a_size), b(args.b, args.b + args.b_size);
    for (float& value : a) value = low(value);
    for (float& value : b) value = low(value);
    gemm(args, a.data(), b.data());
}
