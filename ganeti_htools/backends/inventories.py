"""Inventories of nodes in the text format and in JSON.

In text an inventory is ``CLASS,TOTAL[,RESERVED[,MIN[,MAX[,STEP[,RATIO]]]]]``, several with ``;`` between
them; ``-`` is an unset figure. In JSON it is an object with the keys of OpenStack Placement.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Any

from ganeti_htools.backends import values
from ganeti_htools.model.cluster import MAX_MIB
from ganeti_htools.model.errors import DataError
from ganeti_htools.model.inventory import Inventories, Inventory
from ganeti_htools.model.resource_classes import is_custom, is_own

if TYPE_CHECKING:
    from ganeti_htools.backends.fields import Fields  # loads the JSON parser, which text files do not need

UNSET = "-"
_FIGURES = ("total", "reserved", "min_unit", "max_unit", "step_size", "allocation_ratio")
_LEAST = {"total": 0, "reserved": 0, "min_unit": 1, "max_unit": 1, "step_size": 1}


def read_inventories(text: str) -> Inventories:
    """Inventories of a node from text. Raises DataError."""
    return _each_once(map(read_inventory, values.several(text, ";")))


def read_inventory(text: str) -> tuple[str, Inventory]:
    """An inventory and its resource class from text. Raises DataError."""
    name, *words = text.split(",")
    if not 1 <= len(words) <= len(_FIGURES):
        form = "CLASS,TOTAL[,RESERVED[,MIN[,MAX[,STEP[,RATIO]]]]]"
        raise DataError(f"expected {form}, not {values.quote(text)}")
    figures: dict[str, Any] = {}
    for figure, word in zip(_FIGURES, words, strict=False):
        if word != UNSET or figure == "total":
            figures[figure] = values.read(_reader(figure), word, name, figure)
    return _checked_inventory(name, figures)


def _reader(figure: str) -> Callable[[str], float]:
    return values.number if figure not in _LEAST else lambda text: values.whole(text, _LEAST[figure])


def inventories_of(fields: "Fields") -> Inventories:
    """Inventories of a node from a JSON object that has an object for each class.

    Raises DataError naming the node, the class and the figure.
    """
    found = fields.object("inventories")
    return _each_once(_inventory_of(found, name) for name in found.values)


def _inventory_of(fields: "Fields", name: str) -> tuple[str, Inventory]:
    each = fields.object(name)
    each.owner = f"{fields.owner}: inventory of {values.quote(name)}"
    figures: dict[str, Any] = {
        figure: each.integer(figure, least)
        for figure, least in _LEAST.items()
        if figure == "total" or each.has(figure)
    }
    if each.has("allocation_ratio"):
        figures["allocation_ratio"] = each.number("allocation_ratio")
    return values.read(lambda name: _checked_inventory(name, figures), name, fields.owner)


def _checked_inventory(name: str, figures: dict[str, Any]) -> tuple[str, Inventory]:
    """Check that figures fit together and return the inventory. Raises DataError."""
    if not (is_own(name) or is_custom(name)):
        expected = "CUSTOM_ and capital letters, digits and underscores, or a class that Ganeti counts"
        raise DataError(f"resource class {values.quote(name)}: expected {expected}")
    made = Inventory(**figures)
    least, most = made.min_unit, made.max_unit
    if most is not None and most < least:
        raise DataError(f"{name}: max_unit: expected at least the min_unit of {least}, got {most}")
    if made.capacity > MAX_MIB:
        raise DataError(f"{name}: expected a capacity of at most {MAX_MIB}, got {made.capacity}")
    return name, made


def _each_once(inventories: Iterable[tuple[str, Inventory]]) -> Inventories:
    """Sort inventories by class. Raises DataError if a class repeats."""
    found: dict[str, Inventory] = {}
    for name, inventory in inventories:
        if name in found:
            raise DataError(f"{name} appears more than once")
        found[name] = inventory
    return tuple(sorted(found.items()))


def write_inventories(inventories: Inventories) -> str:
    return ";".join(write_inventory(name, each) for name, each in inventories)


def write_inventory(name: str, each: Inventory) -> str:
    from ganeti_htools.backends import haskell  # loads decimal fractions, which hail does not need

    most = UNSET if each.max_unit is None else str(each.max_unit)
    words = [str(each.total), str(each.reserved), str(each.min_unit), most, str(each.step_size)]
    words.append(haskell.show(each.allocation_ratio))
    usual = (None, "0", "1", UNSET, "1", "1.0")
    while words[-1] == usual[len(words) - 1]:
        words.pop()
    return ",".join((name, *words))
