"""Draws views of small graphs as SVG without scripts, fonts or links."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from html import escape

import attrs

from cetdsl.explain.view import FINAL, NOWHERE, PlanView, ViewEdge, ViewNode, children_of

_FONT = "'DejaVu Sans Mono', Menlo, Consolas, monospace"
_SIZE, _LINE = 12, 15
#: Width of a character of a monospaced font, in units of its size.
_CHARACTER = 0.61
_INK, _SOFT, _FILL, _ACCENT = "#1f2933", "#52606d", "#f0f4f8", "#0b69a3"
_STATE_HEIGHT = 40.0
_LOOP = 34.0
#: Larger automata are shown as text only.
MAX_DRAWN = 24


def width_of(text: str) -> float:
    """The width of the longest line, in pixels."""
    return max((len(line) for line in text.splitlines()), default=0) * _SIZE * _CHARACTER


def svg_of(view: PlanView) -> str:
    """A view as SVG; empty when there is nothing to draw or too much of it."""
    if not view.nodes or len(view.nodes) > MAX_DRAWN:
        return ""
    return automaton_svg(view) if view.is_automaton else tree_svg(view)


class Canvas:
    """Shapes and texts of a picture, and how far they reach."""

    def __init__(self) -> None:
        self.arrows: list[str] = []
        self.shapes: list[str] = []
        self.texts: list[str] = []
        self.left = self.top = float("inf")
        self.right = self.bottom = float("-inf")

    def reach(self, *points: tuple[float, float]) -> None:
        for x, y in points:
            self.left, self.right = min(self.left, x), max(self.right, x)
            self.top, self.bottom = min(self.top, y), max(self.bottom, y)

    def arrow(self, path: str, *points: tuple[float, float]) -> None:
        self.arrows.append(
            f'<path d="{path}" fill="none" stroke="{_SOFT}" stroke-width="1.4" marker-end="url(#cetdsl-arrow)"/>'
        )
        self.reach(*points)

    def box(self, x: float, y: float, width: float, height: float, radius: float, stroke: str = _INK) -> None:
        """A rounded box around its centre."""
        left, top = x - width / 2, y - height / 2
        self.shapes.append(
            f'<rect x="{left:.1f}" y="{top:.1f}" width="{width:.1f}" height="{height:.1f}" rx="{radius:.1f}" '
            f'fill="{_FILL}" stroke="{stroke}" stroke-width="1.5"/>'
        )
        self.reach((left, top), (left + width, top + height))

    def text(
        self, x: float, y: float, text: str, *, anchor: str = "middle", bold: bool = False, colour: str = _INK
    ) -> None:
        """One line; ``y`` is its middle."""
        weight = ' font-weight="bold"' if bold else ""
        self.texts.append(
            f'<text x="{x:.1f}" y="{y + _SIZE * 0.35:.1f}" text-anchor="{anchor}" fill="{colour}"{weight}>'
            f"{escape(text)}</text>"
        )
        width = width_of(text)
        left = {"middle": x - width / 2, "start": x, "end": x - width}[anchor]
        self.reach((left, y - _LINE / 2), (left + width, y + _LINE / 2))

    def line(
        self, points: Sequence[tuple[float, float]], colour: str, *, width: float = 1.0, dashed: bool = False
    ) -> None:
        """A line from point to point."""
        dashes = ' stroke-dasharray="3 3"' if dashed else ""
        places = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
        self.shapes.append(
            f'<polyline points="{places}" fill="none" stroke="{colour}" stroke-width="{width:g}"{dashes}/>'
        )
        self.reach(*points)

    def label(self, x: float, bottom: float, label: str, anchor: str = "middle") -> None:
        """Lines of text that stand on ``bottom``, on a white background so that no arrow is seen to cross them."""
        lines = label.splitlines()
        if not lines:
            return
        width, height = width_of(label), len(lines) * _LINE
        left = {"middle": x - width / 2, "start": x, "end": x - width}[anchor]
        self.shapes.append(
            f'<rect x="{left - 2:.1f}" y="{bottom - height:.1f}" width="{width + 4:.1f}" height="{height:.1f}" '
            'fill="#ffffff" fill-opacity="0.85"/>'
        )
        for number, line in enumerate(lines):
            y = bottom - height + (number + 0.5) * _LINE
            self.text(x, y, line, anchor=anchor, colour=_SOFT if line.startswith("[") else _ACCENT)

    def svg(self, title: str) -> str:
        margin = 10
        x, y = self.left - margin, self.top - margin
        width, height = self.right - self.left + 2 * margin, self.bottom - self.top + 2 * margin
        parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" width="{width:.0f}" height="{height:.0f}" '
            f'viewBox="{x:.1f} {y:.1f} {width:.1f} {height:.1f}" font-family="{_FONT}" font-size="{_SIZE}">',
            f"<title>{escape(title)}</title>",
            '<defs><marker id="cetdsl-arrow" viewBox="0 0 10 10" refX="9" refY="5" markerWidth="7" '
            f'markerHeight="7" orient="auto"><path d="M0 0L10 5L0 10z" fill="{_SOFT}"/></marker></defs>',
            f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="#ffffff"/>',
            *self.arrows,
            *self.shapes,
            *self.texts,
            "</svg>",
        ]
        return "\n".join(parts)


@attrs.define
class _State:
    """A state and its place.

    ``layer`` counts columns from the left. ``loop`` is the label of its transition to itself, None if it has none.
    """

    node: ViewNode
    layer: int = 0
    x: float = 0.0
    y: float = 0.0
    loop: str | None = None
    loop_below: bool = False
    arched_over: bool = False

    @property
    def width(self) -> float:
        return max(52.0, width_of(self.node.label) + 28)

    def reach(self, below: bool) -> float:
        """Returns how far the state and its loop reach up or down from its centre."""
        if self.loop is None or self.loop_below != below:
            return _STATE_HEIGHT / 2
        return _STATE_HEIGHT / 2 + _LOOP + len(self.loop.splitlines()) * _LINE


def automaton_svg(view: PlanView) -> str:
    """Draws states from left to right, and as arches the transitions that do not lead to the next column.

    Arches that skip columns pass above the states, and those that go back below. But where a column has several states,
    arches of the upper ones pass above, and of the lower ones below.

    Examples
    --------
    >>> from cetdsl.explain.view import STATE
    >>> svg = automaton_svg(PlanView("one", (ViewNode("0", "A", shape=STATE),)))
    >>> svg.startswith("<svg"), svg.endswith("</svg>")
    (True, True)
    """
    states = {node.id: _State(node) for node in view.nodes}
    transitions = [edge for edge in view.edges if NOWHERE not in (edge.source, edge.target)]
    for edge in transitions:
        if edge.source == edge.target:
            states[edge.source].loop = edge.label
    entries = [edge.target for edge in view.edges if edge.source == NOWHERE]
    _find_layers(states, transitions, entries)
    _place(states, transitions)
    arcs = []
    for edge in transitions:
        if edge.source == edge.target or states[edge.target].layer == states[edge.source].layer + 1:
            continue
        arcs.append(edge)
        if not _goes_below(states[edge.source], states[edge.target]):
            states[edge.target].arched_over = True
    canvas = Canvas()
    for edge in view.edges:
        if edge.source == NOWHERE:
            _draw_entry(canvas, states[edge.target], edge.label)
        elif edge.target == NOWHERE:
            _draw_exit(canvas, states[edge.source], edge.label)
        elif edge.source == edge.target:
            _draw_loop(canvas, states[edge.source])
        elif states[edge.target].layer == states[edge.source].layer + 1:
            _draw_straight(canvas, states[edge.source], states[edge.target], edge.label)
    _draw_arcs(canvas, states, arcs)
    for state in states.values():
        canvas.box(state.x, state.y, state.width, _STATE_HEIGHT, _STATE_HEIGHT / 2)
        if state.node.shape == FINAL:
            canvas.box(state.x, state.y, state.width - 8, _STATE_HEIGHT - 8, _STATE_HEIGHT / 2 - 4)
        canvas.text(state.x, state.y, state.node.label, bold=True)
    return canvas.svg(view.title)


def _find_layers(states: dict[str, _State], transitions: list[ViewEdge], entries: list[str]) -> None:
    """Sets the layer of each state: the length of the longest way to it along transitions that do not go back."""
    after: dict[str, list[str]] = {identity: [] for identity in states}
    for edge in transitions:
        after[edge.source].append(edge.target)
    ahead: dict[str, list[str]] = {identity: [] for identity in states}
    finished: list[str] = []
    seen: set[str] = set()

    def visit(identity: str, path: set[str]) -> None:
        seen.add(identity)
        for target in after[identity]:
            if target in path or target == identity:
                continue
            ahead[identity].append(target)
            if target not in seen:
                visit(target, path | {target})
        finished.append(identity)

    for identity in [*entries, *states]:
        if identity not in seen:
            visit(identity, {identity})
    for identity in reversed(finished):
        for target in ahead[identity]:
            states[target].layer = max(states[target].layer, states[identity].layer + 1)


def _place(states: dict[str, _State], transitions: list[ViewEdge]) -> None:
    layers: list[list[_State]] = [[] for _ in range(max((s.layer for s in states.values()), default=0) + 1)]
    for state in states.values():
        layers[state.layer].append(state)
    for column in layers:
        column[-1].loop_below = len(column) > 1
    gaps = [50.0] * len(layers)
    for edge in transitions:
        source = states[edge.source]
        if states[edge.target].layer == source.layer + 1:
            gaps[source.layer] = max(gaps[source.layer], width_of(edge.label) + 34)
    x = 0.0
    for number, column in enumerate(layers):
        half = max(state.width for state in column) / 2
        loops = max(width_of(state.loop or "") for state in column) / 2
        if number:
            before = layers[number - 1]
            half_before = max(state.width for state in before) / 2
            loops_before = max(width_of(state.loop or "") for state in before) / 2
            x += max(half_before + gaps[number - 1] + half, loops_before + loops + 24)
        height = 0.0
        for row, state in enumerate(column):
            if row:
                height += column[row - 1].reach(True) + state.reach(False) + 30
            state.x, state.y = x, height
        for state in column:
            state.y -= height / 2


def _draw_entry(canvas: Canvas, state: _State, label: str) -> None:
    if state.layer == 0:
        end = state.x - state.width / 2
        length = max(34.0, width_of(label) + 20)
        canvas.arrow(f"M{end - length:.1f} {state.y:.1f}H{end - 1:.1f}", (end - length, state.y))
        canvas.label(end - length / 2 - 4, state.y - 4, label)
        return
    # Askew: straight from the left the arrow would cross the states before this one. It comes from below if an
    # arch ends at the top.
    sign = 1 if state.arched_over else -1
    x, y = state.x - state.width / 2 + 9, state.y + sign * (_STATE_HEIGHT / 2 - 5)
    canvas.arrow(f"M{x - 26:.1f} {y + sign * 26:.1f}L{x:.1f} {y:.1f}", (x - 26, y + sign * 26))
    canvas.label(x - 28, y + sign * 26 + _LINE * len(label.splitlines()) / 2, label, "end")


def _draw_exit(canvas: Canvas, state: _State, label: str) -> None:
    x, y = state.x + state.width / 2 - 8, state.y + _STATE_HEIGHT / 2 - 5
    canvas.arrow(f"M{x:.1f} {y:.1f}L{x + 26:.1f} {y + 26:.1f}", (x + 26, y + 26))
    canvas.label(x + 30, y + 24 + _LINE * len(label.splitlines()) / 2, label, "start")


def _draw_loop(canvas: Canvas, state: _State) -> None:
    sign = 1 if state.loop_below else -1
    edge = state.y + sign * _STATE_HEIGHT / 2
    control = edge + sign * _LOOP * 4 / 3
    canvas.arrow(
        f"M{state.x - 9:.1f} {edge:.1f}C{state.x - 26:.1f} {control:.1f} {state.x + 26:.1f} {control:.1f} "
        f"{state.x + 9:.1f} {edge:.1f}",
        (state.x, edge + sign * _LOOP),
    )
    label = state.loop or ""
    lines = len(label.splitlines()) * _LINE
    canvas.label(state.x, edge + sign * (_LOOP + 2) + (lines if sign > 0 else 0), label)


def _draw_straight(canvas: Canvas, source: _State, target: _State, label: str) -> None:
    x1, y1 = source.x + source.width / 2, source.y
    x2, y2 = target.x - target.width / 2, target.y
    # Diagonal arrows leave and arrive on the curved ends of the states.
    slope = (y2 - y1) / (x2 - x1)
    lift = max(-12.0, min(12.0, slope * 16))
    y1, y2 = y1 + lift, y2 - lift
    inset = abs(lift) * 0.28
    canvas.arrow(f"M{x1 - inset:.1f} {y1:.1f}L{x2 + inset - 1:.1f} {y2:.1f}", (x1, y1), (x2, y2))
    lines = len(label.splitlines()) * _LINE
    middle = (y1 + y2) / 2
    canvas.label((x1 + x2) / 2 - 3, middle - 5 if abs(slope) < 0.2 else middle + lines / 2, label)


def _draw_arcs(canvas: Canvas, states: dict[str, _State], arcs: list[ViewEdge]) -> None:
    """Arches of rising height, so that a wide one passes over the narrow ones."""
    used: dict[bool, list[tuple[float, float, float]]] = {True: [], False: []}
    for edge in sorted(arcs, key=lambda e: abs(states[e.source].layer - states[e.target].layer)):
        source, target = states[edge.source], states[edge.target]
        below = _goes_below(source, target)
        sign = 1 if below else -1
        way = 1 if target.x > source.x else -1
        x1, x2 = source.x + way * (source.width / 2 - 11), target.x - way * (target.width / 2 - 11)
        y1, y2 = source.y + sign * (_STATE_HEIGHT / 2 - 3), target.y + sign * (_STATE_HEIGHT / 2 - 3)
        low, high = min(source.layer, target.layer), max(source.layer, target.layer)
        inner = [s.y * sign + s.reach(below) for s in states.values() if low <= s.layer <= high]
        level = max(inner) + 10
        left, right = min(x1, x2), max(x1, x2)
        half = max(right - left, width_of(edge.label)) / 2
        centre = (left + right) / 2
        for start, stop, reached in used[below]:
            if start < centre + half and centre - half < stop:
                level = max(level, reached + 14)
        lines = len(edge.label.splitlines()) * _LINE
        used[below].append((centre - half, centre + half, level + lines))
        apex = sign * level
        # A cubic Bézier curve with upright ends reaches three quarters of the way to its control points.
        control = apex + (apex - (y1 + y2) / 2) / 3
        canvas.arrow(
            f"M{x1:.1f} {y1:.1f}C{x1:.1f} {control:.1f} {x2:.1f} {control:.1f} {x2:.1f} {y2:.1f}", (centre, apex)
        )
        canvas.label(centre, apex + sign * 3 + (lines if below else 0), edge.label)


def _goes_below(source: _State, target: _State) -> bool:
    height = source.y + target.y
    if abs(height) > 1:
        return height > 0
    return target.layer < source.layer


_WRAP = 76
_BETWEEN, _DOWN = 26.0, 34.0


@attrs.frozen
class _Box:
    label: str
    lines: tuple[str, ...]

    @property
    def width(self) -> float:
        return max(width_of(line) for line in (self.label + " ", *self.lines)) + 24

    @property
    def height(self) -> float:
        return (1 + len(self.lines)) * _LINE + 16


def tree_svg(view: PlanView) -> str:
    """Boxes from top to bottom along the arrows."""
    roots, children = children_of(view)
    boxes = {node.id: _Box(node.label, _wrapped(node.details)) for node in view.nodes}
    depth: dict[str, int] = {}
    centre: dict[str, float] = {}

    def extent(identity: str) -> float:
        inner = sum(map(extent, children[identity])) + _BETWEEN * (len(children[identity]) - 1)
        return max(boxes[identity].width, inner)

    def place(identity: str, left: float, level: int) -> None:
        depth[identity] = level
        whole = extent(identity)
        inner = sum(map(extent, children[identity])) + _BETWEEN * (len(children[identity]) - 1)
        x = left + (whole - inner) / 2
        for child in children[identity]:
            place(child, x, level + 1)
            x += extent(child) + _BETWEEN
        centre[identity] = left + whole / 2

    left = 0.0
    for root in roots:
        place(root, left, 0)
        left += extent(root) + _BETWEEN
    deepest = max(depth.values())
    upwards = any(edge.target in roots for edge in view.edges)
    level_of = {identity: deepest - level if upwards else level for identity, level in depth.items()}
    heights = [max(boxes[i].height for i, level in level_of.items() if level == n) for n in range(deepest + 1)]
    tops = [sum(heights[:n]) + n * _DOWN for n in range(deepest + 1)]
    canvas = Canvas()
    middle = {i: tops[level] + boxes[i].height / 2 for i, level in level_of.items()}
    for edge in view.edges:
        start = middle[edge.source] + boxes[edge.source].height / 2
        end = middle[edge.target] - boxes[edge.target].height / 2 - 1
        x1, x2, bend = centre[edge.source], centre[edge.target], (start + end) / 2
        canvas.arrow(f"M{x1:.1f} {start:.1f}C{x1:.1f} {bend:.1f} {x2:.1f} {bend:.1f} {x2:.1f} {end:.1f}")
    for identity, box in boxes.items():
        x, y = centre[identity], middle[identity]
        canvas.box(x, y, box.width, box.height, 6)
        top = y - box.height / 2 + 8 + _LINE / 2
        canvas.text(x, top, box.label, bold=True)
        for number, line in enumerate(box.lines, 1):
            canvas.text(x - box.width / 2 + 12, top + number * _LINE, line, anchor="start", colour=_SOFT)
    return canvas.svg(view.title)


def _wrapped(details: tuple[str, ...]) -> tuple[str, ...]:
    lines: list[str] = []
    for detail in details:
        lines += textwrap.wrap(detail, _WRAP, subsequent_indent="  ") or [""]
    return tuple(lines)
