"""A driver that is killed: trains with checkpoints until then.

python driver.py MASTER JOINING FOLDER
"""

import sys
from pathlib import Path

from tests.chaos import counting
from tests.chaos.experiments import Experiment
from tests.chaos.laboratory import Laboratory

import sparkwright as sw

if __name__ == "__main__":
    sw.spark.send_by_value(counting)
    name, joining, folder = sys.argv[1:]
    laboratory = Laboratory(
        lambda settings: sw.start_spark(workers=counting.WORKERS, settings=settings),
        Path(folder).parent,
        executors=counting.WORKERS,
    )
    chosen = Experiment(master=name, victim="driver", joining=int(joining))
    laboratory.start(chosen).run.wait()
