"""The two tables: weir beside its peers, and weir beside itself."""

import statistics

from goals import verdict

# Of a Sample: (figure, unit or None for the row's own, digits, is less better)
COST = ("cost", None, 1, True)
RATE = ("rate", None, 0, False)
LATENCIES = ("p50", "p50, ms", 2, True), ("p99", "p99, ms", 2, True), ("p99999", "p99.999, ms", 2, True)
OF_PAIRS = {
    "cost": ("CPU, us", 1, 1), "rate": ("requests/s", 0, 1), "p50": ("p50, ms", 2, 1000), "p99": ("p99, ms", 2, 1000),
    "p99999": ("p99.999, ms", 2, 1000), "hibernate": ("CPU to fall asleep, us", 1, 1), "wake": ("CPU of a request that wakes, us", 1, 1),
}


def middle(values, digits):
    if not values:
        return "-"
    if len(values) == 1:
        return f"{values[0]:.{digits}f}"
    return f"{statistics.median(values):.{digits}f} ({min(values):.{digits}f} to {max(values):.{digits}f})"


def values_of(samples, figure):
    scale = 1000 if figure.startswith("p") else 1
    found = (getattr(sample, figure, None) for sample in samples)
    return [value / scale for value in found if value is not None]


def of_best(weir, peers, less):
    """weir to the best peer of each round; and which one that is, by its median."""
    present = {name: values for name, values in peers.items() if values}
    if not weir or not present:
        return [], ""
    choose = min if less else max
    ratios = [own / choose(values[i] for values in present.values()) for i, own in enumerate(weir)]
    return ratios, choose(present, key=lambda name: statistics.median(present[name]))


def line(row, figure, unit, digits, less, by_name, names, peers):
    values = {name: values_of(by_name.get(name, []), figure) for name in names}
    if not any(values.values()):
        return None
    weir = values.get("weir", [])
    ratios = {name: [a / b for a, b in zip(weir, values[name])] for name in names if name != "weir"} if weir else {}
    best, who = of_best(weir, {name: values[name] for name in peers}, less)
    goal = row.goal if figure == "cost" else None
    met = goal.met(weir, {name: ratios.get(name, []) for name in peers}, best) if goal and weir else None
    return [row.text, unit, *(middle(values[name], digits) for name in names), *(middle(ratio, 2) for ratio in ratios.values()),
            f"{middle(best, 2)} {who}".strip(), goal.text if goal else "", verdict(met)]


def peers_table(rows, samples, names):
    """samples[row][name]: a list, one a round."""
    peers = [name for name in names if name not in ("weir", "base")]
    others = [name for name in names if name != "weir"] if "weir" in names else []
    head = ["", "unit", *names, *(f"weir/{name}" for name in others), "weir/best", "goal", "is it met"]
    yield head
    yield ["---"] * len(head)
    for figure, unit, digits, less in (COST, RATE, *LATENCIES):
        for key, by_name in samples.items():
            row = rows[key]
            say = unit or (row.unit if figure == "cost" else row.rate_unit)
            if say is None:
                continue
            found = line(row, figure, say, 0 if say == "ms/GiB" else digits, less, by_name, names, peers)
            if found:
                yield found


def pairs_table(pairs, samples):
    """samples[pair]: a list of (left, right), one a round; None where this weir cannot."""
    yield ["", "unit", "A", "B", "A's", "B's", "A/B", "goal", "is it met"]
    yield ["---"] * 9
    for key, rounds in samples.items():
        pair = pairs[key]
        for figure, goal in pair.goals.items():
            unit, digits, scale = OF_PAIRS[figure]
            start, end = [pair.text, unit, *pair.names()], goal.text if goal else ""
            if rounds is None:
                yield [*start, "-", "-", "-", end, "not in this weir"]
                continue
            sides = [[getattr(found[i], figure) for found in rounds] for i in (0, 1)]
            if None in sides[0]:
                continue
            ratios = [a / b for a, b in zip(*sides)]
            yield [*start, *(middle([value / scale for value in side], digits) for side in sides), middle(ratios, 2), end,
                   verdict(goal.met(ratios)) if goal else ""]
