"""Connections that are kept: what one costs in memory, and how they are kept."""

import collections
import contextlib
import json
import subprocess
import time

from machine import LOAD_CORE, Failed, Running, pss_kb

# Of 20,000 descriptors that a process may have; weir keeps a tenth of them from clients, for upstreams, and each side has some others.
MANY = 17500

Kept = collections.namedtuple("Kept", "cost rate", defaults=(None,))


class Crowd:
    """N connections to a proxy, one request made on each."""

    def __init__(self, tool, proxy, count, http2=False):
        self.proxy, self.count = proxy, count
        command = [tool, *(["--http2"] if http2 else []), count, proxy.port]
        self.running = Running("crowd", command, LOAD_CORE, proxy.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.expect("kept")

    def expect(self, what):
        seen = json.loads(self.running.process.stdout.readline() or "{}")
        if seen.get(what) != self.count:
            self.running.stop()
            raise Failed(f"{self.proxy.name}: of {self.count} connections {seen}: {self.running.log.read_text()}")

    def ask(self):
        """One more request on each."""
        self.running.process.stdin.write(b"\n")
        self.running.process.stdin.flush()
        self.expect("answered")

    def leave(self):
        text, _ = self.running.process.communicate()
        lost = json.loads(text.splitlines()[-1])["lost"] if text else "all"
        if lost:
            raise Failed(f"{self.proxy.name}: closed {lost} idle connections")


class Idle:
    """A fresh proxy each; N connections, each with one request served, then left alone for a while, all proxies' at once. Memory when
    it no longer changes, less what the proxy had after its first few connections, divided by N."""

    unit, rate_unit = "KB", None
    up, key = "h1", "ecdsa"

    def __init__(self, connections, down="h1", goal=None):
        self.connections, self.down, self.goal = connections, down, goal
        self.text = f"{'h2 ' if down == 'h2' else ''}idle memory, {connections:,} connections"

    def measure_together(self, fleet, names):
        """{name: sample}"""
        with contextlib.ExitStack() as stack:
            crowds, before = {}, {}
            for name in names:
                proxy = stack.enter_context(fleet.fresh(*fleet.kinds[name]))
                first = Crowd(fleet.crowd, proxy, 8, self.down == "h2")
                before[name] = settled_kb(proxy.pid)
                first.leave()
                crowds[name] = Crowd(fleet.crowd, proxy, self.connections, self.down == "h2")
                stack.callback(crowds[name].running.stop)
            time.sleep(fleet.idle_seconds)
            after = {name: settled_kb(crowd.proxy.pid) for name, crowd in crowds.items()}
            for crowd in crowds.values():
                crowd.leave()
        return {name: Kept((after[name] - before[name]) / self.connections) for name in names}


def settled_kb(pid):
    """The memory once it has stayed within 1 % for a second."""
    seen = [pss_kb(pid)]
    for _ in range(40):
        time.sleep(0.25)
        seen.append(pss_kb(pid))
        last = seen[-5:]
        if len(last) == 5 and max(last) - min(last) <= max(last) / 100:
            break
    return seen[-1]
