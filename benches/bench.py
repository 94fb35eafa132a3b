"""Starts of a sandbox, measured against a bare bwrap.

These machines are noisy, so nothing is measured alone: the variants of a case take turns, one start each, and what counts is the ratio of their
medians. Started as root, everything runs as an ordinary user, in a folder of its own outside of /tmp, which goes afterwards.
"""

import argparse
import fcntl
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time

import peers
import report

USER = 12345
BARE = ["bwrap", "--ro-bind", "/", "/", "true"]
QUIET = [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in (0, 1)]


class Start:
    """One way to start a command, and the seconds that it takes each time."""

    def __init__(self, name, argv, cwd, env, descriptors=()):
        self.name, self.argv, self.cwd, self.env = name, argv, cwd, env
        self.descriptors = list(descriptors)
        self.seconds, self.kilobytes = [], None
        self.program = shutil.which(argv[0], path=env["PATH"]) or argv[0]

    def run(self):
        os.chdir(self.cwd)
        actions = list(QUIET)
        for number, content in self.descriptors:
            os.lseek(content, 0, os.SEEK_SET)
            actions.append((os.POSIX_SPAWN_DUP2, content, number))
        begun = time.monotonic()
        pid = os.posix_spawn(self.program, self.argv, self.env, file_actions=actions)
        _, status = os.waitpid(pid, 0)
        taken = time.monotonic() - begun
        if status != 0:
            raise SystemExit(f"bench: {self.name} failed: {self.argv}")
        return taken

    def weigh(self):
        """The most memory that the starting process has had by the time the command runs. (What `wait4` tells begins with our own.)"""
        os.chdir(self.cwd)
        pid = os.posix_spawn(self.program, [*self.argv[:-1], "sleep", "1"], self.env, file_actions=QUIET)
        time.sleep(0.5)
        with open(f"/proc/{pid}/status") as file:
            self.kilobytes = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
        os.waitpid(pid, 0)

    @property
    def median(self):
        return statistics.median(self.seconds) * 1000


def take_turns(starts, rounds):
    for start in starts:
        start.run()
    for turn in range(rounds):
        for index in range(len(starts)):
            start = starts[(turn + index) % len(starts)]
            start.seconds.append(start.run())
    return {start.name: start for start in starts}


class Bench:
    def __init__(self, binary, folder, rounds):
        self.binary, self.folder, self.rounds = binary, folder, rounds
        self.home = os.path.join(folder, "home")
        self.rows = []
        # The variables of the caller are not what is measured.
        self.env = {"HOME": self.home, "PATH": "/usr/local/bin:/usr/bin:/bin"}

    def project(self, name):
        path = os.path.join(self.home, name)
        os.makedirs(path)
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
            subprocess.run([*git, *words], cwd=path, env=self.env, check=True)
        write(path, "src/main.c", "int main(void) { return 0; }\n")
        write(path, ".env", "KEY=1\n")
        return path

    def policy(self, text):
        write(self.home, ".config/agent-sandbox/config.toml", text)

    def ours(self, name, cwd, *flags):
        return Start(name, [self.binary, *flags, "--", "true"], cwd, self.env)

    def compiled(self, name, cwd):
        """Everything up to the start, and the argv written to nowhere."""
        return Start(name, [self.binary, "--print-args=nul", "-q", "--", "true"], cwd, self.env)

    def bare(self, cwd):
        return Start("bare bwrap", BARE, cwd, self.env)

    def raw(self, cwd, *flags, name="raw bwrap and guard"):
        """The same sandbox by bwrap and the second stage alone: what the printed argv asks for, handed over ready."""
        argv = [self.binary, *flags, "--print-args=json", "-q", "--", "true"]
        printed = subprocess.run(argv, cwd=cwd, env=self.env, check=True, capture_output=True)
        form = json.loads(printed.stdout)
        contents = {data["descriptor"]: data["content"] for data in form["data"]}
        contents[form["guard"]["descriptor"]] = json.dumps(form["guard"]["plan"])
        descriptors = []
        for number, content in contents.items():
            memory = os.memfd_create("data")
            os.write(memory, bytes(content["bytes"]) if isinstance(content, dict) else content.encode())
            # Away from the numbers that they take in the child.
            descriptors.append((number, fcntl.fcntl(memory, fcntl.F_DUPFD_CLOEXEC, 100)))
            os.close(memory)
        for path in form["create"]:
            os.makedirs(path, exist_ok=True)
        env = {**self.env, **form["environment"]["set"]}
        for name in form["environment"]["unset"]:
            env.pop(name, None)
        start = Start(name, form["argv"], cwd, env, descriptors)
        start.stand_ins = [item for item in form["placeholders"] if not os.path.lexists(item["path"])]
        return start

    def add(self, case, start, reference=None, goal=None, met=None):
        ratio = start.median / reference.median if reference else None
        self.rows.append(
            {
                "case": case,
                "variant": start.name,
                "ms": round(start.median, 2),
                "ratio": round(ratio, 2) if ratio else None,
                "reference": reference.name if reference else None,
                "kilobytes": start.kilobytes,
                "goal": goal,
                "met": met,
            }
        )

    def small(self):
        case = "default policy, small git project"
        cwd = self.project("small")
        raw = self.raw(cwd)
        # Each of our own runs puts them up, and takes them away.
        ours, plain = self.ours("agent-sandbox", cwd), self.ours("agent-sandbox --exec", cwd, "--exec")
        first = take_turns([self.bare(cwd), ours, plain, self.compiled("compiling alone", cwd)], self.rounds)
        bare = first["bare bwrap"]
        put_up(raw.stand_ins)
        second = take_turns([self.bare(cwd), raw], self.rounds)
        remove(raw.stand_ins)
        # The two parts were measured one after the other: their bare starts link them.
        drift = bare.median / second["bare bwrap"].median
        raw.seconds = [seconds * drift for seconds in raw.seconds]
        self.add(case, bare)
        self.add(case, raw, bare)
        self.add(case, first["compiling alone"], bare)
        self.add(case, plain, bare)
        ours.weigh()
        ratio, over_raw = ours.median / bare.median, ours.median / raw.median
        self.add(case, ours, bare, "≤ 2.0 × bare", ratio <= 2.0)
        self.add(case, ours, raw, "≤ 1.10 × raw", over_raw <= 1.10)
        self.rows[-1]["variant"] = "agent-sandbox, peak memory " + f"{ours.kilobytes / 1024:.1f} MB (goal ≤ 8)"

    def rules(self):
        cwd = self.project("rules")
        kinds = ("ro", "rw", "exclude")
        before = None
        for count in (100, 1000, 5000):
            lists = {kind: [] for kind in kinds}
            for index in range(count):
                # A third of them says what holds already, and each third lies in the one before.
                path = f"rules/{index // 30}/" + "/".join(kinds[: index % 3 + 1]) + f"/{index % 30 // 3}"
                os.makedirs(os.path.join(cwd, path), exist_ok=True)
                lists[kinds[index % 3]].append(path)
            root = json.dumps(cwd)[1:-1]
            text = "".join(f"{kind} = [{', '.join(json.dumps(f'{root}/{p}') for p in lists[kind])}]\n" for kind in kinds)
            self.policy("[filesystem]\n" + text)
            ran = take_turns(
                [self.bare(cwd), self.compiled("compiling alone", cwd), self.ours("agent-sandbox", cwd)],
                max(5, self.rounds // 4),
            )
            compiling = ran["compiling alone"]
            met = compiling.median < 30 if count == 5000 else None
            self.add(f"{count:,} rules", compiling, ran["bare bwrap"], "< 30 ms before exec" if met is not None else None, met)
            now = (count, ran["agent-sandbox"].median)
            self.add(f"{count:,} rules", ran["agent-sandbox"], ran["bare bwrap"], *linear(before, now))
            before = now
        self.policy("")

    def excluded(self):
        for count, goal in ((1000, 50), (10000, 300)):
            cwd = self.project(f"excluded-{count}")
            for index in range(count):
                write(cwd, f"pkg/{index // 20}/{index % 20}.secret", "x")
            self.policy("")
            without = self.ours("without the pattern", cwd)
            with_it = Start("agent-sandbox", [self.binary, "--exclude", "**/*.secret", "--", "true"], cwd, self.env)
            ran = take_turns([self.bare(cwd), without, with_it], max(5, self.rounds // 4))
            case = f"{count:,} excluded files by one pattern"
            more = with_it.median - without.median
            self.add(case, without, ran["bare bwrap"])
            self.add(case, with_it, ran["bare bwrap"], f"{more:.0f} ms more in all")
            # What of that are the mounts: the same two sandboxes, handed over ready.
            plain, masked = self.raw(cwd), self.raw(cwd, "--exclude", "**/*.secret", name="raw bwrap and guard, with the masks")
            put_up(plain.stand_ins)
            take_turns([plain, masked], max(5, self.rounds // 4))
            remove(plain.stand_ins)
            mounts = masked.median - plain.median
            self.add(case, masked, plain, f"{mounts:.0f} ms for the mounts; ≤ {goal} ms", mounts <= goal)

    def tree(self):
        cwd = self.project("tree")
        for folder in range(20000):
            top = "node_modules/" if folder % 2 else ""
            path = os.path.join(cwd, f"{top}p{folder // 400}/m{folder // 20 % 20}/d{folder % 20}")
            os.makedirs(path)
            for name in range(10):
                open(os.path.join(path, f"file{name}.js"), "w").close()
        for index in range(120):
            write(cwd, f"p{index % 50}/m0/.env", "KEY=1\n")
        self.policy('[filesystem]\nexclude = ["**/.env", "**/*.pem"]\n')
        fd = shutil.which("fd", path=self.env["PATH"]) or "fdfind"
        find = Start("fd -HI '^.env$'", [fd, "-HI", r"^\.env$", "."], cwd, self.env)
        ours = self.ours("agent-sandbox", cwd)
        ran = take_turns([self.bare(cwd), find, ours], max(5, self.rounds // 4))
        case = "patterns over 200,000 files"
        self.add(case, find, ran["bare bwrap"])
        self.add(case, ours, find, "≤ 1.2 × fd", ours.median <= 1.2 * find.median)
        self.policy("")
        shutil.rmtree(cwd)

    def levels(self):
        cwd = self.project("levels")
        kinds = ("rw", "exclude", "rw", "ro")
        before = None
        for depth in (10, 25, 50):
            lists, path = {"rw": [], "exclude": [], "ro": []}, cwd
            for level in range(depth):
                path += f"/level-with-a-rather-long-name-{level:02}"
                lists[kinds[level % 4]].append(path)
            os.makedirs(path, exist_ok=True)
            self.policy("[filesystem]\n" + "".join(f"{kind} = {json.dumps(paths)}\n" for kind, paths in lists.items()))
            ran = take_turns([self.bare(cwd), self.ours("agent-sandbox", cwd)], max(5, self.rounds // 2))
            now = (depth, ran["agent-sandbox"].median)
            self.add(f"{depth} levels of rw, exclude, rw, ro", ran["agent-sandbox"], ran["bare bwrap"], *linear(before, now))
            before = now
        self.policy("")

    def mounts(self):
        """To be called where the host has 1,000 mounts of its own."""
        cwd = self.project("mounts")
        ran = take_turns([self.bare(cwd), self.ours("agent-sandbox", cwd)], max(5, self.rounds // 4))
        ours, bare = ran["agent-sandbox"], ran["bare bwrap"]
        case = "host with 1,000 mounts of its own"
        self.add(case, bare)
        self.add(case, ours, bare, "≤ 1.10 × bare", ours.median <= 1.1 * bare.median)


def linear(before, now):
    """Whether a start grows no faster than what it is made of, with a fifth for noise: as words, and as an answer."""
    if not before:
        return None, None
    more, grows = now[0] / before[0], now[1] / before[1]
    return f"{grows:.1f} × the one before; linear: ≤ {more:g}", grows <= 1.2 * more


def put_up(items):
    for item in items:
        if item["kind"] == "directory":
            os.makedirs(item["path"], exist_ok=True)
        else:
            write("/", item["path"], item.get("content", ""))


def remove(items):
    for item in reversed(items):
        (os.rmdir if item["kind"] == "directory" else os.unlink)(item["path"])


def write(folder, name, text):
    path = os.path.join(folder, name)
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as file:
        file.write(text)


def as_user(words, before=""):
    """This script once more, as an ordinary user, with a part of the cases. `before` is for root, in a mount namespace of its own."""
    drop = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if os.getuid() == 0 else []
    argv = [*drop, sys.executable, os.path.abspath(__file__), *words]
    if before:
        argv = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", before + '\nexec "$@"', "sh", *argv]
    return json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cases = ["small", "rules", "excluded", "tree", "levels", "mounts"]
    parser.add_argument("--binary", required=True, help="the agent-sandbox to measure")
    parser.add_argument("--results", help="the folder for table, CSV and plot, which are written when all cases were measured")
    parser.add_argument("--rounds", type=int, default=40, help="how often each variant of a short case is started (default: 40)")
    parser.add_argument("--case", action="append", choices=cases, help="only this one, and write no results; repeatable")
    parser.add_argument("--peers", action="store_true", help="also other tools, installed from their registries")
    parser.add_argument("--inside", help=argparse.SUPPRESS)
    parser.add_argument("--installed", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.inside:
        bench = Bench(arguments.binary, arguments.inside, arguments.rounds)
        os.makedirs(bench.home, exist_ok=True)
        for case in arguments.case or []:
            getattr(bench, case)()
        if arguments.installed:
            peers.measure(bench, json.loads(arguments.installed))
        json.dump(bench.rows, sys.stdout)
        return
    chosen = arguments.case or cases
    folder = tempfile.mkdtemp(prefix="agent-sandbox-bench-", dir="/var/tmp")
    rows = []
    try:
        # What the sandbox shows inside must be where the user can go, and not below the private /tmp.
        binary = shutil.copy2(arguments.binary, os.path.join(folder, "agent-sandbox"))
        os.chmod(folder, 0o755)
        for case in chosen:
            inside = os.path.join(folder, case)
            os.mkdir(inside)
            if os.getuid() == 0:
                os.chown(inside, USER, USER)
            words = ["--binary", binary, "--inside", inside, "--rounds", str(arguments.rounds), "--case", case]
            before = ""
            if case == "mounts":
                if os.getuid() != 0:
                    print("bench: mounts: only root can make 1,000 mounts; left out", file=sys.stderr)
                    continue
                before = f'mkdir {inside}/on; i=0; while [ $i -lt 1000 ]; do mkdir {inside}/on/$i; mount --bind {inside}/on/$i {inside}/on/$i; i=$((i + 1)); done'
            print(f"bench: {case}", file=sys.stderr)
            rows += as_user(words, before)
        if arguments.peers:
            inside, place = os.path.join(folder, "peers"), os.path.join(folder, "installed")
            for made in (inside, place):
                os.mkdir(made)
            if os.getuid() == 0:
                os.chown(inside, USER, USER)
            installed = json.dumps(peers.install(place))
            print("bench: peers", file=sys.stderr)
            words = ["--binary", binary, "--inside", inside, "--rounds", str(arguments.rounds), "--installed", installed]
            rows += as_user(words)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    # A part of the cases would take the place of all of them.
    if arguments.results and chosen == cases:
        report.write(rows, arguments.results)
    sys.stdout.write(report.table(rows))


if __name__ == "__main__":
    main()
