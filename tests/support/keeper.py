"""A process that ends others, and removes their folder, when its owner is no more.

    python keeper.py FOLDER

It reads lines from its standard input: "+PID" takes a process over, "-PID" lets it go. At "end" or
the end of the input, which also comes when the owner is killed, all are killed with their groups,
as are, on Linux, processes that work in the folder, and the folder is removed. Run by path: it
imports nothing of the engine.
"""

import contextlib
import os
import shutil
import signal
import sys
import time


def main():
    """Wait for the end of the input, then clean up."""
    # Ctrl-C in a terminal is for the owner, which may need its processes to the last.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kept = set()
    for line in sys.stdin:
        if line == "end\n":
            break
        sign, pid = line[0], int(line[1:])
        (kept.add if sign == "+" else kept.discard)(pid)
    for pid in kept:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
    # Containers of a NodeManager have groups of their own, and start processes that have as well.
    for _ in range(5):
        for pid in _working_in(sys.argv[1]):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
    # Files that a dying process still writes can come back while the folder is being removed.
    for _ in range(50):
        shutil.rmtree(sys.argv[1], ignore_errors=True)
        if not os.path.exists(sys.argv[1]):
            break
        time.sleep(0.1)


def _working_in(folder):
    """Processes whose working folder is `folder` or below it; none where there is no /proc."""
    found = []
    for name in os.listdir("/proc") if os.path.isdir("/proc") else ():
        with contextlib.suppress(OSError):
            if name.isdigit() and f"{os.readlink(f'/proc/{name}/cwd')}/".startswith(f"{folder}/"):
                found.append(int(name))
    return found


if __name__ == "__main__":
    main()
