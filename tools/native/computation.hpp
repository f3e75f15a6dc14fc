// The system calls that a kernel may make, and the names of those that it is most likely to try in vain.
//
// One filter, in force before the kernel's library is loaded, and no way to add another: a later one could be kept from
// coming by a constructor whose own filter answers for it. What is taken away once the library is loaded, the right to
// open files, the judge takes from outside.
#pragma once

#include <signal.h>

#include "confine.hpp"

namespace confine {

/// All that a computation needs and nothing else: any other call traps. False if the kernel refuses the rules.
inline bool allow_computation() {
    const auto self = static_cast<uint32_t>(getpid());
    constexpr uint32_t writing = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;
    Filter filter;
    for (const long call :
         {SYS_futex, SYS_read, SYS_write, SYS_writev, SYS_readv, SYS_pread64, SYS_close, SYS_lseek, SYS_fstat,
          SYS_newfstatat, SYS_statx, SYS_readlinkat, SYS_faccessat, SYS_getcwd, SYS_mmap, SYS_munmap, SYS_mprotect,
          SYS_mremap, SYS_madvise, SYS_mincore, SYS_brk, SYS_membarrier, SYS_clock_gettime, SYS_clock_getres,
          SYS_gettimeofday, SYS_nanosleep, SYS_clock_nanosleep, SYS_sched_yield, SYS_sched_getaffinity,
          SYS_sched_setaffinity, SYS_sched_getparam, SYS_sched_getscheduler, SYS_getcpu, SYS_getpid, SYS_gettid,
          SYS_getppid, SYS_getuid, SYS_geteuid, SYS_getgid, SYS_getegid, SYS_uname, SYS_sysinfo, SYS_getrusage,
          SYS_times, SYS_getrandom, SYS_set_tid_address, SYS_set_robust_list, SYS_get_robust_list, SYS_rseq,
          SYS_rt_sigprocmask, SYS_rt_sigreturn, SYS_sigaltstack, SYS_restart_syscall, SYS_exit, SYS_ppoll, SYS_pipe2,
          SYS_mlock, SYS_munlock,
#if defined(__x86_64__)
          SYS_poll, SYS_pipe, SYS_stat, SYS_access, SYS_readlink, SYS_arch_prctl, SYS_time,
#endif
         })
        filter.on(call, kAllow);
    filter.on(SYS_ioctl, fail_with(ENOTTY))
        .on(SYS_fcntl, fail_with(EPERM))
        .on(kClone3, fail_with(ENOSYS))  // glibc then takes clone, whose flags a filter can read
        .on(437 /* openat2 */, fail_with(ENOSYS))
        .on_argument(SYS_clone, 0, true, CLONE_THREAD, kAllow, kTrap)
        .on_argument(SYS_openat, 2, true, writing, kTrap, kAllow)
        .on_argument(SYS_tgkill, 0, false, self, kAllow, kTrap)
        .on_argument(SYS_prlimit64, 0, false, 0, kAllow, fail_with(EPERM))  // its own only
        .on_values(SYS_prctl, 0, {PR_SET_NAME, PR_GET_NAME, 0x53564d41 /* PR_SET_VMA */}, kAllow, fail_with(EPERM))
        .on_values(SYS_rt_sigaction, 0, {SIGSYS, SIGSEGV, SIGBUS, SIGFPE, SIGILL}, kTrap, kAllow);  // our reporters
#if defined(__x86_64__)
    filter.on_argument(SYS_open, 1, true, writing, kTrap, kAllow);
#endif
    Filter signals;  // to itself, and only the one that abort sends
    signals.on_argument(SYS_tgkill, 2, false, SIGABRT, kAllow, kTrap);
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && signals.install(kAllow) && filter.install(kTrap);
}

inline constexpr Named kTried[] = {
    {SYS_clone, "fork"}, {SYS_execve, "execve"}, {SYS_execveat, "execveat"}, {SYS_kill, "kill"},
    {SYS_tgkill, "tgkill"}, {SYS_tkill, "tkill"}, {SYS_openat, "open a file for writing"},
    {SYS_unlinkat, "unlink"}, {SYS_mkdirat, "mkdir"}, {SYS_renameat2, "rename"}, {SYS_symlinkat, "symlink"},
    {SYS_rt_sigaction, "sigaction"}, {SYS_setitimer, "setitimer"}, {SYS_timer_create, "timer_create"},
    {SYS_memfd_create, "memfd_create"}, {SYS_ftruncate, "ftruncate"}, {SYS_prctl, "prctl"},
    {SYS_getdents64, "getdents64"}, {SYS_seccomp, "seccomp"}, {SYS_wait4, "wait4"}, {SYS_setsid, "setsid"}, {SYS_fchmodat, "chmod"},
#if defined(__x86_64__)
    {SYS_fork, "fork"}, {SYS_vfork, "fork"}, {SYS_open, "open a file for writing"}, {SYS_creat, "creat"},
    {SYS_unlink, "unlink"}, {SYS_mkdir, "mkdir"}, {SYS_rename, "rename"}, {SYS_symlink, "symlink"},
#endif
};

/// Of a system call, for a report; empty when it is a rare one.
inline const char* name_of(int number) {
    for (const auto& call : kDenied)
        if (call.number == number) return call.name;
    for (const auto& call : kTried)
        if (call.number == number) return call.name;
    return "";
}

}  // namespace confine
