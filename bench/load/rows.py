"""What a row of the table measures: one load on one proxy, once.

measure() gives a Sample: CPU of the proxy in microseconds a unit (the figure that a busy machine moves least), and units a second.
"""

import collections
import json
import re
import signal
import subprocess
import time

from machine import LOAD_CORE, Failed, Running, cpu_us, pss_kb
from servers import BIG

Sample = collections.namedtuple("Sample", "cost rate")

WARM_MOST_SECONDS = 10
POST_SCRIPT = 'wrk.method = "POST"\nwrk.body = string.rep("x", 8192)\n'


class Requests:
    """wrk keeps its connections open; counted are the requests that reach the backend within the window, so that handshakes and
    warming up stay outside of it."""

    unit, rate_unit = "us", "requests/s"
    down, up, tool = "h1", "h1", "wrk"

    def __init__(self, text, path, connections, post=False, scale=1.0, unit="us"):
        self.text, self.path, self.connections, self.post, self.scale, self.unit = text, path, connections, post, scale, unit

    def command(self, proxy, seconds):
        command = ["wrk", "-t1", f"-c{self.connections}", f"-d{int(seconds + 60)}"]
        if self.post:
            script = proxy.folder / "post.lua"
            script.write_text(POST_SCRIPT)
            command += ["-s", script]
        return command + [f"https://localhost:{proxy.port}{self.path}"]

    def start(self, proxy, seconds, _tool=None):
        return Running(self.tool, self.command(proxy, seconds), LOAD_CORE, proxy.folder)

    def measure(self, proxy, backend, seconds, tool):
        load = self.start(proxy, seconds)
        try:
            self.warm_up(backend)
            before = backend.requests(), cpu_us(proxy.pid), time.monotonic()
            time.sleep(seconds)
            after = backend.requests(), cpu_us(proxy.pid), time.monotonic()
            load.check()
            self.finish(load)
        finally:
            load.stop(signal.SIGINT)
        self.check(load.log)
        requests, cpu, took = (b - a for a, b in zip(before, after))
        if requests <= 0:
            raise Failed(f"{proxy.name}: no request came through")
        return Sample(cpu / requests * self.scale, requests / took)

    def warm_up(self, backend):
        """Until every connection is likely to have made a request or two."""
        start, end = backend.requests(), time.monotonic() + WARM_MOST_SECONDS
        while backend.requests() - start < 4 * self.in_flight() and time.monotonic() < end:
            time.sleep(0.05)

    def in_flight(self):
        return self.connections

    @staticmethod
    def finish(load):
        """wrk tells what it saw when it is interrupted."""
        load.stop(signal.SIGINT)

    @staticmethod
    def check(log):
        text = log.read_text()
        log.unlink()
        wrong = re.search(r"Socket errors:.*|Non-2xx.*", text)
        if wrong or "Requests/sec" not in text:
            raise Failed(f"wrk: {wrong.group() if wrong else text}")


class Http2Requests(Requests):
    """h2load, several streams on each connection; counted as above. It tells what it saw only when its time is over, so that is
    a second longer than ours."""

    down, tool = "h2", "h2load"
    STREAMS = 10
    SAME = "TLSv1.3", "TLS_AES_128_GCM_SHA256", "X25519 253 bits", "h2"

    def __init__(self, text, path, up="h1", post=False):
        super().__init__(text, path, 64, post)
        self.up = up

    def command(self, proxy, seconds):
        body = proxy.folder / "upload"
        body.write_text("x" * 8192)
        return ["h2load", "-t1", f"-c{self.connections}", f"-m{self.STREAMS}", f"-D{seconds * 1000 + 1000:.0f}ms",
                *(["-d", body] if self.post else []), f"--connect-to=127.0.0.1:{proxy.port}",
                f"https://localhost:{proxy.port}{self.path}"]

    def in_flight(self):
        return self.connections * self.STREAMS

    @staticmethod
    def finish(load):
        load.process.wait(30)

    @classmethod
    def check(cls, log):
        text = log.read_text()
        log.unlink()
        names = "TLS Protocol", "Cipher", "Server Temp Key", "Application protocol"
        same = tuple("".join(re.findall(rf"^{name}: (.*)", text, re.M)) for name in names)
        failed = re.search(r"^requests: .* 0 failed, 0 errored, 0 timeout$", text, re.M) is None
        other = re.search(r"^status codes: [1-9]\d* 2xx, 0 3xx, 0 4xx, 0 5xx$", text, re.M) is None
        if same != cls.SAME or failed or other:
            raise Failed(f"h2load: not the work it was meant to be:\n{text[-2000:]}")


CIPHER = "TLS_AES_128_GCM_SHA256"


class Handshakes:
    """Our own tool; it finishes what it began, so all of the proxy's CPU time belongs to the connections it counted."""

    unit, rate_unit = "us", "handshakes/s"
    down, up = "h1", "h1"

    def __init__(self, text, resume):
        self.text, self.resume = text, resume

    def command(self, proxy, seconds, tool):
        return [tool, "--seconds", seconds, *(["--resume"] if self.resume else []), proxy.port]

    def start(self, proxy, seconds, tool):
        return Running("handshakes", self.command(proxy, seconds, tool), LOAD_CORE, proxy.folder, stdout=subprocess.PIPE)

    def measure(self, proxy, _backend, seconds, tool):
        before = cpu_us(proxy.pid)
        load = self.start(proxy, seconds, tool)
        text, _ = load.process.communicate()
        cpu = cpu_us(proxy.pid) - before
        if load.process.returncode != 0:
            load.check()
        seen = json.loads(text)
        done, other = (seen["resumed"], seen["full"] - 1) if self.resume else (seen["full"], seen["resumed"])
        if seen["failed"] or other or done == 0:
            raise Failed(f"{proxy.name}: not all handshakes were {'resumed' if self.resume else 'full'}: {seen}")
        if seen["cipher"] != CIPHER:
            raise Failed(f"{proxy.name}: {seen['cipher']} in place of {CIPHER}, which is other work")
        return Sample(cpu / done, done / seen["seconds"])


class Idle:
    """A fresh proxy; N connections, each with one request served, then kept. Memory when it no longer changes, less what the
    proxy had after its first few connections."""

    unit, rate_unit = "KB", None
    down, up = "h1", "h1"

    def __init__(self, connections):
        self.connections = connections
        self.text = f"idle memory, {connections:,} connections"

    def measure(self, proxy, _backend, _seconds, tool):
        proxy.stop()
        proxy.start()
        self.keep(proxy, tool, 8).stop()
        before = settled_kb(proxy.pid)
        kept = self.keep(proxy, tool, self.connections)
        after = settled_kb(proxy.pid)
        text, _ = kept.process.communicate()
        lost = json.loads(text.splitlines()[-1])["lost"]
        if lost:
            raise Failed(f"{proxy.name}: closed {lost} idle connections")
        return Sample((after - before) / self.connections, None)

    @staticmethod
    def keep(proxy, tool, count):
        command = [tool, "--idle", count, "--get", "/small", proxy.port]
        load = Running("idle", command, LOAD_CORE, proxy.folder, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        seen = json.loads(load.process.stdout.readline() or "{}")
        if seen.get("kept") != count:
            load.check()
            load.stop()
            raise Failed(f"{proxy.name}: of {count} idle connections it kept {seen}: {load.log.read_text()}")
        return load


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


GIB_MS = (1 << 30) / BIG / 1000  # microseconds a response to milliseconds a GiB

ROWS = {
    "get": Requests("GET 1 KiB, 64 connections", "/small", 64),
    "post": Requests("POST 8 KiB, 64 connections", "/post", 64, post=True),
    "post256": Requests("POST 8 KiB, 256 connections", "/post", 256, post=True),
    "big": Requests("GET 1 MiB, 16 connections", "/big", 16, scale=GIB_MS, unit="ms/GiB"),
    "full": Handshakes("full handshake", resume=False),
    "resumed": Handshakes("resumed handshake (PSK, ECDHE)", resume=True),
    "idle2k": Idle(2000),
    "idle10k": Idle(10000),
    "h2get": Http2Requests("h2 GET 1 KiB, 64 connections x 10 streams", "/small"),
    "h2post": Http2Requests("h2 POST 8 KiB, 64 x 10", "/post", post=True),
    "h2h2": Http2Requests("h2 to h2 GET 1 KiB, 64 x 10", "/small", up="h2"),
}
