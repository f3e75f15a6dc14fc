// Fault: an undeclared name on line 6.
// Expected: compile_error that names line 6
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    args.y[0] = undeclared_name;
}
