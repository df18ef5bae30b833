"""The process between hosts of one machine: it holds their networks and passes frames on.

    python -m tests.support.switch

It reads lines of JSON from its standard input and answers each with one. The first describes the
hosts, later ones set rules of links. At the end of the input, which also comes when the owner is
killed, it ends, and with it the interfaces and, once nobody is in them, the hosts.
"""

import heapq
import itertools
import json
import os
import random
import select
import signal
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import NamedTuple

from tests.support.interfaces import enter, enter_new_host, open_namespaces, open_tap

_FRAMES_A_TURN = 64
_BROADCAST = b"\xff" * 6
# Bytes that may wait for a slow link; what comes on top is lost, as in a router.
_QUEUE_BYTES = 8 << 20


@dataclass(frozen=True, kw_only=True, slots=True)
class LinkRule:
    """One direction of a link between two hosts.

    Attributes:
        delay_s: how long each frame takes, in seconds; default 0.
        loss: the share of frames that is lost, by chance, in [0, 1]; default 0.
        bytes_per_s: what the link carries a second; default None: as much as comes.
        cut: whether nothing arrives any more, and nobody is told; default False.
    """

    delay_s: float = 0.0
    loss: float = 0.0
    bytes_per_s: float | None = None
    cut: bool = False


_FAULTLESS = LinkRule()


class Link:
    """One direction of a link, with its queue; the rule is for frames from now on."""

    def __init__(self, rule=_FAULTLESS, *, seed=0):
        """Begin with `rule` (default: a link without faults); `seed` decides what is lost."""
        self.rule = rule
        self._chance = random.Random(seed)
        self._busy_until_s = 0.0

    def arrival_s(self, size_bytes, now_s):
        """When a frame that is sent at `now_s` arrives, or None if it is lost."""
        rule = self.rule
        if rule.cut or (rule.loss and self._chance.random() < rule.loss):
            return None
        if rule.bytes_per_s is None:
            return now_s + rule.delay_s
        begins_s = max(now_s, self._busy_until_s)
        if (begins_s - now_s) * rule.bytes_per_s > _QUEUE_BYTES:
            return None
        self._busy_until_s = begins_s + size_bytes / rule.bytes_per_s
        return self._busy_until_s + rule.delay_s


class _Port(NamedTuple):
    """An interface of a host, as the switch sees it."""

    host: str
    network: int
    tap: int


class Switch:
    """Frames from ports to ports, by the rules of the links between their hosts."""

    def __init__(self, description):
        """Make the hosts.

        Args:
            description: "mtu", "seed" and "hosts", each with "name", "outside" (whether it is the
                owner's own network) and "interfaces" ("name", "network", "mac", "address",
                "mask").
        """
        self._mtu, self._seed = int(description["mtu"]), int(description["seed"])
        self.namespaces = {}
        self._ports = {}
        self._by_mac = {}
        self._links = {}
        self._waiting = []
        self._number = itertools.count()
        # "sender>receiver@network" -> [bytes of frames that arrive, frames lost]
        self._traffic = defaultdict(lambda: [0, 0])
        outside = open_namespaces()
        for host in description["hosts"]:
            name = host["name"]
            if not host["outside"]:
                self.namespaces[name] = enter_new_host(name)
            for interface in host["interfaces"]:
                self._add_port(name, interface)
            enter(outside)
        for descriptor in outside:
            os.close(descriptor)

    def run(self):
        """Pass frames on until the standard input ends."""
        poll = select.epoll()
        stdin = sys.stdin.fileno()
        os.set_blocking(stdin, False)
        poll.register(stdin, select.EPOLLIN)
        for tap in self._ports:
            poll.register(tap, select.EPOLLIN)
        pending = b""
        while True:
            for descriptor, _ in poll.poll(self._pause_s()):
                if descriptor != stdin:
                    self._take(self._ports[descriptor])
                    continue
                got = os.read(stdin, 65536)
                if not got:
                    return
                *lines, pending = (pending + got).split(b"\n")
                for line in lines:
                    _answer(self._command(json.loads(line)))
            self._deliver(time.monotonic())

    def _add_port(self, host, interface):
        mac = bytes.fromhex(interface["mac"])
        tap = open_tap(
            interface["name"],
            mac=mac,
            address=interface["address"],
            mask=interface["mask"],
            mtu=self._mtu,
        )
        port = _Port(host, int(interface["network"]), tap)
        self._ports[tap] = self._by_mac[mac] = port

    def _command(self, order):
        if order["what"] == "traffic":
            return dict(self._traffic)
        for sender, receiver, network in order["links"]:
            self._link(sender, receiver, int(network)).rule = LinkRule(**order["rule"])
        return {}

    def _link(self, sender, receiver, network):
        key = (sender, receiver, network)
        link = self._links.get(key)
        if link is None:
            # A seed for each, so that what is lost here does not depend on what others send.
            link = self._links[key] = Link(seed=f"{self._seed} {key}")
        return link

    def _take(self, port):
        for _ in range(_FRAMES_A_TURN):
            try:
                frame = os.read(port.tap, 1 << 17)
            except BlockingIOError:
                return
            receiver = self._by_mac.get(frame[:6])
            if receiver is not None:
                self._pass(port, receiver, frame)
            elif frame[:6] == _BROADCAST:
                for other in self._ports.values():
                    self._pass(port, other, frame)

    def _pass(self, sender, receiver, frame):
        if sender is receiver or sender.network != receiver.network:
            return
        now_s = time.monotonic()
        link = self._link(sender.host, receiver.host, sender.network)
        arrival_s = link.arrival_s(len(frame), now_s)
        traffic = self._traffic[f"{sender.host}>{receiver.host}@{sender.network}"]
        if arrival_s is None:
            traffic[1] += 1
            return
        traffic[0] += len(frame)
        if arrival_s <= now_s:
            _write(receiver.tap, frame)
        else:
            waiting = (arrival_s, next(self._number), receiver.tap, frame)
            heapq.heappush(self._waiting, waiting)

    def _deliver(self, now_s):
        while self._waiting and self._waiting[0][0] <= now_s:
            _, _, tap, frame = heapq.heappop(self._waiting)
            _write(tap, frame)

    def _pause_s(self):
        if not self._waiting:
            return None
        return max(0.0, self._waiting[0][0] - time.monotonic())


def _write(tap, frame):
    try:
        os.write(tap, frame)
    except OSError:
        return  # its queue is full, or it is down: lost, as on a wire


def _answer(fields):
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def main():
    """Make the hosts that the first line describes, and pass frames on."""
    # Ctrl-C in a terminal is for the owner, whose network must hold to the last.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    line = b""
    # The owner says nothing more before this is answered.
    while not line.endswith(b"\n"):
        got = os.read(sys.stdin.fileno(), 65536)
        if not got:
            return
        line += got
    try:
        switch = Switch(json.loads(line))
    except OSError as error:
        _answer({"error": str(error)})
        return
    _answer({"namespaces": switch.namespaces})
    switch.run()


if __name__ == "__main__":
    main()
