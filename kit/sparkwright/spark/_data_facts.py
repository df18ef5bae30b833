"""What is noted of the data of a run: as far as it is known without a Spark job."""

from typing import Any

from sparkwright.data import DistributedDataSet
from sparkwright.partitions import RepartitionPlan


def data_facts(
    plan: RepartitionPlan, data: DistributedDataSet, validation: DistributedDataSet | None
) -> dict[str, Any]:
    """JSON-able: `data` by set (rows, partitions, fingerprint, …) and the plan as `partitions`.

    Args:
        plan: of the training data; it has been counted.
        data: what is trained on.
        validation: data for the loss after each epoch; None: none.
    """
    sets = {"train": data} | ({} if validation is None else {"validation": validation})
    return {
        "partitions": plan.to_dict(),
        "data": {name: _facts(each) for name, each in sets.items()},
    }


def _facts(data: DistributedDataSet) -> dict[str, Any]:
    skipped = data.skipped_so_far().total
    return {
        "rows": data.count() if data.is_counted else None,
        "partitions": data.rdd.getNumPartitions(),
        "fingerprint": data.fingerprint,
        **({"skipped": skipped} if skipped else {}),
        **(
            {"class_names": {name: list(names) for name, names in data.class_names.items()}}
            if data.class_names
            else {}
        ),
        **({"schema": data.schema.to_dict()} if data.schema is not None else {}),
    }
