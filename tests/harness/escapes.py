"""Attempts to get out of a sandbox. Each is a shell command, in which `{name}` stands for something of the host (see
`test_escapes.py`), and prints ESCAPED if it succeeds. `SYSCALL` calls the kernel by numbers of x86-64 and ARM."""

from __future__ import annotations

from collections.abc import Mapping

_CALL = """python3 - <<'END'
import ctypes, os, platform, socket, struct
arm = platform.machine() == "aarch64"
libc = ctypes.CDLL(None, use_errno=True)
def call(x86, on_arm, *given):
    return libc.syscall(ctypes.c_long(on_arm if arm else x86), *map(ctypes.c_long, given))
def check(result):
    print("ESCAPED" if result >= 0 else os.strerror(ctypes.get_errno()))
text = ctypes.create_string_buffer(4096)
at = ctypes.addressof(text)
{}
END"""


def _call(body: str) -> str:
    return _CALL.replace("{}", body)


def _reads(what: str) -> str:
    return f"cat {what} 2>&1"  # what must not be in the output is the secret


FILES = {
    "a file of the host": _reads("{file}"),
    "through many parents": "cd /; cat ../../../../../../{file}",
    "through a link": "ln -s {file} link; cat link",
    "through the root of the first process": _reads("/proc/1/root{file} /proc/self/root{file}"),
    "through working folders of processes": "for one in /proc/[0-9]*; do cat $one/cwd/../{file} $one/root/{file}; done",
    "through the folder of the workspace on the host": "grep -a retinue /proc/self/mountinfo; cat {folder}/secret.txt",
    "another command's folder": "ls /tmp /var/tmp; cat /tmp/retinue-sandbox-*/work/*",
    "through handles that were left open": "for n in $(seq 3 255); do [ -e /proc/self/fd/$n ] && echo $n; done; "
    "python3 -c 'import os\nfor n in range(3, 1000):\n try: os.fchdir(n); print(\"ESCAPED\", n)\n except OSError: pass'",
    "the first process's handles": "for one in /proc/1/fd/*; do cat $one/{file} < /dev/null; done",
    "the passwords": "cat /etc/shadow && echo ESCAPED; cat /etc/sudoers && echo ESCAPED",
    "homes": "ls /root /home /var /opt /srv /mnt /media /run /boot && echo ESCAPED",
    "a hard link to a file of the host": "ln {file} hard && cat hard; ln /usr/bin/env hard && echo ESCAPED",
    "open by handle": _call("check(call(304, 265, -100, at, 0))"),
    "write to the system": "echo x >> /usr/bin/env && echo ESCAPED; touch /usr/bin/evil /etc/evil /evil /dev/evil && echo ESCAPED",
    "write to its own passwords": "echo root2::0:0::/:/bin/sh >> /etc/passwd && echo ESCAPED",
    "replace the workspace's folder": "cd /; mv /workspace /w2 && echo ESCAPED; rmdir /workspace && echo ESCAPED; true",
}
KERNEL = {
    "core pattern": "echo '|/tmp/x' > /proc/sys/kernel/core_pattern && echo ESCAPED",
    "module loader": "echo /tmp/x > /proc/sys/kernel/modprobe && echo ESCAPED",
    "system requests": "echo c > /proc/sysrq-trigger && echo ESCAPED",
    "kernel memory": "head -c1 /proc/kcore > /dev/null && echo ESCAPED; head -c 1 /dev/mem && echo ESCAPED; "
    "head -c1 /dev/kmsg && echo ESCAPED",
    "the tree of devices": "ls /sys/class && echo ESCAPED; ls /sys/fs/cgroup/* && echo ESCAPED; mkdir /sys/x && echo ESCAPED",
    "release agent": "mkdir /tmp/c; mount -t cgroup -o rdma cgroup /tmp/c && echo ESCAPED",
    "a device of its own": "mknod disk b 254 0 && echo ESCAPED; mknod memory c 1 1 && echo ESCAPED; mknod z c 1 5 && echo ESCAPED",
    "a mount": "mount -t tmpfs none /tmp && echo ESCAPED; mount --bind / /tmp && echo ESCAPED; "
    "mount -o remount,rw /usr && echo ESCAPED",
    "the new calls for mounts": _call(
        "check(call(428, 428, -100, at, 1)); check(call(430, 430, at, 0)); check(call(442, 442, -100, at, 0, at, 32))"
    ),
    "no mounts at all": "umount /tmp && echo ESCAPED; umount -l /workspace && echo ESCAPED; umount /proc && echo ESCAPED",
    "a new root": _call("check(call(155, 41, at, at)); check(call(161, 51, at))"),
    "user namespaces": "unshare -Ur id && echo ESCAPED; unshare -m true && echo ESCAPED; unshare -n true && echo ESCAPED",
    "a clone in a new user namespace": _call("pid = call(56, 220, 0x10000000 | 17, 0, 0, 0, 0)\nif pid == 0: os._exit(0)\ncheck(pid)"),
    "a clone whose flags are in memory": _call(
        "text[:8] = struct.pack('Q', 0x10000000)\npid = call(435, 435, at, 88)\nif pid == 0: os._exit(0)\ncheck(pid)"
    ),
    "another's namespaces": "nsenter -t 1 -m true && echo ESCAPED; nsenter --net=/proc/1/ns/net true && echo ESCAPED",
    "keyrings": _call("check(call(250, 219, 0, -3, 0)); check(call(250, 219, 11, -3, at, 4096)); check(call(250, 219, 1, 0))"),
    "keys": _call("check(call(248, 217, at, at, at, 1, -3)); check(call(249, 218, at, at, 0, -3))"),
    "programs in the kernel": _call("check(call(321, 280, 0, at, 48)); check(call(298, 241, at, 0, -1, -1, 0))"),
    "faults and rings": _call("check(call(323, 282, 0)); check(call(425, 425, 8, at))"),
    "memory that nobody counts": _call("check(call(319, 279, at, 0)); check(call(447, 447, 0)); check(call(29, 194, 0, 4096, 0o1600))"),
    "numbers of the other table": _call("check(call(0x40000000 + 272, -1, 0x10000000) if not arm else -1)"),
    "load a module": _call("check(call(175, 105, at, 1, at)); check(call(246, 104, 0, 0, 0, 0)); check(call(169, 142, 0xfee1dead))"),
    "clock and name": "date -s 2001-01-01 && echo ESCAPED; hostname evil && echo ESCAPED",
    "capabilities": "grep -i 'cap...:.*[1-9a-f]' /proc/self/status && echo ESCAPED; grep -q 'NoNewPrivs:.1' /proc/self/status || echo ESCAPED",
    "programs of root": "su -c id root < /dev/null && echo ESCAPED; sudo -n id && echo ESCAPED; passwd -d root && echo ESCAPED; "
    "find /usr -perm -4000 -newer /nothing 2>/dev/null; cp /usr/bin/env e; chmod u+s e; ./e true; [ \"$(id -u)\" = 0 ] && echo ESCAPED",
    "become root": _call("check(call(105, 146, 0)); check(call(116, 159, 0, at) if os.getuid() else -1)"),
    "rank and limits": "nice -n -5 true 2>&1 | grep -q denied || echo ESCAPED; ulimit -u 100000 && echo ESCAPED; "
    "ulimit -H -n 100000 && echo ESCAPED; ulimit -f unlimited && echo ESCAPED; echo -900 > /proc/self/oom_score_adj && echo ESCAPED",
}
PROCESSES = {
    "signals to the host": "kill -9 {process} && echo ESCAPED; kill -9 -1; kill -9 1; true",
    "see the host's processes": "ls /proc | grep -x {process} && echo ESCAPED; cat /proc/*/cmdline | tr '\\0' ' ' | grep 'sleep [6]00' && echo ESCAPED",
    "trace": _call("check(call(101, 117, 16, 1, 0, 0)); check(call(101, 117, 16, {process}, 0, 0)); check(call(310, 270, 1, at, 1, at, 1, 0))"),
    "the environment": "env | grep {secret}; cat /proc/*/environ | grep -a {secret}; env | grep -i 'key\\|token' && echo ESCAPED",
    "memory of the first process": "dd if=/proc/1/mem bs=1 count=1 && echo ESCAPED; cat /proc/1/maps | grep {marker} && echo ESCAPED",
    "a daemon": "(setsid sh -c 'trap \"\" TERM HUP INT; sleep 3; echo late > /workspace/late' >/dev/null 2>&1 &) ; exit 0",
    "a daemon of a daemon": "python3 -c \"import os,time\nif os.fork(): os._exit(0)\nos.setsid()\nif os.fork(): os._exit(0)\n"
    "os.closerange(0,99); time.sleep(30)\"",
    "ignore every signal": "trap '' TERM INT HUP QUIT XCPU; while :; do sleep 1; done",
    "stop itself": "kill -STOP $$",
    "fork bomb": ":(){ :|:& };:; wait",
    "fork bomb that leaves": "b() { (setsid bash -c \"$(declare -f b); b\" >/dev/null 2>&1 &); b; }; b",
    "terminal injection": "python3 -c \"import fcntl\nfor t in ('/dev/tty','/dev/console','/dev/pts/0','/dev/stdin'):\n"
    " try: fcntl.ioctl(open(t), 0x5412, b'x'); print('ESCAPED', t)\n except OSError as e: print(e)\"",
    "queues": _call("check(call(68, 186, 0, 0o1600))"),
}
NETWORK = {
    "a server on the host": "exec 3<>/dev/tcp/127.0.0.1/{port} && echo ESCAPED",
    "the local network": "for a in 10.0.0.1 172.17.0.1 192.168.0.1 169.254.169.254; do timeout 0.2 bash -c \"exec 3<>/dev/tcp/$a/80\" && echo ESCAPED; done",
    "the internet": "timeout 1 bash -c 'exec 3<>/dev/tcp/1.1.1.1/443' && echo ESCAPED; timeout 1 bash -c 'exec 3<>/dev/udp/1.1.1.1/53; echo > /dev/udp/1.1.1.1/53' && echo ESCAPED",
    "names": "getent ahostsv4 example.org && echo ESCAPED",
    "abstract sockets": "python3 -c \"import socket\ns=socket.socket(socket.AF_UNIX); s.connect('\\0{abstract}'); print('ESCAPED')\"",
    "sockets in folders": "python3 -c \"import socket\ns=socket.socket(socket.AF_UNIX); s.connect('{socket}'); print('ESCAPED')\"; "
    "ls /run/docker.sock /var/run/docker.sock /run/dbus && echo ESCAPED",
    "virtual machines' sockets": "python3 -c \"import socket\nsocket.socket(40, 1); print('ESCAPED')\"; python3 -c \"import socket\nsocket.socket(38, 5); print('ESCAPED')\"",
    "raw sockets": "python3 -c \"import socket\nsocket.socket(17, 3); print('ESCAPED')\"; python3 -c \"import socket\nsocket.socket(2, 3, 1); print('ESCAPED')\"",
    "a new interface": "ip link add dummy0 type dummy && echo ESCAPED; ip link add v type veth && echo ESCAPED; test $(ls /proc/self/net/dev_snmp6 | wc -l) -gt 1 && echo ESCAPED",
}
FLOODS = {
    "output": "yes {marker}",
    "output without lines": "cat /dev/zero",
    "memory": "python3 -c \"x = []\nwhile True: x.append(bytearray(10_000_000))\"",
    "memory of many processes": "for i in $(seq 20); do python3 -c 'import time; x = bytearray(b\"1\" * 50_000_000); time.sleep(9)' & done; wait",
    "shared memory": "python3 -c \"import mmap, time\nx = []\nwhile True: m = mmap.mmap(-1, 10_000_000); m.write(b'1' * 10_000_000); x.append(m)\"",
    "shared memory with names": "i=0; while head -c 5000000 /dev/zero > /dev/shm/$((i++)); do :; done; sleep 5",
    "disk": "i=0; while head -c 5000000 /dev/zero > $((i++)); do :; done; sleep 5",
    "disk in one file": "cat /dev/zero > all; sleep 5",
    "disk in temporary files": "i=0; while head -c 5000000 /dev/zero > /tmp/$((i++)); do :; done; sleep 5",
    "disk without names": "python3 -c \"import os\nx = []\nwhile True:\n f = open('f', 'wb'); os.unlink('f'); x.append(f)\n"
    " f.write(b'1' * 10_000_000)\n f.flush()\n if len(x) > 200: x.pop(0).close()\"",
    "disk that is only promised": "fallocate -l 10G big && echo ESCAPED; truncate -s 10G sparse && echo ESCAPED; ls -s",
    "many files": "python3 -c \"import itertools\nfor i in itertools.count(): open(f'f{i}', 'w').close()\"",
    "deep folders": "python3 -c \"import os\nwhile True: os.mkdir('d'); os.chdir('d')\"",
    "links": "i=0; while ln -s x l$((i++)); do :; done",
}
WORKSPACE = {
    "a link for a file": "rm a.txt; ln -s {file} a.txt",
    "a link for a folder": "rm -r sub; ln -s {folder} sub",
    "a link to the host's folder by its own path": "ln -s /proc/self/root w; ln -s /etc e; ln -s .. up",
    "a pipe": "mkfifo a; rm a.txt; mkfifo a.txt",
    "a socket": "python3 -c \"import socket\nsocket.socket(socket.AF_UNIX).bind('s')\"",
    "names with controls": "touch $'new\\nline' $'\\e[31mred' $'a\\rb' $'\\xff\\xfe' ' space' 'back\\slash' $'\\u202etxt.exe'; mkdir $'d\\nd'; touch $'d\\nd/x'",
    "closed folders": "mkdir -p c/d; touch c/d/x; chmod 000 c/d c; chmod 000 a.txt",
    "remove everything": "rm -rf /workspace /tmp/* / 2>/dev/null; true",
    "hard links to one file": "ln a.txt b.txt; echo more >> b.txt",
    "sparse files": "for i in $(seq 100); do truncate -s 15M s$i; done",
    "set the time back": "printf 'evil' > a.txt; touch -d 2001-01-01 a.txt",
    "attributes": "setfattr -n user.x -v y a.txt; chmod 7777 a.txt; touch x; chmod 4755 x",
}
ATTEMPTS: Mapping[str, str] = {**FILES, **KERNEL, **PROCESSES, **NETWORK, **FLOODS, **WORKSPACE}
