"""Peers over a network as bad as chance makes it: each update once, in order, and in the end all.

A model's state is, of each origin, how many of its updates it includes.
"""

import random

from hypothesis import HealthCheck, settings, strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from tests.support.mesh import InMemoryMesh

MAX_WORKERS = 6
CHANCES = st.sampled_from([0.0, 0.1, 0.4])


class PeerMachine(RuleBasedStateMachine):
    @initialize(
        count=st.integers(2, MAX_WORKERS),
        mode=st.sampled_from(["plain", "mesh"]),
        seed=st.integers(0, 1000),
        loss=CHANCES,
        repeat=CHANCES,
        reorder=CHANCES,
        log=st.sampled_from([3, 8, 1000]),
        log_bytes=st.sampled_from([60, 1 << 20]),
    )
    def begin(
        self, count, mode, seed, loss, repeat, reorder,
        log, log_bytes,
    ):  # fmt: skip
        self.mode, self.chance = mode, random.Random(seed)
        self.states = {}
        self.catching_up = []
        self.keeps_all = log == 1000 and log_bytes > 60
        self.mesh = InMemoryMesh(
            seed=seed, loss=loss, repeat=repeat, reorder=reorder, timeout_s=6.0,
            max_log_messages=log, max_log_bytes=log_bytes,
            on_deliver=self.deliver,
            on_catch_up=lambda me, neighbor: self.catching_up.append((me, neighbor)),
        )  # fmt: skip
        self.newest = dict.fromkeys(range(count), 0)
        for worker in range(count):
            self.states[worker, 0] = {}
            self.mesh.start((worker, 0))
        self.reshape()

    # -- the model --------------------------------------------------------------------------

    def deliver(self, me, update):
        state = self.states[me]
        assert update.sequence == state.get(update.origin, 0) + 1, "once, and in order"
        assert update.payload == f"{update.origin}{update.sequence}".encode()
        state[update.origin] = update.sequence

    def alive(self):
        return sorted(self.mesh.peers)

    def reshape(self):
        members = self.alive()
        self.chance.shuffle(members)
        self.mesh.reshape(members, self.mode)

    def restore(self, me, versions):
        # A state includes updates that no log may hold; two such states may exclude each other.
        self.keeps_all = False
        self.states[me] = dict(versions)
        actions = self.mesh.peers[me].restored(versions)
        # Own updates that are lost for good count as part of the state.
        own = self.mesh.peers[me].versions.get(me, 0)
        delivered = [a[0] for a in actions if type(a).__name__ == "Deliver" and a[0].origin == me]
        if own:
            self.states[me][me] = own - len(delivered)
        self.mesh.carry_out(me, actions)

    def catch_up(self):
        while self.catching_up:
            me, neighbor = self.catching_up.pop()
            if me in self.mesh.peers and neighbor in self.mesh.peers:
                self.restore(me, dict(self.states[neighbor]))

    # -- what happens -----------------------------------------------------------------------

    @rule(data=st.data(), count=st.integers(1, 5))
    def publish(self, data, count):
        me = data.draw(st.sampled_from(self.alive()))
        for _ in range(count):
            sequence = self.states[me].get(me, 0) + 1
            self.states[me][me] = sequence
            self.mesh.publish(me, f"{me}{sequence}".encode())

    @rule(count=st.integers(1, 30))
    def some_messages_arrive(self, count):
        for _ in range(count):
            self.mesh.step()

    @rule(seconds=st.floats(0.1, 2.5))
    def time_passes(self, seconds):
        self.mesh.tick(seconds)

    @rule()
    def states_arrive(self):
        self.catch_up()

    @rule(data=st.data())
    def a_connection_breaks(self, data):
        if self.mesh._links:
            links = sorted(sorted(link) for link in self.mesh._links)
            self.mesh.cut(*data.draw(st.sampled_from(links)))

    @rule()
    def a_new_tree_is_announced(self):
        self.reshape()

    @rule(data=st.data(), from_a_state=st.booleans())
    def a_worker_starts_again(self, data, from_a_state):
        worker, old = data.draw(st.sampled_from(self.alive()))
        self.mesh.stop((worker, old))
        self.newest[worker] += 1
        me = (worker, self.newest[worker])
        self.mesh.start(me)
        self.states[me] = {}
        others = [peer for peer in self.alive() if peer != me]
        if from_a_state and others:
            self.restore(me, dict(self.states[data.draw(st.sampled_from(others))]))

    # -- what must hold ---------------------------------------------------------------------

    @invariant()
    def a_peer_knows_what_its_state_includes(self):
        if hasattr(self, "mesh"):
            for origin, peer in self.mesh.peers.items():
                assert peer.versions == {o: n for o, n in self.states[origin].items() if n}

    def teardown(self):
        """Once the network is good again, everybody gets everything."""
        if not hasattr(self, "mesh"):
            return
        best = {}
        for origin in self.alive():
            for each, number in self.states[origin].items():
                best[each] = max(number, best.get(each, 0))
        self.mesh.loss = self.mesh.repeat = self.mesh.reorder = 0.0
        self.reshape()
        for _ in range(60):
            self.mesh.run()
            self.catch_up()
            self.mesh.tick(1.0)
            self.reshape_if_broken()
        self.mesh.run()
        found = [self.mesh.peers[origin].versions for origin in self.alive()]
        assert all(versions == found[0] for versions in found)
        if self.keeps_all:
            # What was still on its way may have arrived as well.
            assert all(found[0].get(origin, 0) >= number for origin, number in best.items())

    def reshape_if_broken(self):
        if len(self.mesh._links) < len(self.mesh.peers) - 1:
            self.reshape()


TestPeers = PeerMachine.TestCase
TestPeers.settings = settings(
    max_examples=150,
    stateful_step_count=40,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
