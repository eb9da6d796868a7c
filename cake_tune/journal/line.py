"""One journal line: the record's JSON, a tab, the CRC-32 of that JSON in eight hex digits, a line feed.

JSON escapes tabs and line feeds inside strings, so both separators are unambiguous. Every record starts with the same
bytes, which no JSON string can contain unescaped: a line whose end was damaged can be told from the one behind it.
"""

import zlib

from cake_tune.journal.codec import VERSION

START = b'{"v":%d,"key":"' % VERSION
_DIGITS = 8


def frame(text: str) -> bytes:
    """``text`` (one record's JSON) as the bytes of a journal line."""
    body = text.encode("ascii")
    return b"%s\t%08x\n" % (body, zlib.crc32(body))


def intact_bodies(line: bytes) -> list[tuple[bytes, int]]:
    """The records inside ``line`` whose checksum holds, each with the offset just behind its checksum.

    A healthy line holds one; a torn or damaged one holds none; two lines whose line feed was damaged hold two.
    """
    found = []
    start = line.find(START)
    while start >= 0:
        following = line.find(START, start + 1)
        segment = line[start : following if following >= 0 else len(line)]
        body, tab, tail = segment.rpartition(b"\t")
        if tab and tail[:_DIGITS] == b"%08x" % zlib.crc32(body):
            found.append((body, start + len(body) + 1 + _DIGITS))
        start = following
    return found


def is_clean(line: bytes) -> bool:
    """True if ``line`` is exactly one intact record with its line feed."""
    found = intact_bodies(line)
    return len(found) == 1 and line.startswith(START) and found[0][1] == len(line) - 1 and line.endswith(b"\n")


def key_of(body: bytes) -> bytes:
    """The key of a record's JSON, without parsing all of it."""
    return body[len(START) : body.index(b'"', len(START))]
