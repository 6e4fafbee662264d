"""The proxies and the backend: each one's configuration for the same work, and how it is started.

All proxies: one worker on PROXY_CORE, TLS 1.3 with the same ECDSA P-256 certificate and the cipher suite that the client likes
best, HTTP/2 for a client that offers it and else HTTP/1.1, keep-alive to the same backend, no access log, timeouts out of the way.
Beyond that each is as its packager left it, except where a default would hold it back in this work (the pools' sizes, nginx's
temporary files, nghttpx's window of a connection).
"""

import http.client
import os
import re

from machine import LOAD_CORE, MOST_FILES, PROXY_CORE, Failed, Running, free_port, run

SMALL = 1024
BIG = 1 << 20
# nginx as root would give its worker another user, who may not read our folder.
NGINX_USER = "user root;" if os.geteuid() == 0 else ""


KEYS = {"ecdsa": ["ec", "-pkeyopt", "ec_paramgen_curve:P-256"], "rsa": ["rsa:2048"]}


def make_certificate(folder, key="ecdsa"):
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

    def __init__(self, folder, backend_port=None, build=None, up="h1"):
        self.home = folder
        self.folder = folder / f"{self.name}-{up}"
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
        return ["nginx", "-p", self.folder, "-c", path, "-e", "stderr"]

    def version(self):
        return "nginx " + run(["sh", "-c", "nginx -v 2>&1"]).strip().rpartition("/")[2]


class Haproxy(Server):
    name = "haproxy"

    def configuration(self):
        return """
global
    nbthread 1
    maxconn 15000
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


class Weir(Server):
    name = "weir"
    listeners = """
  - name: edge
    bind: 127.0.0.1:%(port)d
    tls: {certificates: [{chain: %(home)s/cert.pem, key: %(home)s/key.pem}], versions: [tls1.3]}
    admission: {max_pending_handshakes: 1024}
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
workers: 1
admin: 127.0.0.1:%(admin_port)d
defaults:
  timeouts: {keep_alive: 1h, inactivity: 1h}
listeners:""" % vars(self) + self.listeners % vars(self) + "\n"

    def command(self, path):
        return [self.build / "bin/weir", "run", "-c", path]

    def version(self):
        return run([self.build / "bin/weir", "version"]).strip()


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
        status = http.client.HTTPConnection("127.0.0.1", self.admin_port)
        status.request("GET", "/metrics")
        text = status.getresponse().read().decode()
        found = re.search(r'^weir_requests_total\{.*class="2xx".*\} (\d+)', text, re.M)
        if not found:
            raise Failed("weir as backend does not tell how many requests it served")
        return int(found.group(1))


class Http2Backend(WeirBackend):
    """For proxies that speak HTTP/2 to it, plain and with prior knowledge. nghttpd would do, but it does not count."""

    name = "http2-backend"


PROXIES = {"weir": Weir, "nginx": Nginx, "haproxy": Haproxy, "nghttpx": Nghttpx}
BACKENDS = {"nginx": NginxBackend, "weir": WeirBackend}
