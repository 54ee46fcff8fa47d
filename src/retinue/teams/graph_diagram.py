"""Diagrams of a graph as text and SVG. Layers go down from START; an edge back up is drawn at the side."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from .graph_check import GraphOutline
from .role import END, START

_BOX, _LAYER, _GAP, _MARGIN, _LETTER = 34, 78, 28, 16, 7.6


class _Link(NamedTuple):
    head: str
    tail: str
    kind: str  # "", "conditional" or "error"


def draw_text(outline: GraphOutline) -> str:
    """Draw one layer per line, then what follows each role: `→` always, `?→` on a condition, `!→` on an error."""
    links = _list_links(outline)
    lines = ["\n  ↓\n".join("   ".join(layer) for layer in _assign_layers(outline, links)), ""]
    for head in (START, *outline.roles):
        for kind, arrow in (("", "→"), ("conditional", "?→"), ("error", "!→")):
            if tails := [link.tail for link in links if link.head == head and link.kind == kind]:
                lines.append(f"{head} {arrow} {', '.join(tails)}")
    return "\n".join(lines)


def draw_svg(outline: GraphOutline) -> str:
    """Draw boxes in layers with arrows between them, without scripts or external references. Conditional edges are
    dashed, those for errors red."""
    links = _list_links(outline)
    layers = _assign_layers(outline, links)
    widths = {name: len(name) * _LETTER + 24 for layer in layers for name in layer}
    inner = max(sum(widths[name] + _GAP for name in layer) - _GAP for layer in layers)
    places: dict[str, tuple[float, float]] = {}  # the middle of each box's upper side
    boxes: list[str] = []
    for number, layer in enumerate(layers):
        x, y = _MARGIN + (inner - sum(widths[name] + _GAP for name in layer) + _GAP) / 2, _MARGIN + number * _LAYER
        for name in layer:
            places[name] = x + widths[name] / 2, y
            boxes.append(_draw_box(name, *places[name], widths[name]))
            x += widths[name] + _GAP
    down: list[str] = []
    up: list[str] = []
    for link in links:
        (x1, y1), (x2, y2) = places[link.head], places[link.tail]
        if y2 > y1:
            middle = (y1 + _BOX + y2) / 2
            way = f"M{x1:.1f},{y1 + _BOX:.1f} C{x1:.1f},{middle:.1f} {x2:.1f},{middle:.1f} {x2:.1f},{y2:.1f}"
            down.append(_draw_path(link, way))
        else:
            x1, x2, side = x1 + widths[link.head] / 2, x2 + widths[link.tail] / 2, inner + _MARGIN + 18 * (len(up) + 1)
            way = f"M{x1:.1f},{y1 + _BOX * 0.65:.1f} H{side:.1f} V{y2 + _BOX * 0.35:.1f} H{x2:.1f}"
            up.append(_draw_path(link, way))
    width = inner + 2 * _MARGIN + 18 * len(up) + (_MARGIN if up else 0)
    height = 2 * _MARGIN + _LAYER * (len(layers) - 1) + _BOX
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">\n'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#667"/></marker></defs>'
    )
    return "\n".join([head, *down, *up, *boxes, "</svg>"])


def _draw_path(link: _Link, way: str) -> str:
    dashes = ' stroke-dasharray="5 4"' if link.kind else ""
    colour = "#b33" if link.kind == "error" else "#667"
    return f'<path d="{way}" fill="none" stroke="{colour}"{dashes} marker-end="url(#arrow)"/>'


def _draw_box(name: str, x: float, y: float, width: float) -> str:
    round_ = _BOX / 2 if name in (START, END) else 6
    return (
        f'<rect x="{x - width / 2:.1f}" y="{y:.1f}" width="{width:.1f}" height="{_BOX}" rx="{round_}" '
        f'fill="#eef2fb" stroke="#446"/><text x="{x:.1f}" y="{y + _BOX / 2 + 4.5:.1f}" '
        f'text-anchor="middle" fill="#223">{escape(name)}</text>'
    )


def _list_links(outline: GraphOutline) -> list[_Link]:
    links = [_Link(head, tail, "error" if on_error else "") for head, tail, on_error in outline.edges]
    for head, tails in outline.branches:
        links += [_Link(head, tail, "conditional") for tail in dict.fromkeys(tails)]
    known = {START, END, *outline.roles}
    return [link for link in links if {link.head, link.tail} <= known]


def _assign_layers(outline: GraphOutline, links: list[_Link]) -> list[list[str]]:
    """Put each role one layer below the lowest of its heads that come before it; END is below all."""
    forward = list(_find_forward_edges(links))
    depth: dict[str, int] = {START: 0} | dict.fromkeys(outline.roles, 1)
    for _ in depth:  # the longest way without going back has fewer edges than there are roles
        for head, tail in forward:
            if tail != END:
                depth[tail] = max(depth[tail], depth[head] + 1)
    layers: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name, layer in depth.items():
        layers[layer].append(name)
    return [layer for layer in layers if layer] + [[END]]


def _find_forward_edges(links: list[_Link]) -> Iterator[tuple[str, str]]:
    """Yield the edges but those that close a circle, as found by walking from START."""
    tails: dict[str, list[str]] = {}
    for link in links:
        tails.setdefault(link.head, []).append(link.tail)
    way: dict[str, Iterator[str]] = {START: iter(tails.get(START, ()))}
    done = {START}
    while way:
        head = next(reversed(way))
        tail = next(way[head], None)
        if tail is None:
            del way[head]
        elif tail not in way:
            yield head, tail
            if tail not in done:
                done.add(tail)
                way[tail] = iter(tails.get(tail, ()))
