"""Searches of a given length."""


class Steps:
    """So many steps, and all plans. A turn of 8 prices has 64 of a tabu search, then 1024 of annealing."""

    def __init__(self, number: int) -> None:
        self.left = number

    def searches(self, _score: float) -> bool:
        self.left -= 1
        return self.left >= 0

    @staticmethod
    def plans() -> bool:
        return True
