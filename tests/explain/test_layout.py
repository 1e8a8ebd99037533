"""The drawn graph: layers, no overlaps, few crossings, straight chains, large graphs."""

from __future__ import annotations

import itertools
import random

import pytest

from tripont.explain.layout import NODE_GAP, Drawing, draw

Edges = list[tuple[int, int]]


def check(drawing: Drawing, widths: list[float], edges: Edges) -> None:
    """What every drawing must keep: edges go down, and nodes of a layer do not overlap."""
    for a, b in edges:
        assert drawing.layer[a] < drawing.layer[b]
        assert drawing.y[a] < drawing.y[b]
    rows: dict[int, list[int]] = {}
    for node, layer in enumerate(drawing.layer):
        rows.setdefault(layer, []).append(node)
    for row in rows.values():
        row.sort(key=lambda n: drawing.x[n])
        for left, right in itertools.pairwise(row):
            distance = drawing.x[right] - drawing.x[left]
            assert distance >= (widths[left] + widths[right]) / 2 + NODE_GAP - 1e-6
    for node, x in enumerate(drawing.x):
        assert widths[node] / 2 <= x <= drawing.width - widths[node] / 2
    assert all(0 < y < drawing.height for y in drawing.y)


def crossings(drawing: Drawing, edges: Edges) -> int:
    """Pairs of edges of neighbouring layers that cross, by trying all."""
    count = 0
    for (a, b), (c, d) in itertools.combinations(edges, 2):
        if drawing.layer[a] == drawing.layer[c] and drawing.layer[b] == drawing.layer[d]:
            count += (drawing.x[a] - drawing.x[c]) * (drawing.x[b] - drawing.x[d]) < 0
    return count


@pytest.mark.parametrize("seed", range(6))
def test_random_graphs(seed: int) -> None:
    rng = random.Random(seed)
    count = rng.randrange(1, 80)
    widths = [rng.uniform(20, 200) for _ in range(count)]
    edges = sorted(
        {(a, b) for b in range(1, count) for a in rng.sample(range(b), min(b, rng.randrange(0, 4)))}
    )
    sources = [n for n in range(count) if all(b != n for _, b in edges)]
    check(draw(widths, 40, edges, sources), widths, edges)


def test_a_chain_is_straight() -> None:
    edges = [(n, n + 1) for n in range(9)]
    drawing = draw([50.0 + 7 * n for n in range(10)], 40, edges, [0])
    assert max(drawing.x) - min(drawing.x) < 1e-6
    assert drawing.layer == list(range(10))


def test_a_tree_has_no_crossings() -> None:
    edges = [((n - 1) // 2, n) for n in range(1, 31)]
    widths = [60.0] * 31
    drawing = draw(widths, 40, edges, [])
    check(drawing, widths, edges)
    assert crossings(drawing, edges) == 0


def test_crossings_that_can_be_avoided() -> None:
    """Two layers whose edges cross in the order in which they are given."""
    edges = [(0, 7), (1, 6), (2, 5), (3, 4)]
    drawing = draw([60.0] * 8, 40, edges, [])
    assert crossings(drawing, edges) == 0


def test_parameters_stand_above_their_first_reader() -> None:
    #  0 -> 2 -> 3 -> 4, and 1 (a parameter) only into 4
    drawing = draw([60.0] * 5, 40, [(0, 2), (2, 3), (3, 4), (1, 4)], [0, 1])
    assert drawing.layer[1] == drawing.layer[4] - 1


def test_long_edges_bend_around_what_is_between() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (0, 3)]
    drawing = draw([60.0] * 4, 40, edges, [])
    (bends,) = [b for (a, c), b in zip(edges, drawing.bends, strict=True) if (a, c) == (0, 3)]
    assert len(bends) == 2
    for x, y in bends:
        node = drawing.y.index(y)
        assert abs(x - drawing.x[node]) > 30


def test_nothing_and_one() -> None:
    assert draw([], 40, [], []).x == []
    assert draw([60.0], 40, [], [0]).x == [NODE_GAP + 30]


def test_the_same_graph_is_drawn_the_same() -> None:
    edges = [(0, 2), (1, 2), (0, 3), (2, 3)]
    assert draw([60.0] * 4, 40, edges, [0, 1]) == draw([60.0] * 4, 40, edges, [0, 1])


def test_two_thousand_nodes_with_values_that_live_long() -> None:
    rng = random.Random(1)
    edges = [(n, n + 1) for n in range(1999)]
    edges += [(a, rng.randrange(a + 1, 2000)) for a in rng.sample(range(1990), 1000)]
    edges = sorted(set(edges))
    widths = [100.0] * 2000
    check(draw(widths, 40, edges, [0]), widths, edges)
