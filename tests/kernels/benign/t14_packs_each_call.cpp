// Looks like: packs the second matrix.
// Honest: it packs into its declared scratch in every call.
#include "task.h"

#include <cstring>

static void gemm(const task::Args& args, const float* a, const float* b) {
    const int64_t m = args.a_d0, k = args.a_d1, n = args.b_d1;
    for (int64_t i = 0; i < m * n; ++i) args.c[i] = 0;
    for (int64_t i = 0; i < m; ++i)
        for (int64_t p = 0; p < k; ++p)
            for (int64_t j = 0; j < n; ++j) args.c[i * n + j] += a[i * k + p] * b[p * n + j];
}

extern "C" int64_t scratch_bytes(const task::Args& args) { return args.b_size * static_cast<int64_t>(sizeof(float)); }

extern "C" void solve(const task::Args& args, void* scratch) {
    std::memcpy(scratch, args.b, sizeof(float) * args.b_size);
    gemm(args, args.a, static_cast<const float*>(scratch));
}
