"""A root of files of its own for a program: this system's programs, read-only, and folders of a stage's."""

from __future__ import annotations

import shlex
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_SYSTEM = ("usr", "bin", "lib", "lib64", "etc", "dev", "proc", "sys", "run")


@dataclass(frozen=True)
class Sandbox:
    """The files under `root`. What is not among them is this system's, and read-only."""

    root: Path

    def command(
        self, words: Sequence[str], env: Mapping[str, str], *, user: int = 0, cwd: str = "/", read_only: bool = False
    ) -> list[str]:
        """Return the words that start a program within; `read_only`: it can write to its working folder and /tmp."""
        writable = (cwd, "/tmp") if read_only else ("/",)
        mounts = [f"mount --bind {self.root} {self.root}"]
        for name in _SYSTEM:
            if (there := Path("/") / name).exists():
                (self.root / name).mkdir(exist_ok=True)
                mounts.append(f"mount --rbind {there} {self.root / name}")
        if read_only:
            mounts.append(f"mount -o remount,bind,ro {self.root}")
            mounts += [f"mount -t tmpfs -o mode=1777 tmpfs {self.root}{one}" for one in writable]
        within = [
            "chroot",
            f"--userspec={user}:{user}",
            "--groups=",
            str(self.root),
            "env",
            "-i",
            *(f"{name}={value}" for name, value in env.items()),
            "sh",
            "-c",
            f'cd {shlex.quote(cwd)} && exec "$@"',
            "sh",
            *words,
        ]
        return ["unshare", "--mount", "sh", "-ec", "\n".join([*mounts, f"exec {shlex.join(within)}"])]

    def run(self, words: Sequence[str], env: Mapping[str, str], cwd: str = "/") -> None:
        """Run a program to its end. Raises `AssertionError` with what it says if it fails."""
        done = subprocess.run(
            self.command(words, env, cwd=cwd), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        assert done.returncode == 0, f"{shlex.join(words)}\n{done.stdout}"
