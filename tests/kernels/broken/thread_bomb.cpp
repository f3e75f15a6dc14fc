// Fault: starts threads without end (bounded here in case nothing holds it).
// Expected: crashed or timeout, and all of them gone
#include "task.h"

#include <chrono>
#include <thread>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    for (int i = 0; i < 20000; ++i)
        std::thread([] { std::this_thread::sleep_for(std::chrono::seconds(20)); }).detach();
}
