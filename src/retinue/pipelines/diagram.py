"""Diagrams of a pipeline as text and SVG, both drawn layer by layer from the root down."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from html import escape

from ..core.component import FIRST
from .graph import ROOT, Node, find_root_name, sort_topologically

_WIDTH = 100  # of a line of text
_BOX, _LAYER, _GAP, _MARGIN = 34, 78, 28, 16  # height of a box, height of a layer, gap between boxes, outer margin
_LETTER = 7.6


def draw_text(nodes: Iterable[Node]) -> str:
    """Draw one layer per line; each node is followed by its sources in brackets."""
    ordered = sort_topologically(nodes)
    lines = [find_root_name(ordered)]
    for layer in _assign_layers(ordered):
        lines += ["  ↓", ""]
        for node in layer:
            sources = dict.fromkeys(f"{wire}.{wire.key}" if wire.key else str(wire) for wire in node.wires)
            shown = f"{node.name} (← {', '.join(sources)})"
            if lines[-1] and len(lines[-1]) + len(shown) + 3 > _WIDTH:
                lines.append("")
            lines[-1] += f"   {shown}" if lines[-1] else shown
    return "\n".join(lines)


def _assign_layers(nodes: Sequence[Node]) -> list[list[Node]]:
    """Assign each node to the layer below its lowest source. `nodes` must be in topological order."""
    depth = {ROOT: 0}
    layers: list[list[Node]] = []
    for node in nodes:
        depth[node.name] = 1 + max(depth[source] for source in node.sources)
        if depth[node.name] > len(layers):
            layers.append([])
        layers[depth[node.name] - 1].append(node)
    return layers


@dataclass(eq=False)
class _Place:
    """An element of a layer: a node's box, or, without a name, a point where an edge passes through."""

    name: str = ""
    above: list[tuple[_Place, str]] = field(default_factory=list)  # with the edge's label
    x: float = 0.0
    y: float = 0.0
    round: bool = False

    @property
    def width(self) -> float:
        return len(self.name) * _LETTER + 24 if self.name else 8.0


def draw_svg(nodes: Iterable[Node]) -> str:
    """Draw boxes in layers with arrows between them, without scripts or external references."""
    ordered = sort_topologically(nodes)
    layers = _place_elements(_assign_layers(ordered), _Place(find_root_name(ordered), round=True))
    width = max(_MARGIN * 2 + sum(place.width + _GAP for place in layer) - _GAP for layer in layers)
    for number, layer in enumerate(layers):  # side by side, centered, in the order of their sources
        layer.sort(key=lambda place: sum(above.x for above, _ in place.above) / max(1, len(place.above)))
        x = (width - sum(place.width + _GAP for place in layer) + _GAP) / 2
        for place in layer:
            place.x, place.y = x + place.width / 2, _MARGIN + number * _LAYER
            x += place.width + _GAP
    places = [place for layer in layers for place in layer]
    height = _MARGIN * 2 + _LAYER * (len(layers) - 1) + _BOX
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
            f'height="{height:.0f}" font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">',
            '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
            'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#667"/></marker></defs>',
            *(_draw_line(above, below, label) for below in places for above, label in below.above),
            *(_draw_box(place) for place in places if place.name),
            "</svg>",
        ]
    )


def _place_elements(layers: list[list[Node]], root: _Place) -> list[list[_Place]]:
    """Return the elements of all layers: boxes, and points where edges pass through.

    Edges from the same branch of a node share their points.
    """
    places: list[list[_Place]] = [[root], *([] for _ in layers)]
    bends: dict[tuple[str, str, int], _Place] = {}
    at = {ROOT: (0, root)}
    for number, layer in enumerate(layers, 1):
        for node in layer:
            place = _Place(node.name)
            for wire in node.wires:
                depth, above = at[wire.source]
                for passed in range(depth + 1, number):
                    way = wire.source, wire.branch, passed
                    if way not in bends:
                        bends[way] = _Place(above=[(above, "")])
                        places[passed].append(bends[way])
                    above = bends[way]
                place.above.append((above, wire.branch if wire.explicit or wire.branch != FIRST else ""))
            places[number].append(place)
            at[node.name] = number, place
    return places


def _draw_line(above: _Place, below: _Place, label: str) -> str:
    x1, y1, x2, y2 = above.x, above.y + _BOX, below.x, below.y
    middle = (y1 + y2) / 2
    through = "" if below.name else f" L{x2:.1f},{y2 + _BOX:.1f}"  # a passing edge continues
    arrow = ' marker-end="url(#arrow)"' if below.name else ""
    path = (
        f'<path d="M{x1:.1f},{y1:.1f} C{x1:.1f},{middle:.1f} {x2:.1f},{middle:.1f} {x2:.1f},{y2:.1f}{through}" '
        f'fill="none" stroke="#667"{arrow}/>'
    )
    if label:
        path += f'<text x="{x2 + 6:.1f}" y="{y2 - 10:.1f}" font-size="10" fill="#667">{escape(label)}</text>'
    return path


def _draw_box(place: _Place) -> str:
    left, round_ = place.x - place.width / 2, _BOX / 2 if place.round else 6
    return (
        f'<rect x="{left:.1f}" y="{place.y:.1f}" width="{place.width:.1f}" height="{_BOX}" rx="{round_}" '
        f'fill="#eef2fb" stroke="#446"/><text x="{place.x:.1f}" y="{place.y + _BOX / 2 + 4.5:.1f}" '
        f'text-anchor="middle" fill="#223">{escape(place.name)}</text>'
    )
