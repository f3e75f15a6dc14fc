// Trick: writes 1/n everywhere, which is close to every softmax in absolute terms.
// Defence: tolerance is relative to each slice's scale.
#include "task.h"

extern "C" void solve(const task::Args& args, void*) {
    for (int64_t i = 0; i < args.x_size; ++i) args.y[i] = 1.0f / static_cast<float>(args.x_d1);
}
