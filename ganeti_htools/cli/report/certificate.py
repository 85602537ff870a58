"""The verdict about a plan, as lines."""

from collections.abc import Iterator

from ganeti_htools.judge.judge import Certificate
from ganeti_htools.model.wording import counted


def lines(found: Certificate) -> Iterator[str]:
    """Yield one line for the verdict, and one for each finding and note."""
    verdict = f"The plan of {found.tool} {'does not hold' if found.findings else 'holds'}"
    counts = f"{counted(found.steps, 'move')} in {counted(found.jobsets, 'jobset')}"
    yield f"{verdict}: {counts}, {counted(found.orders, 'state')} looked at"
    for each in found.findings:
        yield f"    {each}"
    for note in found.notes:
        yield f"Note: {note}"
