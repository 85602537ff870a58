"""Format numbers as Haskell does, for output equal to that of Ganeti's tools.

Haskell rounds the fewest decimal digits that identify a number, not the number itself.
"""

import math
from decimal import Decimal


def fixed(value: float, digits: int) -> str:
    """``printf "%.<digits>f"``: half a last digit is rounded to the even one."""
    return f"{_decimal(value):.{digits}f}" if math.isfinite(value) else _special(value)


def positional(value: float) -> str:
    """``printf "%f"``: all digits, at least one after the point."""
    if not math.isfinite(value):
        return _special(value)
    digits = f"{_decimal(value):f}"
    return digits if "." in digits else digits + ".0"


def show(value: float) -> str:
    """``show``: all digits, at least one after the point; an exponent below 0.1 and from ten million."""
    if value == 0 or 0.1 <= abs(value) < 1e7 or not math.isfinite(value):
        return positional(value)
    mantissa, exponent = f"{_decimal(value).normalize():E}".split("E")
    return f"{mantissa if '.' in mantissa else mantissa + '.0'}e{int(exponent)}"


def general(value: float) -> str:
    """``printf "%.6g"``: ``fixed`` from 0.1 to ten million, else with an exponent."""
    if value == 0 or 0.1 <= abs(value) < 1e7 or not math.isfinite(value):
        return fixed(value, 6)
    mantissa, exponent = f"{_decimal(value):.6e}".split("e")
    return f"{mantissa}e{int(exponent)}"


def _special(value: float) -> str:
    return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"


def _decimal(value: float) -> Decimal:
    """Return the fewest digits that identify this number; of several, the digits nearest to the number.

    This differs from Python's ``repr`` in two points: a decimal half-way between two numbers identifies
    neither, and of two equally near decimals the larger is chosen. The method is that of Burger and Dybvig,
    "Printing Floating-Point Numbers Quickly and Accurately" (1996).
    """
    size = abs(float(value))
    if size < 2**53 and size.is_integer():
        return Decimal(value)
    place = Decimal(repr(size)).adjusted() + 1
    # The number and the middle to its neighbour on either side, in halves of the step to the number below.
    step = math.ulp(math.nextafter(size, 0))
    rest, above, below = 2 * int(size / step), int(math.ulp(size) / step), 1
    # The three of them as fractions of one unit in the first digit's place.
    part, whole = step.as_integer_ratio()
    part, whole = part * 10 ** max(-place, 0), 2 * whole * 10 ** max(place, 0)
    rest, above, below = rest * part, above * part, below * part
    digits = 0
    while True:
        digit, rest = divmod(10 * rest, whole)
        digits, place, above, below = 10 * digits + digit, place - 1, 10 * above, 10 * below
        down, up = rest < below, rest + above > whole
        if down or up:
            nearest = digits + (up and (not down or 2 * rest >= whole))
            return Decimal(nearest).scaleb(place).copy_sign(Decimal(value))
