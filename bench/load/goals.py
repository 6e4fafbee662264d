"""What the figures are held to. A goal has a text and says whether it is met; None: what it needs was not measured."""

import statistics

NOISE = 0.03


class OfBest:
    """The ratio to the best peer, and other limits for the ratio to some peers alone."""

    def __init__(self, most, **others):
        self.most, self.others = most, {name.replace("_", "-"): limit for name, limit in others.items()}
        self.text = f"{most:g} of the best" if not others else ", ".join(
            [f"{limit:g} of {name}" for name, limit in self.others.items()] + [f"{most:g} of every other"])

    def met(self, _values, ratios, best):
        if not best:
            return None
        if not self.others:
            return statistics.median(best) <= self.most
        return all(statistics.median(ratio) <= self.others.get(name, self.most) for name, ratio in ratios.items() if ratio)


class Value:
    """weir's own figure."""

    def __init__(self, most, unit):
        self.most, self.text = most, f"{most:g} {unit}"

    def met(self, values, _ratios, _best):
        return statistics.median(values) <= self.most if values else None


class Ratio:
    """Of two weirs."""

    def __init__(self, most=None, least=None):
        self.most, self.least = most, least
        self.text = f"at most {most:g}" if least is None else f"at least {least:g}"

    def met(self, ratios):
        middle = statistics.median(ratios)
        return (self.most is None or middle <= self.most) and (self.least is None or middle >= self.least)


class Same:
    """Of two weirs: no difference beyond what the rounds differ by anyway."""

    text = "within noise"

    def met(self, ratios):
        return abs(statistics.median(ratios) - 1) <= NOISE or min(ratios) <= 1 <= max(ratios)


def verdict(met):
    return {None: "", True: "met", False: "**not met**"}[met]
