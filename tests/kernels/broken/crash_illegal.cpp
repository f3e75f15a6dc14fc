// Fault: runs an illegal instruction.
// Expected: crashed
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    __builtin_trap();
}
