// restraint: what a worker for CUDA kernels gives up before it takes a kernel in. A shared object, loaded by
// tools/cuda_worker.py. The jail refuses most of it already, so that a driver that only tries goes on; nobody but a
// kernel tries once the device is ready, and then the process ends.
#include "confine.hpp"

namespace {

/// How a process reaches another one, a new program or the machine's settings.
constexpr long kReach[] = {
    SYS_ptrace, SYS_process_vm_readv, SYS_process_vm_writev, SYS_kcmp, SYS_perf_event_open, SYS_bpf, SYS_userfaultfd,
    SYS_execve, SYS_execveat, SYS_tkill, SYS_mount, SYS_umount2, SYS_pivot_root, SYS_chroot, SYS_unshare, SYS_setns,
    SYS_keyctl, SYS_add_key, SYS_request_key, SYS_init_module, SYS_finit_module, SYS_delete_module, SYS_kexec_load,
    SYS_reboot, SYS_settimeofday, SYS_clock_settime, SYS_adjtimex,
    424 /* pidfd_send_signal */, 425 /* io_uring_setup */, 426 /* io_uring_enter */, 427 /* io_uring_register */,
    434 /* pidfd_open */, 438 /* pidfd_getfd */, 440 /* process_madvise */,
};

}  // namespace

/// From now on such a call ends the process, for all of its threads. 0, or -1 when the system refuses.
extern "C" int restrain() {
    constexpr uint32_t end = SECCOMP_RET_KILL_PROCESS;
    const auto self = static_cast<uint32_t>(getpid());
    confine::Filter filter;
    for (const long call : kReach) filter.on(call, end);
    filter.on_argument(SYS_kill, 0, false, self, confine::kAllow, end);
    filter.on_argument(SYS_tgkill, 0, false, self, confine::kAllow, end);
    return filter.install(confine::kAllow) ? 0 : -1;
}
