/* SPDX-License-Identifier: MIT */
/*
 * docker PROGRAM [ARGUMENT...] - executes PROGRAM, without a container, under a filter that refuses what Docker's
 * default seccomp filter refuses. Calls that need a capability which containers lack fail with EPERM. clone3 fails with
 * ENOSYS, so that libc falls back to clone, whose flags the filter can read. Source: the profile that Docker documents,
 * profiles/seccomp/default.json of moby/moby (its list of allowed calls).
 */
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <errno.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define REFUSE(number, err) \
    BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (number), 0, 1), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (err))
#define NAMESPACES \
    (CLONE_NEWNS | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER | CLONE_NEWPID | CLONE_NEWNET | CLONE_NEWCGROUP)

int main(int argc, char **argv)
{
    struct sock_filter code[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        REFUSE(SYS_clone3, ENOSYS),
        REFUSE(SYS_unshare, EPERM),
        REFUSE(SYS_setns, EPERM),
        REFUSE(438 /* pidfd_getfd */, EPERM),
        REFUSE(SYS_process_vm_readv, EPERM),
        REFUSE(SYS_process_vm_writev, EPERM),
        REFUSE(SYS_kcmp, EPERM),
        REFUSE(SYS_ptrace, EPERM),
        REFUSE(SYS_perf_event_open, EPERM),
        REFUSE(SYS_bpf, EPERM),
        REFUSE(SYS_userfaultfd, EPERM),
        REFUSE(SYS_keyctl, EPERM),
        REFUSE(SYS_add_key, EPERM),
        REFUSE(SYS_request_key, EPERM),
        REFUSE(SYS_mount, EPERM),
        REFUSE(SYS_umount2, EPERM),
        REFUSE(SYS_name_to_handle_at, EPERM),
        REFUSE(SYS_open_by_handle_at, EPERM),
        REFUSE(SYS_quotactl, EPERM),
        REFUSE(SYS_move_pages, EPERM),
        REFUSE(SYS_mbind, EPERM),
        REFUSE(SYS_set_mempolicy, EPERM),
        REFUSE(425 /* io_uring_setup */, EPERM),
        REFUSE(SYS_syslog, EPERM),
        REFUSE(SYS_acct, EPERM),
        REFUSE(SYS_clock_settime, EPERM),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_clone, 0, 3),
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args)),
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, NAMESPACES, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog filter = {sizeof code / sizeof *code, code};
    if (argc < 2)
        return 2;
    if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) || prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter, 0, 0)) {
        perror("docker: the filter");
        return 77;
    }
    execv(argv[1], argv + 1);
    perror(argv[1]);
    return 126;
}
