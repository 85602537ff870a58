import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ganeti_htools.engine.maintenance.rolling import ALGORITHMS, Graph, colour


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Undirected graphs; edges may be there more than once, and lead back to where they start."""
    size = draw(st.integers(0, 12))
    neighbours: list[list[int]] = [[] for _ in range(size)]
    vertices = st.integers(0, size - 1)
    for p, s in draw(st.lists(st.tuples(vertices, vertices), max_size=40)) if size else []:
        neighbours[p].append(s)
        neighbours[s].append(p)
    return neighbours


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@given(graph=graphs())
@example(graph=[[1, 1, 1], [0, 0, 0], [], []])
def test_every_vertex_has_one_colour_and_no_neighbour_the_same(algorithm: str, graph: Graph) -> None:
    classes = colour(graph, algorithm)
    assert sorted(vertex for vertices in classes for vertex in vertices) == list(range(len(graph)))
    for vertices in classes:
        assert vertices == sorted(vertices) != []
        for vertex in vertices:
            assert not (set(graph[vertex]) - {vertex}) & set(vertices)


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_no_more_colours_than_the_largest_degree_and_one(algorithm: str) -> None:
    ring = [[4, 1], [0, 2], [1, 3], [2, 4], [3, 0]]
    assert len(colour(ring, algorithm)) == 3


@given(edges=st.lists(st.tuples(st.integers(0, 5), st.integers(6, 11)), max_size=30))
def test_saturation_finds_the_two_colours_of_a_bipartite_graph(edges: list[tuple[int, int]]) -> None:
    neighbours: list[list[int]] = [[] for _ in range(12)]
    for p, s in edges:
        neighbours[p].append(s)
        neighbours[s].append(p)
    assert len(colour(neighbours, "Dsatur")) == (2 if edges else 1)


def test_of_equal_vertices_the_last_is_coloured_first() -> None:
    for algorithm in ALGORITHMS:
        assert colour([[1], [0]], algorithm) == [[1], [0]]


def test_the_vertex_with_the_most_edges_is_coloured_first() -> None:
    for algorithm in ALGORITHMS:
        assert colour([[1, 2], [0], [0]], algorithm) == [[0], [1, 2]]
