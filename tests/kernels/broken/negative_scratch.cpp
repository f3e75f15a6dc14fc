// Fault: asks for a negative amount of scratch.
// Expected: a rejection, not a failure of the judge
#include "task.h"

extern "C" int64_t scratch_bytes(const task::Args&) { return -1; }

extern "C" void solve(const task::Args& args, void*) { (void)args; }
