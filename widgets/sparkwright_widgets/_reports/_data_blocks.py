"""Report blocks on the data of a run and its distribution over the workers. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from sparkwright_widgets._block import (
    Block,
    facts_block,
    joined,
    json_fold,
    sentence_block,
    table_block,
)
from sparkwright_widgets._format import (
    bytes_text,
    count_text,
    counted,
    number_text,
    percent_text,
    rate_text,
    shape_text,
    short_number,
)
from sparkwright_widgets._table import share_bar
from sparkwright_widgets._timeline_view import timeline_block

from ._facts import RunFacts

_MOST_CLASSES = 40
_MOST_PARTITIONS = 64
_HASH_SAYS = "The hash changes with the data source."

Overviews = Mapping[str, Mapping[str, Any]]


def data_blocks(facts: RunFacts, overviews: Overviews) -> list[Block]:
    """Return blocks on sets, arrays, classes and partitions; overviews override recorded facts."""
    noted: Any = facts.configuration.get("data") or {}
    sets: dict[str, Mapping[str, Any]] = {**noted}
    for name, overview in overviews.items():
        sets[name] = {**sets.get(name, {}), **overview}
    # An additional name may be a known set, such as the validation data as "test". Do not add it.
    adds_up = not noted or overviews.keys() <= noted.keys()
    blocks = [
        *([_sets_block(sets, adds_up=adds_up)] if sets else []),
        *_columns_blocks(sets),
        *_classes_blocks(sets),
        *([_partitions_block(facts.plan)] if facts.plan else []),
    ]
    if not blocks:
        return [sentence_block("The run recorded no facts about its data.", kind="data")]
    return blocks


def _sets_block(sets: Mapping[str, Mapping[str, Any]], *, adds_up: bool) -> Block:
    total = sum(found.get("rows") or 0 for found in sets.values())
    rows: list[list[object]] = []
    for name, found in sets.items():
        count, size = found.get("rows"), found.get("size_bytes")
        partitions = found.get("partitions")
        many = len(partitions) if isinstance(partitions, list) else partitions
        rows.append(
            [
                name,
                "not counted" if count is None else count_text(count),
                "—" if count is None or not total or not adds_up else percent_text(count / total),
                "—" if size is None else bytes_text(size),
                "—" if not many else count_text(many),
                _short(found.get("fingerprint")),
                count_text(found.get("skipped", 0)),
            ]
        )
    heads = ["Set", "Examples", "Share", "Size", "Partitions", "Hash", "Skipped"]
    # Omit empty columns.
    kept = [k for k in range(len(heads)) if k < 2 or any(row[k] not in ("—", "0") for row in rows)]
    hash_says = f" {_HASH_SAYS}" if 5 in kept else ""
    words = f"The data sets: {', '.join(sets)}"
    if total and adds_up:
        words = f"{count_text(total)} examples in {' and '.join(sets)}"
    block = table_block(
        [heads[k] for k in kept],
        [[row[k] for k in kept] for row in rows],
        caption=f"{words}. Sizes are those of the arrays, uncompressed.{hash_says}",
        label="Data sets",
        kind="data",
        text_columns=[place for place, k in enumerate(kept) if k == 5],
    )
    schema = next((found["schema"] for found in sets.values() if found.get("schema")), None)
    if schema is None:
        return block
    folded = json_fold("Schema of the source table as JSON", schema)
    return joined("data", block, folded)


def _columns_blocks(sets: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    columns: Any = next((found["columns"] for found in sets.values() if found.get("columns")), None)
    if not columns:
        return []
    rows = [
        [name, each["dtype"], shape_text([n or None for n in each["shape"]])]
        for name, each in columns.items()
    ]
    return [
        table_block(
            ["Array", "Type", "Shape of an example"],
            rows,
            caption="The arrays of the data.",
            label="Arrays",
            kind="columns",
            text_columns=(1, 2),
        )
    ]


def _classes_blocks(sets: Mapping[str, Mapping[str, Any]]) -> list[Block]:
    outputs = {name for found in sets.values() for name in found.get("classes") or {}}
    blocks: list[Block] = []
    for output in sorted(outputs):
        counts: dict[str, Mapping[str, int]] = {
            name: found["classes"][output]
            for name, found in sets.items()
            if output in (found.get("classes") or {})
        }
        blocks.append(_balance(output, counts))
    return blocks


def _balance(output: str, counts: Mapping[str, Mapping[str, int]]) -> Block:
    titles = list(dict.fromkeys(title for each in counts.values() for title in each))
    totals = {name: sum(each.values()) for name, each in counts.items()}
    first = next(iter(counts))
    heads = ["Class", *(f"{name}: examples" for name in counts), "Share", f"Balance in {first}"]
    largest = max(counts[first].values(), default=0)
    rows: list[list[object]] = []
    for title in titles[:_MOST_CLASSES]:
        count = counts[first].get(title, 0)
        rows.append(
            [
                title,
                *(count_text(each.get(title, 0)) for each in counts.values()),
                percent_text(count / totals[first]) if totals[first] else "—",
                share_bar(count, largest),
            ]
        )
    more = len(titles) - _MOST_CLASSES
    known = [count for count in counts[first].values() if count]
    ratio = (
        f"; the largest is {short_number(max(known) / min(known), 3)} times the smallest"
        if known
        else ""
    )
    if known and min(known) == max(known):
        ratio = f", each with {count_text(known[0])} examples in {first}"
    caption = f"{count_text(len(titles))} classes of “{output}”{ratio}."
    if more > 0:
        caption += f" {count_text(more)} more classes are not shown."
    last = len(heads) - 1
    return table_block(
        heads, rows, caption=caption, label=f"Classes of {output}", kind="classes",
        drawn_columns=(last,),
    )  # fmt: skip


def _partitions_block(plan: Mapping[str, Any]) -> Block:
    before: Sequence[int] = plan.get("source_counts") or ()
    after: Sequence[int] = plan.get("target_counts") or ()
    largest = max([*before, *after, 1])
    count = max(len(before), len(after))
    rows: list[list[object]] = [
        [
            number,
            *(_cell(counts, number) for counts in (before, after)),
            share_bar(after[number] if number < len(after) else 0, largest),
        ]
        for number in range(min(count, _MOST_PARTITIONS))
    ]
    table = table_block(
        ["Partition", "Before", "After", "After, as a bar"],
        rows,
        label="Partitions before and after",
        drawn_columns=(3,),
    )
    pairs: list[tuple[str, object]] = [
        ("Repartition", str(plan.get("mode", "—")).replace("_", " ")),
        ("Strategy", str(plan.get("strategy", "—")).replace("_", " ")),
        ("Action", str(plan.get("action", "—"))),
        ("Examples moved", count_text(plan.get("rows_moved", 0))),
        ("Skew before", number_text(plan.get("skew_before", 1.0))),
        ("Skew after", number_text(plan.get("skew_after", 1.0))),
        ("Worker idle time", percent_text(plan.get("idle_fraction"))),
    ]
    left = count - _MOST_PARTITIONS
    more = f" {count_text(left)} more are not shown." if left > 0 else ""
    caption = (
        f"The training data had {counted(len(before), 'partition')} and was trained in "
        f"{count_text(len(after))}, one per worker. Skew is the largest partition over the mean."
        f"{more}"
    )
    facts = facts_block(pairs, label="Repartition")
    return joined("partitions", sentence_block(caption), facts, table)


def _cell(counts: Sequence[int], number: int) -> str:
    return count_text(counts[number]) if number < len(counts) else "—"


def _short(fingerprint: Any) -> str:
    return "—" if not fingerprint else f"{str(fingerprint)[:16]}…"


def distribution_blocks(facts: RunFacts) -> list[Block]:
    """Return a table of the workers, and the timeline if their phases were collected."""
    blocks = [_workers_block(facts)] if facts.status.workers else []
    if facts.timeline is not None and facts.timeline.tallies.count[1:].any():
        return [*blocks, timeline_block(facts.timeline)]
    sentence = (
        "The phases of the workers were not collected. A training master with "
        "collect_training_stats=True measures them."
    )
    return [*blocks, sentence_block(sentence, kind="phases")]


def _workers_block(facts: RunFacts) -> Block:
    workers, rows = facts.status.workers, facts.rows
    sends = any(worker.sent_bytes for worker in workers)
    heads = ["Worker", "Host", "Rows", "Minibatches", "Examples/s, median", "Last loss", "Restarts"]
    table: list[list[object]] = []
    for worker in workers:
        mine = rows["worker"] == worker.worker
        rate = rows["examples_per_s"][mine]
        known = rate[np.isfinite(rate) & (rate > 0)]
        table.append(
            [
                worker.worker,
                worker.host or "—",
                count_text(worker.rows),
                count_text(worker.steps),
                # The median, because the first minibatches include compilation.
                rate_text(float(np.median(known)) if len(known) else float("nan")),
                number_text(worker.loss),
                count_text(worker.restarts),
                *([bytes_text(worker.sent_bytes)] if sends else []),
            ]
        )
    return table_block(
        [*heads, *(["Sent"] if sends else [])],
        table,
        caption=_workers_caption(facts),
        label="Workers",
        kind="workers",
        text_columns=(1,),
    )


def _workers_caption(facts: RunFacts) -> str:
    workers = facts.status.workers
    rows = [worker.rows for worker in workers]
    restarts = sum(worker.restarts for worker in workers)
    mean = sum(rows) / len(rows)
    skew = f"; the largest partition has {max(rows) / mean:.2f} times the mean" if mean else ""
    again = f"{counted(restarts, 'restart')} of workers" if restarts else "no worker was restarted"
    return (
        f"{counted(len(workers), 'worker')} trained {rate_text(facts.status.examples_per_s)} "
        f"examples per second in total{skew}; {again}."
    )
