// Fault: waits for a lock that it holds.
// Expected: timeout
#include "task.h"

#include <condition_variable>
#include <mutex>

extern "C" void solve(const task::Args& args, void*) {
    (void)args;
    std::mutex lock;
    std::condition_variable never;
    std::unique_lock<std::mutex> held(lock);
    never.wait(held, [] { return false; });
}
