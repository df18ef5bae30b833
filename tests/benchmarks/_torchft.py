"""What torchft's LocalSGD does: LeNet, two processes of one thread, averaged every 5 minibatches.

    python tests/benchmarks/_torchft.py digits.npz      prints examples a second of both

For a Python that has torch and torchft, and need not have anything else of ours; the arrays are in
the file.
"""

import os
import subprocess
import sys
import time

import numpy as np

BATCH, EPOCHS, WORKERS, EVERY = 32, 4, 2, 5


def main(path):
    """Start the processes, and add up what they say."""
    from torchft.coordination import LighthouseServer

    lighthouse = LighthouseServer("127.0.0.1:0", WORKERS, join_timeout_ms=60_000)
    command = [sys.executable, __file__, path, lighthouse.address()]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    started = [
        subprocess.Popen([*command, str(rank)], stdout=subprocess.PIPE, env=environment)
        for rank in range(WORKERS)
    ]
    rates = [float(each.communicate()[0].split()[-1]) for each in started]
    lighthouse.shutdown()
    print(sum(rates))


def work(path, lighthouse, rank):
    """Train every second example, and print examples a second from the second epoch on."""
    import torch
    from torch.distributed import TCPStore
    from torchft import Manager, ProcessGroupGloo
    from torchft.local_sgd import LocalSGD

    torch.set_num_threads(1)
    torch.manual_seed(1)
    model = _lenet(torch.nn)
    optimizer = torch.optim.Adam(model.parameters(), 1e-3)
    loss_of = torch.nn.CrossEntropyLoss()
    arrays = np.load(path)
    images = torch.from_numpy(np.moveaxis(arrays["images"], -1, 1)[rank::WORKERS].copy())
    labels = torch.from_numpy(arrays["labels"][rank::WORKERS].astype(np.int64))
    store = TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)
    manager = Manager(
        pg=ProcessGroupGloo(),
        load_state_dict=model.load_state_dict,
        state_dict=model.state_dict,
        min_replica_size=WORKERS,
        use_async_quorum=False,
        rank=0,
        world_size=1,
        store_addr="127.0.0.1",
        store_port=store.port,
        lighthouse_addr=lighthouse,
        replica_id=f"worker-{rank}",
        hostname="127.0.0.1",
    )
    minibatches = len(images) // BATCH
    ends = []
    with LocalSGD(manager, model, optimizer, sync_every=EVERY):
        for _ in range(EPOCHS):
            order = torch.randperm(len(images))
            for start in range(0, minibatches * BATCH, BATCH):
                rows = order[start : start + BATCH]
                optimizer.zero_grad()
                loss_of(model(images[rows]), labels[rows]).backward()
                optimizer.step()
            ends.append(time.perf_counter())
    print(minibatches * BATCH * (EPOCHS - 1) / (ends[-1] - ends[0]), flush=True)
    manager.shutdown(wait=False)
    os._exit(0)  # its threads would keep the process


def _lenet(nn):
    """The network of `sw.networks.lenet()`."""
    return nn.Sequential(
        nn.Conv2d(1, 20, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(20, 50, 5),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Flatten(),
        nn.Linear(800, 500),
        nn.ReLU(),
        nn.Linear(500, 10),
    )


if __name__ == "__main__":
    if len(sys.argv) == 2:
        main(sys.argv[1])
    else:
        work(sys.argv[1], sys.argv[2], int(sys.argv[3]))
