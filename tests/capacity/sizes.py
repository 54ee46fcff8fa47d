"""The sizes of fleets for three loads, as `retinue capacity` gives them with the costs that were measured."""

from __future__ import annotations

from retinue.cluster.capacity.fleet_size import Demand, Size, size_fleet
from retinue.cluster.capacity.process_costs import Costs
from retinue.cluster.capacity.workload import Endpoint, Fleet, Workload

_LOADS = {"10⁴": 1e4, "10⁶": 1e6, "10⁸": 1e8}
_HEADS = ("runs a day", "workers", "servers", "PostgreSQL cores busy", "transactions a second", "databases")
_SAID = (
    "`retinue capacity --runs N/day --costs bench/capacity.json`, with the other options as they are: 5 steps, 2 s a",
    "reply, tools of 0.2 s. The [costs](#your-own-costs) are those that `make capacity` measured in the run that is",
    "compared below.",
)
_MORE = ("connections", "requests to the model a minute", "disk a day")


def sizes_table(costs: Costs) -> str:
    """Return a row for each load. The loads and the fleet are those that the command has by default."""
    load, fleet = Workload(steps={5: 1.0}, tool_seconds=0.2, tool_spread=1.0), Fleet(costs=costs)
    rows = [_row(name, size_fleet(Demand(runs), load, Endpoint(), fleet)) for name, runs in _LOADS.items()]
    heads = (*_HEADS, *_MORE)
    return "\n".join([*_SAID, "", f"| {' | '.join(heads)} |", f"|{'---|' * len(heads)}", *rows, ""])


def _row(name: str, size: Size) -> str:
    cells = (
        f"{size.workers:,}",
        f"{size.servers:,}",
        f"{size.database_cores:.2g}",
        f"{size.transactions:,.0f}",
        f"{size.databases:,}",
        f"{size.connections:,}",
        f"{size.requests_per_minute:,.0f}",
        _bytes(size.bytes_per_day),
    )
    return f"| {name} | {' | '.join(cells)} |"


def _bytes(number: float) -> str:
    return f"{number / 1e12:.3g} TB" if number >= 1e12 else f"{number / 1e9:.3g} GB"
