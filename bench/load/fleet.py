"""All servers of a run: each is started when it is first needed and stays until the end."""

import contextlib

from servers import BACKENDS, Http2Backend, make_certificate


class Fleet:
    """kinds: {name: (class, build folder)} of those that take part. seconds: of a measurement. idle_seconds: how long connections
    are left alone before the memory of idle ones counts."""

    def __init__(self, folder, build, kinds, backend="nginx", seconds=2.0, idle_seconds=60.0):
        self.folder, self.build, self.kinds, self.seconds, self.idle_seconds = folder, build, kinds, seconds, idle_seconds
        self.backend_kinds = {"h1": BACKENDS[backend], "h2": Http2Backend}
        self.homes, self.backends, self.proxies, self.versions = {}, {}, {}, {}
        self.stack = contextlib.ExitStack()
        self.handshakes, self.crowd = build / "bin/handshakes", build / "bin/weir-crowd"
        self.born = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stack.close()

    def home(self, key):
        if key not in self.homes:
            self.homes[key] = self.folder / key
            make_certificate(self.homes[key], key)
        return self.homes[key]

    def backend(self, up):
        if up not in self.backends:
            server = self.backend_kinds[up](self.home("ecdsa"), build=self.build)
            self.stack.callback(server.stop)
            self.backends[up] = server.start()
        return self.backends[up]

    def proxy(self, name, up="h1", key="ecdsa"):
        if (name, up, key) not in self.proxies:
            self.proxies[name, up, key] = self.stack.enter_context(self.fresh(*self.kinds[name], up, key, suffix=""))
        return self.proxies[name, up, key]

    @contextlib.contextmanager
    def fresh(self, kind, build=None, up="h1", key="ecdsa", suffix=None):
        """A server of one's own."""
        self.born += 1
        server = kind(self.home(key), self.backend(up).port, build or self.build, up,
                      f"-{self.born}" if suffix is None else suffix)
        self.versions.setdefault(kind.name, server)
        try:
            yield server.start()
        finally:
            server.stop()
