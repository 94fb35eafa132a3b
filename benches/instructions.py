"""Counts the instructions that agent-sandbox executes to compile a policy.

The count is the same on a loaded machine as on an idle one. Compare two builds on one machine.
"""

import argparse
import os
import re
import subprocess
import tempfile

KINDS = ["ro", "rw", "exclude"]


def with_rules(project, count):
    """Writes a policy of `count` rules, side by side and nested, and makes their folders."""
    lines = ["[filesystem]"]
    for index, kind in enumerate(KINDS):
        within = "/".join(KINDS[: index + 1])
        paths = [f"{project}/rules/{number // 10}/{within}/{number % 10}" for number in range(count // len(KINDS))]
        for path in paths:
            os.makedirs(path, exist_ok=True)
        lines.append(f"{kind} = {paths!r}")
    return "\n".join(lines) + "\n"


def counted(binary, count):
    """Millions of instructions that `--print-args` executes with the default policy and `count` rules.

    `None` if this valgrind lacks a system call that agent-sandbox uses: 3.19 has no openat2.
    """
    with tempfile.TemporaryDirectory(dir=os.path.dirname(binary)) as folder:
        project = os.path.join(folder, "home/code/project")
        os.makedirs(project)
        with open(os.path.join(project, ".env"), "w") as file:
            file.write("KEY=1\n")
        if count:
            config = os.path.join(folder, "home/.config/agent-sandbox")
            os.makedirs(config)
            with open(os.path.join(config, "config.toml"), "w") as file:
                file.write(with_rules(project, count))
        command = ["valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null", binary]
        command += ["--print-args=nul", "--quiet", "--", "true"]
        env = {"HOME": os.path.join(folder, "home"), "PATH": "/usr/local/bin:/usr/bin:/bin"}
        ran = subprocess.run(command, cwd=project, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        if "function not implemented" in ran.stderr:
            return None
        found = re.search(r"Collected : (\d+)", ran.stderr)
        if ran.returncode != 0 or not found:
            raise SystemExit(f"instructions: {command} failed:\n{ran.stderr}")
        return int(found[1]) / 1e6


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--binary", required=True)
    binary = os.path.abspath(parser.parse_args().binary)
    print("| rules besides the default policy | million instructions |\n|---:|---:|")
    for count in (0, 1000, 2000):
        millions = counted(binary, count)
        print(f"| {count} | {'not counted' if millions is None else f'{millions:.1f}'} |", flush=True)


if __name__ == "__main__":
    main()
