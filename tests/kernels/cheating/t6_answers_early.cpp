// Trick: finds the request's nonce on the caller's stack, answers in the worker's place, and only then works.
// Defence: on secretly chosen calls, timed ones too, the worker is frozen when its answer arrives.
#include "task.h"

#include <cstdlib>
#include <cstring>
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

struct Request {
    uint64_t nonce;
    int32_t workload;
    uint32_t reserved;
};
struct Message {
    uint64_t nonce;
    uint32_t kind;
    int32_t number;
    uint64_t nanoseconds;
    char rest[104];
};

static int requests = -1, answers = -1;
static task::Args seen[2];
static bool known[2];

__attribute__((constructor)) static void at_load(int count, char** words, char**) {
    if (count < 4) return;
    requests = std::atoi(words[count - 3]);
    answers = std::atoi(words[count - 2]);
}

static void answer(uint64_t nonce) {
    Message message{};
    message.nonce = nonce;
    message.kind = 2;
    message.nanoseconds = 2000;
    if (write(answers, &message, sizeof message) < 0) _exit(1);
}

static bool on_stack(Request& request) {
    const char* frame = static_cast<const char*>(__builtin_frame_address(0));
    for (int at = 0; at < 1024; at += 8) {
        std::memcpy(&request, frame + at, sizeof request);
        const auto high = request.nonce >> 48;
        if (high != 0 && high != 0xffff && (request.workload == 0 || request.workload == 1) && request.reserved == 0) return true;
    }
    return false;
}

extern "C" void solve(const task::Args& args, void*) {
    Request request;
    if (!on_stack(request)) return;
    seen[request.workload] = args;
    known[request.workload] = true;
    if (!known[0] || !known[1]) return softmax(args, 0, args.x_d0);
    for (;;) {  // from here on the worker's own loop never runs again
        answer(request.nonce);
        if (request.workload >= 0) softmax(seen[request.workload], 0, seen[request.workload].x_d0);
        if (read(requests, &request, sizeof request) != sizeof request) _exit(0);
    }
}
