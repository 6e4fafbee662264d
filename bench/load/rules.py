"""What each rule of weir's admission is good for: scenes in which one is switched off and some figure gets worse."""

from scenes import number, refusals, table, three
from weather import peak, weather

TRUSTED = {"trusted": "[127.1.195.81/32]", "trusted_reserve": 8}  # where weir-probe's fresh clients come from

# The keys that switch it off, and the storm in which it shows.
RULES = {
    "all rules": ({}, {}),
    "no backlog limit": ({"max_pending_handshakes": "infinity"}, {}),
    "no delay limit": ({"max_handshake_delay": "infinity"}, {}),
    "neither limit": ({"max_pending_handshakes": "infinity", "max_handshake_delay": "infinity"}, {}),
    "first come, first served": ({"newest_first": "false"}, {}),
    "adaptive": ({"mode": "adaptive"}, {}),
    "no turn budget": ({"turn_budget": "infinity"}, {}),
    "resumption not first": ({"resumption_first": "false"}, {}),
    "one source, fair": ({}, {"sources": 1}),
    "one source, no shares": ({"max_share_per_source": "100%"}, {"sources": 1}),
    "the fresh are trusted": (TRUSTED, {}),
}


def rules(stage):
    """weir with each rule switched off, under the same mixed storm."""
    args, runs, rows = stage.args, [], []
    base = None
    for name, (admission, options) in RULES.items():
        server = stage.start(stage.weir(**admission))
        base = base or peak(stage.tools, server)
        rate = base * (args.multiples[0] + args.resuming)
        seen = weather(stage.tools, server, rate, args.seconds, args.patience, resume_share=args.resuming * base / rate, **options)
        runs.append(seen | {"rule": name, "peak": base})
        resume = seen["storm"]["claims"]["resume"]
        server.stop()
        rows.append((name, number(seen["goodput"], 0), f"{seen['goodput'] / base:.0%}",
                     " / ".join(number(seen["storm"]["ms"][key]) for key in ("p50", "p99")),
                     f"{resume['resumed'] / max(resume['offered'], 1):.1%}", three(seen["established"]["during"]),
                     three(seen["fresh"], 0), f"{seen['backlog']:.0f}, {seen['queue']}", number(seen["idle_after"]), refusals(seen)))
    table(("weir with", "finished in time/s", "of peak", "wait, ms p50 / p99", "resuming served", "established during, ms",
           "fresh clients of other sources, ms", "backlog, queue", "idle after, s", "refused"), rows)
    return runs


# Half handshakes: a ClientHello, and then silence. So many a second a server has time for; what they hold is slots.
STALLS_A_SECOND = 500
STALLING_SECONDS = 12  # longer than the deadline of a handshake
STALL_PATIENCE = 60000  # longer than weir's
STALLS = {
    "all rules": ({}, {}),
    "no backlog limit": ({"max_pending_handshakes": "infinity"}, {}),
    "adaptive": ({"mode": "adaptive"}, {}),
    "the fresh are trusted": (TRUSTED, {}),
    "one source stalls, fair": ({}, {"sources": 1}),
    "one source stalls, no shares": ({"max_share_per_source": "100%"}, {"sources": 1}),
}


def stall(stage):
    """Clients that send a ClientHello and never answer the server, and fresh ones that do."""
    runs, rows = [], []
    for name, (admission, options) in STALLS.items():
        server = stage.start(stage.weir(**admission))
        seen = weather(stage.tools, server, STALLS_A_SECOND, STALLING_SECONDS, STALL_PATIENCE, stall=True, **options)
        server.stop()
        runs.append(seen | {"rule": name})
        before, most = seen["samples"][0], {key: max(row[key] for row in seen["samples"]) for key in ("rss_kb", "descriptors")}
        fresh = seen["fresh"]
        answered = sum(seen["storm"][f"{how}_in"]["answered"] for how in ("reset", "closed", "alert", "stalled"))
        rows.append((name, f"{seen['storm']['offered']:,}", f"{answered:,}", f"{seen['backlog']:,.0f}",
                     f"{before['rss_kb'] / 1024:.0f} to {most['rss_kb'] / 1024:.0f}", f"{before['descriptors']:,} to {most['descriptors']:,}",
                     f"{fresh['count']} of {fresh['count'] + fresh['failed']}", three(fresh, 0), three(seen["established"]["during"]),
                     refusals(seen)))
    table(("weir with", "stalling clients", "of them let in", "backlog", "memory, MiB", "descriptors", "fresh clients served", "their wait, ms",
           "established during, ms", "refused"), rows)
    return runs


HURRIED_PATIENCE = 100  # ms: as much as the delay limit
ORDERS = {
    "newest first": {},
    "first come, first served": {"newest_first": "false"},
    "no delay limit": {"max_handshake_delay": "infinity"},
}


def order(stage):
    """Who is served when not all can be, and clients who have little patience."""
    args, runs, rows = stage.args, [], []
    base = None
    for name, admission in ORDERS.items():
        for patience in (args.patience, HURRIED_PATIENCE):
            server = stage.start(stage.weir(**admission))
            base = base or peak(stage.tools, server)
            seen = weather(stage.tools, server, base * args.multiples[0], args.seconds, patience)
            server.stop()
            runs.append(seen | {"rule": name, "peak": base, "patience": patience})
            found, counters = seen["storm"], seen["counters"]
            served = counters["weir_handshakes_full_total"] + counters["weir_handshakes_failed_total"]
            rows.append((name, number(patience, 0), number(seen["goodput"], 0), f"{seen['goodput'] / base:.0%}",
                         f"{found['full'] / max(served, 1):.0%}",
                         " / ".join(number(found["ms"][key]) for key in ("p50", "p99", "max")), three(seen["fresh"], 0), refusals(seen)))
    table(("weir with", "patience, ms", "finished in time/s", "of peak", "of those begun", "wait, ms p50 / p99 / max",
           "fresh clients, ms", "refused"), rows)
    return runs


MODES = {
    "fixed": {},
    "adaptive": {"mode": "adaptive"},
    "fixed, no delay limit": {"max_handshake_delay": "infinity"},
    "adaptive, no delay limit": {"max_handshake_delay": "infinity", "mode": "adaptive"},
}
LIMIT_TIMES = (1.5, 3, 6)  # seconds from the beginning of a storm, and from its end; weir tells of its limit once a second
AFTER_STORM = LIMIT_TIMES[-1] + 1


def limit_at(seen, when):
    """The limit as weir showed it then, or last before."""
    shown = [row["limit"] for row in seen["samples"] if row["at"] <= when]
    return f"{shown[-1]:,.0f}" if shown else "-"


def adaptive(stage):
    """The limit that finds itself, over time, beside the fixed one."""
    args, runs, rows = stage.args, [], []
    base = None
    for name, admission in MODES.items():
        server = stage.start(stage.weir(**admission))
        base = base or peak(stage.tools, server)
        seen = weather(stage.tools, server, base * args.multiples[0], args.seconds, args.patience, after=AFTER_STORM)
        server.stop()
        runs.append(seen | {"mode": name, "peak": base})
        start, end = seen["start"], seen["start"] + args.seconds
        during, later = (", ".join(limit_at(seen, since + offset) for offset in LIMIT_TIMES) for since in (start, end))
        rows.append((name, limit_at(seen, start), during, later, f"{seen['backlog']:.0f}", number(seen["goodput"], 0),
                     f"{seen['goodput'] / base:.0%}", " / ".join(number(seen["storm"]["ms"][key]) for key in ("p50", "p99", "max")),
                     three(seen["established"]["during"]), refusals(seen)))
    table(("mode", "limit before", *(f"{LIMIT_TIMES[0]}, {LIMIT_TIMES[1]} and {LIMIT_TIMES[2]} s {when}" for when in ("into the storm", "after it")), "backlog", "finished in time/s", "of peak",
           "wait, ms p50 / p99 / max", "established during, ms", "refused"), rows)
    return runs


SCENES = {"rules": rules, "stall": stall, "order": order, "adaptive": adaptive}
