"""A daemon whose answers are written down, for what programs ask."""

from collections.abc import Mapping
from typing import Any

import pytest

from ganeti_htools.client import calls
from ganeti_htools.client.calls import Steps


class Answering:
    """Answers each method alike, and notes what was asked. Errors are raised."""

    def __init__(self, patch: pytest.MonkeyPatch, **answers: Any) -> None:
        self.answers = answers
        self.asked: list[tuple[str, dict[str, object]]] = []
        self.patience: dict[str, float] = {}
        patch.setattr(calls, "ask_once", self._ask_once)

    def _ask_once(
        self, path: str, method: str, args: Mapping[str, object], file: int | None, patience: float
    ) -> Steps[Any]:
        assert path == "/socket"
        self.asked.append((method, dict(args) if file is None else {**args, "file": True}))
        self.patience[method] = patience
        answer = self.answer(method)
        if isinstance(answer, Exception):
            raise answer
        yield from ()
        return answer

    def answer(self, method: str) -> Any:
        """Return the answer to a method."""
        return self.answers.get(method)
