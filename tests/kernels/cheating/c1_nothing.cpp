// Trick: does nothing and hopes that the output memory still holds a right answer.
// Defence: another process computes the expected values; outputs are poisoned.
#include "task.h"

extern "C" void solve(const task::Args& args, void*) { (void)args; }
