"""Free text without names: known names get their substitutes, unknown words too.

Only words that the programs' own sources have, and figures, stay. So a name is replaced although nothing
says that it is one.
"""

import re
from collections.abc import Callable, Container, Iterable

from ganeti_htools.anonymity.names import UUID, NameKind, Substitutes

Text = Callable[[str], str]

_PATTERNS = {
    "URL": r"\w+://[^\s'\"<>]+",
    "UUID": rf"(?<!\w){UUID.pattern}(?!\w)",
    "MAC": r"(?<![\w:])(?:[0-9a-f]{2}:){5}[0-9a-f]{2}(?![\w:])",
    "CLOCK": r"(?<![\w:])\d\d:\d\d(?::\d\d(?:\.\d+)?)?(?![\w:])",
    "ADDRESS": (
        r"(?<![\w:.-])(?:\d{1,3}(?:\.\d{1,3}){3}(?![\w-])"
        r"|(?:[0-9a-f]{0,4}:){2,7}[0-9a-f]{0,4}(?![\w:-]))"
    ),
    "PATH": r"(?<![\w/.-])/[\w.+@%~:-]+(?:/[\w.+@%~:-]+)*",
    "WORD": r"\w+(?:[.-]+\w+)*",
}
# Numbers, versions, dates, hours, amounts with a unit; no addresses.
_FIGURE = re.compile(
    r"(?!\d+(?:\.\d+){3}$)[\d.TZ-]+|\d\d?(?::\d\d)?-\d\d?(?::\d\d)?"
    r"|\d[\d.]*(?:e-?\d+|ms|min|[smhdx]|[KMGT]iB)",
    re.ASCII,
)
_SOURCE = re.compile(r".*/((?:ganeti_htools|htoolsd)/[\w/]+\.py)")
# Kinds of objects.
_OBJECTS = {NameKind.NODE, NameKind.INSTANCE, NameKind.GROUP, NameKind.HOST, NameKind.USER}
_SIZE = re.compile(r"\b(\d+(?:\.\d+)?)(?= ?[MGT]iB\b)")


def _pattern(names: Iterable[str] = ()) -> re.Pattern[str]:
    """Return a pattern of words and the like, and of these names, the longest first."""
    longest = sorted(names, key=len, reverse=True)
    listed = "|".join(rf"(?<!\w){re.escape(name)}(?!\w)" for name in longest)
    patterns = {"NAME": listed} | _PATTERNS if listed else _PATTERNS
    return re.compile("|".join(f"(?P<{key}>{each})" for key, each in patterns.items()), re.IGNORECASE)


_PLAIN = _pattern()


def words(texts: Iterable[str]) -> frozenset[str]:
    """Return the words of texts, in lower case."""
    return frozenset(found[0].lower() for text in texts for found in _PLAIN.finditer(text))


def is_plain(word: str, own: Container[str]) -> bool:
    """Whether a word tells nothing: a figure, or one of our ``own`` words (in lower case)."""
    return word.lower() in own or _FIGURE.fullmatch(word) is not None


class FreeText:
    """Replaces names in text; ``own`` are the words that stay, in lower case.

    One of these that names an object is replaced all the same, but not one that is part of a tag.
    """

    def __init__(self, substitutes: Substitutes, own: Container[str]) -> None:
        self._substitutes = substitutes
        self._known = {
            name: substitute
            for name, (kind, substitute) in substitutes.by_name.items()
            if kind in _OBJECTS or not is_plain(name, own)
        }
        for name in [name for name in self._known if "." in name]:
            label = name.partition(".")[0]
            if label and not is_plain(label, own):
                self._known.setdefault(label, self._known[name])
        self._own = own
        self._pattern = _pattern(name for name in self._known if not is_word(name))

    def __call__(self, text: str) -> str:
        return self._pattern.sub(self._replaced, text)

    def _replaced(self, found: re.Match[str]) -> str:
        word, kind = found[0], found.lastgroup or "WORD"
        if word in self._known:
            return self._known[word]
        if kind == "CLOCK" or word.lower() in self._own or (kind == "WORD" and is_plain(word, self._own)):
            return word
        if kind == "PATH" and (source := _SOURCE.fullmatch(word)):
            return source[1]
        if kind == "NAME":  # in other letters
            kind = "WORD"
        return self._substitutes(NameKind.PATH if kind == "URL" else NameKind[kind], word)


def is_word(name: str) -> bool:
    """Whether a name is one word or path in a text."""
    found = _PLAIN.fullmatch(name)
    return found is not None and found.lastgroup in ("WORD", "PATH")


def rounded(size: float) -> int:
    """Return a size with two significant digits."""
    return int(float(f"{size:.1e}"))


def with_rounded_sizes(text: str) -> str:
    """Round the sizes in a text."""
    return _SIZE.sub(lambda found: f"{float(f'{float(found[1]):.1e}'):g}", text)


def leftovers(text: str, names: Iterable[str], own: Container[str]) -> list[str]:
    """Return the names that a text still has, as words; plain words are no names."""
    suspects = (name for name in names if name in text and not is_plain(name, own))
    return [name for name in suspects if re.search(rf"(?<![\w.-]){re.escape(name)}(?![\w-])", text)]
