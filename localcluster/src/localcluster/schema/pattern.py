"""Go's regular expressions (RE2 syntax) for Python's `re`.

Translates what differs (`$` and `\\z` mean the end of the text, POSIX classes, ASCII-only `\\d \\w \\s`) and refuses
what RE2 refuses, in its words. Pure, cached.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

_POSIX: Final = {
    "alpha": "A-Za-z",
    "digit": "0-9",
    "alnum": "0-9A-Za-z",
    "upper": "A-Z",
    "lower": "a-z",
    "space": r"\t\n\v\f\r ",
    "word": "0-9A-Za-z_",
    "punct": r"!-/:-@\[-`{-~",
    "xdigit": "0-9A-Fa-f",
    "blank": r"\t ",
    "cntrl": r"\x00-\x1f\x7f",
    "print": r" -~",
    "graph": "!-~",
    "ascii": r"\x00-\x7f",
}
_UNICODE: Final = {"L": r"^\W\d_", "Lu": r"A-Z\u00c0-\u00de", "Ll": r"a-z\u00df-\u00ff", "N": r"0-9", "Nd": r"0-9"}
_PIECE: Final = re.compile(
    r"\\p\{\w+\}|\\pP|\\p\w|\\x\{[0-9a-fA-F]+\}|\\.|\[:\^?\w+:\]|\(\?P?<?[^)]?|[\[\]$]|.", re.DOTALL
)


_GO_WORDS: Final = (
    ("missing ), unterminated subpattern", "missing closing ): `{pattern}`"),
    ("unterminated character set", "missing closing ]: `{rest}`"),
    ("unbalanced parenthesis", "unexpected ): `{pattern}`"),
    ("nothing to repeat", "missing argument to repetition operator: `{char}`"),
    ("multiple repeat", "invalid nested repetition operator: `{rest}`"),
    ("bad character range", "invalid character class range: `{range}`"),
)


class PatternError(ValueError):
    """The text that regexp.Compile gives."""


def _escape_piece(piece: str, in_class: bool) -> str:
    kind = piece[1]
    if kind == "z":
        return r"\Z"
    if kind.isdigit() and kind != "0":
        raise PatternError(f"error parsing regexp: invalid escape sequence: `{piece}`")
    if kind == "p":
        members = _UNICODE.get(piece[2:].strip("{}"))
        if members is None:
            raise PatternError(f"error parsing regexp: invalid character class range: `{piece}`")
        return (
            r"A-Za-z\u00aa-\uffff" if in_class and members.startswith("^") else members if in_class else f"[{members}]"
        )
    if piece.startswith("\\x{"):
        return re.escape(chr(int(piece[3:-1], 16)))
    return piece


def translate_pattern(pattern: str) -> str:
    out: list[str] = []
    in_class = False
    first = False
    for match in _PIECE.finditer(pattern):
        piece = match[0]
        if piece.startswith("\\") and len(piece) > 1:
            out.append(_escape_piece(piece, in_class))
        elif in_class:
            if piece.startswith("[:"):
                out.append(_POSIX.get(piece.strip("[:^]"), piece))
            elif piece[0] == "[":
                out.append("\\[" + piece[1:])
            else:
                out.append(piece)
                in_class = piece != "]" or first
        elif piece == "[":
            in_class = True
            out.append(piece)
            first = True
            continue
        elif piece.startswith("(?") and piece[:3] in ("(?=", "(?!", "(?#", "(?("):
            raise PatternError(f"error parsing regexp: invalid or unsupported Perl syntax: `{piece[:3]}`")
        elif piece in ("(?<=", "(?<!"):
            raise PatternError(f"error parsing regexp: invalid or unsupported Perl syntax: `{piece}`")
        else:
            out.append({"$": r"\Z"}.get(piece, "(?P<" + piece[3:] if piece.startswith("(?<") else piece))
        first = first and piece == "^"
    return "".join(out)


@lru_cache(maxsize=4096)
def compile_pattern(pattern: str) -> re.Pattern[str]:
    """Raises PatternError with Go's wording where it is known, else with Python's."""
    try:
        return re.compile(translate_pattern(pattern), re.ASCII)
    except re.error as error:
        raise PatternError(f"error parsing regexp: {_explain_error(error, pattern)}") from error


def _explain_error(error: re.error, pattern: str) -> str:
    at = error.pos or 0
    for python, go in _GO_WORDS:
        if error.msg.startswith(python):
            return go.format(
                pattern=pattern, rest=pattern[at:], char=pattern[at : at + 1], range=error.msg.rpartition(" ")[2]
            )
    return f"{error.msg}: `{pattern}`"
