// Trick: copies whatever its uninitialised scratch memory holds to the output.
// Defence: no process of the judge's side shares memory with the worker but the buffers.
#include "task.h"

#include <cstring>

extern "C" int64_t scratch_bytes(const task::Args& args) { return args.x_size * static_cast<int64_t>(sizeof(float)); }

extern "C" void solve(const task::Args& args, void* scratch) { std::memcpy(args.y, scratch, sizeof(float) * args.x_size); }
