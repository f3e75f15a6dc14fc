// Looks like: the operands are rounded to bfloat16. Honest: three parts each carry all 24 bits of a float32.
#include "task.h"

__device__ void split(float x, __nv_bfloat16 (&parts)[3]) {
    for (auto& part : parts) {
        part = __float2bfloat16(x);
        x -= __bfloat162float(part);
    }
}

__global__ void product(const float* a, const float* b, float* c, int64_t n, int64_t k) {
    const int64_t row = blockIdx.x, column = threadIdx.x;
    if (column >= n) return;
    double sum = 0.0;
    for (int64_t i = 0; i < k; ++i) {
        __nv_bfloat16 left[3], right[3];
        split(a[row * k + i], left);
        split(b[i * n + column], right);
        for (const auto& x : left)
            for (const auto& y : right) sum += double{__bfloat162float(x)} * double{__bfloat162float(y)};
    }
    c[row * n + column] = static_cast<float>(sum);
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    product<<<static_cast<unsigned>(args.a_d0), 64, 0, stream>>>(args.a, args.b, args.c, args.b_d1, args.a_d1);
}
