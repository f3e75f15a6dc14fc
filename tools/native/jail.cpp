// jail: confines itself as far as told, then becomes the program. Ends with exit code 125 when a part is refused.
//
//   jail [options] -- PROGRAM ARG...
//     -r PATH  may be read        -w PATH  may be written      -p PID  die unless the parent is PID
//     -m BYTES address space      -f BYTES file size           -c SECONDS of CPU      -n FILES open
//     -N new namespaces (user, mount, pid, network, ipc, uts) and a root that holds only the paths named
//     -P /proc is visible         -L Landlock                  -S seccomp             -F may not fork
//     -U the loopback of a new network is up
//     -A no address space randomisation  -G may name its threads and bind a Unix socket, as a GPU's driver does
//     -Q print Landlock's ABI and whether seccomp is there
//
// Built with -DJAIL_LIBRARY it is a shared object whose `jail_enter` confines the calling process, which goes on in it.
#include <signal.h>
#include <stdio.h>
#include <net/if.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "confine.hpp"

namespace {

[[noreturn]] void refuse(const char* what) {
    dprintf(2, "jail: %s: %s\n", what, strerror(errno));
    _exit(125);
}

void require(bool done, const char* what) {
    if (!done) refuse(what);
}

struct Options {
    std::vector<std::string> read_only, writable;
    rlim_t memory = RLIM_INFINITY, file_size = RLIM_INFINITY, cpu = RLIM_INFINITY, files = RLIM_INFINITY;
    pid_t parent = 0;
    bool namespaces = false, proc = false, landlock = false, seccomp = false, no_fork = false, fixed_addresses = false,
         driver = false, loopback = false;
};

void limit(__rlimit_resource what, rlim_t value) {
    const rlimit both{value, value};
    if (value != RLIM_INFINITY) require(setrlimit(what, &both) == 0, "setrlimit");
}

void write_file(const char* path, const std::string& text) {
    const int fd = open(path, O_WRONLY | O_CLOEXEC);
    require(fd >= 0 && write(fd, text.data(), text.size()) == static_cast<ssize_t>(text.size()), path);
    close(fd);
}

/// Shows `path` of the old root, now at /.old, in the new one: a link as a link, a file or folder by bind mount.
void show(const std::string& path, bool writable) {
    const std::string outside = "/.old" + path;
    struct stat status;
    if (lstat(outside.c_str(), &status) != 0) return;
    for (size_t at = path.find('/', 1); at != std::string::npos; at = path.find('/', at + 1))
        mkdir(path.substr(0, at).c_str(), 0755);
    if (S_ISLNK(status.st_mode)) {
        char target[4096];
        const ssize_t length = readlink(outside.c_str(), target, sizeof target - 1);
        require(length > 0, path.c_str());
        target[length] = 0;
        require(symlink(target, path.c_str()) == 0 || errno == EEXIST, path.c_str());
        return;
    }
    if (S_ISDIR(status.st_mode)) mkdir(path.c_str(), 0755);
    else close(open(path.c_str(), O_CREAT | O_WRONLY | O_CLOEXEC, 0644));
    require(mount(outside.c_str(), path.c_str(), nullptr, MS_BIND | MS_REC, nullptr) == 0, path.c_str());
    struct { uint64_t set, clear, propagation, userns; } attributes{writable ? 2u : 3u, 0, 0, 0};  // nosuid, read-only
    constexpr unsigned recursive = 0x8000;
    require(syscall(442, AT_FDCWD, path.c_str(), recursive, &attributes, sizeof attributes) == 0, path.c_str());
}

/// The machine's settings belong to root, and root stays root in here.
void read_only_in_place(const char* path) {
    if (access(path, F_OK) != 0) return;
    require(mount(path, path, nullptr, MS_BIND | MS_REC, nullptr) == 0, path);
    struct { uint64_t set, clear, propagation, userns; } attributes{3, 0, 0, 0};
    require(syscall(442, AT_FDCWD, path, 0x8000, &attributes, sizeof attributes) == 0, path);
}

void enter_new_root(const Options& options) {
    char here[4096];
    if (getcwd(here, sizeof here) == nullptr) strcpy(here, "/");
    require(mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr) == 0, "make mounts private");
    require(mount("none", "/tmp", "tmpfs", MS_NOSUID | MS_NODEV, "size=1m") == 0, "mount tmpfs");
    require(mkdir("/tmp/.old", 0700) == 0, "/.old");
    require(syscall(SYS_pivot_root, "/tmp", "/tmp/.old") == 0 && chdir("/") == 0, "pivot_root");
    show("/dev/null", true);
    for (const auto& path : options.read_only) show(path, false);
    for (const auto& path : options.writable) show(path, true);
    if (options.proc) {  // while the old one is still in view, as the kernel asks
        mkdir("/proc", 0755);
        require(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) == 0, "mount /proc");
        for (const char* part : {"/proc/sys", "/proc/sysrq-trigger", "/proc/irq", "/proc/bus", "/proc/fs"})
            read_only_in_place(part);
    }
    require(umount2("/.old", MNT_DETACH) == 0 && rmdir("/.old") == 0, "leave the old root");
    constexpr unsigned long read_only = MS_REMOUNT | MS_BIND | MS_RDONLY | MS_NOSUID | MS_NODEV;
    require(mount(nullptr, "/", nullptr, read_only, nullptr) == 0, "read-only root");
    if (chdir(here) != 0) require(chdir("/") == 0, "chdir");
}

/// Waits for `child`, reaping whatever else ends meanwhile, and ends as it did (128 + signal for a signal).
[[noreturn]] void stand_by(pid_t child) {
    syscall(SYS_close_range, 0, ~0u, 0);  // so that readers of the child's pipes see it end
    for (;;) {
        int status;
        const pid_t ended = waitpid(-1, &status, 0);
        if (ended < 0 && errno == ECHILD) _exit(125);
        if (ended == child) _exit(WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
}

void bring_loopback_up() {
    const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    ifreq request{};
    strcpy(request.ifr_name, "lo");
    request.ifr_flags = IFF_UP;
    require(fd >= 0 && ioctl(fd, SIOCSIFFLAGS, &request) == 0, "loopback");
    close(fd);
}

/// Returns in a process that stands alone in new namespaces, below a first process that reaps, below this one.
void enter_namespaces(const Options& options) {
    const auto uid = std::to_string(getuid()), gid = std::to_string(getgid());
    constexpr int spaces = CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWIPC | CLONE_NEWUTS;
    require(unshare(spaces) == 0, "unshare");
    require(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "parent-death signal");  // gaining capabilities has cleared it
    write_file("/proc/self/setgroups", "deny");
    write_file("/proc/self/uid_map", uid + " " + uid + " 1");
    write_file("/proc/self/gid_map", gid + " " + gid + " 1");
    if (options.loopback) bring_loopback_up();
    for (const bool first : {true, false}) {
        const pid_t child = fork();
        require(child >= 0, "fork");
        if (child > 0) stand_by(child);
        require(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "parent-death signal");
        if (first) enter_new_root(options);
    }
}

void drop_capabilities() {
    for (int capability = 0; prctl(PR_CAPBSET_READ, capability) >= 0; ++capability) prctl(PR_CAPBSET_DROP, capability);
    prctl(PR_CAP_AMBIENT, PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
    struct { uint32_t version; int pid; } header{0x20080522, 0};
    const uint32_t none[6] = {};
    require(syscall(SYS_capset, &header, none) == 0, "drop capabilities");
}

void install_seccomp(bool no_fork, bool driver) {
    using namespace confine;
    Filter filter;
    if (driver) filter.on_argument(SYS_socket, 0, false, AF_UNIX, kAllow, fail_with(EPERM)).on(SYS_bind, kAllow).on(SYS_listen, kAllow);
    for (const auto& call : kDenied) filter.on(call.number, fail_with(EPERM));
    if (no_fork) {
        filter.on(kClone3, fail_with(ENOSYS)).on_argument(SYS_clone, 0, true, CLONE_THREAD, kAllow, fail_with(EPERM));
#if defined(__x86_64__)
        filter.on(SYS_fork, fail_with(EPERM)).on(SYS_vfork, fail_with(EPERM));
#endif
    }
    require(filter.install(kAllow), "seccomp");
}

/// Leaves `argv` at the program to run.
Options parse(int argc, char** argv) {
    Options options;
    for (int option; (option = getopt(argc, argv, "+r:w:p:m:f:c:n:NPLSFAGUQ")) != -1;) switch (option) {
        case 'r': options.read_only.push_back(optarg); break;
        case 'w': options.writable.push_back(optarg); break;
        case 'p': options.parent = atoi(optarg); break;
        case 'm': options.memory = strtoull(optarg, nullptr, 10); break;
        case 'f': options.file_size = strtoull(optarg, nullptr, 10); break;
        case 'c': options.cpu = strtoull(optarg, nullptr, 10); break;
        case 'n': options.files = strtoull(optarg, nullptr, 10); break;
        case 'N': options.namespaces = true; break;
        case 'P': options.proc = true; break;
        case 'L': options.landlock = true; break;
        case 'S': options.seccomp = true; break;
        case 'F': options.no_fork = true; break;
        case 'G': options.driver = true; break;
        case 'U': options.loopback = true; break;
        case 'A': options.fixed_addresses = true; break;
        case 'Q':
            printf("%d %d\n", confine::landlock_abi(), prctl(PR_GET_SECCOMP) >= 0);
            exit(0);
        default: _exit(125);
    }
    return options;
}

/// Returns where `argv` names the program to run, in a process that is confined.
char** enter(int argc, char** argv) {
    Options options = parse(argc, argv);
    argv += optind;
    errno = EINVAL;
    require(*argv != nullptr, "no program given");
    require(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0, "parent-death signal");
    if (options.parent != 0 && getppid() != options.parent) _exit(125);  // it died before the line above
    if (options.namespaces) enter_namespaces(options);
    if (options.fixed_addresses) personality(ADDR_NO_RANDOMIZE);

    limit(RLIMIT_CORE, 0);
    limit(RLIMIT_FSIZE, options.file_size);
    limit(RLIMIT_CPU, options.cpu);
    limit(RLIMIT_NOFILE, options.files);
    limit(RLIMIT_AS, options.memory);
    drop_capabilities();
    require(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no_new_privs");
    if (options.landlock) {
        if (options.proc) options.read_only.push_back("/proc");
        if (options.driver) options.writable.push_back("/proc/self/task");
        require(confine::landlock(options.read_only, options.writable), "Landlock");
    }
    if (options.seccomp) install_seccomp(options.no_fork, options.driver);
    return argv;
}

}  // namespace

#if defined(JAIL_LIBRARY)

/// Confines this process as `argv`, which ends in "-- NAME", says. It must have one thread. Ends it when refused.
extern "C" void jail_enter(int argc, char** argv) {
    optind = 1;
    enter(argc, argv);
}

#else

int main(int argc, char** argv) {
    argv = enter(argc, argv);
    unsetenv("PWD");  // bubblewrap sets it
    execvp(*argv, argv);
    refuse(*argv);
}

#endif
