// Trick: replays the result of the well-known seed 0 when it sees its first number.
// Defence: seeds are secret.
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    const bool known = args.x[0] == 0.25146043300628662f;  // numpy.random.default_rng(0), twice the first normal
    for (int64_t i = 0; i < args.x_size; ++i) args.y[i] = known ? 1.0f / static_cast<float>(i + 1) : 0.0f;
}
