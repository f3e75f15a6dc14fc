// Trick: replaces itself by another program.
// Defence: exec is trapped.
#include "task.h"

#include <unistd.h>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    execl("/bin/true", "true", static_cast<char*>(nullptr));
}
