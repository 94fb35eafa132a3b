#!/usr/bin/env python3
"""Runs a few commands in a new home, /home/ada, on a terminal, and writes the session as an SVG.

    record.py AGENT_SANDBOX OUTPUT.svg

The lines appear one after another by CSS. A viewer without animations shows the last frame.
"""

import html
import os
import pathlib
import pty
import re
import shutil
import subprocess
import sys

COLUMNS, FONT, ADVANCE, LEADING, MARGIN = 104, 13, 7.83, 18, 16
COMMANDS = [
    ("an agent that was talked into something:", None),
    ("agent-sandbox -- sh -c 'cat .env; cat ~/.ssh/id_ed25519; echo x >> .git/hooks/pre-commit; ls'", None),
    ("why is the hook read-only?", None),
    ("agent-sandbox explain .git/hooks/pre-commit", 9),
    ("which arguments of bwrap do it?", None),
    ("agent-sandbox --print-args -- make | grep hooks", None),
    ("does the kernel agree?", None),
    ("agent-sandbox verify -q | tail -n 1", None),
]
COLORS = {"1": None, "31": "#ff7b72", "32": "#7ee787", "33": "#d29922", "34": "#79c0ff",
          "35": "#d2a8ff", "36": "#76e3ea", "90": "#8b949e", "91": "#ff7b72", "92": "#7ee787",
          "93": "#d29922", "94": "#79c0ff", "95": "#d2a8ff", "96": "#76e3ea", "2": "#8b949e"}


def prepare(home):
    """A home with a key, and a project with a secret and a repository."""
    project = home / "shop"
    for name, text in [(".ssh/id_ed25519", "key\n"), ("shop/.env", "PASSWORD=1\n"),
                       ("shop/main.rs", "fn main() {}\n"), ("shop/Makefile", "all:\n")]:
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text(text)
    subprocess.run(["git", "init", "-q", project], check=True)
    (project / ".git/hooks/pre-commit").write_text("#!/bin/sh\n")
    return project


def run(command, binary, home, project):
    """The output of a command on a terminal."""
    def start():
        os.setgid(1000)
        os.setuid(1000)
        os.chdir(project)
        environment = {"HOME": str(home), "PATH": "/usr/bin:/bin", "TERM": "xterm-256color",
                       "LANG": "C.UTF-8", "COLUMNS": str(COLUMNS)}
        shell = f"stty cols {COLUMNS} rows 50; {command.replace('agent-sandbox', str(binary))}"
        os.execve("/bin/sh", ["sh", "-c", shell], environment)

    pid, terminal = pty.fork()
    if pid == 0:
        start()
    output = b""
    while True:
        try:
            piece = os.read(terminal, 4096)
        except OSError:
            break
        if not piece:
            break
        output += piece
    os.waitpid(pid, 0)
    text = output.decode().replace("\r\n", "\n")
    return re.sub(r"\x1b\][^\x07\x1b]*(\x07|\x1b\\)|\x1b\[[0-9;?]*[A-Zac-ln-z]|\x1b[^\[\]]", "", text)


def spans(line):
    """The pieces of a line with their colours."""
    color, bold = None, False
    for piece in re.split(r"(\x1b\[[0-9;]*m)", line):
        codes = re.fullmatch(r"\x1b\[([0-9;]*)m", piece)
        if not codes:
            if piece:
                yield piece, color, bold
            continue
        for code in codes[1].split(";"):
            if code in ("", "0"):
                color, bold = None, False
            elif code == "1":
                bold = True
            else:
                color = COLORS.get(code, color)


def wrapped(line):
    """The lines of the terminal that a line takes."""
    plain = re.sub(r"\x1b\[[0-9;]*m", "", line)
    if len(plain) <= COLUMNS:
        return [line]
    return [plain[at:at + COLUMNS] for at in range(0, len(plain), COLUMNS)]


def session(binary):
    """(seconds, line, kind) for each line."""
    home = pathlib.Path("/home/ada")
    home.mkdir()
    try:
        project = prepare(home)
        subprocess.run(["chown", "-R", "1000:1000", home], check=True)
        clock, lines = 0.5, []
        for command, most in COMMANDS:
            if not command.startswith("agent-sandbox"):
                if lines:
                    lines.append((clock, "", "output"))
                lines.append((clock, "# " + command, "remark"))
                clock += 1.5
                continue
            for part in wrapped("$ " + command):
                lines.append((clock, part, "command"))
            clock += 2.0
            output = run(command, binary, home, project).rstrip("\n").split("\n")
            for line in output[:most]:
                for part in wrapped(line):
                    lines.append((clock, part, "output"))
                clock += 0.15
            clock += 2.5
        return lines
    finally:
        shutil.rmtree(home)


def svg(lines):
    width = round(2 * MARGIN + COLUMNS * ADVANCE)
    height = 2 * MARGIN + 30 + len(lines) * LEADING
    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
           f'height="{height}" role="img" aria-label="A terminal: the first minute with agent-sandbox">',
           "<style>text{font-family:'DejaVu Sans Mono',Menlo,Consolas,monospace;"
           f"font-size:{FONT}px}}"
           "@keyframes show{from{opacity:0}to{opacity:1}}"
           ".l{animation:show .1s both}"
           "@media (prefers-reduced-motion:reduce){.l{animation:none}}</style>",
           f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>']
    for at, color in enumerate(["#ff5f56", "#ffbd2e", "#27c93f"]):
        out.append(f'<circle cx="{MARGIN + 6 + at * 18}" cy="20" r="5" fill="{color}"/>')
    for index, (seconds, line, kind) in enumerate(lines):
        y = MARGIN + 34 + index * LEADING
        pieces, column = [], 0
        for text, color, bold in spans(line):
            color = {"remark": "#8b949e", "command": "#f0f6fc"}.get(kind, color)
            style = (f' fill="{color}"' if color else "") + (' font-weight="bold"' if bold or kind == "command" else "")
            x = MARGIN + column * ADVANCE
            length = len(text) * ADVANCE
            if text.strip():
                lead = len(text) - len(text.lstrip(" "))
                body = text.strip(" ")
                x, length = x + lead * ADVANCE, len(body) * ADVANCE
                pieces.append(f'<text x="{x:.2f}" y="{y}" textLength="{length:.2f}" xml:space="preserve"{style}>'
                              f"{html.escape(body)}</text>")
            column += len(text)
        if pieces:
            out.append(f'<g class="l" fill="#c9d1d9" style="animation-delay:{seconds:.2f}s">{"".join(pieces)}</g>')
    out.append("</svg>\n")
    return "\n".join(out)


def main():
    binary, output = sys.argv[1:]
    lines = session(pathlib.Path(binary).resolve())
    pathlib.Path(output).write_text(svg(lines))


main()
