// Fault: loops for ever in a constructor, before any call.
// Expected: timeout
#include "task.h"

__attribute__((constructor)) static void at_load() {
    for (volatile bool on = true; on;) {
    }
}

extern "C" void solve(const task::Args& args, void*) { (void)args; }
