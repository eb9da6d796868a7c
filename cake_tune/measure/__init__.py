"""Choosing, not just timing: visits, the race between plans, the tie band, confirmation."""
