// Fault: asks for a petabyte of scratch.
// Expected: out_of_memory
#include "task.h"

extern "C" int64_t scratch_bytes(const task::Args&) { return int64_t{1} << 50; }

extern "C" void solve(const task::Args& args, void*) { (void)args; }
