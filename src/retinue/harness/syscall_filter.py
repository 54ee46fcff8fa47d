"""The system calls that a sandboxed program may not make, as a filter of the kernel (seccomp, classic BPF).

Refused is what lets a program build namespaces of its own, reach what namespaces do not separate (keyrings, sockets of
virtual machines), or hold memory and disk that no limit sees; and what has often been a way into the kernel."""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06  # instructions
_NUMBER, _MACHINE, _ARGUMENT = 0, 4, 16  # offsets in `struct seccomp_data`
_KILL, _FAIL, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000  # what it returns; an error's number is added to `_FAIL`
_MACHINES = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
_REFUSED: Mapping[str, tuple[int, ...]] = {  # the numbers on both
    "unshare": (272, 97), "setns": (308, 268), "mount": (165, 40), "umount2": (166, 39), "pivot_root": (155, 41),
    "add_key": (248, 217), "request_key": (249, 218), "keyctl": (250, 219), "bpf": (321, 280),
    "perf_event_open": (298, 241), "userfaultfd": (323, 282), "ptrace": (101, 117), "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271), "memfd_create": (319, 279), "shmget": (29, 194), "msgget": (68, 186),
}  # fmt: skip
_REFUSED_ALIKE = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 447, 467)  # io_uring, mounts, memfd_secret
_FALLOCATE, _CLONE, _CLONE3, _SOCKET = (285, 47), (56, 220), 435, (41, 198)
_NEW_NAMESPACES = 0x7E020000  # flags of `clone`
_FAMILIES = (1, 2, 10, 16)  # sockets: UNIX, IPv4, IPv6, NETLINK
_X32 = 0x40000000  # a second set of numbers on x86-64


def build_filter() -> bytes:
    """Return the filter for this machine. Raises `NotImplementedError` for one whose system calls it does not know."""
    machine = platform.machine()
    if machine not in _MACHINES:
        raise NotImplementedError(f"the filter of system calls knows {' and '.join(_MACHINES)}, not {machine}")
    at = list(_MACHINES).index(machine)
    fails = dict.fromkeys([*(numbers[at] for numbers in _REFUSED.values()), *_REFUSED_ALIKE], errno.EPERM)
    fails |= {_FALLOCATE[at]: errno.EOPNOTSUPP, _CLONE3: errno.ENOSYS}  # C libraries then write zeros, and use `clone`
    lines = [
        *((_LOAD, 0, 0, _MACHINE), (_EQUAL, 1, 0, _MACHINES[machine]), (_RETURN, 0, 0, _KILL)),
        *((_LOAD, 0, 0, _NUMBER), (_AT_LEAST, 0, 1, _X32), (_RETURN, 0, 0, _FAIL + errno.EPERM)),
    ]
    for number, error in fails.items():
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _FAIL + error)]
    lines += [(_EQUAL, 0, 4, _CLONE[at]), (_LOAD, 0, 0, _ARGUMENT), (_ANY_BIT, 0, 1, _NEW_NAMESPACES)]
    lines += [(_RETURN, 0, 0, _FAIL + errno.EPERM), (_RETURN, 0, 0, _ALLOW)]
    lines += [(_EQUAL, 0, 2 + len(_FAMILIES), _SOCKET[at]), (_LOAD, 0, 0, _ARGUMENT)]
    lines += [(_EQUAL, len(_FAMILIES) - number, 0, family) for number, family in enumerate(_FAMILIES)]
    lines += [(_RETURN, 0, 0, _FAIL + errno.EAFNOSUPPORT), (_RETURN, 0, 0, _ALLOW)]
    return b"".join(struct.pack("HBBI", code, if_true, if_false, value) for code, if_true, if_false, value in lines)
