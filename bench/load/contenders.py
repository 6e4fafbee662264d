"""Who takes part in bench/storm: each server as packaged, and with what it has for its protection.

What was looked for and is not there: a limit on TLS handshakes in flight, or a refusal before them, in nginx (limit_conn and limit_req
count after the handshake); a limit on the time a handshake waits, in either. What helps nginx is a short queue in the kernel: then the
wait is short and what does not fit is dropped, and tries again a second later. HAProxy can shape handshakes (maxsslrate), which queues
the rest in the kernel too, or reject connections by their number before TLS.
"""

from servers import Haproxy, Nginx, Weir

SHORT_BACKLOG = 64
REJECT_ABOVE = 120
MAXSSLRATE_SHARE = 0.9


class NginxShort(Nginx):
    name = "nginx-short"
    about = f"nginx with backlog={SHORT_BACKLOG}, client_header_timeout 5s"

    def configuration(self):
        return super().configuration().replace("backlog=4096", f"backlog={SHORT_BACKLOG}").replace(
            "access_log off;", "access_log off; client_header_timeout 5s;", 1)


class HaproxyRate(Haproxy):
    """The rate that suits it is known only when its peak has been measured."""

    name = "haproxy-rate"
    about = f"HAProxy with maxsslrate of {MAXSSLRATE_SHARE:.0%} of its peak, backlog {SHORT_BACKLOG}"
    maxsslrate = 0

    def learn_peak(self, peak):
        self.maxsslrate = int(peak * MAXSSLRATE_SHARE)

    def configuration(self):
        limit = f"    maxsslrate {self.maxsslrate}\n" if self.maxsslrate else ""
        return super().configuration().replace("backlog 4096", f"backlog {SHORT_BACKLOG}").replace(
            "    nbthread 1\n", f"    nbthread 1\n{limit}")


class HaproxyReject(Haproxy):
    name = "haproxy-reject"
    about = f"HAProxy that rejects at accept while it has over {REJECT_ABOVE} connections"

    def configuration(self):
        return super().configuration().replace(
            "    http-request set", f"    tcp-request connection reject if {{ fe_conn gt {REJECT_ABOVE} }}\n    http-request set")


class WeirStorm(Weir):
    """As its defaults are, or with some keys of `admission` set."""

    about = "weir, default limits"
    more = ""  # further keys of `admission`, as text

    def __init__(self, *arguments, admission=None, **others):
        super().__init__(*arguments, **others)
        self.admission = admission or {}

    def configuration(self):
        keys = ", ".join([f"{key}: {value}" for key, value in self.admission.items()] + [self.more] * bool(self.more))
        return super().configuration().replace("admission: {max_pending_handshakes: 1024, max_handshake_delay: infinity}", f"admission: {{{keys}}}")


class WeirShort(WeirStorm):
    """Refusing has little of the time, and who is not told waits in a short queue of the kernel's."""

    name = "weir-short"
    about = "weir, refusal_share 3 %, backlog 64"

    def configuration(self):
        text = super().configuration()
        assert "admission: {" in text
        return text.replace("admission: {", "backlog: 64\n    admission: {refusal_share: 3%, ", 1).replace(", }", "}")


class WeirReset(WeirStorm):
    """Refusing has little of the time, and the kernel refuses meanwhile."""

    name = "weir-reset"
    about = "weir, refusal_share 2 %, overflow: reset"

    def configuration(self):
        text = super().configuration()
        assert "admission: {" in text
        return text.replace("admission: {", "admission: {refusal_share: 2%, overflow: reset, ", 1).replace(", }", "}")


for kind, text in ((Nginx, "nginx as packaged, backlog 4096"), (Haproxy, "HAProxy as packaged, backlog 4096")):
    kind.about = text

CONTENDERS = {kind.name: kind for kind in (WeirStorm, WeirShort, WeirReset, Nginx, NginxShort, Haproxy, HaproxyRate, HaproxyReject)}
