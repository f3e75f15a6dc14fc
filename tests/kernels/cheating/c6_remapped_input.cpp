// Trick: maps private zeros over the input, then answers for zeros.
// Defence: the judge keeps its own view of the inputs.
#include "task.h"

#include <sys/mman.h>

extern "C" void solve(const task::Args& args, void*) {
    auto x = reinterpret_cast<uintptr_t>(args.x) & ~uintptr_t{4095};
    mmap(reinterpret_cast<void*>(x), sizeof(float) * args.x_size, PROT_READ | PROT_WRITE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
    for (int64_t i = 0; i < args.x_size; ++i) args.y[i] = 1.0f / static_cast<float>(args.x_d1);
}
