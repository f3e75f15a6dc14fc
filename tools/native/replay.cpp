// Calls a kernel a given number of times on recorded inputs, and does nothing else: the program that instruments watch.
//
//   replay LIBRARY PLAN CALLS LIMIT [flush] [empty]
//
// PLAN is written by tools/profilers/replay.py: "WSPLAN1\n", the number of 8-byte slots of task::Args, then two 64-bit
// words a slot (kind 0: the value itself; 1: an input of so many bytes; 2: an output of so many bytes), then the
// contents of the inputs in that order. LIMIT seconds of CPU time end the program by SIGPROF, on which valgrind still
// writes what it saw. `flush` evicts the tensors from the caches before every call; `empty` does all but the call, so
// that the difference of two runs is the kernel alone. Prints how many OpenMP regions the calls opened and what an
// empty one costs. What it prints is evidence for a profile, never for a verdict.

#include <dlfcn.h>
#include <fcntl.h>
#include <omp.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

bool counting = false;
long regions = 0;

template <typename Function>
Function* next(const char* name) {
    void* found = dlsym(RTLD_NEXT, name);
    if (!found) std::abort();
    return reinterpret_cast<Function*>(found);
}

void count_region() {
    if (counting) __atomic_fetch_add(&regions, 1, __ATOMIC_RELAXED);
}

[[noreturn]] void fail(const char* what) {
    std::fprintf(stderr, "replay: %s\n", what);
    std::exit(2);
}

void read_all(int fd, void* to, size_t size) {
    auto* place = static_cast<char*>(to);
    while (size > 0) {
        const ssize_t got = read(fd, place, size < (1u << 30) ? size : (1u << 30));
        if (got <= 0) fail("the plan is too short");
        place += got;
        size -= static_cast<size_t>(got);
    }
}

void* pages(size_t size) {
    void* place = mmap(nullptr, size ? size : 1, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED) fail("out of memory");
    return place;
}

struct Block {
    char* place;
    size_t size;
};

void flush(const std::vector<Block>& blocks) {
#if defined(__x86_64__)
    for (const Block& block : blocks)
        for (size_t at = 0; at < block.size; at += 64) __builtin_ia32_clflush(block.place + at);
    __builtin_ia32_mfence();
#else
    static std::vector<char> other(256u << 20);
    for (size_t at = 0; at < other.size(); at += 64) ++other[at];
    (void)blocks;
#endif
}

double empty_region_seconds() {
    using Clock = std::chrono::steady_clock;
    volatile int touched = 0;
    double best = 1.0;
    const auto start = Clock::now();
    for (int round = 0; round < 1000 && Clock::now() - start < std::chrono::milliseconds(200); ++round) {
        const auto begin = Clock::now();
#pragma omp parallel
        if (omp_get_thread_num() == 0) touched = touched + 1;
        const double seconds = std::chrono::duration<double>(Clock::now() - begin).count();
        if (seconds < best) best = seconds;
    }
    return best;
}

void limit_cpu(long seconds) {
    const itimerval timer{{0, 0}, {seconds, 0}};
    setitimer(ITIMER_PROF, &timer, nullptr);
}

}  // namespace

// The kernel's OpenMP regions enter through these: the main program's symbols come before libgomp's.
extern "C" {
void GOMP_parallel(void (*body)(void*), void* data, unsigned threads, unsigned flags) {
    count_region();
    static auto* const real = next<void(void (*)(void*), void*, unsigned, unsigned)>("GOMP_parallel");
    real(body, data, threads, flags);
}

#define LOOP_WITH_CHUNK(NAME)                                                                                       \
    void NAME(void (*body)(void*), void* data, unsigned threads, long begin, long end, long step, long chunk,      \
              unsigned flags) {                                                                                    \
        count_region();                                                                                            \
        static auto* const real =                                                                                  \
            next<void(void (*)(void*), void*, unsigned, long, long, long, long, unsigned)>(#NAME);                 \
        real(body, data, threads, begin, end, step, chunk, flags);                                                 \
    }
LOOP_WITH_CHUNK(GOMP_parallel_loop_static)
LOOP_WITH_CHUNK(GOMP_parallel_loop_dynamic)
LOOP_WITH_CHUNK(GOMP_parallel_loop_guided)
LOOP_WITH_CHUNK(GOMP_parallel_loop_nonmonotonic_dynamic)
LOOP_WITH_CHUNK(GOMP_parallel_loop_nonmonotonic_guided)
}

int main(int count, char** words) {
    if (count < 5) fail("usage: replay LIBRARY PLAN CALLS LIMIT [flush] [empty]");
    bool cold = false, empty = false;
    for (int i = 5; i < count; ++i) {
        cold = cold || !std::strcmp(words[i], "flush");
        empty = empty || !std::strcmp(words[i], "empty");
    }
    const int plan = open(words[2], O_RDONLY | O_CLOEXEC);
    if (plan < 0) fail("the plan can't be opened");
    char magic[8];
    read_all(plan, magic, sizeof magic);
    if (std::memcmp(magic, "WSPLAN1\n", 8) != 0) fail("not a plan");
    uint64_t slots = 0;
    read_all(plan, &slots, sizeof slots);
    std::vector<uint64_t> words64(2 * slots), args(slots + 1);
    read_all(plan, words64.data(), words64.size() * 8);
    std::vector<Block> blocks;
    for (uint64_t i = 0; i < slots; ++i) {
        const uint64_t kind = words64[2 * i], value = words64[2 * i + 1];
        if (kind == 0) {
            args[i] = value;
            continue;
        }
        blocks.push_back({static_cast<char*>(pages(value)), value});
        args[i] = reinterpret_cast<uint64_t>(blocks.back().place);
        if (kind == 1) read_all(plan, blocks.back().place, value);
    }
    close(plan);

    void* library = dlopen(words[1], RTLD_NOW | RTLD_LOCAL);
    if (!library) fail(dlerror());
    auto* solve = reinterpret_cast<void (*)(const void*, void*)>(dlsym(library, "solve"));
    auto* scratch_bytes = reinterpret_cast<int64_t (*)(const void*)>(dlsym(library, "scratch_bytes"));
    if (!solve) fail("no entry `solve`");
    const int64_t wanted = scratch_bytes ? scratch_bytes(args.data()) : 0;
    void* scratch = wanted > 0 ? pages(static_cast<size_t>(wanted)) : nullptr;

    const long calls = std::atol(words[3]);
    const double fork = cold ? empty_region_seconds() : 0.0;
    limit_cpu(std::atol(words[4]));
    counting = true;
    for (long call = 0; call < calls; ++call) {
        if (cold) flush(blocks);
        if (!empty) solve(args.data(), scratch);
    }
    counting = false;
    limit_cpu(0);
    std::printf("\nreplay regions %ld fork %.9f\n", regions, fork);
    std::fflush(stdout);
    _exit(0);
}
