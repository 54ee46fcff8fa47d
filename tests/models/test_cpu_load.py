"""Whether other programs keep a core busy, from a file like `/proc/stat`."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from retinue.models import local as cpu_load
from retinue.models.local import CpuLoad, list_own_cores

TICKS = os.sysconf("SC_CLK_TCK")


class Machine:
    """A machine whose cores others keep busy as told, and on which this process does nothing."""

    def __init__(self, folder: Path, patch: pytest.MonkeyPatch) -> None:
        self.stat = folder / "stat"
        self._now, self._busy = 100.0, 0.0
        patch.setattr(cpu_load, "monotonic", lambda: self._now)
        patch.setattr(cpu_load, "times", lambda: os.times_result((0.0, 0.0, 0.0, 0.0, 0.0)))
        self.go_on(0.0, 0.0)

    def go_on(self, seconds: float, cores: float, elsewhere: float = 0.0) -> None:
        """Let time pass in which others use so many of this process's cores, and of the one after its last."""
        self._now += seconds
        self._busy += seconds * cores
        ticks, idle = round(self._busy * TICKS), round(self._now * TICKS)
        number = min(list_own_cores())
        lines = [f"cpu  {ticks} 0 0 {idle} 0 0 0 0 0 0", f"cpu{number} {ticks} 0 0 {idle} {idle} 0 0 0 {ticks} 0"]
        lines.append(f"cpu{max(list_own_cores()) + 1} {round(elsewhere * self._now * TICKS)} 0 0 0 0 0 0 0 0 0")
        self.stat.write_text("\n".join([*lines, "intr 5 6", ""]), "ascii")


@pytest.fixture
def machine(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    return Machine(tmp_path, monkeypatch)


def test_a_busy_core_is_noticed_and_so_is_its_end(machine: Machine) -> None:
    load = CpuLoad(machine.stat)
    assert not load.is_crowded()
    machine.go_on(2.0, 1.0)
    assert load.is_crowded()
    machine.go_on(2.0, 0.0)
    assert not load.is_crowded()


def test_in_between_it_stays_as_it_was(machine: Machine) -> None:
    load = CpuLoad(machine.stat)
    machine.go_on(2.0, 0.5)
    assert not load.is_crowded()
    machine.go_on(2.0, 1.0)
    assert load.is_crowded()
    machine.go_on(2.0, 0.5)
    assert load.is_crowded()


def test_a_moment_says_nothing(machine: Machine) -> None:
    load = CpuLoad(machine.stat)
    machine.go_on(0.05, 1.0)
    assert not load.is_crowded()
    machine.go_on(0.1, 1.0)
    assert load.is_crowded()


def test_cores_on_which_this_process_may_not_run_do_not_count(machine: Machine) -> None:
    load = CpuLoad(machine.stat)
    machine.go_on(2.0, 0.0, elsewhere=1.0)
    assert not load.is_crowded()


def test_where_the_system_does_not_tell_there_are_no_others(tmp_path: Path, machine: Machine) -> None:
    load = CpuLoad(tmp_path / "nothing")
    machine.go_on(2.0, 1.0)
    assert not load.is_crowded()
    (tmp_path / "nothing").write_text(machine.stat.read_text("ascii"), "ascii")
    machine.go_on(2.0, 0.0)
    assert not load.is_crowded(), "what was used before it could be read is not of these two seconds"


def test_a_format_that_is_not_known_tells_nothing(machine: Machine) -> None:
    load = CpuLoad(machine.stat)
    machine.go_on(2.0, 1.0)
    machine.stat.write_text(f"cpu{min(list_own_cores())} much\n", "ascii")
    assert not load.is_crowded()
