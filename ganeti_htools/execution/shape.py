"""Checks JSON against shapes that are written down like the JSON itself."""

from typing import Any

# A type; a list of the shape of its items; an object with the shapes of what it has to have; a tuple of
# shapes, of which one is enough; a predicate; or None itself.
Shape = Any


def fits(value: Any, shape: Shape) -> bool:
    """Whether a value has a shape. Objects may have more keys than the shape names."""
    match shape:
        case None:
            return value is None
        case type():
            return type(value) is shape  # bool is a subclass of int, but True is not a number here
        case tuple():
            return any(fits(value, each) for each in shape)
        case [item]:
            return type(value) is list and all(fits(each, item) for each in value)
        case dict():
            return type(value) is dict and all(
                key in value and fits(value[key], each) for key, each in shape.items()
            )
    return bool(shape(value))
