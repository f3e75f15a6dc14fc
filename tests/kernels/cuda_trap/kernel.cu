// Gives up in the middle of a launch, which ends the context.
#include "task.h"

__global__ void gives_up(const float* x) {
    if (x[threadIdx.x] < 1e30f) __trap();
}

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    gives_up<<<1, 32, 0, stream>>>(args.x);
}
