// Fault: writes through a null pointer.
// Expected: crashed
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    volatile float* volatile nowhere = nullptr;
    nowhere[0] = args.x[0];
}
