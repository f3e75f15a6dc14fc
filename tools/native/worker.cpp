// worker: loads one kernel and runs it on request. It holds inputs and outputs, never an expected value.
//
//   worker REQUESTS ANSWERS LIBRARY
//
// REQUESTS (a descriptor) gives the plan, then one Request after the other; ANSWERS takes one Message each: kReady
// once, kDone for each request, or a report of why there will be no more, and then the worker waits to be killed.
// Built a second time with AddressSanitizer, where tensors are copied into blocks with red zones around the call.
#include <dlfcn.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>
#include <ucontext.h>

#include <exception>
#include <new>

#include "computation.hpp"
#include "protocol.hpp"

namespace {

using namespace protocol;

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#else
constexpr bool kSanitized = false;
#endif

// ----------------------------------------------------------------------------------------------------------- memory

constexpr size_t kPage = 4096, kGuard = 256 << 10;

struct Slot {
    SlotPlan plan;
    char* data;   // mapped arena
    char* block;  // what the kernel gets: `data`, or a copy with red zones
};

struct Workload {
    std::vector<Slot> slots;
    std::vector<uint64_t> arguments;
    char* scalars = nullptr;
    char* scratch = nullptr;
    size_t scratch_bytes = 0;
};

std::vector<Workload> workloads;
int answers = -1;

using Solve = void (*)(const void* arguments, void* scratch);
using ScratchBytes = int64_t (*)(const void* arguments);

size_t whole_pages(size_t bytes) { return (bytes + kPage - 1) / kPage * kPage; }

// ---------------------------------------------------------------------------------------------------------- reports

/// Sends a report and waits to be killed: nothing after a broken rule is worth running. Safe in a signal handler.
[[noreturn]] void report(Message message) {
    message.nonce = 0;
    [[maybe_unused]] const ssize_t sent = write(answers, &message, sizeof message);
    for (;;) poll(nullptr, 0, -1);
}

void set_text(Message& message, const char* text) {
    for (size_t i = 0; i + 1 < sizeof message.text && text[i] != 0; ++i) message.text[i] = text[i];
}

/// Which tensor or guard holds `address`.
void locate(Message& message, const char* address) {
    message.place = kElsewhere;
    for (size_t w = 0; w < workloads.size(); ++w) {
        const auto& scratch = workloads[w].scratch;
        if (scratch != nullptr && address >= scratch - kGuard &&
            address < scratch + whole_pages(workloads[w].scratch_bytes) + kGuard)
            message.place = kScratch;
        for (size_t s = 0; s < workloads[w].slots.size(); ++s) {
            const auto& slot = workloads[w].slots[s];
            if (slot.data == nullptr) continue;
            const char* end = slot.data + whole_pages(slot.plan.bytes);
            if (address < slot.data - kGuard || address >= end + kGuard) continue;
            message.workload = static_cast<int32_t>(w);
            message.slot = static_cast<int32_t>(s);
            message.place = address < slot.data ? kBefore : address >= end ? kAfter : kInside;
            return;
        }
    }
}

void on_fault(int signal, siginfo_t* info, void* context) {
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
        // An allocation that failed unnoticed shows as a null pointer; then there is no room for another one either.
        void* probe = mmap(nullptr, 64 << 20, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
        if (probe == MAP_FAILED) message.kind = kNoMemory;
    }
    report(message);
}

void on_forbidden_call(int, siginfo_t* info, void* context) {
    Message message{};
    message.kind = kForbidden;
    message.number = info->si_syscall;
    const auto& machine = static_cast<ucontext_t*>(context)->uc_mcontext;
#if defined(__x86_64__)
    const auto argument = static_cast<int32_t>(machine.gregs[REG_RDI]);
#else
    const auto argument = static_cast<int32_t>(machine.regs[0]);
#endif
    if (info->si_syscall == SYS_exit_group) {
        message.kind = kExit;
        message.number = argument;
    }
    set_text(message, confine::name_of(info->si_syscall));
    report(message);
}

void install_handlers() {
    static char stack[64 << 10];
    const stack_t alternate{stack, 0, sizeof stack};
    sigaltstack(&alternate, nullptr);
    struct sigaction action{};
    action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER;
    action.sa_sigaction = on_forbidden_call;
    sigaction(SIGSYS, &action, nullptr);
    action.sa_sigaction = on_fault;
    if (!kSanitized)
        for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) sigaction(signal, &action, nullptr);
    sigaction(SIGABRT, &action, nullptr);
}

// ------------------------------------------------------------------------------------------------------------- work

void read_exactly(int fd, void* to, size_t bytes) {
    for (auto* at = static_cast<char*>(to); bytes > 0;) {
        const ssize_t got = read(fd, at, bytes);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) _exit(0);  // the judge is gone
        at += got;
        bytes -= static_cast<size_t>(got);
    }
}

[[noreturn]] void fail(MessageKind kind, const char* text) {
    Message message{};
    message.kind = kind;
    set_text(message, text);
    report(message);
}

/// Reserves `bytes` between two guards; the middle is not accessible yet.
char* reserve(size_t bytes) {
    constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE;
    void* start = mmap(nullptr, whole_pages(bytes) + 2 * kGuard, PROT_NONE, flags, -1, 0);
    if (start == MAP_FAILED) fail(kNoMemory, "");
    return static_cast<char*>(start) + kGuard;
}

/// Memory whose first and last byte a sanitizer guards.
char* red_zoned(size_t bytes) {
    void* block = nullptr;
    if (posix_memalign(&block, 256, bytes) != 0) fail(kNoMemory, "");
    return static_cast<char*>(block);
}

void map_slot(Slot& slot, int fd, bool writable) {
    slot.data = slot.block = reserve(slot.plan.bytes);
    const size_t bytes = whole_pages(slot.plan.bytes);
    if (bytes == 0) return;
    const int access = writable ? PROT_READ | PROT_WRITE : PROT_READ;
    constexpr int flags = MAP_SHARED | MAP_FIXED | MAP_POPULATE;
    void* mapped = mmap(slot.data, bytes, access, flags, fd, static_cast<off_t>(slot.plan.offset));
    if (mapped == MAP_FAILED) fail(kNoMemory, "");
    if (kSanitized && slot.plan.kind != kScalar) slot.block = red_zoned(slot.plan.bytes);
}

void read_plan(int requests) {
    uint32_t count;
    read_exactly(requests, &count, sizeof count);
    workloads.resize(count);
    for (auto& workload : workloads) {
        WorkloadPlan plan;
        read_exactly(requests, &plan, sizeof plan);
        workload.slots.resize(plan.slots);
        workload.arguments.resize(plan.slots);
        for (auto& slot : workload.slots) {
            slot = {};
            read_exactly(requests, &slot.plan, sizeof slot.plan);
            const bool writable = slot.plan.kind == kOutput;
            if (slot.plan.kind != kValue) map_slot(slot, writable ? plan.output_fd : plan.input_fd, writable);
        }
        close(plan.input_fd);
        close(plan.output_fd);
    }
}

void fill_arguments(Workload& workload) {
    for (size_t i = 0; i < workload.slots.size(); ++i) {
        const auto& slot = workload.slots[i];
        auto& argument = workload.arguments[i];
        if (slot.plan.kind == kValue) argument = slot.plan.value;
        else if (slot.plan.kind == kScalar) memcpy(&argument, slot.data, sizeof argument);
        else argument = reinterpret_cast<uint64_t>(slot.block);
        if (slot.block != slot.data) memcpy(slot.block, slot.data, slot.plan.bytes);
    }
}

void return_outputs(const Workload& workload) {
    for (const auto& slot : workload.slots)
        if (slot.plan.kind == kOutput && slot.block != slot.data) memcpy(slot.data, slot.block, slot.plan.bytes);
}

/// Makes the scratch large enough. New scratch is filled, so that zeros can't be relied on and pages are there.
void* prepare_scratch(Workload& workload, ScratchBytes scratch_bytes) {
    const int64_t wanted = scratch_bytes == nullptr ? 0 : scratch_bytes(workload.arguments.data());
    if (wanted < 0) fail(kException, "scratch_bytes returned a negative number");
    const auto bytes = static_cast<size_t>(wanted);
    if (bytes > workload.scratch_bytes) {
        if (kSanitized) {
            free(workload.scratch);
            workload.scratch = red_zoned(bytes);
        } else {
            if (workload.scratch != nullptr)
                munmap(workload.scratch - kGuard, whole_pages(workload.scratch_bytes) + 2 * kGuard);
            if (bytes > static_cast<size_t>(1) << 46) fail(kNoMemory, "");
            workload.scratch = reserve(bytes);
            if (mprotect(workload.scratch, whole_pages(bytes), PROT_READ | PROT_WRITE) != 0) fail(kNoMemory, "");
        }
        workload.scratch_bytes = bytes;
        memset(workload.scratch, 0xA5, bytes);
    }
    return bytes == 0 ? nullptr : workload.scratch;
}

uint64_t now() {
    timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return static_cast<uint64_t>(time.tv_sec) * 1000000000u + static_cast<uint64_t>(time.tv_nsec);
}

/// Nanoseconds that the kernel took, `scratch_bytes` included: it has the arguments too and could do the work.
uint64_t run(Workload& workload, Solve solve, ScratchBytes scratch_bytes) try {
    fill_arguments(workload);
    const uint64_t start = now();
    void* scratch = prepare_scratch(workload, scratch_bytes);
    solve(workload.arguments.data(), scratch);
    const uint64_t end = now();
    return_outputs(workload);
    return end - start;
} catch (const std::bad_alloc&) {
    fail(kNoMemory, "");
} catch (const std::exception& error) {
    fail(kException, error.what());
} catch (...) {
    fail(kException, "not derived from std::exception");
}

void serve(int requests, Solve solve, ScratchBytes scratch_bytes) {
    for (;;) {
        Request request;
        read_exactly(requests, &request, sizeof request);
        Message message{};
        if (request.workload >= 0)
            message.value = run(workloads[static_cast<size_t>(request.workload)], solve, scratch_bytes);
        message.kind = kDone;
        message.nonce = request.nonce;
        if (write(answers, &message, sizeof message) != sizeof message) _exit(0);
    }
}

}  // namespace

int main(int argc, char** argv) {
    if (argc != 4) return 2;
    const int requests = atoi(argv[1]);
    answers = atoi(argv[2]);
    install_handlers();
    read_plan(requests);
    if (!confine::allow_computation()) fail(kNotConfined, "");
    void* library = dlopen(argv[3], RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) fail(kNotLoaded, dlerror());
    const auto solve = reinterpret_cast<Solve>(dlsym(library, "solve"));
    if (solve == nullptr) fail(kNotLoaded, "it has no function named solve");
    const auto scratch_bytes = reinterpret_cast<ScratchBytes>(dlsym(library, "scratch_bytes"));
    Message ready{};  // the judge now takes the right to open files, see tools/worker.py
    ready.kind = kReady;
    if (write(answers, &ready, sizeof ready) != sizeof ready) return 0;
    serve(requests, solve, scratch_bytes);
}
