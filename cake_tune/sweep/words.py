"""How shapes and counts read in messages."""

from collections.abc import Mapping

from cake_tune.planner.shape import Shape

USUAL = Shape(1, 16, 64)
"""What is not said of a shape: the default page sizes, no lengths, no sink."""


def shape_text(shape: Shape) -> str:
    """``T=4 H=16 topk=512``, and everything else in which the shape is not the usual one."""
    extra = f"+{shape.extra_topk}" if shape.extra_topk else ""
    words = [f"T={shape.num_tokens} H={shape.num_heads} topk={shape.topk}{extra}"]
    if shape.page_size != USUAL.page_size:
        words.append(f"page_size={shape.page_size}")
    if shape.extra_topk and shape.extra_page_size != USUAL.extra_page_size:
        words.append(f"extra_page_size={shape.extra_page_size}")
    words += [name for name in ("lengths", "sink") if getattr(shape, name)]
    return " ".join(words)


def counted(number: int, thing: str) -> str:
    """``1 point``, ``2 points``."""
    return f"{number} {thing}{'' if number == 1 else 's'}"


def search_words(search: Mapping[str, float]) -> str:
    """Where an adaptive search ended (``RunInfo.search``): how much of the sweep it needed, and what it left."""
    needed = (
        f"adaptive search: {search['points']:.0f} of {search['listed_points']:.0f} points, "
        f"{search['pairs']:.0f} of {search['listed_pairs']:.0f} pairs of a point and a plan "
        f"({search['pairs'] / search['listed_pairs']:.1%})"
    )
    if "expected_regret" not in search:
        return f"{needed}; too few to say what a table loses"
    left = f"expected regret of a table of all of them {search['expected_regret']:.2%}, bound {search['bound']:.2%}"
    return f"{needed}; {left}"
