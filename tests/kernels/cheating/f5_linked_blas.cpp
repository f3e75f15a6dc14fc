// Trick: calls a BLAS that it expects to be linked or loaded already.
// Defence: undefined symbols are an error of the build.
#include "task.h"

extern "C" void cblas_sgemm(int, int, int, int, int, int, float, const float*, int, const float*, int, float, float*, int);

extern "C" void solve(const task::Args& args, void*) {
    cblas_sgemm(101, 111, 111, args.a_d0, args.b_d1, args.a_d1, 1, args.a, args.a_d1, args.b, args.b_d1, 0, args.c, args.b_d1);
}
