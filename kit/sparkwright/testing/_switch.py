"""The process between hosts of one machine: it holds their networks and passes frames on.

    python -m sparkwright.testing._switch

It reads lines of JSON from its standard input and answers each with one. The first describes the
hosts, later ones set rules of links. At the end of the input, which also comes when the owner is
killed, it ends, and with it the interfaces and, once nobody is in them, the hosts.
"""

import heapq
import itertools
import json
import os
import select
import signal
import sys
import time
from collections import defaultdict
from typing import Any

from sparkwright.testing._interfaces import enter, enter_new_host, open_namespaces, open_tap
from sparkwright.testing._link import Link, LinkRule

_FRAMES_A_TURN = 64
_BROADCAST = b"\xff" * 6


class _Port:
    """An interface of a host, as the switch sees it."""

    def __init__(self, host: str, network: int, tap: int) -> None:
        self.host, self.network, self.tap = host, network, tap


class Switch:
    """Frames from ports to ports, by the rules of the links between their hosts."""

    def __init__(self, description: dict[str, Any]) -> None:
        """Make the hosts.

        Args:
            description: "mtu", "seed" and "hosts", each with "name", "outside" (whether it is the
                owner's own network) and "interfaces" ("name", "network", "mac", "address",
                "mask").
        """
        self._mtu, self._seed = int(description["mtu"]), int(description["seed"])
        self.namespaces: dict[str, tuple[int, int]] = {}
        self._ports: dict[int, _Port] = {}
        self._by_mac: dict[bytes, _Port] = {}
        self._links: dict[tuple[str, str, int], Link] = {}
        self._waiting: list[tuple[float, int, int, bytes]] = []
        self._number = itertools.count()
        # "sender>receiver@network" -> [bytes of frames that arrive, frames lost]
        self._traffic: defaultdict[str, list[int]] = defaultdict(lambda: [0, 0])
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

    def run(self) -> None:
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

    def _add_port(self, host: str, interface: dict[str, Any]) -> None:
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

    def _command(self, order: dict[str, Any]) -> dict[str, Any]:
        if order["what"] == "traffic":
            return dict(self._traffic)
        for sender, receiver, network in order["links"]:
            self._link(sender, receiver, int(network)).rule = LinkRule(**order["rule"])
        return {}

    def _link(self, sender: str, receiver: str, network: int) -> Link:
        key = (sender, receiver, network)
        link = self._links.get(key)
        if link is None:
            # A seed for each, so that what is lost here does not depend on what others send.
            link = self._links[key] = Link(seed=f"{self._seed} {key}")
        return link

    def _take(self, port: _Port) -> None:
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

    def _pass(self, sender: _Port, receiver: _Port, frame: bytes) -> None:
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

    def _deliver(self, now_s: float) -> None:
        while self._waiting and self._waiting[0][0] <= now_s:
            _, _, tap, frame = heapq.heappop(self._waiting)
            _write(tap, frame)

    def _pause_s(self) -> float | None:
        if not self._waiting:
            return None
        return max(0.0, self._waiting[0][0] - time.monotonic())


def _write(tap: int, frame: bytes) -> None:
    try:
        os.write(tap, frame)
    except OSError:
        return  # its queue is full, or it is down: lost, as on a wire


def _answer(fields: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps(fields) + "\n")
    sys.stdout.flush()


def main() -> None:
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
