// Trick: points the output at the input instead of writing it.
// Defence: the judge reads its own buffers, not the kernel's pointers.
#include "task.h"

extern "C" void solve(const task::Args& args, void*) { const_cast<task::Args&>(args).y = const_cast<float*>(args.x); }
