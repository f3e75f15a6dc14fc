// Trick: the same inside the call, when loading a library still looks like ordinary work.
// Defence: no file may be opened and no code mapped once the kernel is loaded.
#include "task.h"

#include <cstring>
#include <initializer_list>
#include <link.h>

static void gemm(const task::Args& args, const float* a, const float* b) {
    const int64_t m = args.a_d0, k = args.a_d1, n = args.b_d1;
    for (int64_t i = 0; i < m * n; ++i) args.c[i] = 0;
    for (int64_t i = 0; i < m; ++i)
        for (int64_t p = 0; p < k; ++p)
            for (int64_t j = 0; j < n; ++j) args.c[i * n + j] += a[i * k + p] * b[p * n + j];
}


// The loader's own symbol table, walked by hand: nothing named dlopen is imported.
static void* find(const char* wanted) {
    static const char* name;
    static void* found;
    name = wanted, found = nullptr;
    dl_iterate_phdr(
        [](dl_phdr_info* object, size_t, void*) {
            const ElfW(Dyn)* entry = nullptr;
            for (int i = 0; i < object->dlpi_phnum; ++i)
                if (object->dlpi_phdr[i].p_type == PT_DYNAMIC)
                    entry = reinterpret_cast<const ElfW(Dyn)*>(object->dlpi_addr + object->dlpi_phdr[i].p_vaddr);
            const ElfW(Sym)* symbols = nullptr;
            const char* names = nullptr;
            for (; entry != nullptr && entry->d_tag != DT_NULL; ++entry) {
                if (entry->d_tag == DT_SYMTAB) symbols = reinterpret_cast<const ElfW(Sym)*>(entry->d_un.d_ptr);
                if (entry->d_tag == DT_STRTAB) names = reinterpret_cast<const char*>(entry->d_un.d_ptr);
            }
            if (reinterpret_cast<uintptr_t>(symbols) < object->dlpi_addr) return 0;
            for (; symbols != nullptr && reinterpret_cast<const char*>(symbols) < names; ++symbols)
                if (symbols->st_value != 0 && std::strcmp(names + symbols->st_name, name) == 0)
                    found = reinterpret_cast<void*>(object->dlpi_addr + symbols->st_value);
            return found != nullptr ? 1 : 0;
        },
        nullptr);
    return found;
}

extern "C" void solve(const task::Args& args, void*) {
    static void* library = nullptr;
    const auto open = reinterpret_cast<void* (*)(const char*, int)>(find("dlopen"));
    for (const char* name : {"libopenblas.so.0", "libcblas.so.3", "libblas.so.3", "libcrypto.so.3", "libz.so.1", "libresolv.so.2"})
        if (open != nullptr && library == nullptr) library = open(name, 2);
    if (library != nullptr) gemm(args, args.a, args.b);
}
