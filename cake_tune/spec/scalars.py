"""Plain scalars as YAML 1.2's core schema reads them.

PyYAML follows YAML 1.1, where ``no`` is false, ``010`` is eight and ``12:30:00`` is a number; a spec must not change
its meaning by such a slip. Source: YAML 1.2.2, section 10.3.2.
"""

import re

Scalar = None | bool | int | float | str

_NULL = frozenset({"", "~", "null", "Null", "NULL"})
_TRUE = frozenset({"true", "True", "TRUE"})
_FALSE = frozenset({"false", "False", "FALSE"})
_INTEGERS = ((re.compile(r"[-+]?[0-9]+"), 10), (re.compile(r"0o[0-7]+"), 8), (re.compile(r"0x[0-9a-fA-F]+"), 16))
_MOST_DIGITS = 40
_FLOAT = re.compile(r"[-+]?(\.[0-9]+|[0-9]+(\.[0-9]*)?)([eE][-+]?[0-9]+)?")
_SPECIAL = re.compile(r"[-+]?\.(inf|Inf|INF)|\.(nan|NaN|NAN)")


def resolve_scalar(text: str) -> Scalar:
    """The value of an unquoted scalar: null, bool, int, float, or else the text itself.

    Raises ``ValueError`` for an integer of more than 40 characters.
    """
    if text in _NULL:
        return None
    if text in _TRUE or text in _FALSE:
        return text in _TRUE
    for pattern, base in _INTEGERS:
        if pattern.fullmatch(text):
            if len(text) > _MOST_DIGITS:
                raise ValueError(text)
            return int(text, base)
    if _FLOAT.fullmatch(text):
        return float(text)
    if _SPECIAL.fullmatch(text):
        return float(text.replace(".", ""))
    return text
