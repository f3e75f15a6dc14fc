// Trick: the mean of normal data is near 0, so it answers 0.
// Defence: tolerance follows the output's scale; several distributions.
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    for (int64_t r = 0; r < args.x_d0; ++r) args.mean[r] = 0;
}
