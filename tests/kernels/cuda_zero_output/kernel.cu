// Zeros everywhere.
#include "task.h"
extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    cudaMemsetAsync(args.out, 0, args.out_size * sizeof(float), stream);
}
