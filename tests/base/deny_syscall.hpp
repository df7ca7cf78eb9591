#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <thread>
#include <unistd.h>

// A container's seccomp filter in small.
namespace nfsrdma {

// Runs `body` on a thread of its own on which the system call `number` fails with `error`. False
// when the filter could not be set; `body` has not run then.
template <class Body>
bool without_syscall(long number, int error, Body body) {
    bool filtered = false;
    std::thread thread([&] {
        std::array<sock_filter, 4> code{
            sock_filter BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
            sock_filter BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, static_cast<std::uint32_t>(number), 0,
                                 1),
            sock_filter BPF_STMT(BPF_RET | BPF_K,
                                 SECCOMP_RET_ERRNO | static_cast<std::uint32_t>(error)),
            sock_filter BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        };
        const sock_fprog program{static_cast<unsigned short>(code.size()), code.data()};
        filtered = ::prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0 &&
                   ::syscall(SYS_seccomp, SECCOMP_SET_MODE_FILTER, 0, &program) == 0;
        if (filtered) body();
    });
    thread.join();
    return filtered;
}

}  // namespace nfsrdma
