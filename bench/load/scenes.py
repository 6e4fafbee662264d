"""What bench/storm can do: each scene measures, prints a table and gives its raw data back."""

import time

import plot
from contenders import CONTENDERS
from machine import Failed, cpu_us, prefer
from weather import Metrics, Probe, difference, peak, quantiles, result_of, storm, weather

REFUSED = "weir_connections_refused_total"


def number(value, digits=1):
    return "-" if value is None else f"{value:,.{digits}f}"


def three(found, digits=1):
    if not found["count"]:
        return "none" if found["failed"] else "-"
    return " / ".join(number(found[name], digits) for name in ("p50", "p99", "max")) + (
        f", {found['failed']} failed" if found["failed"] else "")


def table(head, rows):
    print("| " + " | ".join(head) + " |")
    print("|" + " --- |" * len(head))
    for row in rows:
        print("| " + " | ".join(str(cell) for cell in row) + " |")
    print(flush=True)


def say(text):
    print(text, flush=True)


def refusals(seen):
    """As the client was told; then as weir counts them."""
    told = ", ".join(f"{seen['storm'][name]:,} {name}" for name in ("reset", "alert", "closed", "gave_up", "stalled", "other") if seen["storm"][name])
    counted = ", ".join(f"{value:,.0f} {name.partition('{')[2][:-1]}" for name, value in seen["counters"].items()
                        if name.startswith(REFUSED) and value)
    return (told or "none") + (f" (weir: {counted})" if counted else "")


class Stage:
    """Starts servers one at a time, with the same backend and certificate."""

    def __init__(self, args, folder, backend, tools):
        self.args, self.folder, self.backend, self.tools = args, folder, backend, tools
        self.made = []

    def server(self, name, **others):
        self.made.append(CONTENDERS[name](self.folder, self.backend.port, self.tools.parent, **others))
        return self.made[-1]

    @staticmethod
    def start(server):
        """Its port was free a moment ago; on a busy machine somebody else may have it by now."""
        for attempt in range(3):
            try:
                server.start()
                break
            except Failed:
                server.stop()
                if attempt == 2:
                    raise
        prefer(server.pid)
        return server

    def stop(self):
        for server in self.made:
            server.stop()

    def weir(self, **admission):
        return self.server("weir", admission=admission)

    def with_peak(self, name):
        """The server, running, and its peak; one that shapes itself by it is started anew."""
        server = self.start(self.server(name))
        found = peak(self.tools, server)
        if hasattr(server, "learn_peak"):
            server.learn_peak(found)
            server.stop()
            self.start(server)
        return server, found


PEAK_TEXT = "64 clients in a closed loop"
LOAD_HEAD = ("server", "offered, of peak", "offered/s", "late, ms p99", "finished in time/s", "of peak", "server's share of its core", "finished in a second of it",
             "wait, ms p50 / p99 / max", "established, ms p50 / p99 / max: before", "during", "after", "fresh during, ms", "backlog, queue", "first after, ms",
             "idle after, s", "refused")


def load_row(seen):
    found, base = seen["storm"], seen["peak"]
    first = seen["first_after"]
    return (seen["server"], f"{seen['multiple']:g}x", number(found["offered_a_second"], 0), number(found["late_ms"]["p99"]),
            number(seen["goodput"], 0), f"{seen['goodput'] / base:.0%}",
            *((f"{seen['busy']:.0%}", number(seen["goodput"] / seen["busy"], 0)) if seen["busy"] else ("-", "-")),
            " / ".join(number(found["ms"][name]) for name in ("p50", "p99", "max")),
            *(three(seen["established"][when]) for when in ("before", "during", "after")), three(seen["fresh"], 0),
            f"{seen['backlog']:.0f}, {seen['queue']}",
            f"{first['ms']:.0f}" + ("" if first["how"] == "ok" else f" {first['how']}") if first else "-",
            number(seen["idle_after"]), refusals(seen))


def load_plots(path, runs):
    names = list(dict.fromkeys(seen["server"] for seen in runs))

    def by_load(value):
        return {name: [(seen["multiple"], value(seen)) for seen in runs if seen["server"] == name] for name in names}

    most = max(seen["multiple"] for seen in runs if seen["multiple"] <= 5)
    at_most = [seen for seen in runs if seen["multiple"] == most]
    plot.page(path, [
        ("Finished in time", "offered, of its own peak", "handshakes/s", by_load(lambda seen: seen["goodput"])),
        ("Wait of those that finished, p50", "offered, of its own peak", "ms", by_load(lambda seen: seen["storm"]["ms"]["p50"]), True),
        ("Established requests during it, p99", "offered, of its own peak", "ms",
         by_load(lambda seen: seen["established"]["during"]["p99"]), True),
        ("Established requests during it, p50", "offered, of its own peak", "ms",
         by_load(lambda seen: seen["established"]["during"]["p50"]), True),
        (f"Open connections of the storm, at {most:g}x", "seconds", "connections",
         {seen["server"]: [(i / 10, slot["open"]) for i, slot in enumerate(seen["slots"])] for seen in at_most}),
        (f"Finished, at {most:g}x", "seconds", "handshakes in 100 ms",
         {seen["server"]: [(i / 10, slot["full"] + slot["resumed"]) for i, slot in enumerate(seen["slots"])] for seen in at_most}),
    ])


def load(stage):
    """Each server at multiples of its own closed-loop peak."""
    args, runs = stage.args, []
    for name in args.servers:
        server, base = stage.with_peak(name)
        say(f"{name}: {server.about}; peak {base:,.0f} handshakes/s, {PEAK_TEXT}")
        for multiple in args.multiples:
            seen = weather(stage.tools, server, base * multiple, args.seconds, args.patience)
            runs.append(seen | {"multiple": multiple, "peak": base})
        server.stop()
    table(LOAD_HEAD, map(load_row, runs))
    if args.plot:
        load_plots(args.plot, runs)
    return runs


def connections(stage):
    """So many connections as fast as it goes, and the account of both sides."""
    args, runs = stage.args, []
    for name in args.servers:
        server = stage.start(stage.server(name))
        before, queue = Metrics(server).read(), kernel_drops()
        seen = result_of(storm(stage.tools, server.port, server.folder, rate=0, connections=args.count, patience=args.patience))
        time.sleep(1)
        counters = difference(before, Metrics(server).read())
        server.stop()
        runs.append({"server": name, "storm": seen, "counters": counters, "drops": kernel_drops() - queue})
        if not show_account(name, seen, counters, runs[-1]["drops"]):
            raise Failed(f"{name}: the account does not add up")
    return runs


def kernel_drops():
    """Connections the kernel had no room for in accept queues, whole system."""
    head, values = [line.split() for line in open("/proc/net/netstat", encoding="ascii") if line.startswith("TcpExt:")]
    return int(values[head.index("ListenOverflows")])


def show_account(name, seen, counters, drops):
    """Whether it adds up on each side, and between the two."""
    finished = seen["full"] + seen["resumed"]
    refused = seen["reset"] + seen["alert"] + seen["closed"]
    offered = seen["offered"]
    exact = finished + refused + seen["gave_up"] + seen["other"] == offered
    say(f"{name}: client: {offered:,} offered in {seen['seconds']:.1f} s = {finished:,} established + {refused:,} refused"
        f" + {seen['gave_up']:,} abandoned + {seen['other']:,} other: {'exact' if exact else 'NOT EXACT'};"
        f" kernel's queue overflowed {drops:,} times")
    if not counters:
        return exact
    accepted = counters["weir_connections_accepted_total"]
    served = counters["weir_handshakes_full_total"] + counters["weir_handshakes_resumed_total"]
    reasons = {key.partition("{")[2][:-1]: value for key, value in counters.items() if key.startswith(REFUSED) and value}
    both = accepted == served + sum(reasons.values())
    unseen = offered - accepted
    say(f"{'':{len(name)}}  server: {accepted:,.0f} accepted = {served:,.0f} established + "
        + " + ".join(f"{value:,.0f} {reason}" for reason, value in reasons.items()) + f": {'exact' if both else 'NOT EXACT'}")
    say(f"{'':{len(name)}}  between: {unseen:,.0f} offered and never accepted (the client gave up or was reset while in the kernel's"
        f" queue: {seen['gave_up_in']['connect'] + seen['reset_in']['connect']:,}), {served - finished:,.0f} finished for the server alone"
        f" (the client gave up meanwhile: {seen['gave_up_in']['finished'] + seen['gave_up_in']['answered']:,})")
    return exact and both and unseen >= 0 and served >= finished


def silent(stage):
    """Clients that connect and say nothing, and then a normal one."""
    args, runs, rows = stage.args, [], []
    for name in args.servers:
        server = stage.start(stage.server(name))
        quiet = storm(stage.tools, server.port, server.folder, rate=0, connections=args.silent, patience=15000, silent=True)
        time.sleep(2)
        gauges = Metrics(server).read()
        probe = Probe(stage.tools, server, connect_every=100, connections=0, rate=0)
        time.sleep(2)
        probe.stop()
        seen = result_of(quiet)
        server.stop()
        fresh = quantiles([sample for sample in probe.samples if sample[1] == "connect"])
        first = min((sample for sample in probe.samples if sample[1] == "connect"), default=None)
        runs.append({"server": name, "fresh": fresh, "first": first, "storm": seen})
        rows.append((name, f"{seen['offered']:,}", gauges.get(("weir_connections_silent", ""), "-"),
                     f"{first[2]:.1f} {first[3]}" if first else "-", three(fresh), seen["reset"] + seen["closed"]))
    table(("server", "silent clients", "silent, server's gauge", "first normal handshake, ms", "normal ones, ms p50 / p99 / max",
           "silent ones it ended"), rows)
    return runs


def mixed(stage):
    """A storm of full handshakes, and clients with tickets at 30 % of what the server can do."""
    args, runs, rows = stage.args, [], []
    for name in args.servers:
        server, base = stage.with_peak(name)
        for multiple in args.multiples:
            rate = base * (multiple + args.resuming)
            seen = weather(stage.tools, server, rate, args.seconds, args.patience, resume_share=args.resuming * base / rate)
            runs.append(seen | {"multiple": multiple, "peak": base})
            resume, full = seen["storm"]["claims"]["resume"], seen["storm"]["claims"]["full"]
            in_time = sum(slot["full"] for slot in seen["slots"][:round(args.seconds * 10)]) / args.seconds
            rows.append((name, f"{multiple:g}x full + {args.resuming:.0%} resuming",
                         f"{resume['offered']:,}", f"{resume['resumed'] / max(resume['offered'], 1):.1%}",
                         " / ".join(number(resume["ms"][key]) for key in ("p50", "p99", "max")),
                         number(in_time, 0), f"{in_time / base:.0%}", f"{full['full'] / max(full['offered'], 1):.0%}",
                         three(seen["established"]["during"]), refusals(seen)))
        server.stop()
    table(("server", "offered", "resuming", "of them served within their patience", "wait, ms p50 / p99 / max",
           "full ones, served/s", "of peak", "of them served", "established during, ms", "refused"), rows)
    return runs


def concurrency(stage):
    """max_pending_handshakes against throughput, backlog and wait."""
    args, runs, rows = stage.args, [], []
    server, base = stage.with_peak("weir")
    server.stop()
    for limit in args.limits:
        server = stage.start(stage.weir(max_pending_handshakes=limit))
        seen = weather(stage.tools, server, base * args.multiples[0], args.seconds, args.patience)
        server.stop()
        runs.append(seen | {"limit": limit, "peak": base})
        rows.append((limit, number(seen["goodput"], 0), f"{seen['backlog']:.0f}, {seen['queue']}",
                     " / ".join(number(seen["storm"]["ms"][key]) for key in ("p50", "p99", "max")),
                     three(seen["established"]["during"]), number(seen["idle_after"])))
    table(("max_pending_handshakes", "finished/s", "backlog, queue", "wait, ms p50 / p99 / max", "established during, ms",
           "idle after, s"), rows)
    return runs


def refusal(stage):
    """CPU of a refusal at accept, by what the client is told."""
    args, runs, rows = stage.args, [], []
    for how in ("reset", "close", "alert"):
        server = stage.start(stage.weir(max_pending_handshakes=0, refuse_with=how))
        for rate in args.rates:
            before = cpu_us(server.pid)
            seen = result_of(storm(stage.tools, server.port, server.folder, rate=rate, seconds=args.seconds, patience=args.patience))
            cpu = cpu_us(server.pid) - before
            refused = seen["reset"] + seen["closed"] + seen["alert"]
            runs.append({"how": how, "rate": rate, "cpu_us": cpu / max(refused, 1), "storm": seen})
            rows.append((how, number(seen["offered_a_second"], 0), f"{cpu / max(refused, 1):.2f}",
                         " / ".join(number(seen["refused_ms"][key], 2) for key in ("p50", "p99")),
                         f"{seen['reset']:,} / {seen['closed']:,} / {seen['alert']:,} / {seen['gave_up']:,}",
                         f"{seen['client_us']:.1f}"))
        server.stop()
    table(("refuse_with", "offered/s", "server's CPU, us a refusal", "told after, ms p50 / p99", "reset / closed / alert / gave up",
           "client's CPU, us"), rows)
    return runs


SCENES = {"load": load, "connections": connections, "silent": silent, "mixed": mixed, "table": concurrency, "refusal": refusal}
