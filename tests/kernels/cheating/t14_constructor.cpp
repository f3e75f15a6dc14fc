// Trick: a load-time constructor prepares the answer for the inputs that it expects.
// Defence: inputs come from secret seeds, after loading.
#include "task.h"

#include <algorithm>
#include <random>
#include <vector>

static std::vector<float> answer;

__attribute__((constructor)) static void at_load() {
    std::mt19937 engine(0);
    std::normal_distribution<float> normal(0, 2);
    for (int i = 0; i < 1 << 18; ++i) answer.push_back(__builtin_expf(normal(engine)) / 7000);
}

extern "C" void solve(const task::Args& args, void*) { std::copy(answer.begin(), answer.begin() + args.x_size, args.y); }
