"""One storm over one server: what the clients saw, what established connections felt, and what the server says of it."""

import http.client
import json
import math
import re
import subprocess
import threading
import time

from machine import LOAD_CORE, Failed, Running, cpu_us, descriptors, prefer, rss_kb, run

BEFORE = 3.0  # seconds of quiet before the storm and after it
AFTER = 3.0
SAMPLE = 0.1
DESCRIPTORS = 19000
PEAK_SECONDS = 2
PEAK_ROUNDS = 3
PEAK_OPEN = 64
IDLE_SHARE = 0.1  # of a core: the established traffic alone


def storm(tools, port, folder, series=None, **options):
    """The command of weir-storm; options by their names, True for those without a value."""
    words = [tools / "weir-storm"]
    for name, value in options.items():
        words += [f"--{name.replace('_', '-')}"] + ([] if value is True else [value])
    return Running("storm", [*words, *(["--series", series] if series else []), port], LOAD_CORE, folder, stdout=subprocess.PIPE)


def result_of(running):
    text, _ = running.process.communicate()
    if running.process.returncode != 0:
        running.check()
    return json.loads(text)


def peak(tools, server, **options):
    """Handshakes a second when clients wait for each other: what the server can do. The best of a few rounds, for other work on the
    machine can only lower it."""
    rounds = [result_of(storm(tools, server.port, server.folder, rate=0, open=PEAK_OPEN, seconds=PEAK_SECONDS, **options))
              for _ in range(PEAK_ROUNDS)]
    return max((seen["full"] + seen["resumed"]) / seen["seconds"] for seen in rounds)


class Probe:
    """weir-probe beside it all. Samples: (due, what, milliseconds, how), due in seconds of time.monotonic()."""

    def __init__(self, tools, server, connect_every=100, connections=20, rate=200):
        self.samples = []
        self.running = Running("probe", [tools / "weir-probe", "--realtime", "--connections", connections, "--rate", rate,
                                         "--connect-every", connect_every, server.port],
                               LOAD_CORE, server.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        if self.running.process.stdout.readline() != b"ready\n":
            raise Failed(f"{server.name}: no established connections to begin with: {self.running.log.read_text()}")
        self.reader = threading.Thread(target=self.read, daemon=True)
        self.reader.start()

    def read(self):
        for line in self.running.process.stdout:
            due, what, took, how = line.decode().split()
            self.samples.append((float(due), what, float(took), how))

    def stop(self):
        self.stopped = time.monotonic()
        self.running.process.stdin.close()
        self.reader.join(30)
        self.running.process.wait(30)

    def between(self, start, end, what):
        return [sample for sample in self.samples if sample[1] == what and start <= sample[0] < end]


def quantiles(samples):
    """p50, p99, max of those that went well, and how many did not."""
    took = sorted(sample[2] for sample in samples if sample[3] == "ok")
    failed = len(samples) - len(took)
    if not took:
        return {"count": 0, "failed": failed, "p50": None, "p99": None, "max": None}
    return {"count": len(took), "failed": failed, "p50": took[len(took) // 2],
            "p99": took[min(len(took) - 1, int(len(took) * 0.99))], "max": took[-1]}


class Metrics:
    """weir's own counters and gauges; nothing of other servers."""

    LINE = re.compile(r"^(weir_[a-z_]+?)(?:\{(.*)\})? ([\d.e+-]+)$", re.M)

    def __init__(self, server):
        self.port = getattr(server, "admin_port", None)

    def read(self):
        """{(name, reason or cause or class or ""): value}, of the listener and the worker."""
        if not self.port:
            return {}
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=10)
        connection.request("GET", "/metrics")
        text = connection.getresponse().read().decode()
        connection.close()
        found = {}
        for name, labels, value in self.LINE.findall(text):
            label = re.search(r'(?:reason|cause|class|quantile|le)="([^"]*)"', labels)
            found[name, label.group(1) if label else ""] = float(value)
        return found


def accept_queue(port):
    line = run(["ss", "-ltnH", f"sport = :{port}"]).split()
    return int(line[1]) if len(line) > 1 else 0


class Sampler:
    """Ten times a second: CPU the server has used, its memory and descriptors, the kernel's accept queue, weir's gauges."""

    GAUGES = {"silent": "weir_connections_silent", "waiting": "weir_handshakes_waiting", "running": "weir_handshakes_running",
              "limit": "weir_handshakes_limit"}

    def __init__(self, server):
        self.server, self.metrics = server, Metrics(server)
        self.rows, self.over = [], threading.Event()
        self.thread = threading.Thread(target=self.sample, daemon=True)
        self.thread.start()

    def sample(self):
        while not self.over.wait(SAMPLE):
            try:
                row = {"at": time.monotonic(), "cpu": cpu_us(self.server.pid), "queue": accept_queue(self.server.port),
                       "rss_kb": rss_kb(self.server.pid), "descriptors": descriptors(self.server.pid)}
                seen = self.metrics.read()
            except (OSError, Failed):
                continue
            row.update({name: seen.get((metric, ""), 0) for name, metric in self.GAUGES.items()} if seen else {})
            self.rows.append(row)

    def stop(self):
        self.over.set()
        self.thread.join()

    def busy(self, start, end):
        """Share of a core that the server had; on a machine with other work that is not all it wanted."""
        rows = [row for row in self.rows if start <= row["at"] < end]
        if len(rows) < 2:
            return None
        return (rows[-1]["cpu"] - rows[0]["cpu"]) / 1e6 / (rows[-1]["at"] - rows[0]["at"])

    def idle_after(self, end):
        """Seconds from END until the server's core is at rest; None: not within the time it was watched."""
        for a, b in zip(self.rows, self.rows[1:]):
            if a["at"] >= end and (b["cpu"] - a["cpu"]) / 1e6 / (b["at"] - a["at"]) < IDLE_SHARE:
                return a["at"] - end
        return None


def difference(before, after):
    return {f"{name}{{{label}}}" if label else name: after[name, label] - before.get((name, label), 0) for name, label in after}


def processes_for(rate, patience_ms):
    return max(1, math.ceil(rate * (patience_ms / 1000 + 0.5) / DESCRIPTORS))


def weather(tools, server, rate, seconds, patience=5000, after=AFTER, **options):
    """A storm of RATE connections a second: everything that was seen, as plain data."""
    prefer(server.pid)
    before = Metrics(server).read()
    probe, sampler = Probe(tools, server), Sampler(server)
    began = time.monotonic()
    series = server.folder / "series.json"
    try:
        time.sleep(BEFORE)
        cpu = cpu_us(server.pid)
        running = storm(tools, server.port, server.folder, series, rate=rate, seconds=seconds, patience=patience,
                        processes=processes_for(rate, patience), **options)
        prefer(running.pid, -10)
        seen = result_of(running)
        cpu = cpu_us(server.pid) - cpu
        time.sleep(after)
    finally:
        sampler.stop()
        probe.stop()
    start, end = seen["start"], seen["start"] + seconds
    slots = json.loads(series.read_text())["slots"]
    during = slots[:round(seconds / SAMPLE)]
    first = min(probe.between(end, end + after, "connect"), default=None)
    lost = probe.between(began, end + 1000, "connection")
    return {
        "server": server.name, "rate": rate, "seconds": seconds, "storm": seen, "slots": slots, "samples": sampler.rows,
        "start": start,
        "goodput": sum(slot["full"] + slot["resumed"] for slot in during) / seconds,
        "established": {"before": quantiles(probe.between(began + 0.5, start, "request")),
                        "during": quantiles(probe.between(start, end, "request")),
                        "after": quantiles(probe.between(end + 1, probe.stopped - 0.2, "request"))},
        "established_lost": len(lost),
        "fresh": quantiles(probe.between(start, end, "connect")),
        "first_after": {"ms": first[2], "how": first[3]} if first else None,
        "backlog": max((row.get("waiting", 0) + row.get("running", 0) for row in sampler.rows), default=0),
        "queue": max((row["queue"] for row in sampler.rows), default=0),
        "idle_after": sampler.idle_after(end), "busy": sampler.busy(start, end), "cpu": cpu / 1e6,
        "counters": difference(before, Metrics(server).read()),
    }
