// Fault: templates without end keep the compiler busy.
// Expected: compile_error that says it took too long or too much
#include "task.h"

template <int N, int M>
struct Tree {
    static constexpr int64_t value = Tree<N - 1, 2 * M>::value + Tree<N - 1, 2 * M + 1>::value;
};
template <int M>
struct Tree<0, M> {
    static constexpr int64_t value = M;
};

extern "C" void solve(const task::Args& args, void*) { args.y[0] = Tree<26, 1>::value; }
