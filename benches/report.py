"""Writes the results as a table, as CSV and as a plot."""

import csv
import os
import platform
import subprocess
from xml.sax.saxutils import escape

COLUMNS = ["case", "variant", "ms", "ratio", "reference", "kilobytes", "goal", "met"]


def machine():
    def said(*words):
        return subprocess.run(words, capture_output=True, text=True).stdout.strip()

    model = ""
    with open("/proc/cpuinfo") as file:
        model = next((line.split(":", 1)[1].strip() for line in file if line.startswith("model name")), platform.machine())
    fd = said("sh", "-c", "fd --version 2>/dev/null || fdfind --version")
    return f"{os.cpu_count()} × {model}, Linux {platform.release()}, {said('bwrap', '--version')}, {fd}"


def table(rows):
    lines = ["| case | variant | ms | ratio | goal | |", "|---|---|---:|---:|---|---|"]
    for row in rows:
        ratio = f"{row['ratio']:.2f} × {row['reference']}" if row["ratio"] else ""
        met = {True: "met", False: "missed", None: ""}[row["met"]]
        lines.append(f"| {row['case']} | {row['variant']} | {row['ms']:.1f} | {ratio} | {row['goal'] or ''} | {met} |")
    return "\n".join(lines) + "\n"


def write(rows, folder):
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(folder, "results.md"), "w") as file:
        file.write(f"Medians of interleaved starts. {machine()}.\n\n{table(rows)}")
    with open(os.path.join(folder, "results.csv"), "w", newline="") as file:
        writer = csv.DictWriter(file, COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    with open(os.path.join(folder, "results.svg"), "w") as file:
        file.write(plot(rows))


def plot(rows):
    """Draws a bar for each variant on a logarithmic scale, grouped by case."""
    import math

    left, width, bar = 430, 420, 16
    low, high = 1.0, max(row["ms"] for row in rows) * 1.2

    def across(ms):
        return width * math.log10(max(ms, low) / low) / math.log10(high / low)

    drawn, y, case = [], 30, None
    for row in rows:
        if row["case"] != case:
            case, y = row["case"], y + 14
            drawn.append(f'<text x="8" y="{y + 10}" class="case">{escape(case)}</text>')
            y += 18
        color = "#1f6f54" if row["variant"].startswith("agent-sandbox") else "#9aa5b1"
        drawn.append(f'<text x="{left - 8}" y="{y + 12}" class="name">{escape(row["variant"])}</text>')
        drawn.append(f'<rect x="{left}" y="{y}" width="{across(row["ms"]):.0f}" height="{bar - 3}" fill="{color}"/>')
        drawn.append(f'<text x="{left + across(row["ms"]) + 5:.0f}" y="{y + 12}" class="ms">{row["ms"]:.1f} ms</text>')
        y += bar
    style = "text{font:12px sans-serif;fill:#333}.case{font-weight:bold}.name{text-anchor:end}.ms{fill:#666}"
    size = f'width="{left + width + 90}" height="{y + 20}"'
    title = '<text x="8" y="20">Median of a whole start, in milliseconds (logarithmic)</text>'
    ground = '<rect width="100%" height="100%" fill="#fff"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {size}><style>{style}</style>{ground}{title}{"".join(drawn)}</svg>\n'
