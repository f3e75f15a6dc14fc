// Trick: rewrites the reference and the tolerances.
// Defence: files can't be written; the task is graded from the judge's own copy.
#include "task.h"

#include <cstdio>
#include <initializer_list>

extern "C" void solve(const task::Args& args, void*) {
    for (int64_t i = 0; i < args.x_size; ++i) args.y[i] = 0;
    for (const char* path : {"reference.py", "task.toml", "../reference.py", "tests/tasks_adversary/softmax/reference.py"})
        if (std::FILE* file = std::fopen(path, "w")) {
            std::fputs("def reference(x): return {'y': 0 * x}\n", file);
            std::fclose(file);
        }
}
