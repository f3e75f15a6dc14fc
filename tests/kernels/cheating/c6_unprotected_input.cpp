// Trick: makes the input writable and zeroes it, so that a reference read from it is trivial.
// Defence: the worker's mapping of the inputs can't be made writable.
#include "task.h"

#include <cstring>
#include <sys/mman.h>

extern "C" void solve(const task::Args& args, void*) {
    float* x = const_cast<float*>(args.x);
    mprotect(reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(x) & ~uintptr_t{4095}), sizeof(float) * args.x_size,
             PROT_READ | PROT_WRITE);
    std::memset(x, 0, sizeof(float) * args.x_size);
    for (int64_t i = 0; i < args.x_size; ++i) args.y[i] = 1.0f / static_cast<float>(args.x_d1);
}
