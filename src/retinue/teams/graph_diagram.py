"""Diagrams of a graph as text and SVG. Layers go down from START; an edge back up is drawn at the side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape

from .graph_check import GraphOutline
from .role import END, START

_BOX, _LAYER, _GAP, _MARGIN, _LETTER = 34, 78, 28, 16, 7.6


@dataclass(frozen=True, slots=True)
class _Link:
    head: str
    tail: str
    kind: str  # "", "conditional" or "error"


def draw_text(outline: GraphOutline) -> str:
    """Draw one layer per line, then what follows each role: `→` always, `?→` on a condition, `!→` on an error."""
    links = list(_find_links(outline))
    lines = ["\n  ↓\n".join("   ".join(layer) for layer in _assign_layers(outline, links)), ""]
    for head in (START, *outline.roles):
        mine = [link for link in links if link.head == head]
        for kind, arrow in (("", "→"), ("conditional", "?→"), ("error", "!→")):
            if tails := [link.tail for link in mine if link.kind == kind]:
                lines.append(f"{head} {arrow} {', '.join(tails)}")
    return "\n".join(lines)


def draw_svg(outline: GraphOutline) -> str:
    """Draw boxes in layers with arrows between them, without scripts or external references. Conditional edges are
    dashed, those for errors red."""
    links = list(_find_links(outline))
    layers = _assign_layers(outline, links)
    widths = {name: len(name) * _LETTER + 24 for layer in layers for name in layer}
    inner = max(sum(widths[name] + _GAP for name in layer) - _GAP for layer in layers)
    places: dict[str, tuple[float, float]] = {}
    for number, layer in enumerate(layers):
        x = _MARGIN + (inner - sum(widths[name] + _GAP for name in layer) + _GAP) / 2
        for name in layer:
            places[name] = x + widths[name] / 2, _MARGIN + number * _LAYER
            x += widths[name] + _GAP
    back = [link for link in links if places[link.tail][1] <= places[link.head][1]]
    width = inner + 2 * _MARGIN + 18 * len(back) + (_MARGIN if back else 0)
    height = 2 * _MARGIN + _LAYER * (len(layers) - 1) + _BOX
    drawn = [_draw_down(link, places) for link in links if link not in back]
    drawn += [_draw_up(link, places, widths, inner + _MARGIN + 18 * (at + 1)) for at, link in enumerate(back)]
    return "\n".join(
        [
            _draw_svg_head(width, height),
            *drawn,
            *(_draw_box(name, *places[name], widths[name]) for name in places),
            "</svg>",
        ]
    )


def _find_links(outline: GraphOutline) -> Iterator[_Link]:
    known = {START, END, *outline.roles}
    for head, tail, on_error in outline.edges:
        if {head, tail} <= known:
            yield _Link(head, tail, "error" if on_error else "")
    for head, tails in outline.branches:
        yield from (_Link(head, tail, "conditional") for tail in dict.fromkeys(tails) if {head, tail} <= known)


def _assign_layers(outline: GraphOutline, links: list[_Link]) -> list[list[str]]:
    """Put each role one layer below the lowest of its heads that come before it; END is below all."""
    forward = list(_forward_edges(links))
    depth: dict[str, int] = {START: 0} | dict.fromkeys(outline.roles, 1)
    for _ in depth:  # the longest way without going back has fewer edges than there are roles
        for head, tail in forward:
            if tail != END:
                depth[tail] = max(depth[tail], depth[head] + 1)
    layers: list[list[str]] = [[] for _ in range(max(depth.values()) + 1)]
    for name, layer in depth.items():
        layers[layer].append(name)
    return [layer for layer in layers if layer] + [[END]]


def _forward_edges(links: list[_Link]) -> Iterator[tuple[str, str]]:
    """Yield the edges but those that close a circle, as found by walking from START."""
    tails: dict[str, list[str]] = {}
    for link in links:
        tails.setdefault(link.head, []).append(link.tail)
    open_: list[tuple[str, Iterator[str]]] = [(START, iter(tails.get(START, ())))]
    on_way, done = {START}, {START}
    while open_:
        head, rest = open_[-1]
        tail = next(rest, None)
        if tail is None:
            open_.pop()
            on_way.discard(head)
        elif tail not in on_way:
            yield head, tail
            if tail not in done:
                done.add(tail)
                on_way.add(tail)
                open_.append((tail, iter(tails.get(tail, ()))))


def _draw_svg_head(width: float, height: float) -> str:
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}" width="{width:.0f}" '
        f'height="{height:.0f}" font-family="ui-sans-serif, system-ui, sans-serif" font-size="13">\n'
        '<defs><marker id="arrow" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="7" markerHeight="7" '
        'orient="auto"><path d="M0,0 L8,4 L0,8 z" fill="#667"/></marker></defs>'
    )


def _draw_down(link: _Link, places: Mapping[str, tuple[float, float]]) -> str:
    (x1, y1), (x2, y2) = places[link.head], places[link.tail]
    y1 += _BOX
    middle = (y1 + y2) / 2
    return _draw_path(link, f"M{x1:.1f},{y1:.1f} C{x1:.1f},{middle:.1f} {x2:.1f},{middle:.1f} {x2:.1f},{y2:.1f}")


def _draw_up(link: _Link, places: Mapping[str, tuple[float, float]], widths: Mapping[str, float], side: float) -> str:
    (x1, y1), (x2, y2) = places[link.head], places[link.tail]
    x1, x2 = x1 + widths[link.head] / 2, x2 + widths[link.tail] / 2
    y1, y2 = y1 + _BOX * 0.65, y2 + _BOX * 0.35
    return _draw_path(link, f"M{x1:.1f},{y1:.1f} H{side:.1f} V{y2:.1f} H{x2:.1f}")


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
