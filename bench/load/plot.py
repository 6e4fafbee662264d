"""Line charts as SVG, several on a page. No library: the machine may have none."""

import math

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 560, 330, 66, 16, 34, 66
COLOURS = {"weir": "#c0392b", "nginx": "#1e8449", "nginx-short": "#82c99d", "haproxy": "#1f4e9c", "haproxy-rate": "#7fa8e0",
           "haproxy-reject": "#8e44ad"}
OTHER = ("#b7950b", "#16a085", "#7f8c8d", "#d35400", "#2c3e50")


def steps(low, high, logarithmic):
    if logarithmic:
        return [10.0 ** i for i in range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)]
    width = 10.0 ** math.floor(math.log10(max(high - low, 1e-9)))
    while (high - low) / width < 4:
        width /= 2
    return [width * i for i in range(math.floor(low / width), math.ceil(high / width) + 1)]


def text(x, y, words, size=11, anchor="middle", colour="#333", more=""):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{colour}" {more}>{words}</text>'


def chart(title, x_title, y_title, lines, logarithmic=False):
    """LINES: {name: [(x, y)]}; a y of None leaves a gap."""
    lines = {name: [(x, y) for x, y in points if y is not None and (y > 0 or not logarithmic)] for name, points in lines.items()}
    xs = [x for points in lines.values() for x, _ in points] or [0, 1]
    ys = [y for points in lines.values() for _, y in points] or [1]
    ticks = steps(min(ys) if logarithmic else 0, max(max(ys), 1e-3), logarithmic)
    across = steps(min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1, False)
    low, high = (math.log10(ticks[0]), math.log10(ticks[-1])) if logarithmic else (ticks[0], ticks[-1])
    high = high if high > low else low + 1

    def at_x(x):
        return LEFT + (x - across[0]) / (across[-1] - across[0]) * (WIDTH - LEFT - RIGHT)

    def at_y(y):
        y = math.log10(y) if logarithmic else y
        return HEIGHT - BOTTOM - (y - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    yield text(WIDTH / 2, 18, title, 13, more='font-weight="bold"')
    for y in ticks:
        yield f'<path d="M{LEFT} {at_y(y):.1f}H{WIDTH - RIGHT}" stroke="#ddd"/>' + text(LEFT - 6, at_y(y) + 4, f"{y:g}", anchor="end")
    for x in across:
        yield text(at_x(x), HEIGHT - BOTTOM + 16, f"{x:g}")
    yield text(WIDTH / 2, HEIGHT - BOTTOM + 32, x_title)
    yield text(14, HEIGHT / 2 - 20, y_title, more=f'transform="rotate(-90 14 {HEIGHT / 2 - 20:.0f})"')
    spare = iter(OTHER * 10)
    for i, (name, points) in enumerate(lines.items()):
        colour = COLOURS.get(name) or next(spare)
        path = " ".join(f"{at_x(x):.1f},{at_y(y):.1f}" for x, y in points)
        yield f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{2.4 if name == "weir" else 1.4}"/>'
        if len(points) < 30:
            yield "".join(f'<circle cx="{at_x(x):.1f}" cy="{at_y(y):.1f}" r="2.6" fill="{colour}"/>' for x, y in points)
        x = LEFT + i % 4 * 120
        y = HEIGHT - 18 + i // 4 * 13
        yield f'<rect x="{x - 14}" y="{y - 8}" width="10" height="8" fill="{colour}"/>' + text(x, y, name, 10, "start")


def page(path, charts, columns=2):
    """CHARTS: arguments of chart() each."""
    rows = math.ceil(len(charts) / columns)
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{WIDTH * columns}" height="{HEIGHT * rows}" font-family="sans-serif">',
           '<rect width="100%" height="100%" fill="white"/>']
    for i, arguments in enumerate(charts):
        out.append(f'<g transform="translate({i % columns * WIDTH} {i // columns * HEIGHT})">')
        out += chart(*arguments)
        out.append("</g>")
    path.write_text("\n".join([*out, "</svg>\n"]))
