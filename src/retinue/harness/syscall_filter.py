"""The system calls that a sandboxed program may not make, as a filter of the kernel (seccomp, classic BPF).

Refused is what lets a program build namespaces of its own, reach what namespaces do not separate (keyrings, sockets of
virtual machines), or hold memory and disk that no limit sees; and what has often been a way into the kernel."""

from __future__ import annotations

import errno
import platform
import struct
from collections.abc import Mapping, Sequence

_LOAD, _EQUAL, _ANY_BIT, _AT_LEAST, _RETURN = 0x20, 0x15, 0x45, 0x35, 0x06  # instructions
_NUMBER, _MACHINE, _ARGUMENT = 0, 4, 16  # offsets in `struct seccomp_data`
_KILL, _FAIL, _ALLOW = 0x80000000, 0x00050000, 0x7FFF0000  # what it returns; an error's number is added to `_FAIL`
_NEW_NAMESPACES = 0x7E020000  # flags of `clone`
_FAMILIES = (1, 2, 10, 16)  # sockets: UNIX, IPv4, IPv6, NETLINK
_X32 = 0x40000000  # a second set of numbers on x86-64

_NAMES = (
    "socket", "clone", "fallocate", "unshare", "setns", "mount", "umount2", "pivot_root", "add_key", "request_key",
    "keyctl", "bpf", "perf_event_open", "userfaultfd", "ptrace", "process_vm_readv", "process_vm_writev",
    "memfd_create", "shmget", "msgget",
)  # fmt: skip
_MACHINES: Mapping[str, tuple[int, Sequence[int]]] = {
    "x86_64": (
        0xC000003E,
        (41, 56, 285, 272, 308, 165, 166, 155, 248, 249, 250, 321, 298, 323, 101, 310, 311, 319, 29, 68),
    ),
    "aarch64": (
        0xC00000B7,
        (198, 220, 47, 97, 268, 40, 39, 41, 217, 218, 219, 280, 241, 282, 117, 270, 271, 279, 194, 186),
    ),
}
_EVERYWHERE = (
    *(425, 426, 427),  # io_uring
    *(428, 429, 430, 431, 432, 433, 442, 467),  # mounts
    447,  # memfd_secret
)
_CLONE3 = 435  # its flags are in memory, where no filter can look; C libraries then use `clone`


def build_filter() -> bytes:
    """Return the filter for this machine. Raises `NotImplementedError` for one whose system calls it does not know."""
    try:
        machine, numbers = _MACHINES[platform.machine()]
    except KeyError:
        known = " and ".join(_MACHINES)
        raise NotImplementedError(f"the filter knows {known}, not {platform.machine()}") from None
    socket, clone, fallocate, *refused = numbers
    lines = [
        (_LOAD, 0, 0, _MACHINE),
        (_EQUAL, 1, 0, machine),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _X32),
        (_RETURN, 0, 0, _FAIL + errno.EPERM),
    ]
    fails = [(number, errno.EPERM) for number in (*refused, *_EVERYWHERE)]
    for number, error in (*fails, (_CLONE3, errno.ENOSYS), (fallocate, errno.EOPNOTSUPP)):
        lines += [(_EQUAL, 0, 1, number), (_RETURN, 0, 0, _FAIL + error)]
    lines += [
        (_EQUAL, 0, 4, clone),
        (_LOAD, 0, 0, _ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        (_RETURN, 0, 0, _FAIL + errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
        (_EQUAL, 0, 2 + len(_FAMILIES), socket),
        (_LOAD, 0, 0, _ARGUMENT),
        *((_EQUAL, len(_FAMILIES) - at, 0, family) for at, family in enumerate(_FAMILIES)),
        (_RETURN, 0, 0, _FAIL + errno.EAFNOSUPPORT),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("HBBI", code, if_true, if_false, value) for code, if_true, if_false, value in lines)
