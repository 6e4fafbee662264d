"""The proxies and the backend: each one's configuration for the same work, and how it is started.

All proxies: one worker on PROXY_CORE, TLS 1.3 with the same certificate and the cipher suite that the client likes best, HTTP/2 for a client that offers it and else HTTP/1.1, keep-alive to the same backend, no access log, timeouts out of the way.
Beyond that each is as its packager left it, except where a default would hold it back in this work (the pools' sizes, nginx's
temporary files, nghttpx's window of a connection).
"""

import functools
import http.client
import os
import re
import subprocess

from machine import LOAD_CORE, MOST_FILES, PROXY_CORE, ROOT, Failed, Running, free_port, run

SMALL = 1024
BIG = 1 << 20
# nginx as root would give its worker another user, who may not read our folder.
NGINX_USER = "user root;" if os.geteuid() == 0 else ""


KEYS = {"ecdsa": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["rsa:2048"]}


def make_certificate(folder, key="ecdsa"):
    folder.mkdir(exist_ok=True)
    run(["openssl", "req", "-x509", "-newkey", *KEYS[key], "-nodes", "-days", "7", "-subj", "/CN=localhost",
         "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1", "-keyout", folder / "key.pem",
         "-out", folder / "cert.pem"])
    both = (folder / "cert.pem").read_text() + (folder / "key.pem").read_text()
    (folder / "both.pem").write_text(both)


class Server:
    """A server of the benchmark. A subclass gives NAME, CORE, configuration() and command(); a proxy also the protocols it is
    compared for, with the client (down) and with the backend (up)."""

    name = None
    core = PROXY_CORE
    down = ("h1", "h2")
    up = ("h1", "h2")
    answers_close = True  # a close_notify before any request, with its own end: else there is no telling when a handshake is done

    def __init__(self, folder, backend_port=None, build=None, up="h1", suffix=""):
        """FOLDER has the certificate. SUFFIX: what tells it from another of the same name."""
        self.home = folder
        self.folder = folder / f"{self.name}-{up}{suffix}"
        self.folder.mkdir(exist_ok=True)
        self.backend_port = backend_port
        self.build = build
        self.to_http2 = up == "h2"
        self.running = None

    def start(self, prefix=()):
        """PREFIX: a program that runs it, as valgrind does."""
        self.port = free_port()
        path = self.folder / "config"
        path.write_text(self.configuration())
        self.running = Running(self.name, [*prefix, *self.command(path)], self.core, self.folder)
        self.running.wait_for_port(self.port)
        return self

    def stop(self):
        if self.running:
            self.running.stop()
            self.running = None

    @property
    def pid(self):
        return self.running.pid


class Nginx(Server):
    name = "nginx"
    up = ("h1",)
    program = "nginx"
    http = """
    server {
        listen 127.0.0.1:%(port)d ssl http2 backlog=4096;
        ssl_certificate %(home)s/cert.pem;
        ssl_certificate_key %(home)s/key.pem;
        ssl_protocols TLSv1.3;
        location / {
            proxy_pass http://backend;
            proxy_http_version 1.1;
            proxy_set_header Connection "";
            proxy_set_header Host $host;
            proxy_set_header X-Forwarded-For $proxy_add_x_forwarded_for;
            proxy_set_header X-Forwarded-Proto $scheme;
            proxy_max_temp_file_size 0;
        }
    }
    upstream backend { server 127.0.0.1:%(backend_port)d; keepalive 1024; keepalive_requests 1000000000; }"""

    def configuration(self):
        values = dict(vars(self), user=NGINX_USER, files=MOST_FILES)
        return ("""%(user)s
daemon off;
worker_processes 1;
worker_rlimit_nofile %(files)d;
pid %(folder)s/pid;
error_log stderr error;
events { worker_connections %(files)d; }
http {
    access_log off;
    client_body_temp_path %(folder)s/body;
    proxy_temp_path %(folder)s/proxy;
    fastcgi_temp_path %(folder)s/fastcgi;
    uwsgi_temp_path %(folder)s/uwsgi;
    scgi_temp_path %(folder)s/scgi;
    keepalive_timeout 3600s;
    keepalive_requests 1000000000;""" + self.http + "\n}\n") % values

    def command(self, path):
        return [self.program, "-p", self.folder, "-c", path, "-e", "stderr"]

    def version(self):
        about = run(["sh", "-c", f"{self.program} -V 2>&1"])
        library = re.search(r"^built with (OpenSSL \S+(?: \(compatible.*?\))?|BoringSSL)", about, re.M)
        return f"{self.name} {about.splitlines()[0].rpartition('/')[2]}, {library.group(1) if library else '?'}"


class NginxBoringssl(Nginx):
    """The same nginx with the TLS library that weir has: what is left between them is not the library."""

    name = "nginx-boringssl"

    @functools.cached_property
    def program(self):
        return run([ROOT / "bench/tools/nginx-boringssl"]).strip()


class Haproxy(Server):
    name = "haproxy"

    def configuration(self):
        return """
global
    nbthread 1
    maxconn 19000
    ulimit-n %(files)d
    no strict-limits
    ssl-default-bind-options ssl-min-ver TLSv1.3 prefer-client-ciphers
defaults
    mode http
    timeout connect 5s
    timeout client 1h
    timeout server 1h
    timeout http-keep-alive 1h
    http-reuse always
    option forwardfor
frontend edge
    bind 127.0.0.1:%(port)d ssl crt %(home)s/both.pem alpn h2,http/1.1 backlog 4096
    http-request set-header X-Forwarded-Proto https
    default_backend web
backend web
    server web 127.0.0.1:%(backend_port)d %(proto)s
""" % dict(vars(self), files=MOST_FILES, proto="proto h2" if self.to_http2 else "")

    def command(self, path):
        return ["haproxy", "-db", "-f", path]

    def version(self):
        return "HAProxy " + re.search(r"version ([\d.]+)", run(["haproxy", "-v"])).group(1)


class Nghttpx(Server):
    """It knows HTTP/2 best and is compared for that alone."""

    name = "nghttpx"
    down = ("h2",)

    def configuration(self):
        return """
workers=1
single-process=yes
rlimit-nofile=%(files)d
errorlog-file=/dev/stderr
frontend=127.0.0.1,%(port)d
backend=127.0.0.1,%(backend_port)d%(proto)s
private-key-file=%(home)s/key.pem
certificate-file=%(home)s/cert.pem
no-ocsp=yes
tls-min-proto-version=TLSv1.3
add-x-forwarded-for=yes
frontend-http2-read-timeout=1h
frontend-http2-connection-window-size=1M
backend-keep-alive-timeout=1h
""" % dict(vars(self), files=MOST_FILES, proto=";;proto=h2" if self.to_http2 else "")

    def command(self, path):
        return ["nghttpx", "--conf", path]

    def version(self):
        return "nghttpx " + run(["nghttpx", "--version"]).strip().rpartition("/")[2]


class H2o(Server):
    """2.2 as Debian has it: it speaks HTTP/1.1 to the backend."""

    name = "h2o"
    up = ("h1",)
    answers_close = False

    def configuration(self):
        return """
num-threads: 1
%(user)s
max-connections: %(files)d
error-log: /dev/stderr
http1-request-timeout: 3600
http2-idle-timeout: 3600
hosts:
  default:
    listen:
      host: 127.0.0.1
      port: %(port)d
      ssl: {certificate-file: %(home)s/cert.pem, key-file: %(home)s/key.pem, minimum-version: TLSv1.3, ocsp-update-interval: 0}
    paths:
      "/":
        proxy.reverse.url: http://127.0.0.1:%(backend_port)d/
        proxy.preserve-host: ON
        proxy.timeout.keepalive: 3600000
""" % dict(vars(self), files=MOST_FILES, user="user: root" if os.geteuid() == 0 else "")

    def command(self, path):
        return ["h2o", "-c", path]

    def version(self):
        return "h2o " + run(["h2o", "--version"]).split()[2]


class Weir(Server):
    name = say = "weir"
    workers = 1
    top = ""  # more keys of the file
    timeouts = ""  # more keys of defaults.timeouts
    listeners = """
  - name: edge
    bind: 127.0.0.1:%(port)d
    tls: {certificates: [{chain: %(home)s/cert.pem, key: %(home)s/key.pem}], versions: [tls1.3]}
    admission: {max_pending_handshakes: 1024, max_handshake_delay: infinity}
    routes: [{cluster: web}]
clusters:
  - name: web
    endpoints: ["127.0.0.1:%(backend_port)d"]
    protocol: %(protocol)s
    pool: {max_connections: 1024, max_idle: 1024}
    timeouts: {keep_alive: 1h}"""

    def configuration(self):
        self.admin_port = free_port()
        self.protocol = "http2" if self.to_http2 else "http1"
        return """
workers: %(workers)d
admin: 127.0.0.1:%(admin_port)d
%(top)s
defaults:
  timeouts: {keep_alive: 1h, inactivity: 1h%(timeouts)s}
listeners:""" % dict(vars(self), workers=self.workers, top=self.top, timeouts=self.timeouts) + self.listeners % vars(self) + "\n"

    def command(self, path):
        return [self.build / "bin/weir", "run", "-c", path]

    def version(self):
        return run([self.build / "bin/weir", "version"]).strip()

    def metric(self, name, label=""):
        """The sum of the lines that have both; None: there is no such metric."""
        status = http.client.HTTPConnection("127.0.0.1", self.admin_port)
        status.request("GET", "/metrics")
        text = status.getresponse().read().decode()
        found = re.findall(rf"^{name}(?:\{{[^}}]*{label}[^}}]*\}})? (\d+)", text, re.M)
        return sum(map(int, found)) if found else None


    @classmethod
    def understood(cls, build, folder):
        """Whether the build knows every key of the configuration."""
        probe = cls(folder, 1, build, suffix="-probe")
        probe.port = 1
        path = probe.folder / "config"
        path.write_text(probe.configuration())
        done = subprocess.run([build / "bin/weir", "check", "-c", path], capture_output=True, text=True, check=False)
        if done.returncode != 0 and "unknown" not in done.stdout + done.stderr:
            raise Failed(f"weir check: {done.stdout}{done.stderr}")
        return done.returncode == 0


def weir_with(say, hibernate=None, top="", workers=1):
    """Weir as above with something of its own set otherwise; SAY names it in the table."""
    name = "weir-" + re.sub(r"[^a-z0-9]+", "-", say)
    timeouts = f", hibernate_after: {hibernate}" if hibernate else ""
    return type("WeirWith", (Weir,), dict(name=name, say=say, timeouts=timeouts, top=top, workers=workers,
                                          core=f"{PROXY_CORE}-{PROXY_CORE + workers - 1}"))


class Base(Weir):
    """Another build, to compare with."""

    name = "base"


class NginxBackend(Nginx):
    """The backend, which also counts: how many requests it was asked, at any moment. It reads a POST to its end before it answers:
    to mirror it is how nginx can be made to, and only then has every proxy forwarded all of it."""

    name = "nginx-backend"
    core = LOAD_CORE
    http = """
    server {
        listen 127.0.0.1:%(port)d backlog=4096;
        location = /small { return 200 "%(small)s"; }
        location = /post { root %(folder)s; mirror /sink; error_page 405 =200 @posted; }
        location = /sink { internal; return 204; }
        location @posted { return 200 "%(small)s"; }
        location = /big { root %(folder)s; }
    }
    server {
        listen 127.0.0.1:%(status_port)d;
        location / { stub_status; }
    }"""

    def start(self, prefix=()):
        self.small = "x" * SMALL
        self.status_port = free_port()
        (self.folder / "big").write_bytes(b"x" * BIG)
        (self.folder / "post").touch()
        super().start(prefix)
        self.status = http.client.HTTPConnection("127.0.0.1", self.status_port)
        self.asked = 0
        return self

    def requests(self):
        self.status.request("GET", "/")
        self.asked += 1
        return int(self.status.getresponse().read().split()[9]) - self.asked


class WeirBackend(Weir):
    name = "weir-backend"
    core = LOAD_CORE
    listeners = """
  - bind: 127.0.0.1:%(port)d
    routes:
      - {match: {path: /big}, respond: {body_size: 1MiB}}
      - respond: {body_size: 1KiB}"""

    def requests(self):
        return self.metric("weir_requests_total", 'class="2xx"')


class Http2Backend(WeirBackend):
    """For proxies that speak HTTP/2 to it, plain and with prior knowledge. nghttpd would do, but it does not count."""

    name = "http2-backend"


PROXIES = {kind.name: kind for kind in (Weir, NginxBoringssl, Nginx, Haproxy, Nghttpx, H2o)}
BACKENDS = {"nginx": NginxBackend, "weir": WeirBackend}
