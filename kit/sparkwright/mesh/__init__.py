"""Peer-to-peer exchange: pure framing, proofs and schedules, and the sockets that drive them."""
