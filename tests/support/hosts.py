"""Several hosts on one machine: networks of their own, with a switch between them that can fail."""

import contextlib
import ipaddress
import itertools
import json
import os
import random
import select
import shutil
import subprocess
import sys
import threading
from concurrent.futures import Future
from dataclasses import asdict
from pathlib import Path
from typing import NamedTuple

from tests.support.interfaces import enter
from tests.support.sandbox import Sandbox
from tests.support.switch import LinkRule

from sparkwright.errors import ConfigurationError, NetworkError, RunTimeoutError

_ANSWER_TIMEOUT_S = 20.0
# 198.18.0.0/15 is set aside for tests of networks (RFC 2544): no real host is hidden by it.
_BLOCKS = [ipaddress.ip_network("198.18.0.0/16"), ipaddress.ip_network("198.19.0.0/16")]
_NAMESPACES = ("net", "uts")
_CALL_TIMEOUT_S = 120.0
OUTSIDE = "outside"


def why_no_hosts():
    """Why this machine cannot play several hosts; empty if it can."""
    if sys.platform != "linux":
        return f"hosts of their own need Linux's network namespaces; this is {sys.platform}"
    if os.geteuid() != 0:
        return "hosts of their own need root, for network namespaces"
    if not os.access("/dev/net/tun", os.R_OK | os.W_OK):
        return "hosts of their own need /dev/net/tun, which this machine does not have"
    if shutil.which("nsenter") is None:
        return "hosts of their own need the command nsenter, of util-linux"
    tried = subprocess.run(
        # By path: it imports nothing of the engine, which costs more than the trial.
        [sys.executable, "-I", str(Path(__file__).with_name("interfaces.py"))],
        capture_output=True,
        text=True,
        timeout=_ANSWER_TIMEOUT_S,
    )
    return f"hosts of their own cannot be made: {tried.stderr.strip()}" if tried.returncode else ""


class Traffic(NamedTuple):
    """What went one way between two hosts, Ethernet's heads included, and what a rule lost."""

    carried_bytes: int
    lost_frames: int


class Hosts(Sandbox):
    """Hosts of one machine, each with addresses and a name of its own, on common networks.

    A host is a network namespace of Linux: processes in it share this machine's files, cores and
    clock, and reach others only through a switch. The switch is a process that can delay, lose and
    cut off frames, in each direction by itself. This process's own network takes part under the
    name "outside". All ends with this process, however it ends. It needs root, see `why_no_hosts`.

    Example:
        with Hosts(["one", "two"]) as hosts:
            hosts.link("one", "two", delay_s=0.02)
            subprocess.run(hosts.command("one", ["ping", "-c1", hosts.address("two")]))
    """

    def __init__(self, names, *, networks=None, mtu=9000, seed=0):
        """Describe them; `start` or `with` makes them.

        `networks` says which of the networks 0 and 1 a host is in, else 0; the interface of network
        0 is eth0. `seed` decides which frames are lost.
        """
        super().__init__("hosts")
        self.names = [OUTSIDE, *names]
        self._networks = {name: [0] for name in self.names} | {
            name: sorted(set(chosen)) for name, chosen in (networks or {}).items()
        }
        self._mtu, self._seed = mtu, seed
        self._subnets = []
        self._switch = None
        self._namespaces = {}

    # -- what is where --------------------------------------------------------------------------

    def address(self, name, *, network=None):
        """A host's IPv4 address, in network 0 or 1; default: the first that it is in."""
        chosen = self._networks[name][0] if network is None else network
        return str(self._subnets[chosen][self.names.index(name) + 1])

    def mask(self, network=0):
        """A network, as `MeshConfig(network_mask=…)` takes it."""
        return str(self._subnets[network])

    def command(self, name, arguments):
        """The command that runs `arguments` in a host."""
        if name == OUTSIDE:
            return list(arguments)
        switch = self._started(self._switch)
        descriptors = zip(_NAMESPACES, self._namespaces[name], strict=True)
        folder = f"/proc/{switch.pid}/fd"
        spaces = [f"--{kind}={folder}/{number}" for kind, number in descriptors]
        return ["nsenter", *spaces, "--", *arguments]

    def call(self, name, function):
        """Run `function` in a host, on a thread of its own, and return what it returns.

        Sockets that it opens stay the host's, wherever they are used afterwards, and so do threads
        that it starts.
        """
        result = Future()

        def run():
            try:
                if name != OUTSIDE:
                    self._enter(name)
                result.set_result(function())
            except BaseException as error:
                result.set_exception(error)

        threading.Thread(target=run, name=f"host-{name}", daemon=True).start()
        return result.result(_CALL_TIMEOUT_S)

    def server(self, name):
        """A process yet to be started, which ends with the hosts; its log is in `folder`."""
        return self._add_server(name, self._started(self._keeper))

    # -- faults ---------------------------------------------------------------------------------

    def link(self, sender, receiver, *, both_ways=True, network=None, **rule):
        """Say what happens to frames from a host to another, from now on.

        `rule` has fields of `LinkRule`; those left out take their defaults, so that no field at all
        mends the link. A rule of the other direction is left as it is unless `both_ways`.
        """
        pairs = [(sender, receiver), (receiver, sender)][: 1 + both_ways]
        self._set_rule(pairs, network, LinkRule(**rule))

    def links(self, **rule):
        """The same for all links in both directions; without a field it mends all."""
        self._set_rule(list(itertools.permutations(self.names, 2)), None, LinkRule(**rule))

    def cut_off(self, name):
        """Let nothing through from and to a host; nobody is told, as if its cable were pulled."""
        self._with_all(name, LinkRule(cut=True))

    def reconnect(self, name):
        """Let everything through again from and to a host, without any fault."""
        self._with_all(name, LinkRule())

    def traffic(self, sender, receiver, *, network=0):
        """What went from a host to another over a network so far."""
        counts = self._ask({"what": "traffic"}).get(f"{sender}>{receiver}@{network}", [0, 0])
        return Traffic(*counts)

    def _enter(self, name):
        folder = f"/proc/{self._started(self._switch).pid}/fd"
        handles = [os.open(f"{folder}/{n}", os.O_RDONLY) for n in self._namespaces[name]]
        try:
            enter((handles[0], handles[1]))
        finally:
            for handle in handles:
                os.close(handle)

    def _with_all(self, name, rule):
        others = [other for other in self.names if other != name]
        pairs = [pair for other in others for pair in ((name, other), (other, name))]
        self._set_rule(pairs, None, rule)

    def _set_rule(self, pairs, network, rule):
        if unknown := {name for pair in pairs for name in pair} - set(self.names):
            raise ConfigurationError(
                f"links are between hosts that there are. Received: {sorted(unknown)}; there are "
                f"{self.names}."
            )
        networks = (0, 1) if network is None else (network,)
        links = [(*pair, number) for pair in pairs for number in networks]
        self._ask({"what": "rule", "links": links, "rule": asdict(rule)})

    # -- the switch -----------------------------------------------------------------------------

    def _prepare(self):
        if problem := why_no_hosts():
            raise ConfigurationError(f"{problem}. Received: hosts {self.names[1:]}.")
        self._subnets = _free_subnets()

    def _start(self, keeper):
        with (self.folder / "switch.log").open("wb") as log:
            self._switch = subprocess.Popen(
                [sys.executable, "-m", "tests.support.switch"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=Path(__file__).parents[2],
                start_new_session=True,
            )
        keeper.take(self._switch.pid)
        self._namespaces = self._ask(self._description())["namespaces"]

    def _end(self, keeper):
        switch, self._switch = self._switch, None
        if switch is not None:
            switch.kill()
            switch.communicate()
            keeper.release(switch.pid)

    def _description(self):
        return {
            "mtu": self._mtu,
            "seed": self._seed,
            "hosts": [
                {
                    "name": name,
                    "outside": name == OUTSIDE,
                    "interfaces": [
                        self._interface(name, network) for network in self._networks[name]
                    ],
                }
                for name in self.names
            ],
        }

    def _interface(self, name, network):
        subnet, number = self._subnets[network], self.names.index(name) + 1
        # A machine may play several such sets of hosts at a time: its own interfaces differ.
        block = int(subnet.network_address) >> 8 & 0xFF
        return {
            "name": f"sw{block}n{network}" if name == OUTSIDE else f"eth{network}",
            "network": network,
            "mac": bytes([2, 0x53, 0x57, block, network, number]).hex(),
            "address": str(subnet[number]),
            "mask": str(subnet.netmask),
        }

    def _ask(self, order):
        switch = self._started(self._switch)
        assert switch.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            switch.stdin.write(json.dumps(order).encode() + b"\n")
            switch.stdin.flush()
        if not select.select([switch.stdout], [], [], _ANSWER_TIMEOUT_S)[0]:
            raise RunTimeoutError(
                f"the hosts waited {_ANSWER_TIMEOUT_S:g} s for their switch to answer. Its log: "
                f"{self.folder / 'switch.log'}"
            )
        answer = json.loads(switch.stdout.readline() or b"{}")
        if "error" in answer or switch.poll() is not None:
            log = (self.folder / "switch.log").read_text(errors="replace")[-2000:]
            raise NetworkError(f"the switch ended: {answer.get('error', log)}")
        return answer


def _free_subnets():
    """One network in each block, of 254 addresses, that this machine is not in."""
    import psutil

    taken = {
        entry.address
        for entries in psutil.net_if_addrs().values()
        for entry in entries
        if entry.family.name == "AF_INET"
    }
    for number in random.sample(range(256), 256):
        chosen = [
            ipaddress.IPv4Network((int(block.network_address) + (number << 8), 24))
            for block in _BLOCKS
        ]
        if not any(ipaddress.ip_address(a) in subnet for a in taken for subnet in chosen):
            return chosen
    raise NetworkError("No network of 198.18.0.0/15 is free. End other tests with hosts first.")
