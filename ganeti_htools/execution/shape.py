"""Checks of JSON values against shapes, which are written like the JSON itself."""

from typing import Any

# A shape is a type; a list with the shape of its items; an object with the shapes of its required keys;
# a tuple of alternative shapes; a predicate; or None.
Shape = Any


def fits(value: Any, shape: Shape) -> bool:
    """Whether a value has a shape. Objects may have additional keys."""
    match shape:
        case None:
            return value is None
        case type():
            return type(value) is shape  # bool is a subclass of int, but True is no number
        case tuple():
            return any(fits(value, each) for each in shape)
        case [item]:
            return type(value) is list and all(fits(each, item) for each in value)
        case dict():
            return type(value) is dict and all(
                key in value and fits(value[key], each) for key, each in shape.items()
            )
    return bool(shape(value))
