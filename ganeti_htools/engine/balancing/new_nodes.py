"""Changes of nodes that get a new instance."""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from ganeti_htools.engine.balancing.chords import Chords, Span
from ganeti_htools.engine.balancing.effects import ScoreParts
from ganeti_htools.engine.rules.batches import FIGURES, Batch, NodeFacts
from ganeti_htools.engine.rules.node_rules import FITS
from ganeti_htools.engine.rules.relocate import new_node_change
from ganeti_htools.model.columns import FORTHCOMING, Floats, Ints
from ganeti_htools.model.moves import MoveKind

BLOCK = 1 << 15  # pairs of instances and nodes in one computation
# Figures of an instance that change a new secondary, besides disks and their load; a test holds this.
SECONDARY_FIGURES = ("secondary_mem", "spindles", "spindle_use")
EVERY = slice(None)
SMALL = 1 << 18  # product size up to which matrix libraries use one thread, which is cheaper here


class NewNodes:
    """Changes of the target nodes with a new instance of each class, as primary or as secondary.

    Most spreads change by an amount of the instance times a unit of the node (``amounts``, ``units``). Other
    changes are kept for each pair (``pairs``, classes by nodes). ``rest`` is the change of all other
    components for each pair. ``prices`` (without and with force) equal ``rest`` where an instance fits, and
    are infinite elsewhere. ``lines`` are the new parts of linear bounds (:mod:`.chords`), with these prices,
    and ``best`` the lowest for each member. ``span`` covers all of them; its ``low`` is the lowest one.
    """

    def __init__(
        self,
        facts: NodeFacts,
        parts: ScoreParts,
        batch: Batch,
        kind: MoveKind,
        targets: Ints,
        forces: Sequence[bool],
    ) -> None:
        self.facts, self.parts, self.kind, self.targets = facts, parts, kind, targets
        self.classes, first = instance_classes(batch, kind, bool(facts.state.columns.shape.limited))
        self.batch = batch.take(first[:, np.newaxis])
        shape = len(first), len(targets)
        self.rest, self.prices = np.empty(shape), {force: np.empty(shape) for force in forces}
        width = max(1, BLOCK // max(1, shape[1]))
        kept: dict[int, Floats] = {}
        everywhere = np.arange(shape[1])
        for start in range(0, shape[0], width):
            block = slice(start, start + width)
            for which, (change, _) in self._try(block, everywhere).items():
                kept.setdefault(which, np.zeros(shape))[block] = change
        self.amounts, self.units, self.pairs = _factorised(kept, self._irregular())
        # The same as arrays (regular spreads by classes, or by targets), and the products' left sides.
        self.regular = np.array(list(self.amounts), np.int64)
        self._units = np.array(list(self.units.values())).reshape(len(self.regular), shape[1])
        self._amounts = amounts = np.array(list(self.amounts.values())).reshape(len(self.regular), shape[0])
        self._extremes = np.stack([amounts.min(axis=1, keepdims=True), amounts.max(axis=1, keepdims=True)])
        self.lines = {force: np.empty(shape) for force in forces}
        self.best, self._least = dict[bool, Floats](), dict[bool, Floats]()  # by members, by classes
        self.span, self._low = Span.none(len(parts.leaders)), np.empty((len(parts.leaders), shape[1]))
        self._chords: Chords | None = None
        self._stale = list[Ints | slice]()
        self._left = np.ascontiguousarray(np.concatenate([amounts, amounts * amounts]).T)

    def _irregular(self) -> set[int]:
        """Find the spreads whose changes are no product: they depend on the node's other instances."""
        # An instance with an unknown number of spindles takes all free ones (resources.py).
        vague = {"f_spindles", FORTHCOMING["f_spindles"]} if self.batch.asked.spindles is None else set[str]()
        leaders = [self.parts.table.components[which] for which in self.parts.leaders]
        return {
            which
            for which, component in enumerate(leaders)
            if not component.proportional or vague.intersection(component.figures)
        }

    def _try(
        self, block: slice, some: Ints, only: Collection[int] | None = None
    ) -> dict[int, tuple[Any, Any]]:
        batch = self.batch if block == EVERY else self.batch.take(block)
        result: dict[int, tuple[Any, Any]] = {}
        for force, prices in self.prices.items():
            came, codes = new_node_change(self.facts, batch, self.kind, force, self.targets[some], apart=True)
            if not result:
                result, self.rest[block, some] = self.parts.effect(came, only)
            prices[block, some] = np.where(codes == FITS, self.rest[block, some], np.inf)
        return result

    def refresh(self, nodes: Ints) -> None:
        """Update the nodes that moves have touched."""
        some = np.searchsorted(self.targets, nodes)
        some = some[self.targets[np.minimum(some, len(self.targets) - 1)] == nodes]
        if not len(some):
            return
        result = self._try(EVERY, some, self.pairs)
        for which, changes in self.pairs.items():
            changes[:, some] = result[which][0]
        self._stale.append(some)

    def bound(self, chords: Chords, heights: Floats) -> None:
        """Bring the new parts of bounds up to date, with the targets' ``heights`` (:class:`.Totals`)."""
        if chords is not self._chords:
            self._chords, self.span = chords, Span.none(len(heights))
            self._stale = [EVERY]
        for places in self._stale:
            above = 2 * (heights[:, places] - chords.means[:, np.newaxis])
            line = self._linear(chords, above, places)
            for force, prices in self.prices.items():
                self._put(force, places, line + prices[:, places])
            self._extend(chords, above, places)
        if self._stale:
            self.best = {force: least[self.classes] for force, least in self._least.items()}
            self.span = self.span._replace(low=self._low.min(axis=1))
        self._stale = []

    def _put(self, force: bool, places: Ints | slice, new: Floats) -> None:
        """Replace the lines of targets in these places."""
        lines = self.lines[force]
        if isinstance(places, slice):
            lines[:], self._least[force] = new, new.min(axis=1)
            return
        least, gone = self._least[force], lines[:, places].min(axis=1)
        lines[:, places] = new = np.asfortranarray(new)  # minima over few targets are several times as fast
        risen = ~(gone > least)  # the lowest line was a replaced one
        np.minimum(least, new.min(axis=1), out=least)
        least[risen] = lines[risen].min(axis=1)

    def _extend(self, chords: Chords, above: Floats, places: Ints | slice) -> None:
        """Extend the span by changes of targets in these places, ``above`` the mean by half of that."""
        low, (_, high, least, most) = np.zeros(above.shape), np.zeros((4, len(above)))
        own = (1 - 1 / chords.numbers)[:, np.newaxis]
        if len(self.regular):
            height, share, units = above[self.regular], own[self.regular], self._units[:, places]
            ends = self._extremes * units
            first, last = np.minimum(*ends), np.maximum(*ends)
            lowest = np.minimum(np.maximum(height / (-2 * np.maximum(share, 0.5)), first), last)
            squares = ends * (share * ends + height)
            low[self.regular] = np.minimum(lowest * (share * lowest + height), np.minimum(*squares))
            high[self.regular] = squares.max(axis=(0, 2))
            least[self.regular], most[self.regular] = first.min(axis=1), last.max(axis=1)
        for which, changes in self.pairs.items():
            some = changes[:, places]
            squares = some * (own[which] * some + above[which])
            low[which], high[which] = squares.min(axis=0), squares.max()
            least[which], most[which] = some.min(), some.max()
        self._low[:, places] = low
        self.span = self.span.covering(Span(low.min(axis=1), high, least, most))

    def _linear(self, chords: Chords, above: Floats, places: Ints | slice) -> Floats:
        """Compute the spreads' part of bounds for each class on these targets."""
        shape, own = (len(self.rest), above.shape[1]), 1 - 1 / chords.numbers
        result: Floats = np.empty(shape) if len(self.regular) else np.zeros(shape)
        if len(self.regular):
            units, left = self._units[:, places], self._left
            steep = chords.slopes[self.regular, np.newaxis] * units
            right = np.concatenate(
                [above[self.regular] * steep, own[self.regular, np.newaxis] * units * steep]
            )
            width = max(1, SMALL // max(1, right.size))
            for start in range(0, len(left), width):
                np.matmul(left[start : start + width], right, out=result[start : start + width])
        for which, changes in self.pairs.items():
            some = changes[:, places]
            result += chords.slopes[which] * some * (own[which] * some + above[which])
        return result

    def changes(self, classes: Ints, places: Ints) -> Floats:
        """Compute the changes of the sums with instances of these classes on targets in these places."""
        result: Floats = np.zeros((len(self._low), len(classes)))
        result[self.regular] = self._amounts.take(classes, axis=1) * self._units.take(places, axis=1)
        for which, changes in self.pairs.items():
            result[which] = changes[classes, places]
        return result


def instance_classes(
    batch: Batch, kind: MoveKind = MoveKind.REPLACE_PRIMARY, limited: bool = False
) -> tuple[Ints, Ints]:
    """Number the classes of instances that a new node cannot distinguish; also the first of each class.

    ``limited``: nodes limit amounts of one instance, so a secondary distinguishes what a primary does.
    """
    asked, load = batch.asked, batch.asked.row.load
    figures = [getattr(asked, name) for name in FIGURES if getattr(asked, name) is not None]
    disk = [
        amounts for amounts in (*asked.disk, *asked.classes, *asked.secondary_classes) if np.ndim(amounts)
    ]
    traits: list[Any] = [*figures, *disk, load.cpu, load.mem, load.dsk, load.net, batch.tags, batch.desires]
    if not (kind.to_primary or limited):
        traits = [getattr(asked, name) for name in SECONDARY_FIGURES if getattr(asked, name) is not None]
        traits += [*disk, load.dsk]
    if asked.hours:
        traits.append(batch.rows)
    known: dict[tuple[Any, ...], int] = {}
    keys = zip(*(trait.tolist() for trait in traits), strict=True)
    classes = np.array([known.setdefault(key, len(known)) for key in keys], np.int64)
    first = np.full(len(known), len(classes))
    np.minimum.at(first, classes, np.arange(len(classes)))
    return classes, first


def _factorised(
    kept: dict[int, Floats], irregular: set[int]
) -> tuple[dict[int, Floats], dict[int, Floats], dict[int, Floats]]:
    """Split changes into products of amounts and units, and into changes of pairs."""
    amounts: dict[int, Floats] = {}
    units: dict[int, Floats] = {}
    pairs: dict[int, Floats] = {}
    for which, changes in kept.items():
        row, column = divmod(int(np.abs(changes).argmax()), changes.shape[1])
        largest = changes[row, column]
        if not largest and which not in irregular:
            continue
        with np.errstate(invalid="ignore", divide="ignore"):
            amount, unit = changes[:, column].copy(), changes[row] / largest
        product = np.multiply.outer(amount, unit)
        if which not in irregular and np.allclose(product, changes, rtol=1e-9, atol=1e-12 * abs(largest)):
            amounts[which], units[which] = amount, unit
        else:
            pairs[which] = changes
    return amounts, units, pairs
