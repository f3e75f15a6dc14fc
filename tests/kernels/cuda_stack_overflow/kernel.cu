// Calls itself until no stack is left.
#include "task.h"

__device__ __noinline__ float deeper(const volatile float* x, int depth) {
    volatile float own[64];
    for (int i = 0; i < 64; ++i) own[i] = x[i % 8] + depth;
    if (depth > (1 << 20)) return own[depth % 64];
    return deeper(x, depth + 1) + own[depth % 64];
}

__global__ void falls(const float* x, float* out) { out[threadIdx.x] = deeper(x, 0); }

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    falls<<<1, 32, 0, stream>>>(args.x, args.out);
}
