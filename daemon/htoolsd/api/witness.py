"""The method ``witness``."""

from typing import Annotated

from ganeti_htools.client.protocol import Refusal, RefusalError
from ganeti_htools.model.errors import DataError
from htoolsd.socket.methods import Name, method
from htoolsd.socket.roles import Role
from htoolsd.witness.witness import Witness

_SHORT = ("id", "time", "request", "verdict", "explained", "instances", "error")


class WitnessMethods:
    """The method about the witness. It raises RefusalError."""

    def __init__(self, witness: Witness) -> None:
        self._witness = witness

    @method(
        "Shows how the decisions compare with those of the program of [witness]: counts by type and verdict,"
        " times, and the differences; or one difference with both answers and the file of its request.",
        role=Role.READ,
    )
    async def witness(
        self,
        id: Annotated[Name | None, "the decision, of which all is shown"] = None,  # noqa: A002
    ) -> object:
        try:
            if id is None:
                found = await self._witness.findings()
                short = [{key: each.get(key) for key in _SHORT} for each in found]
                return {**self._witness.status(), "differences": short}
            one = await self._witness.finding(id)
        except (OSError, DataError) as error:
            raise RefusalError(Refusal.INTERNAL, f"the record cannot be read: {error}") from None
        if one is None:
            raise RefusalError(Refusal.ARGUMENTS, f"witness: {id}: no difference with this id is kept")
        return one
