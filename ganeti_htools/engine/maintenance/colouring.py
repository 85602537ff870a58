"""Greedy colourings of a graph: neighbours get different colours, and few colours are used.

The orders are those of Ganeti's htools (``Graph.hs``), ties included, since the colours show in what
``hroller(1)`` prints.
"""

from collections.abc import Iterable, Sequence

import numpy as np

Graph = Sequence[Sequence[int]]  # the neighbours of each vertex, possibly repeated

ALGORITHMS = ("LF", "Dsatur", "Dcolor")


def colour(graph: Graph, algorithm: str) -> list[list[int]]:
    """Return the vertices of each colour.

    Algorithms: ``LF`` takes vertices with the most edges first, ``Dsatur`` those whose neighbours have the
    most different colours, ``Dcolor`` those with the most edges to coloured neighbours.
    """
    colours = _by_degree(graph) if algorithm == "LF" else _by_neighbours(graph, algorithm == "Dsatur")
    classes: list[list[int]] = [[] for _ in range(max(colours, default=-1) + 1)]
    for vertex, chosen in enumerate(colours):
        classes[chosen].append(vertex)
    return classes


def _lowest_free(taken: Iterable[int]) -> int:
    used = set(taken)
    return next(number for number in range(len(used) + 1) if number not in used)


def _by_degree(graph: Graph) -> list[int]:
    colours: dict[int, int] = {}
    for vertex in sorted(range(len(graph)), key=lambda vertex: len(graph[vertex]))[::-1]:
        colours[vertex] = _lowest_free(colours[other] for other in graph[vertex] if other in colours)
    return [colours[vertex] for vertex in range(len(graph))]


def _by_neighbours(graph: Graph, distinct: bool) -> list[int]:
    size = len(graph)
    colours = [-1] * size
    seen: list[set[int]] = [set() for _ in graph]
    # Of equal vertices the last is taken, so arrays run from the last vertex to the first.
    degree = np.array([len(others) for others in graph][::-1], np.int64)
    rank = np.zeros(size, np.int64)  # the algorithm's first criterion
    scale = int(degree.max(initial=0)) + 1
    for _ in range(size):
        vertex = size - 1 - int(np.argmax(rank * scale + degree))
        colours[vertex] = chosen = _lowest_free(seen[vertex])
        rank[size - 1 - vertex] = -1
        degree[size - 1 - vertex] = 0
        for other in graph[vertex]:
            if colours[other] < 0:
                rank[size - 1 - other] += not distinct or chosen not in seen[other]
                seen[other].add(chosen)
    return colours
