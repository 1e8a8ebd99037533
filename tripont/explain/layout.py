"""Drawing a graph in layers: where each node goes, and where its edges bend.

The method is that of Sugiyama, Tagawa and Toda (1981): layers by longest path, edges over several
layers broken up by dummy nodes, the order in each layer by repeated medians of the neighbours
(Gansner, Koutsofios, North, Vo 1993), then positions pulled towards the neighbours' mean under the
order's constraints. Time is near linear in nodes and edges; 2,000 nodes take a fraction of a
second.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

LAYER_GAP: Final = 46.0
NODE_GAP: Final = 22.0
DUMMY_WIDTH: Final = 8.0
# Edges over more layers than this are drawn without dummy nodes: in a graph that is long and has
# values that live long, those would outnumber the nodes.
LONGEST_ROUTED: Final = 24
_ORDER_SWEEPS: Final = 8
_POSITION_SWEEPS: Final = 6


@dataclass(slots=True)
class Drawing:
    """``x``, ``y``: centre of each node; ``bends``: for each edge, the points between its ends."""

    x: list[float]
    y: list[float]
    layer: list[int]
    bends: list[list[tuple[float, float]]]
    width: float = 0.0
    height: float = 0.0


@dataclass(slots=True)
class _Work:
    """Nodes and dummies: neighbours above and below, layers."""

    widths: list[float]
    layer: list[int]
    above: list[list[int]] = field(default_factory=list)
    below: list[list[int]] = field(default_factory=list)


def draw(
    widths: Sequence[float], height: float, edges: Sequence[tuple[int, int]], sources: Sequence[int]
) -> Drawing:
    """Lay out an acyclic graph from top to bottom.

    ``widths``: of each node, all are ``height`` high. ``edges``: (from, to), ``to`` further down;
    node numbers are a topological order. ``sources``: nodes without edges into them that are to
    stand near what reads them (parameters) and not all at the top.
    """
    count = len(widths)
    layer = _layers(count, edges, sources)
    work = _Work(list(widths), list(layer))
    work.above = [[] for _ in range(count)]
    work.below = [[] for _ in range(count)]
    chains: list[list[int]] = []
    for a, b in edges:
        chain = [a]
        if 1 < layer[b] - layer[a] <= LONGEST_ROUTED:
            for between in range(layer[a] + 1, layer[b]):
                chain.append(len(work.widths))
                work.widths.append(DUMMY_WIDTH)
                work.layer.append(between)
                work.above.append([])
                work.below.append([])
        chain.append(b)
        if layer[b] - layer[a] <= LONGEST_ROUTED:
            for c, d in itertools.pairwise(chain):
                work.below[c].append(d)
                work.above[d].append(c)
        chains.append(chain)
    rows = _order(work)
    x = _positions(work, rows)
    step = height + LAYER_GAP
    y = [(place + 0.5) * step for place in work.layer]
    left = min((x[n] - work.widths[n] / 2 for n in range(len(x))), default=0.0)
    x = [value - left + NODE_GAP for value in x]
    right = max((x[n] + work.widths[n] / 2 for n in range(len(x))), default=0.0)
    bends = [[(x[n], y[n]) for n in chain[1:-1]] for chain in chains]
    total = (max(layer, default=0) + 1) * step
    return Drawing(x[:count], y[:count], layer, bends, right + NODE_GAP, total)


def _layers(count: int, edges: Sequence[tuple[int, int]], sources: Sequence[int]) -> list[int]:
    """Longest path from the top; sources directly above their first reader."""
    layer = [0] * count
    for a, b in sorted(edges):
        layer[b] = max(layer[b], layer[a] + 1)
    first: dict[int, int] = {}
    moved = set(sources)
    for a, b in edges:
        if a in moved:
            first[a] = min(first.get(a, layer[b]), layer[b])
    for node, reader in first.items():
        layer[node] = max(0, reader - 1)
    return layer


def _order(work: _Work) -> list[list[int]]:
    """Nodes of each layer from left to right, with few crossings."""
    rows: list[list[int]] = [[] for _ in range(max(work.layer, default=-1) + 1)]
    for node in _depth_first(work):
        rows[work.layer[node]].append(node)
    place = [0.0] * len(work.layer)
    for row in rows:
        _number(row, place)
    best, fewest = [list(row) for row in rows], _crossings(rows, work, place)
    for sweep in range(_ORDER_SWEEPS):
        if fewest == 0:
            break
        down = sweep % 2 == 0
        neighbours = work.above if down else work.below
        for row in rows if down else reversed(rows):
            keys = {node: _median(neighbours[node], place) for node in row}
            row.sort(key=lambda node: keys[node] if keys[node] >= 0 else place[node])
            _number(row, place)
        crossings = _crossings(rows, work, place)
        if crossings < fewest:
            best, fewest = [list(row) for row in rows], crossings
    return best


def _depth_first(work: _Work) -> list[int]:
    """An order in which what is connected is close together."""
    seen = [False] * len(work.layer)
    order = []
    for start in sorted(range(len(work.layer)), key=lambda n: work.layer[n]):
        stack = [start]
        while stack:
            node = stack.pop()
            if seen[node]:
                continue
            seen[node] = True
            order.append(node)
            stack += [n for n in reversed(work.below[node]) if not seen[n]]
            stack += [n for n in reversed(work.above[node]) if not seen[n]]
    return order


def _number(row: list[int], place: list[float]) -> None:
    for position, node in enumerate(row):
        place[node] = float(position)


def _median(neighbours: list[int], place: list[float]) -> float:
    """The median of the neighbours' places, -1 without any."""
    if not neighbours:
        return -1.0
    places = sorted(place[n] for n in neighbours)
    middle = len(places) // 2
    if len(places) % 2:
        return places[middle]
    return (places[middle - 1] + places[middle]) / 2


def _crossings(rows: list[list[int]], work: _Work, place: list[float]) -> int:
    """How many pairs of edges between neighbouring layers cross (by a Fenwick tree)."""
    total = 0
    for upper, lower in itertools.pairwise(rows):
        ends = [int(e) for node in upper for e in sorted(place[b] for b in work.below[node])]
        tree = [0] * (len(lower) + 1)
        for seen, end in enumerate(ends):
            at = end + 1
            not_after = 0
            while at > 0:
                not_after += tree[at]
                at -= at & -at
            total += seen - not_after
            at = end + 1
            while at <= len(lower):
                tree[at] += 1
                at += at & -at
    return total


def _positions(work: _Work, rows: list[list[int]]) -> list[float]:
    """The centre of each node: as near to the mean of its neighbours as the order allows."""
    x = [0.0] * len(work.layer)
    for row in rows:
        at = 0.0
        for node in row:
            x[node] = at + work.widths[node] / 2
            at += work.widths[node] + NODE_GAP
        for node in row:  # rows start centred on each other
            x[node] -= at / 2
    for sweep in range(_POSITION_SWEEPS):
        down = sweep % 2 == 0
        for row in rows if down else reversed(rows):
            first, second = (work.above, work.below) if down else (work.below, work.above)
            wanted = []
            for node in row:
                near = first[node] or second[node]
                wanted.append(sum(x[n] for n in near) / len(near) if near else x[node])
            _place(row, wanted, work.widths, x)
    return x


def _place(row: list[int], wanted: list[float], widths: list[float], x: list[float]) -> None:
    """Positions nearest to ``wanted`` (in the least squares sense) that keep order and distances.

    Neighbours that want to overlap become one block that stands at the mean of what they want:
    pool adjacent violators.
    """
    # Distances are taken out first, so that the constraint is just "not before the one to the left".
    offset = 0.0
    offsets = []
    for at, node in enumerate(row):
        if at:
            offset += (widths[row[at - 1]] + widths[node]) / 2 + NODE_GAP
        offsets.append(offset)
    blocks: list[list[float]] = []  # sum, count
    for want, before in zip(wanted, offsets, strict=True):
        blocks.append([want - before, 1.0])
        while len(blocks) > 1 and blocks[-2][0] / blocks[-2][1] > blocks[-1][0] / blocks[-1][1]:
            total, count = blocks.pop()
            blocks[-1][0] += total
            blocks[-1][1] += count
    at = 0
    for total, count in blocks:
        for _ in range(int(count)):
            x[row[at]] = total / count + offsets[at]
            at += 1
