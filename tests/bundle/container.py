# SPDX-License-Identifier: MIT
"""Becomes the first process of a container, or a service as systemd starts it.

    container.py JSON

JSON has `root`; `argv`; `env`; `user`, a name in the root's passwd; `mounts`, each [source, place, options of a bind mount];
`filter`, the numbers of the system calls that are allowed, or nothing; `is_service`: it then has no new privileges, and no
memory that is both written and executed. SIGTERM goes to the program.
"""
import ctypes
import json
import os
import re
import signal
import struct
import subprocess
import sys

LIBC = ctypes.CDLL(None, use_errno=True)
NEW_MOUNTS, NEW_PIDS = 0x20000, 0x20000000
NO_NEW_PRIVS, SET_SECCOMP, SET_MDWE = 38, 22, 65
ALLOW, KILL = 0x7fff0000, 0x80000000


def checked(result, what):
    if result < 0:
        raise OSError(ctypes.get_errno(), what)


def mount(*words):
    subprocess.run(['mount', *words], check=True)


def enter_namespaces(of):
    checked(LIBC.unshare(of), 'unshare')
    mount('--make-rprivate', '/')


def allow_only(numbers):
    """A filter of the kernel's: load the number; for each that is allowed a jump over the instruction that allows; kill."""
    code = b''.join(struct.pack('HBBI', 0x15, 0, 1, number) + struct.pack('HBBI', 0x06, 0, 0, ALLOW) for number in numbers)
    code = struct.pack('HBBI', 0x20, 0, 0, 0) + code + struct.pack('HBBI', 0x06, 0, 0, KILL)
    buffer = ctypes.create_string_buffer(code)
    program = struct.pack('HxxxxxxQ', len(code) // 8, ctypes.addressof(buffer))
    checked(LIBC.prctl(SET_SECCOMP, 2, ctypes.c_char_p(program)), 'seccomp')


def begin(job):
    root = job['root']
    mount('--bind', root, root)
    for source, place, options in job['mounts']:
        if not os.path.exists(root + place):
            os.makedirs(root + place)
        mount('--bind', source or root + place, root + place)
        mount('-o', 'remount,bind,' + options, root + place)
    if job.get('options'):
        mount('-o', 'remount,bind,' + job['options'], root)
    mount('-t', 'proc', 'proc', root + '/proc')
    mount('-t', 'tmpfs', 'shm', root + '/dev/shm')
    os.chroot(root)
    os.chdir('/')
    if job.get('user'):
        with open('/etc/passwd') as f:
            uid, gid = re.search(rf'^{job["user"]}:[^:]*:(\d+):(\d+):', f.read(), re.M).groups()
        os.setgroups([])
        os.setgid(int(gid))
        os.setuid(int(uid))
    if job.get('is_service'):
        checked(LIBC.prctl(NO_NEW_PRIVS, 1, 0, 0, 0), 'no new privileges')
        LIBC.prctl(SET_MDWE, 1, 0, 0, 0)  # Linux 6.3
    if job.get('filter'):
        allow_only(job['filter'])
    os.execvpe(job['argv'][0], job['argv'], job['env'])


def main():
    enter_namespaces(NEW_MOUNTS)
    job = json.loads(sys.argv[1])
    checked(LIBC.unshare(NEW_PIDS), 'unshare')
    program = os.fork()
    if program == 0:
        begin(job)
    signal.signal(signal.SIGTERM, lambda number, frame: os.kill(program, number))
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1]))


if __name__ == '__main__':
    main()
