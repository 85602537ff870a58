"""Solve a problem of the challenge: ``python -m bench.roadef MODEL ASSIGNMENT``."""

import argparse
from pathlib import Path

from bench.roadef.checker import costs
from bench.roadef.files import FileError, assignment_text, read_problem
from bench.roadef.pair import best_of_two


def main() -> None:
    """Read, search on two cores, print the costs, and write the assignment."""
    parser = argparse.ArgumentParser(prog="python -m bench.roadef", description=__doc__)
    parser.add_argument("model", type=Path, help="model file of the challenge")
    parser.add_argument("assignment", type=Path, help="assignment file: the first machines of processes")
    parser.add_argument("--seconds", type=float, default=300, help="CPU time of each search (default: 300)")
    parser.add_argument("--seed", type=int, default=0, help="another number leads to other searches")
    parser.add_argument("-o", "--output", type=Path, help="write the assignment found to this file")
    options = parser.parse_args()
    try:
        problem = read_problem(options.model, options.assignment)
    except (FileError, OSError) as error:
        parser.exit(1, f"{parser.prog}: {error}\n")
    found = best_of_two(problem, options.seconds, options.seed)
    print(f"at first: {costs(problem, problem.initial).total}")
    print(f"found: {costs(problem, found).total}")
    if options.output:
        options.output.write_text(assignment_text(found))


if __name__ == "__main__":
    main()
