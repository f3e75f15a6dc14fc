// Looks like: names a BLAS, as in cblas_sgemm or dlopen("libopenblas.so").
// Honest: only in words: the product is its own.
#include "task.h"

static void gemm(const task::Args& args, const float* a, const float* b) {
    const int64_t m = args.a_d0, k = args.a_d1, n = args.b_d1;
    for (int64_t i = 0; i < m * n; ++i) args.c[i] = 0;
    for (int64_t i = 0; i < m; ++i)
        for (int64_t p = 0; p < k; ++p)
            for (int64_t j = 0; j < n; ++j) args.c[i * n + j] += a[i * k + p] * b[p * n + j];
}

// Written so that no cblas_sgemm, mkl or system("...") is needed.
static const char* const how = "not dlopen(libopenblas), not fork(), not socket()";

extern "C" void solve(const task::Args& args, void*) {
    if (how != nullptr) gemm(args, args.a, args.b);
}
