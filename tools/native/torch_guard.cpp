// torch_guard: what the worker for torch kernels needs below Python. A shared object, loaded by tools/torch_memory.py.
//
//   guard_map       maps a part of a descriptor between pages that nobody may touch
//   guard_reserve   memory of its own whose last byte lies before such a page
//   guard_watch     says what lies where, so that a fault can be told by the tensor that it hit
//   guard_report    from now on a fault is one Message on this descriptor, and then the process waits to be killed
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <vector>

#include "protocol.hpp"

namespace {

using namespace protocol;

constexpr size_t kPage = 4096, kGuard = 256 << 10;

struct Watched {
    const char *start, *end;
    int32_t workload, slot;
};

std::vector<Watched> watched;
int answers = -1;

size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

char* reserve(size_t bytes) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* start = mmap(nullptr, whole_pages(bytes) + 2 * kGuard, PROT_NONE, flags, -1, 0);
    return start == MAP_FAILED ? nullptr : static_cast<char*>(start) + kGuard;
}

void locate(Message& message, const char* address) {
    message.place = kElsewhere;
    for (const auto& each : watched) {
        if (address < each.start - kGuard || address >= each.end + kGuard) continue;
        message.workload = each.workload;
        message.slot = each.slot;
        message.place = address < each.start ? kBefore : address >= each.end ? kAfter : kInside;
        return;
    }
}

void on_fault(int signal, siginfo_t* info, [[maybe_unused]] void* context) {
    Message message{};
    message.kind = kFault;
    message.number = signal;
    message.write = -1;
    if (signal == SIGSEGV || signal == SIGBUS) {
        message.value = reinterpret_cast<uint64_t>(info->si_addr);
        locate(message, static_cast<const char*>(info->si_addr));
#if defined(__x86_64__)
        message.write = (static_cast<ucontext_t*>(context)->uc_mcontext.gregs[REG_ERR] >> 1) & 1;
#endif
    }
    [[maybe_unused]] const ssize_t sent = write(answers, &message, sizeof message);
    for (;;) poll(nullptr, 0, -1);
}

}  // namespace

/// The address, or null when there is no room. `bytes` is not 0.
extern "C" char* guard_map(int fd, int64_t offset, uint64_t bytes, int writable) {
    char* middle = reserve(bytes);
    if (middle == nullptr) return nullptr;
    const int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    void* mapped = mmap(middle, whole_pages(bytes), access, MAP_SHARED | MAP_FIXED | MAP_POPULATE, fd, offset);
    return mapped == MAP_FAILED ? nullptr : middle;
}

/// `bytes` that end, but for alignment, where the guard begins; null when there is no room.
extern "C" char* guard_reserve(uint64_t bytes, uint64_t alignment) {
    char* middle = reserve(bytes);
    if (middle == nullptr || mprotect(middle, whole_pages(bytes), PROT_READ | PROT_WRITE) != 0) return nullptr;
    return middle + (whole_pages(bytes) - bytes) / alignment * alignment;
}

extern "C" void guard_watch(const char* start, uint64_t bytes, int workload, int slot) {
    watched.push_back({start, start + whole_pages(bytes), workload, slot});
}

extern "C" void guard_report(int fd) {
    static char stack[64 << 10];
    answers = fd;
    const stack_t alternate{stack, 0, sizeof stack};
    sigaltstack(&alternate, nullptr);
    struct sigaction action{};
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    action.sa_sigaction = on_fault;
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) sigaction(signal, &action, nullptr);
}
