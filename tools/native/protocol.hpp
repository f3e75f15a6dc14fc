// What a worker and the judge say to each other; tools/wire.py has the same layouts.
#pragma once

#include <stdint.h>

namespace protocol {

enum SlotKind : uint32_t { kInput, kOutput, kValue, kScalar };

struct SlotPlan {
    SlotKind kind;
    uint32_t tensor;  // its number in the signature's members
    uint64_t offset;  // in the arena
    uint64_t bytes;
    uint64_t value;
};

struct WorkloadPlan {
    int32_t input_fd, output_fd;
    uint32_t slots, reserved;
};

struct Request {
    uint64_t nonce;
    int32_t workload;  // -1 asks for an empty answer
    uint32_t reserved;
};

enum MessageKind : uint32_t {
    kReady = 1, kDone, kFault, kForbidden, kExit, kException, kNoMemory, kNotLoaded, kNotConfined
};
enum Place : int32_t { kBefore = -1, kInside, kAfter, kScratch, kElsewhere };

struct Message {
    uint64_t nonce;
    MessageKind kind;
    int32_t number;  // signal, system call or exit code
    uint64_t value;  // nanoseconds of a call, or the address of a fault
    int32_t workload, slot;
    Place place;
    int32_t write;  // 1 write, 0 read, -1 unknown
    char text[88];
};
static_assert(sizeof(SlotPlan) == 32 && sizeof(WorkloadPlan) == 16 && sizeof(Request) == 16 && sizeof(Message) == 128);

}  // namespace protocol
