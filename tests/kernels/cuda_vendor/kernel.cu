// The product by cuBLAS: right where the task allows that library, and refused elsewhere. Its functions are declared here, since
// its headers are not on every machine that has it.
#include "task.h"

struct cublasContext;
using Handle = cublasContext*;
enum { kAsItIs = 0, kStrict = 0 };  // CUBLAS_OP_N; CUBLAS_DEFAULT_MATH, float32 as it is

extern "C" int cublasCreate_v2(Handle*);
extern "C" int cublasSetStream_v2(Handle, task::Stream);
extern "C" int cublasSetMathMode(Handle, int);
extern "C" int cublasSgemm_v2(
    Handle, int, int, int, int, int, const float*, const float*, int, const float*, int, const float*, float*, int);

extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    static Handle handle = [] {
        Handle made = nullptr;
        if (cublasCreate_v2(&made) == 0) cublasSetMathMode(made, kStrict);
        return made;
    }();
    const float one = 1.0f, zero = 0.0f;
    const int m = static_cast<int>(args.a_d0), k = static_cast<int>(args.a_d1), n = static_cast<int>(args.b_d1);
    cublasSetStream_v2(handle, stream);  // its matrices lie column by column: c' = b' a'
    cublasSgemm_v2(handle, kAsItIs, kAsItIs, n, m, k, &one, args.b, n, args.a, k, &zero, args.c, n);
}
