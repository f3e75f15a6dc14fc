// What a process can do to confine itself, shared by jail (any program) and worker (kernels).
// Landlock's and mount_setattr's numbers are spelt out because a machine's headers may be older than its kernel.
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <string>
#include <vector>

namespace confine {

// ---------------------------------------------------------------------------------------------------- Landlock

constexpr long kLandlockCreate = 444, kLandlockAddRule = 445, kLandlockRestrict = 446;
constexpr uint64_t kExecute = 1, kWriteFile = 2, kReadFile = 4, kReadDir = 8, kRefer = 1u << 13, kTruncate = 1u << 14,
                   kDeviceIoctl = 1u << 15;
constexpr uint64_t kFileRights = kExecute | kWriteFile | kReadFile | kTruncate | kDeviceIoctl;

inline int landlock_abi() {
    const long abi = syscall(kLandlockCreate, nullptr, 0, 1);
    return abi < 0 ? 0 : static_cast<int>(abi);
}

/// Leaves the process these paths and no TCP, no abstract sockets, no signals to others. False if any part fails.
inline bool landlock(const std::vector<std::string>& read_only, const std::vector<std::string>& writable) {
    const int abi = landlock_abi();
    if (abi == 0) return false;
    uint64_t all = (1u << 13) - 1;
    if (abi >= 2) all |= kRefer;
    if (abi >= 3) all |= kTruncate;
    if (abi >= 5) all |= kDeviceIoctl;
    struct { uint64_t files, network, scopes; } attributes{all, abi >= 4 ? 3u : 0u, abi >= 6 ? 3u : 0u};
    const size_t size = abi >= 6 ? 24 : abi >= 4 ? 16 : 8;
    const int ruleset = static_cast<int>(syscall(kLandlockCreate, &attributes, size, 0));
    if (ruleset < 0) return false;
    const auto allow = [&](const std::string& path, uint64_t rights) {
        const int fd = open(path.c_str(), O_PATH | O_CLOEXEC);
        if (fd < 0) return errno == ENOENT;
        struct stat status;
        if (fstat(fd, &status) == 0 && !S_ISDIR(status.st_mode)) rights &= kFileRights;
        struct __attribute__((packed)) { uint64_t rights; int32_t fd; } rule{rights & all, fd};
        const bool added = syscall(kLandlockAddRule, ruleset, 1, &rule, 0) == 0;
        close(fd);
        return added;
    };
    bool done = allow("/dev/null", kReadFile | kWriteFile);
    for (const auto& path : read_only) done = allow(path, kExecute | kReadFile | kReadDir) && done;
    for (const auto& path : writable) done = allow(path, all) && done;
    done = done && syscall(kLandlockRestrict, ruleset, 0) == 0;
    close(ruleset);
    return done;
}

// ----------------------------------------------------------------------------------------------------- seccomp

struct Named {
    int number;
    const char* name;
};

/// What no compiler and no kernel needs, by name so that a report can say it.
inline constexpr Named kDenied[] = {
#define CALL(name) {SYS_##name, #name},
    CALL(socket) CALL(socketpair) CALL(connect) CALL(bind) CALL(listen) CALL(accept4) CALL(sendto) CALL(sendmsg)
    CALL(ptrace) CALL(process_vm_readv) CALL(process_vm_writev) CALL(kcmp) CALL(perf_event_open) CALL(bpf)
    CALL(userfaultfd) CALL(mount) CALL(umount2) CALL(pivot_root) CALL(chroot) CALL(unshare) CALL(setns)
    CALL(keyctl) CALL(add_key) CALL(request_key) CALL(init_module) CALL(finit_module) CALL(delete_module)
    CALL(kexec_load) CALL(reboot) CALL(swapon) CALL(swapoff) CALL(acct) CALL(quotactl) CALL(syslog)
    CALL(settimeofday) CALL(clock_settime) CALL(adjtimex) CALL(sethostname) CALL(name_to_handle_at)
    CALL(open_by_handle_at) CALL(fanotify_init) CALL(mbind) CALL(migrate_pages) CALL(move_pages)
    CALL(shmget) CALL(msgget) CALL(semget) CALL(mq_open)
#undef CALL
    {425, "io_uring_setup"}, {426, "io_uring_enter"}, {427, "io_uring_register"}, {428, "open_tree"},
    {429, "move_mount"}, {430, "fsopen"}, {432, "fsmount"}, {434, "pidfd_open"}, {438, "pidfd_getfd"},
    {440, "process_madvise"}, {442, "mount_setattr"}, {448, "process_mrelease"},
};
constexpr int kClone3 = 435;

/// A seccomp program in the making. Rules are tried in the order in which they were added.
class Filter {
  public:
    Filter() {
#if defined(__x86_64__)
        constexpr uint32_t arch = AUDIT_ARCH_X86_64;
#elif defined(__aarch64__)
        constexpr uint32_t arch = AUDIT_ARCH_AARCH64;
#else
#error "seccomp rules are written for x86_64 and aarch64"
#endif
        load(offsetof(seccomp_data, arch));
        add(BPF_JMP | BPF_JEQ | BPF_K, arch, 1, 0);
        add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
        load(offsetof(seccomp_data, nr));
#if defined(__x86_64__)
        add(BPF_JMP | BPF_JGE | BPF_K, 0x40000000, 0, 1);  // the x32 calls
        add(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS);
#endif
    }

    Filter& on(long number, uint32_t action) {
        add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 1);
        add(BPF_RET | BPF_K, action);
        return *this;
    }

    /// `then` where the low word of an argument equals `value` (`any_bit`: shares a bit with it), else `otherwise`.
    Filter& on_argument(long number, int argument, bool any_bit, uint32_t value, uint32_t then, uint32_t otherwise) {
        add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, 4);
        load(static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * argument));  // both are little-endian here
        add(BPF_JMP | (any_bit ? BPF_JSET : BPF_JEQ) | BPF_K, value, 0, 1);
        add(BPF_RET | BPF_K, then);
        add(BPF_RET | BPF_K, otherwise);
        return *this;
    }

    /// Like `on_argument` with several values; falls to `otherwise` when none fits.
    Filter& on_values(long number, int argument, const std::vector<uint32_t>& values, uint32_t then,
                      uint32_t otherwise) {
        const auto count = static_cast<uint8_t>(values.size());
        add(BPF_JMP | BPF_JEQ | BPF_K, static_cast<uint32_t>(number), 0, static_cast<uint8_t>(count + 3));
        load(static_cast<uint32_t>(offsetof(seccomp_data, args) + 8 * argument));
        for (uint8_t i = 0; i < count; ++i)
            add(BPF_JMP | BPF_JEQ | BPF_K, values[i], static_cast<uint8_t>(count - i), 0);
        add(BPF_RET | BPF_K, otherwise);
        add(BPF_RET | BPF_K, then);
        return *this;
    }

    /// Puts the program in force for all threads; needs no_new_privs. False if the kernel refuses.
    bool install(uint32_t otherwise) {
        add(BPF_RET | BPF_K, otherwise);
        const sock_fprog program{static_cast<unsigned short>(code_.size()), code_.data()};
        return syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, SECCOMP_FILTER_FLAG_TSYNC, &program) == 0;
    }

  private:
    void add(int code, uint32_t k, uint8_t yes = 0, uint8_t no = 0) {
        code_.push_back({static_cast<uint16_t>(code), yes, no, k});
    }
    void load(uint32_t offset) { add(BPF_LD | BPF_W | BPF_ABS, offset); }

    std::vector<sock_filter> code_;
};

constexpr uint32_t kAllow = SECCOMP_RET_ALLOW, kTrap = SECCOMP_RET_TRAP;
constexpr uint32_t fail_with(int error) { return SECCOMP_RET_ERRNO | static_cast<uint32_t>(error); }

}  // namespace confine
