"""The style: contrasts, and the hash in the policy."""

import re
from base64 import b64decode
from hashlib import sha256

import pytest

from ganeti_htools.pages.style import DARK, LIGHT, POLICY, STYLE

SCHEMES = pytest.mark.parametrize("scheme", [LIGHT, DARK], ids=["light", "dark"])


def luminance(colour: str) -> float:
    """The relative luminance of WCAG 2."""
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (
        each / 12.92 if each <= 0.04045 else ((each + 0.055) / 1.055) ** 2.4 for each in parts
    )
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def contrast(one: str, other: str) -> float:
    light, dark = sorted((luminance(one), luminance(other)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def test_contrast_of_black_and_white() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21)


@SCHEMES
@pytest.mark.parametrize("text", ["text", "quiet", "alarm"])
def test_text_can_be_read(scheme: dict[str, str], text: str) -> None:
    assert contrast(scheme[text], scheme["ground"]) >= 4.5


@SCHEMES
def test_shapes_can_be_seen(scheme: dict[str, str]) -> None:
    for one, other in (
        *((kind, ground) for kind in ("bar", "high", "full") for ground in ("track", "ground")),
        ("text", "track"),
        ("line", "ground"),
    ):
        assert contrast(scheme[one], scheme[other]) >= 3


def test_policy_allows_this_style_only() -> None:
    (digest,) = re.findall(r"'sha256-([^']+)'", POLICY)
    assert b64decode(digest) == sha256(STYLE.encode()).digest()
    assert "unsafe" not in POLICY
    assert POLICY.startswith("default-src 'none';")


def test_style_loads_nothing() -> None:
    assert "url(" not in STYLE
    assert "@import" not in STYLE
    assert "<" not in STYLE
