"""The distribution of examples over partitions, as a table with bars."""

from collections.abc import Sequence

from ._block import Block, joined, sentence_block, table_block
from ._format import count_text
from ._table import Markup


def partition_table(counts: Sequence[int], *, caption: str = "Examples in each partition") -> Block:
    """Show the distribution of examples over partitions: one bar each, and the skew.

    Args:
        counts: examples in each partition, in order.
        caption: what the table is about; default "Examples in each partition".

    Raises:
        ValueError: if `counts` is empty or holds a negative number.
    """
    counts = [int(count) for count in counts]
    if not counts or min(counts) < 0:
        raise ValueError(
            "`counts` must hold one number of examples per partition, none negative. "
            f"Received: counts={counts!r}."
        )
    total, largest = sum(counts), max(counts)
    rows = [
        [
            number,
            count_text(count),
            f"{count / total:.1%}" if total else "0.0%",
            share_bar(count, largest),
        ]
        for number, count in enumerate(counts)
    ]
    heads = ["Partition", "Examples", "Share", "Compared with the largest"]
    table = table_block(heads, rows, label=caption, caption=caption, drawn_columns=(3,))
    return joined("partitions", table, sentence_block(_verdict(counts)))


def _verdict(counts: Sequence[int]) -> str:
    total, mean = sum(counts), sum(counts) / len(counts)
    sentence = f"{count_text(total)} examples in {len(counts)} partitions"
    if total == 0:
        return f"{sentence}: all are empty."
    empty = sum(count == 0 for count in counts)
    idle = f"; {empty} empty, whose workers are idle" if empty else ""
    return f"{sentence}; the largest holds {max(counts) / mean:.2f} times the mean{idle}."


def share_bar(count: int, largest: int) -> Markup:
    """A bar as long as the share of the largest count."""
    width = 100 * count / largest if largest else 0
    return Markup(
        f'<span class="sparkwright-share" aria-hidden="true"><span style="width:{width:.1f}%">'
        "</span></span>"
    )
