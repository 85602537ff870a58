"""Numbers written as Haskell writes them, for output that is to equal that of Ganeti's tools.

Haskell starts from the fewest decimal digits that identify a number, as Python's ``repr`` does, and
rounds those, not the number itself.
"""

import math
from decimal import Decimal


def fixed(value: float, digits: int) -> str:
    """``printf "%.<digits>f"``: half a last digit is rounded to the even one."""
    return f"{Decimal(repr(float(value))):.{digits}f}" if math.isfinite(value) else _special(value)


def positional(value: float) -> str:
    """``printf "%f"``: all digits, at least one after the point."""
    if not math.isfinite(value):
        return _special(value)
    digits = f"{Decimal(repr(float(value))):f}"
    return digits if "." in digits else digits + ".0"


def show(value: float) -> str:
    """``show``: the same, with an exponent below 0.1 and from ten million."""
    if value == 0 or 0.1 <= abs(value) < 1e7 or not math.isfinite(value):
        return positional(value)
    mantissa, exponent = f"{Decimal(repr(float(value))).normalize():E}".split("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent)}"


def general(value: float, digits: int) -> str:
    """``printf "%.<digits>g"``: ``fixed`` from 0.1 to ten million, else with an exponent."""
    if value == 0 or 0.1 <= abs(value) < 1e7 or not math.isfinite(value):
        return fixed(value, digits)
    mantissa, exponent = f"{Decimal(repr(float(value))):.{digits}e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
