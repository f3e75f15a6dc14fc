// Fault: crashes in a constructor, before any call.
// Expected: crashed
#include "task.h"

__attribute__((constructor)) static void at_load() {
    volatile float* volatile nowhere = nullptr;
    nowhere[0] = 1;
}

extern "C" void solve(const task::Args& args, void*) { (void)args; }
