// Trick: loads a BLAS by name at run time.
// Defence: imported loader symbols; no file may be opened and no code mapped after loading.
#include "task.h"

#include <dlfcn.h>
#include <initializer_list>

extern "C" void solve(const task::Args& args, void*) {
    using sgemm_t = void (*)(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);
    for (const char* name : {"libopenblas.so.0", "libcblas.so.3", "libmkl_rt.so", "libblas.so.3"})
        if (void* library = dlopen(name, RTLD_NOW))
            if (auto sgemm = reinterpret_cast<sgemm_t>(dlsym(library, "cblas_sgemm")))
                return sgemm(101, 111, 111, args.a_d0, args.b_d1, args.a_d1, 1, args.a, args.a_d1, args.b, args.b_d1, 0, args.c, args.b_d1);
}
