// Trick: a load-time constructor overwrites the vDSO's clock with one ten times slower.
// Defence: a second clock outside the process has to agree; no memory may become executable.
#include "task.h"

#include <cstring>
#include <ctime>
#include <elf.h>
#include <link.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

static void softmax(const task::Args& args, int64_t first, int64_t last) {
    for (int64_t r = first; r < last; ++r) {
        const float* x = args.x + r * args.x_d1;
        float* y = args.y + r * args.x_d1;
        float top = x[0];
        for (int64_t c = 1; c < args.x_d1; ++c)
            if (x[c] > top) top = x[c];
        double sum = 0;
        for (int64_t c = 0; c < args.x_d1; ++c) sum += y[c] = __builtin_expf(x[c] - top);
        for (int64_t c = 0; c < args.x_d1; ++c) y[c] = static_cast<float>(y[c] / sum);
    }
}

static long slow_clock(clockid_t id, timespec* at) {
    static int64_t start = 0;
    syscall(SYS_clock_gettime, id, at);
    int64_t now = at->tv_sec * 1000000000 + at->tv_nsec;
    if (start == 0) start = now;
    now = start + (now - start) / 10;
    at->tv_sec = now / 1000000000, at->tv_nsec = now % 1000000000;
    return 0;
}

static void overwrite(unsigned char* code, void* target) {
    auto page = reinterpret_cast<unsigned char*>(reinterpret_cast<uintptr_t>(code) & ~uintptr_t{4095});
    if (mprotect(page, 8192, PROT_READ | PROT_WRITE | PROT_EXEC) != 0 &&
        mprotect(page, 4096, PROT_READ | PROT_WRITE | PROT_EXEC) != 0)
        return;
#if defined(__x86_64__)
    const unsigned char jump[12] = {0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0};  // movabs rax; jmp rax
    std::memcpy(code, jump, sizeof jump);
    std::memcpy(code + 2, &target, sizeof target);
#endif
}

__attribute__((constructor)) static void at_load() {
    const auto base = getauxval(AT_SYSINFO_EHDR);
    const auto header = reinterpret_cast<const ElfW(Ehdr)*>(base);
    if (header == nullptr) return;
    const auto segment = reinterpret_cast<const ElfW(Phdr)*>(base + header->e_phoff);
    const ElfW(Dyn)* entry = nullptr;
    for (int i = 0; i < header->e_phnum; ++i)
        if (segment[i].p_type == PT_DYNAMIC) entry = reinterpret_cast<const ElfW(Dyn)*>(base + segment[i].p_offset);
    const ElfW(Sym)* symbols = nullptr;
    const char* names = nullptr;
    for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
        if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(base + entry->d_un.d_ptr);
        if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(base + entry->d_un.d_ptr);
    }
    for (int i = 1; symbols != nullptr && names != nullptr && reinterpret_cast<const char*>(&symbols[i]) < names; ++i)
        if (std::strstr(names + symbols[i].st_name, "clock_gettime") != nullptr)
            overwrite(reinterpret_cast<unsigned char*>(base + symbols[i].st_value), reinterpret_cast<void*>(&slow_clock));
}

extern "C" void solve(const task::Args& args, void*) { softmax(args, 0, args.x_d0); }
