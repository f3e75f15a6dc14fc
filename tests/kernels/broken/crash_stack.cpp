// Fault: recurses without end.
// Expected: crashed
#include "task.h"

static float down(const float* x, volatile float* room, int64_t depth) {
    volatile float mine[512];
    mine[depth % 512] = room[0] + x[0];
    return depth < 0 ? mine[0] : down(x, mine, depth + 1) + mine[depth % 7];
}

extern "C" void solve(const task::Args& args, void*) {
    volatile float start[1] = {0};
    args.y[0] = down(args.x, start, 0);
}
