"""What a row of the table measures: one load on one proxy, once.

measure() gives a Sample: CPU of the proxy in microseconds a unit (the figure that a busy machine moves least), and units a second.
Where wrk is the load, the latencies too, in microseconds.
"""

import collections
import json
import re
import signal
import subprocess
import time

from goals import OfBest, Value
from idle import MANY, Idle
from machine import LOAD_CORE, Failed, Running, cpu_us
from servers import BIG

Sample = collections.namedtuple("Sample", "cost rate p50 p99 p99999", defaults=(None, None, None, None))

WARM_MOST_SECONDS = 10
# wrk itself allows for coordinated omission.
WRK_SCRIPT = """done = function(_, latency)
  io.write(string.format("latencies: %f %f %f\\n", latency:percentile(50), latency:percentile(99), latency:percentile(99.999)))
end
"""
POST_SCRIPT = 'wrk.method = "POST"\nwrk.body = string.rep("x", 8192)\n'


class Requests:
    """wrk keeps its connections open; counted are the requests that reach the backend within the window, so that handshakes and
    warming up stay outside of it."""

    rate_unit = "requests/s"
    down, up, key, tool = "h1", "h1", "ecdsa", "wrk"
    SPARE_SECONDS = (60,)

    def __init__(self, text, path, connections, post=False, scale=1.0, unit="us", goal=None):
        self.text, self.path, self.connections, self.post, self.scale, self.unit = text, path, connections, post, scale, unit
        self.goal = goal

    def command(self, proxy, seconds):
        script = proxy.folder / "script.lua"
        script.write_text(WRK_SCRIPT + (POST_SCRIPT if self.post else ""))
        return ["wrk", "-t1", f"-c{self.connections}", f"-d{int(seconds + 1)}", "-s", script,
                f"https://localhost:{proxy.port}{self.path}"]

    def start(self, proxy, seconds, _tool=None):
        return Running(self.tool, self.command(proxy, seconds), LOAD_CORE, proxy.folder)

    def measure(self, fleet, name):
        return self.measure_on(fleet.proxy(name, self.up), fleet.backend(self.up), fleet.seconds)

    def measure_on(self, proxy, backend, seconds):
        """Again, and longer, where the load came to its end before we had seen enough: then something else has the machine."""
        for spare in self.SPARE_SECONDS:
            sample = self.attempt(proxy, backend, seconds, spare)
            if sample:
                return sample
        raise Failed(f"{proxy.name}: {self.tool} was through before the measurement was")

    def attempt(self, proxy, backend, seconds, spare):
        load = self.start(proxy, seconds + spare)
        try:
            self.warm_up(backend)
            before = backend.requests(), cpu_us(proxy.pid), time.monotonic()
            time.sleep(seconds)
            after = backend.requests(), cpu_us(proxy.pid), time.monotonic()
            if load.process.poll() == 0:
                load.log.unlink()
                return None
            load.check()
            self.finish(load)
        finally:
            load.stop(signal.SIGINT)
        latencies = self.check(load.log)
        requests, cpu, took = (b - a for a, b in zip(before, after))
        if requests <= 0:
            raise Failed(f"{proxy.name}: no request came through")
        return Sample(cpu / requests * self.scale, requests / took, *latencies)

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
        return tuple(map(float, re.search(r"^latencies: (.*)", text, re.M).group(1).split()))


class Http2Requests(Requests):
    """h2load, several streams on each connection; counted as above. It tells what it saw only when its time is over, so that is
    not much longer than ours."""

    down, tool = "h2", "h2load"
    STREAMS = 10
    SPARE_SECONDS = (1, 4, 12)
    SAME = "TLSv1.3", "TLS_AES_128_GCM_SHA256", "X25519 253 bits", "h2"

    def __init__(self, text, path, up="h1", post=False, goal=None):
        super().__init__(text, path, 64, post, goal=goal)
        self.up = up

    def command(self, proxy, seconds):
        body = proxy.folder / "upload"
        body.write_text("x" * 8192)
        return ["h2load", "-t1", f"-c{self.connections}", f"-m{self.STREAMS}", f"-D{seconds * 1000:.0f}ms",
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
        return ()


CIPHER = "TLS_AES_128_GCM_SHA256"


class Handshakes:
    """Our own tool; it finishes what it began, so all of the proxy's CPU time belongs to the connections it counted."""

    unit, rate_unit = "us", "handshakes/s"
    down, up = "h1", "h1"

    def __init__(self, text, resume, key="ecdsa", goal=None):
        self.text, self.resume, self.key, self.goal = text, resume, key, goal

    def command(self, proxy, seconds, tool):
        return [tool, "--seconds", seconds, *(["--resume"] if self.resume else []), proxy.port]

    def start(self, proxy, seconds, tool):
        return Running("handshakes", self.command(proxy, seconds, tool), LOAD_CORE, proxy.folder, stdout=subprocess.PIPE)

    def measure(self, fleet, name):
        proxy = fleet.proxy(name, self.up, self.key)
        before = cpu_us(proxy.pid)
        load = self.start(proxy, fleet.seconds, fleet.handshakes)
        text, _ = load.process.communicate()
        cpu = cpu_us(proxy.pid) - before
        if load.process.returncode != 0:
            raise Failed(f"{proxy.name}: {load.log.read_text()}")
        seen = json.loads(text)
        done, other = (seen["resumed"], seen["full"] - 1) if self.resume else (seen["full"], seen["resumed"])
        if seen["failed"] or other or done == 0:
            raise Failed(f"{proxy.name}: not all handshakes were {'resumed' if self.resume else 'full'}: {seen}")
        if seen["cipher"] != CIPHER:
            raise Failed(f"{proxy.name}: {seen['cipher']} in place of {CIPHER}, which is other work")
        return Sample(cpu / done, done / seen["seconds"])


GIB_MS = (1 << 30) / BIG / 1000  # microseconds a response to milliseconds a GiB

REQUEST = OfBest(0.7)
HANDSHAKE = OfBest(1.0, nginx_boringssl=0.9)

ROWS = {
    "get": Requests("GET 1 KiB, 64 connections", "/small", 64, goal=REQUEST),
    "post": Requests("POST 8 KiB, 64 connections", "/post", 64, post=True, goal=REQUEST),
    "post256": Requests("POST 8 KiB, 256 connections", "/post", 256, post=True, goal=REQUEST),
    "big": Requests("GET 1 MiB, 16 connections", "/big", 16, scale=GIB_MS, unit="ms/GiB", goal=OfBest(0.8)),
    "h2get": Http2Requests("h2 GET 1 KiB, 64 connections x 10 streams", "/small", goal=REQUEST),
    "h2post": Http2Requests("h2 POST 8 KiB, 64 x 10", "/post", post=True),
    "h2h2": Http2Requests("h2 to h2 GET 1 KiB, 64 x 10", "/small", up="h2", goal=REQUEST),
    "full": Handshakes("full handshake, ECDSA", resume=False, goal=HANDSHAKE),
    "resumed": Handshakes("resumed handshake (PSK, ECDHE), ECDSA", resume=True, goal=HANDSHAKE),
    "fullrsa": Handshakes("full handshake, RSA 2048", resume=False, key="rsa"),
    "resumedrsa": Handshakes("resumed handshake, RSA 2048", resume=True, key="rsa"),
    "idle2k": Idle(2000, goal=Value(3, "KB")),
    "idle10k": Idle(10000, goal=Value(3, "KB")),
    "idle17k": Idle(MANY, goal=Value(3, "KB")),
    "h2idle2k": Idle(2000, down="h2", goal=Value(4.5, "KB")),
    "h2idle10k": Idle(10000, down="h2", goal=Value(4.5, "KB")),
    "h2idle17k": Idle(MANY, down="h2", goal=Value(4.5, "KB")),
}
