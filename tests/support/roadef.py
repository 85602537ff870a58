"""Problems of the ROADEF/EURO challenge 2012 for tests: a small one by hand, others from seeds."""

from hypothesis import strategies as st

from bench.roadef.generator import Size, generated
from bench.roadef.problem import Balance, Machine, Problem, Process, Resource, Service, Weights

# Two machines in one place, a third one elsewhere. The second resource is transient. Service 0 has two
# processes in two locations; service 1 needs service 0.
BY_HAND = Problem(
    [Resource(False, 100), Resource(True, 10)],
    [
        Machine(0, 0, [30, 100], [16, 80], [0, 1, 4]),
        Machine(0, 0, [10, 100], [8, 80], [1, 0, 4]),
        Machine(1, 1, [15, 100], [12, 80], [4, 3, 0]),
    ],
    [Service(2, []), Service(0, [0])],
    [Process(0, [12, 10], 1000), Process(0, [10, 20], 100), Process(1, [6, 70], 1)],
    [Balance(0, 1, 20, 7)],
    Weights(1, 10, 100),
    [0, 2, 0],
)


def problems() -> st.SearchStrategy[Problem]:
    """Generate small problems."""
    figures = st.integers(3, 6), st.integers(8, 15), st.integers(5, 8), st.integers(2, 3)
    sizes = st.tuples(*figures).map(lambda each: Size(*each))
    return st.builds(generated, st.integers(0, 10_000), sizes)
