"""`make hdfs`: a small HDFS in the foreground, until Ctrl-C."""

import argparse
import signal
import sys
import threading

from tests.support.hdfs import HdfsCluster

from sparkwright.errors import SparkwrightError

_EXAMPLE = """\
HDFS runs.

    URL            {url}
    its state      {web_url}/jmx
    WebHDFS        {web_url}/webhdfs/v1/?op=LISTSTATUS
    settings       {settings}   (for HADOOP_CONF_DIR)
    logs           {logs}

In Python or a notebook:

    import sparkwright as sw
    sw.save_model(network, "{url}/models/lenet.keras")
    model = sw.load_model("{url}/models/lenet.keras")
    spark.read.csv("{url}/data.csv")

Ctrl-C ends it and removes what is in it.
"""


def main(arguments=None):
    """Start it, say where it is, wait for Ctrl-C or a signal to end; returns the exit status."""
    parser = argparse.ArgumentParser(prog="make hdfs ARGS=…", description=__doc__)
    parser.add_argument("--datanodes", type=int, default=2, help="how many (default 2)")
    parser.add_argument("--replication", type=int, default=2, help="copies (default 2)")
    options = parser.parse_args(arguments)
    ended = threading.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: ended.set())
    print("Starting a NameNode and DataNodes: about 10 seconds.", flush=True)
    try:
        with HdfsCluster(datanodes=options.datanodes, replication=options.replication) as hdfs:
            texts = {"url": hdfs.url, "web_url": hdfs.web_url, "logs": hdfs.logs}
            print(_EXAMPLE.format(settings=hdfs.configuration_folder, **texts), flush=True)
            ended.wait()
    except (SparkwrightError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print("HDFS has ended.")
    return 0


if __name__ == "__main__":
    sys.exit(main())
