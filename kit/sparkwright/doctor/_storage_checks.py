"""Files that all machines must see, and what Spark keeps."""

from collections.abc import Iterator

from ._check import Check
from ._findings import CachedData, Findings
from ._grouping import Note, grouped


def file_checks(findings: Findings) -> Iterator[Check]:
    """One check for each URL that was asked about."""
    urls = dict.fromkeys(url for place in findings.places for url in place.files)
    for url in urls:
        notes = [(p, _file(p.files[url])) for p in findings.places if url in p.files]
        yield from grouped(f"Files {url}", notes, findings)


def cache_checks(findings: Findings) -> Iterator[Check]:
    """Storage levels of what is cached."""
    for data in findings.spark.cached if findings.spark else ():
        yield _cached(data).check("Cached data", data.name)


def _file(problem: str) -> Note:
    if not problem:
        return Note("ok", "written, and read by the others")
    return Note(
        "problem",
        problem,
        "Use storage that all machines see at one place (hdfs://…, s3://…, a shared mount), and "
        "check the rights of the user that executors run as.",
    )


def _cached(data: CachedData) -> Note:
    share = f"{data.level}, {data.cached} of {data.partitions} partitions kept"
    if data.uses_off_heap:
        return Note(
            "warning",
            share,
            "Memory outside the heap is what TensorFlow needs: use MEMORY_AND_DISK.",
        )
    if data.cached < data.partitions and not data.uses_disk:
        return Note(
            "warning",
            share,
            "What has no room is computed again each time: use MEMORY_AND_DISK or DISK_ONLY, or "
            "export the data.",
        )
    # Spark sees Python's data as bytes and knows their size at every level.
    return Note("ok", share)
