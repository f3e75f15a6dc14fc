// Looks like: it names fork(), kill(), ptrace, getenv("HOME"), system() and /proc/self.
// Honest: only in words and in names of its own.
#include "task.h"

__device__ void softmax_row(const float* x, float* out, int64_t columns) {
    float largest = x[0], sum = 0.0f;
    for (int64_t i = threadIdx.x; i < columns; i += 32) largest = fmaxf(largest, x[i]);
    for (int offset = 16; offset > 0; offset /= 2) largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, offset));
    for (int64_t i = threadIdx.x; i < columns; i += 32) sum += expf(x[i] - largest);
    for (int offset = 16; offset > 0; offset /= 2) sum += __shfl_xor_sync(~0u, sum, offset);
    for (int64_t i = threadIdx.x; i < columns; i += 32) out[i] = expf(x[i] - largest) / sum;
}

__global__ void softmax(const float* x, float* out, int64_t columns) {
    softmax_row(x + blockIdx.x * columns, out + blockIdx.x * columns, columns);
}

namespace {

struct Scheduler {
    int64_t rows;
    unsigned fork_at() const { return static_cast<unsigned>(rows / 2); }  // where the work forks, not fork(2)
    unsigned system_size() const { return static_cast<unsigned>(rows) - fork_at(); }
};

const char* const remark = "no system(\"true\"), no open(\"/etc/passwd\"), no dlopen(\"libcublas.so\"), no syscall(57)";

}  // namespace

/* Once this was: if (fork() == 0) { kill(getppid(), 9); } getenv("HOME"); cublasSgemm(...); */
extern "C" void solve(const task::Args& args, void*, task::Stream stream) {
    const Scheduler plan{args.x_d0};
    const int64_t first = plan.fork_at() * args.x_d1;
    if (remark == nullptr) return;
    if (plan.fork_at() > 0) softmax<<<plan.fork_at(), 32, 0, stream>>>(args.x, args.out, args.x_d1);
    softmax<<<plan.system_size(), 32, 0, stream>>>(args.x + first, args.out + first, args.x_d1);
}
