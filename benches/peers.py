"""Measures other tools that run a command in a sandbox, each as its registry delivers it.

They do different things, so this compares how long a user waits. A tool that cannot be installed or
started is named and left out.
"""

import os
import shutil
import subprocess
import sys

APT = ["apt-get", "install", "-qq", "-y", "--no-install-recommends"]
NPM = ["npm", "install", "--silent", "--no-fund", "--no-audit", "--prefix", "FOLDER"]

# Name, how it is installed into FOLDER, and how it runs `true`.
PEERS = [
    ("firejail", [[*APT, "firejail"]], ["firejail", "--quiet", "true"]),
    (
        "sandbox-runtime",
        [[*APT, "socat", "ripgrep"], [*NPM, "@anthropic-ai/sandbox-runtime"]],
        ["FOLDER/node_modules/.bin/srt", "true"],
    ),
    ("codex", [[*NPM, "@openai/codex"]], ["FOLDER/node_modules/.bin/codex", "sandbox", "--", "true"]),
    ("ai-jail", [["cargo", "install", "--quiet", "--root", "FOLDER", "ai-jail"]], ["FOLDER/bin/ai-jail", "true"]),
]


def install(folder):
    """Installs the peers, for which it may need root. Returns the name and argv of each."""
    installed = []
    for name, steps, argv in PEERS:
        place = os.path.join(folder, name)
        os.mkdir(place)
        print(f"bench: installing {name}", file=sys.stderr)
        if all(succeeds([word.replace("FOLDER", place) for word in step]) for step in steps):
            installed.append([name, [word.replace("FOLDER", place) for word in argv]])
        else:
            print(f"bench: {name} cannot be installed here; left out", file=sys.stderr)
    return installed


def succeeds(words):
    done = shutil.which(words[0]) and subprocess.run(words, stdout=sys.stderr, stdin=subprocess.DEVNULL)
    return bool(done) and done.returncode == 0


def measure(bench, peers):
    """Starts the peers in turns with bare bwrap and agent-sandbox. Called as the ordinary user."""
    from bench import Start, take_turns

    cwd = bench.project("peers")
    starts = [bench.bare(cwd), bench.ours("agent-sandbox", cwd)]
    for name, argv in peers:
        start = Start(name, argv, cwd, {**bench.env, "PATH": os.environ["PATH"]})
        try:
            start.run()
        except (SystemExit, OSError) as e:
            print(f"bench: {name} cannot run `true` here; left out: {e}", file=sys.stderr)
            continue
        starts.append(start)
    ran = take_turns(starts, max(5, bench.rounds // 4))
    for start in starts:
        bench.add("`true` in a small git project, and peers", start, ran["bare bwrap"])
