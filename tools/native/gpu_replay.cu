// Runs one kernel a few times on each recorded workload, every tensor in an allocation of its own, for compute-sanitizer.
//
//   gpu_replay LIBRARY CALLS PLAN...
//
// LIBRARY may come later than the program, which is as far as it can be by then. PLAN: the number of slots, then for
// each its kind (0 input, 1 output, 2 value, 3 scalar), its bytes, its value, and for inputs, scalars and outputs with
// content that content (a flag before it says whether there is any). It says `replay: passed` after each workload.
#include <cuda_runtime.h>
#include <dlfcn.h>
#include <unistd.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <vector>

namespace {

struct Slot {
    uint64_t kind, bytes, value, filled;
};

void require(cudaError_t status, const char* what) {
    if (status == cudaSuccess) return;
    fprintf(stderr, "replay: %s: %s\n", what, cudaGetErrorName(status));
    exit(3);
}

void read_exactly(FILE* file, void* to, size_t bytes) {
    if (fread(to, 1, bytes, file) != bytes) exit(4);
}

/// One workload's arguments, its tensors on the device.
struct Workload {
    std::vector<uint64_t> arguments;
    std::vector<void*> taken;
};

bool read_workload(const char* path, Workload& workload) {
    FILE* file = fopen(path, "rb");
    if (file == nullptr) return false;
    uint64_t count;
    read_exactly(file, &count, sizeof count);
    workload.arguments.resize(count);
    for (auto& argument : workload.arguments) {
        Slot slot;
        read_exactly(file, &slot, sizeof slot);
        std::vector<char> content(slot.filled ? slot.bytes : 0);
        read_exactly(file, content.data(), content.size());
        argument = slot.value;
        if (slot.kind == 2 || slot.kind == 3) continue;
        void* block = nullptr;
        if (slot.bytes) require(cudaMalloc(&block, slot.bytes), "allocation");
        if (slot.filled && slot.bytes)
            require(cudaMemcpy(block, content.data(), slot.bytes, cudaMemcpyHostToDevice), "upload");
        argument = reinterpret_cast<uint64_t>(block);
        workload.taken.push_back(block);
    }
    fclose(file);
    return true;
}

void* opened_when_there(const char* path) {
    while (access(path, F_OK) != 0) usleep(500);  // whoever started this program bounds its time
    return dlopen(path, RTLD_NOW | RTLD_LOCAL);
}

/// After the destructors of the kernel's library, which give back what it kept: they were registered later.
void give_back_device() { cudaDeviceReset(); }

}  // namespace

int main(int argc, char** argv) {
    if (argc < 4) return 2;
    const int calls = atoi(argv[2]);
    const bool several = calls > 1;  // then somebody looks at what they leave behind
    require(cudaFree(nullptr), "context");
    if (several) atexit(give_back_device);
    std::vector<Workload> workloads(argc - 3);
    for (int index = 0; index < argc - 3; ++index)
        if (!read_workload(argv[3 + index], workloads[index])) return 5;
    cudaStream_t stream;
    require(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
    void* library = opened_when_there(argv[1]);
    if (library == nullptr) return 5;
    const auto solve = reinterpret_cast<void (*)(const void*, void*, cudaStream_t)>(dlsym(library, "solve"));
    const auto scratch_bytes = reinterpret_cast<int64_t (*)(const void*)>(dlsym(library, "scratch_bytes"));
    if (solve == nullptr) return 5;
    for (Workload& workload : workloads) {
        void* scratch = nullptr;
        const int64_t wanted = scratch_bytes == nullptr ? 0 : scratch_bytes(workload.arguments.data());
        if (wanted > 0) require(cudaMalloc(&scratch, static_cast<size_t>(wanted)), "scratch");
        workload.taken.push_back(scratch);
        for (int call = 0; call < calls; ++call) solve(workload.arguments.data(), scratch, stream);
        require(cudaGetLastError(), "launch");
        require(cudaDeviceSynchronize(), "kernel");
        puts("replay: passed");
        fflush(stdout);
    }
    if (several) {
        for (Workload& workload : workloads)
            for (void* block : workload.taken) cudaFree(block);
        cudaStreamDestroy(stream);
    }
    puts("replay: done");
    return 0;
}
