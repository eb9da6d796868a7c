"""One journal line: the record's JSON, a tab, the CRC-32 of that JSON in eight hex digits, a line feed.

JSON escapes tabs and line feeds inside strings, so both separators are unambiguous. Every record, of whichever version,
starts with its version, in bytes that no JSON string can contain unescaped: a line whose end was damaged can be told
from the one behind it, and a line of another version from damage.
"""

import re
import zlib

from cake_tune.journal.codec import VERSION

_START = re.compile(rb'\{"v":[0-9]+,')
_KEY = re.compile(rb'\{"v":%d,"key":"([^"]*)"' % VERSION)
_DIGITS = 8


def frame(text: str) -> bytes:
    """``text`` (one record's JSON) as the bytes of a journal line."""
    body = text.encode("ascii")
    return b"%s\t%08x\n" % (body, zlib.crc32(body))


def intact_bodies(line: bytes) -> list[tuple[bytes, int]]:
    """The records of any version inside ``line`` whose checksum holds, each with the offset just behind its checksum.

    A healthy line holds one; a torn or damaged one holds none; two lines whose line feed was damaged hold two.
    """
    found = []
    start = _START.search(line)
    while start is not None:
        tab = line.find(b"\t", start.end())
        if tab < 0:
            break
        body, end = line[start.start() : tab], tab + 1 + _DIGITS
        if line[tab + 1 : end] == b"%08x" % zlib.crc32(body):
            found.append((body, end))
            start = _START.search(line, end)
        else:
            start = _START.search(line, start.end())
    return found


def is_clean(line: bytes) -> bool:
    """True if ``line`` is exactly one intact record with its line feed."""
    return _fills(line, intact_bodies(line))


def _fills(line: bytes, found: list[tuple[bytes, int]]) -> bool:
    return len(found) == 1 and found[0][1] == len(found[0][0]) + 1 + _DIGITS and line[found[0][1] :] == b"\n"


def fault_of(line: bytes, found: list[tuple[bytes, int]], place: str) -> str | None:
    """What to tell about ``line`` at ``place``, if something of it is lost; None for a clean one.

    ``found``: its ``intact_bodies``. A last line that only lost its line feed lost nothing.
    """
    if not line.endswith(b"\n"):
        torn = f"{place}: torn last line of {len(line)} bytes is passed over: its point has to be measured again"
        return None if found else torn
    if _fills(line, found):
        return None
    held = "no intact record" if not found else "1 intact record" if len(found) == 1 else f"{len(found)} intact records"
    return f"{place}: damaged line with {held}: what else it held has to be measured again"


def key_of(body: bytes) -> bytes:
    """The key of a record's JSON, without parsing all of it; all of it if it is of another version."""
    key = _KEY.match(body)
    return key[1] if key else body
