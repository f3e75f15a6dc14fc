// Trick: writes zeros, which an absolute tolerance of 0.01 would pass.
// Defence: tolerance is relative to each slice's scale.
#include "task.h"

#include <cstring>

extern "C" void solve(const task::Args& args, void*) { std::memset(args.y, 0, sizeof(float) * args.x_size); }
