"""Values that options may have, and may not, for the tests of both training masters."""

from typing import Any

import hypothesis.strategies as st

from sparkwright.masters import Checkpointing, MeshConfig, NtpClock, SystemClock


class CountingHook:
    def pre_update(self, minibatch: Any, model: Any) -> None: ...

    def post_update(self, minibatch: Any, model: Any) -> None: ...


LEVELS = [
    f"{level}{copies}"
    for level in (
        "MEMORY_ONLY",
        "MEMORY_ONLY_SER",
        "MEMORY_AND_DISK",
        "MEMORY_AND_DISK_SER",
        "DISK_ONLY",
    )
    for copies in ("", "_2")
]
seconds = st.floats(1e-3, 1e9)
meshes = st.builds(
    MeshConfig,
    network_mask=st.sampled_from([None, "10.0.0.0/16", "192.168.1.7/24"]),
    controller_address=st.sampled_from([None, "driver.example"]),
    ports=st.sampled_from([None, 50_000, "50000", "50000-50100", "env:TRAINING_PORT"]),
    rendezvous_timeout_s=seconds,
    queue_timeout_s=seconds,
    connect_timeout_s=seconds,
    peer_timeout_s=st.floats(2, 1e6),
    replacement_timeout_s=st.none() | seconds,
    stall_timeout_s=seconds,
    replace_stalled=st.booleans(),
    mode=st.sampled_from(["plain", "mesh"]),
    max_downstreams=st.integers(1, 64),
    chunk_bytes=st.integers(1024, 2**20),
    max_pending_bytes=st.integers(2**20, 2**40),
    authenticate=st.none() | st.booleans(),
    encrypt=st.booleans(),
)
checkpointings = st.builds(
    Checkpointing,
    st.sampled_from(["/data/runs/7", "s3://bucket/runs 7", "memory://runs/ü"]),
    every_rounds=st.none() | st.integers(1, 10**6),
    every_s=st.none() | seconds,
    keep=st.integers(1, 100),
)
time_sources = st.just(SystemClock()) | st.builds(
    NtpClock,
    server=st.sampled_from(["pool.ntp.org", "10.0.0.1:1123"]),
    every_s=st.floats(30, 1e6),
    retries=st.integers(1, 100),
    timeout_s=seconds,
)
# The options that every training master has, except for those of the export: see `exports`.
COMMON_VALUES: dict[str, st.SearchStrategy[Any]] = {
    "workers": st.none() | st.integers(1, 100),
    "batch_size_per_worker": st.integers(1, 10_000),
    "prefetch_batches": st.integers(0, 100),
    "repartition": st.sampled_from(["always", "never", "num_partitions_workers_differs"]),
    "repartition_strategy": st.sampled_from(["balanced", "approximate_balanced", "spark_default"]),
    "storage_level": st.sampled_from([None, *LEVELS]),
    "storage_level_paths": st.sampled_from([None, *LEVELS]),
    "seed": st.none() | st.integers(0, 2**63),
    "shuffle": st.booleans(),
    "non_finite": st.sampled_from(["stop", "continue"]),
    "xla": st.sampled_from(["auto", "on", "off", "measure"]),
    "collect_training_stats": st.booleans(),
    "mesh": meshes,
    "checkpoint": st.none() | checkpointings,
    "time_source": st.none() | time_sources,
}
exports = st.sampled_from(
    [
        {},
        {"training_approach": "direct"},
        {"training_approach": "export"},
        {"training_approach": "export", "export_directory": "hdfs://name/exports"},
    ]
)
COMMON_DEFAULTS: dict[str, Any] = {
    "workers": None,
    "batch_size_per_worker": 16,
    "prefetch_batches": 2,
    "repartition": "always",
    "repartition_strategy": "balanced",
    "storage_level": "MEMORY_ONLY",
    "storage_level_paths": "MEMORY_ONLY",
    "training_approach": "direct",
    "export_directory": None,
    "seed": None,
    "shuffle": True,
    "non_finite": "stop",
    "xla": "auto",
    "collect_training_stats": False,
    "hooks": (),
    "mesh": MeshConfig(),
    "checkpoint": None,
    "time_source": None,
}
NOT_COUNTS = [0, -1, 1.0, "3", True]
NOT_FLAGS = [1, 0, "yes", None]
COMMON_REFUSED: dict[str, list[Any]] = {
    "workers": NOT_COUNTS,
    "batch_size_per_worker": [*NOT_COUNTS, None],
    "prefetch_batches": [-1, 1.0, "3", True, None],
    "repartition": ["sometimes", None, ["always"]],
    "repartition_strategy": ["Balanced", None],
    "storage_level": ["memory_only", "NONE", {}],
    "storage_level_paths": ["memory_only", 1],
    "training_approach": ["indirect", None],
    "export_directory": [5, b"/tmp"],
    "seed": [-1, 1.0, "3", True],
    "shuffle": NOT_FLAGS,
    "non_finite": ["raise", True],
    "xla": [True, None],
    "collect_training_stats": NOT_FLAGS,
    "hooks": [5, CountingHook()],
    "mesh": [None, {"ports": 5}, MeshConfig],
    "checkpoint": ["/data/runs/7", {"url": "/data/runs/7"}, 60, Checkpointing],
    "time_source": ["ntp", {"name": "ntp"}, 0.0, NtpClock],
}


def chosen_options(values: dict[str, st.SearchStrategy[Any]]) -> st.SearchStrategy[dict[str, Any]]:
    """Any of the options, with the export's."""
    chosen = st.fixed_dictionaries({}, optional=values)
    return st.tuples(chosen, exports).map(lambda pair: pair[0] | pair[1])
