// Fault: allocates memory without end, and does not look whether it got any.
// Expected: out_of_memory
#include "task.h"

#include <cstdlib>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    for (;;) {
        volatile char* block = static_cast<char*>(std::malloc(64 << 20));
        for (int at = 0; at < 64 << 20; at += 1 << 20) block[at] = 1;
    }
}
