"""The line of a status that waits for a pod to go, and the block of ports of a job on the host network."""

from __future__ import annotations

from tjworker.api.status import HostPorts


def test_a_block_of_ports_goes_on_at_the_beginning_of_its_range_and_has_each_port_once() -> None:
    for first in (100, 104, 109):
        block = HostPorts(first=first, low=100, high=109)
        ports = [block.at(place) for place in range(10)]
        assert ports == [*range(first, 110), *range(100, first)]
        assert block.at(10) == first
