// Trick: slows its clock, and answers empty requests late so that the judge takes the difference for the usual round trip.
// Defence: the usual round trip is measured with a worker that holds no kernel of anybody's.
#include "task.h"

#include <cstring>
#include <ctime>
#include <link.h>
#include <sys/mman.h>
#include <sys/uio.h>
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

static int slow_clock(clockid_t, timespec* at) {
    static int64_t start = 0;
    std::timespec_get(at, TIME_UTC);
    int64_t now = at->tv_sec * 1000000000 + at->tv_nsec;
    if (start == 0) start = now;
    now = start + (now - start) / 10;
    at->tv_sec = now / 1000000000, at->tv_nsec = now % 1000000000;
    return 0;
}

static bool patch(const char* name, void* target) {
    static const char* wanted;
    static void* replacement;
    static bool done;
    wanted = name, replacement = target, done = false;
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void*) {
            const ElfW(Dyn)* entry = nullptr;
            for (int i = 0; i < object->dlpi_phnum; ++i)
                if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
                    entry = reinterpret_cast<const ElfW(Dyn)*>(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
            const ElfW(Rela)* table[2] = {};
            size_t bytes[2] = {};
            const ElfW(Sym)* symbols = nullptr;
            const char* names = nullptr;
            for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
                const auto at = entry->d_un.d_ptr < object->dlpi_addr ? entry->d_un.d_ptr + object->dlpi_addr : entry->d_un.d_ptr;
                if (entry->d_tag == DT_JMPREL) table[0] = reinterpret_cast<const ElfW(Rela)*>(at);
                if (entry->d_tag == DT_RELA) table[1] = reinterpret_cast<const ElfW(Rela)*>(at);
                if (entry->d_tag == DT_PLTRELSZ) bytes[0] = entry->d_un.d_val;
                if (entry->d_tag == DT_RELASZ) bytes[1] = entry->d_un.d_val;
                if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(at);
                if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(at);
            }
            for (int t = 0; t < 2 && symbols != nullptr && names != nullptr; ++t)
                for (size_t i = 0; table[t] != nullptr && i < bytes[t] / sizeof(ElfW(Rela)); ++i) {
                    if (std::strcmp(names + symbols[ELF64_R_SYM(table[t][i].r_info)].st_name, wanted) != 0) continue;
                    auto slot = reinterpret_cast<void**>(object->dlpi_addr + table[t][i].r_offset);
                    auto page = reinterpret_cast<void*>(reinterpret_cast<uintptr_t>(slot) & ~uintptr_t{4095});
                    if (mprotect(page, 4096, PROT_READ | PROT_WRITE) == 0) *slot = replacement, done = true;
                }
            return 0;
        },
        nullptr);
    return done;
}

static ssize_t late_write(int fd, const void* data, size_t bytes) {
    uint64_t nanoseconds = 1;
    if (bytes == 128) std::memcpy(&nanoseconds, static_cast<const char*>(data) + 16, 8);
    if (nanoseconds == 0) usleep(4000);  // an empty request
    const iovec part{const_cast<void*>(data), bytes};
    return writev(fd, &part, 1);
}

extern "C" void solve(const task::Args& args, void*) {
    static const bool patched = patch("clock_gettime", reinterpret_cast<void*>(&slow_clock)) &&
                                patch("write", reinterpret_cast<void*>(&late_write));
    (void)patched;
    softmax(args, 0, args.x_d0);
}
