"""weir beside itself: what one setting, more workers or a crowd of idle connections changes.

A pair has two sides and gives, a round, the figures of both. A side whose key this weir does not know leaves its row empty.
"""

import collections
import contextlib
import time

from goals import Ratio, Same
from idle import MANY, Crowd
from machine import Failed, cpu_us
from rows import ROWS
from servers import Weir, weir_with

HIBERNATE_SECONDS = 5
AWAKE = weir_with("hibernate_after: infinity", hibernate="infinity")
DROWSY = weir_with(f"hibernate_after: {HIBERNATE_SECONDS}s", hibernate=f"{HIBERNATE_SECONDS}s")
AT_ONCE = weir_with("buffer_shrink_after: 0", top="buffer_shrink_after: 0s")
TWO_WORKERS = weir_with("2 workers", workers=2)

Slept = collections.namedtuple("Slept", "hibernate wake")


class UnderLoad:
    """One row's load on both, by turns. goals: {figure: goal}, in the order of the lines."""

    def __init__(self, text, row, left, right, goals, left_beside=0, right_beside=0):
        self.text, self.row, self.goals = text, ROWS[row], goals
        self.sides = (left, left_beside), (right, right_beside)

    def names(self):
        return [kind.say + (f", {beside:,} idle beside" if beside else "") for kind, beside in self.sides]

    def kinds(self):
        return [kind for kind, _ in self.sides]

    def measure(self, fleet, rounds):
        """[[sample of the left, of the right], ...]"""
        backend, seen = fleet.backend(self.row.up), []
        with contextlib.ExitStack() as stack:
            proxies = [stack.enter_context(fleet.fresh(kind, up=self.row.up)) for kind, _ in self.sides]
            for proxy, (_, beside) in zip(proxies, self.sides):
                if beside:
                    stack.callback(Crowd(fleet.crowd, proxy, beside).running.stop)
            for number in range(rounds):
                found = [None, None]
                for i in (number % 2, 1 - number % 2):
                    found[i] = self.row.measure_on(proxies[i], backend, fleet.seconds)
                seen.append(found)
        return seen


class Asleep:
    """N connections fall asleep and are woken by one request each, against N that never sleep. CPU time of a connection, of which what
    the other side takes as well is to be subtracted."""

    CONNECTIONS = 2000
    PATIENCE_SECONDS = 60

    def __init__(self, text, http2=False):
        self.text, self.http2, self.goals = text, http2, {"hibernate": None, "wake": None}

    @staticmethod
    def names():
        return [DROWSY.say, AWAKE.say]

    @staticmethod
    def kinds():
        return [DROWSY, AWAKE]

    def measure(self, fleet, rounds):
        seen = []
        with contextlib.ExitStack() as stack:
            proxies = [stack.enter_context(fleet.fresh(kind)) for kind in self.kinds()]
            crowds = [Crowd(fleet.crowd, proxy, self.CONNECTIONS, self.http2) for proxy in proxies]
            for crowd in crowds:
                stack.callback(crowd.running.stop)
            self.sleep(proxies)
            for _ in range(rounds):
                woken = [self.cost(proxy, crowd.ask) for proxy, crowd in zip(proxies, crowds)]
                asleep = self.sleep(proxies)
                seen.append([Slept(*figures) for figures in zip(asleep, woken)])
            for crowd in crowds:
                crowd.leave()
        return seen

    def sleep(self, proxies):
        """Until all of the first one's connections do."""
        before = [cpu_us(proxy.pid) for proxy in proxies]
        time.sleep(HIBERNATE_SECONDS)
        for _ in range(self.PATIENCE_SECONDS):
            time.sleep(1)
            asleep = proxies[0].metric("weir_connections_hibernated")
            if asleep == self.CONNECTIONS:
                break
        else:
            raise Failed(f"weir: {asleep} of {self.CONNECTIONS} idle connections hibernated")
        return [(cpu_us(proxy.pid) - start) / self.CONNECTIONS for proxy, start in zip(proxies, before)]

    def cost(self, proxy, work):
        before = cpu_us(proxy.pid)
        work()
        return (cpu_us(proxy.pid) - before) / self.CONNECTIONS


UNCHANGED = {"cost": Same(), "rate": Same()}
SHRINK = {"cost": None, "rate": Ratio(least=1.12), "p50": None, "p99": None, "p99999": Ratio(most=0.67)}
FLAT = {"cost": Ratio(most=1.1)}
PAIRS = {
    "awake": UnderLoad("hibernation under load, GET 1 KiB", "get", Weir, AWAKE, UNCHANGED),
    "h2awake": UnderLoad("hibernation under load, h2 GET 1 KiB", "h2get", Weir, AWAKE, UNCHANGED),
    "shrink": UnderLoad("shrink gating, POST 8 KiB, 64 connections", "post", Weir, AT_ONCE, SHRINK),
    "shrink256": UnderLoad("shrink gating, POST 8 KiB, 256 connections", "post256", Weir, AT_ONCE, SHRINK),
    "sleep": Asleep(f"{Asleep.CONNECTIONS:,} connections"),
    "h2sleep": Asleep(f"{Asleep.CONNECTIONS:,} h2 connections", http2=True),
    "workers": UnderLoad("workers, GET 1 KiB", "get", TWO_WORKERS, Weir, {"cost": Ratio(most=1.1), "rate": None}),
    "beside2k": UnderLoad("idle connections beside, GET 1 KiB", "get", Weir, Weir, FLAT, 2000, 100),
    "beside17k": UnderLoad("idle connections beside, GET 1 KiB", "get", Weir, Weir, FLAT, MANY, 100),
}
