// Trick: starts a Python that computes the reference.
// Defence: new processes are trapped, and nothing but the kernel is there to run.
#include "task.h"

#include <cstdlib>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    static int status = std::system("python3 -c 'import numpy; print(numpy.ones(3))'");
    if (status != 0) status = std::system("/bin/true");
}
