// Fault: includes a file that is not there, on line 5.
// Expected: compile_error that names the line and the file
#include "task.h"

#include "not_there.h"

extern "C" void solve(const task::Args& args, void*) { (void)args; }
