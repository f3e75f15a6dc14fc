// Trick: casts const away and zeroes the input.
// Defence: the inputs are mapped read-only.
#include "task.h"

#include <cstring>

extern "C" void solve(const task::Args& args, void*) {
    std::memset(const_cast<float*>(args.x), 0, sizeof(float) * args.x_size);
    for (int64_t i = 0; i < args.x_size; ++i) args.y[i] = 1.0f / static_cast<float>(args.x_d1);
}
