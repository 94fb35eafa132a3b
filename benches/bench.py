"""Measures starts of a sandbox against a bare bwrap and against the printed argv.

Machines are noisy, so the variants of a case take turns, one start each, and the ratio of their medians
counts. If root starts this script, all commands run as an ordinary user. All files are outside of
/tmp, which is private in a sandbox, and are removed afterwards.
"""

import argparse
import hashlib
import json
import os
import shutil
import statistics
import struct
import subprocess
import sys
import tempfile
import time

import peers
import report

USER = 12345
BARE = ["bwrap", "--ro-bind", "/", "/", "true"]
# The home of `tests/cli/print_args.rs`.
LIVED_IN = """.ssh/id_ed25519 .aws/credentials .config/gh/hosts.yml .netrc .docker/config.json .kube/config
.gnupg/secring.gpg .pypirc .cargo/credentials.toml .git-credentials .config/gcloud/credentials.db
.claude/settings.json .claude.json .codex/config.toml .bashrc""".split()
QUIET = [(os.POSIX_SPAWN_OPEN, number, "/dev/null", os.O_RDWR, 0) for number in (0, 1)]


class Start:
    """One way to start a command, and the seconds that each start takes."""

    def __init__(self, name, argv, cwd, env, descriptors=()):
        self.name, self.argv, self.cwd, self.env = name, argv, cwd, env
        self.descriptors = list(descriptors)
        self.seconds, self.kilobytes = [], None
        self.may_fail = False
        self.program = shutil.which(argv[0], path=env["PATH"]) or argv[0]

    def run(self):
        os.chdir(self.cwd)
        actions = list(QUIET)
        if self.may_fail:
            actions.append((os.POSIX_SPAWN_OPEN, 2, "/dev/null", os.O_RDWR, 0))
        for number, content in self.descriptors:
            os.lseek(content, 0, os.SEEK_SET)
            actions.append((os.POSIX_SPAWN_DUP2, content, number))
        begun = time.monotonic()
        pid = os.posix_spawn(self.program, self.argv, self.env, file_actions=actions)
        _, status = os.waitpid(pid, 0)
        taken = time.monotonic() - begun
        if status != 0 and not self.may_fail:
            raise SystemExit(f"bench: {self.name} failed: {self.argv}")
        return taken

    def weigh(self):
        """Records the peak memory of the process that starts the command."""
        os.chdir(self.cwd)
        pid = os.posix_spawn(self.program, [*self.argv[:-1], "sleep", "1"], self.env, file_actions=QUIET)
        time.sleep(0.5)
        with open(f"/proc/{pid}/status") as file:
            self.kilobytes = next(int(line.split()[1]) for line in file if line.startswith("VmHWM"))
        os.waitpid(pid, 0)

    @property
    def median(self):
        return statistics.median(self.seconds) * 1000


def settle(folder):
    """Waits until the file system makes a new file quickly.

    ext4 does not reuse an inode that was freed within the last minute, and steps over each of them.
    After thousands of deletions nearby, creating a file takes 0.9 ms instead of 0.01.
    """
    def seconds():
        path = os.path.join(folder, "settle")
        begun = time.monotonic()
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY))
        taken = time.monotonic() - begun
        os.unlink(path)
        return taken

    for _ in range(120):
        if statistics.median(seconds() for _ in range(9)) < 0.00003:
            return
        time.sleep(1)
    print("bench: creating files is slow here, which slows down agent-sandbox alone", file=sys.stderr)


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
        # The variables of the caller would change the policy.
        self.env = {"HOME": self.home, "PATH": "/usr/local/bin:/usr/bin:/bin"}

    def project(self, name):
        path = os.path.join(self.home, name)
        os.makedirs(path)
        git = ["git", "-c", "user.name=a", "-c", "user.email=a@example.org"]
        for words in (["init", "-q"], ["commit", "-q", "--allow-empty", "-m", "first"]):
            subprocess.run([*git, *words], cwd=path, env=self.env, check=True)
        write(path, "src/main.c", "int main(void) { return 0; }\n")
        write(path, ".env", "KEY=1\n")
        write(path, "deploy/keys/key", "secret\n")
        write(path, "package.json", "{}\n")
        # Most checked-in files only tighten.
        write(path, ".agent-sandbox.toml", '[filesystem]\nexclude = ["deploy/keys"]\nro = ["package.json"]\n')
        return path

    def policy(self, text):
        write(self.home, ".config/agent-sandbox/config.toml", text)

    def ours(self, name, cwd, *flags):
        return Start(name, [self.binary, *flags, "--", "true"], cwd, self.env)

    def compiled(self, name, cwd):
        """Compiles the policy and discards the argv."""
        return Start(name, [self.binary, "--print-args=nul", "-q", "--", "true"], cwd, self.env)

    def bare(self, cwd):
        return Start("bare bwrap", BARE, cwd, self.env)

    def printed(self, cwd):
        """The printed argv, run by hand. The caller must create its placeholders."""
        argv = [self.binary, "--print-args=json", "-q", "--", "true"]
        printed = subprocess.run(argv, cwd=cwd, env=self.env, check=True, capture_output=True)
        form = json.loads(printed.stdout)
        for path in form["create"]:
            os.makedirs(path, exist_ok=True)
        env = {**self.env, **form["environment"]["set"]}
        for name in form["environment"]["unset"]:
            env.pop(name, None)
        start = Start("printed argv by hand", form["argv"], cwd, env)
        start.placeholders = [item for item in form["placeholders"] if not os.path.lexists(item["path"])]
        return start

    def against_printed(self, case, cwd, rounds):
        """A default start against its own argv, which is run by hand while its placeholders exist."""
        by_hand = self.printed(cwd)
        ours = self.ours("agent-sandbox", cwd)
        settle(cwd)
        first = take_turns([self.bare(cwd), ours, self.compiled("compiling alone", cwd)], rounds)
        bare = first["bare bwrap"]
        create(by_hand.placeholders)
        second = take_turns([self.bare(cwd), by_hand], rounds)
        remove(by_hand.placeholders)
        # Both series have bare starts: their ratio is the drift of the machine.
        drift = bare.median / second["bare bwrap"].median
        by_hand.seconds = [seconds * drift for seconds in by_hand.seconds]
        self.add(case, bare)
        self.add(case, by_hand, bare)
        self.add(case, first["compiling alone"], bare)
        self.add(case, ours, by_hand, "≤ 1.30 × by hand", ours.median <= 1.3 * by_hand.median)
        return ours

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
        ours = self.against_printed("default policy, small git project", self.project("small"), self.rounds)
        ours.weigh()
        self.rows[-1]["variant"] = f"agent-sandbox, peak memory {ours.kilobytes / 1024:.1f} MB (goal ≤ 8)"

    def lived_in(self):
        """Measures a typical home: two agents, keys, and ten other secrets."""
        for name in LIVED_IN:
            write(self.home, name, "x")
        self.against_printed("default policy, home with two agents and eleven secrets", self.project("lived-in"), self.rounds)

    def rules(self):
        cwd = self.project("rules")
        without = None
        for count in (250, 1000, 4000):
            lists = {"ro": [], "exclude": []}
            for index in range(count):
                path = f"rules/{index // 30}/{index}"
                os.makedirs(os.path.join(cwd, path), exist_ok=True)
                lists["ro" if index % 2 else "exclude"].append(f"{cwd}/{path}")
            self.policy("")
            without = self.ours("without the rules", cwd)
            text = "".join(f"{kind} = {json.dumps(paths)}\n" for kind, paths in lists.items())
            write(self.home, "rules.toml", "[filesystem]\n" + text)
            with_rules = self.ours("agent-sandbox", cwd, "--config", os.path.join(self.home, "rules.toml"))
            compiling = Start(
                "compiling alone", [*with_rules.argv[:3], "--print-args=nul", "-q", "--", "true"], cwd, self.env
            )
            take_turns([without, with_rules, compiling], max(5, self.rounds // 4))
            case = f"{count:,} ro and exclude rules"
            more = with_rules.median - without.median
            goal = (f"{more:.0f} ms more; ≤ 100", more <= 100) if count == 1000 else (f"{more:.0f} ms more", None)
            self.add(case, without)
            self.add(case, compiling)
            self.add(case, with_rules, without, *goal)

    def excluded(self):
        for count, goal in ((1000, 60), (10000, 400)):
            cwd = self.project(f"excluded-{count}")
            for index in range(count):
                write(cwd, f"pkg/{index // 20}/{index % 20}.secret", "x")
            without = self.ours("without the pattern", cwd)
            with_it = Start("agent-sandbox", [self.binary, "--exclude", "**/*.secret", "--", "true"], cwd, self.env)
            take_turns([without, with_it], max(5, self.rounds // 4))
            case = f"{count:,} files hidden by one glob"
            more = with_it.median - without.median
            self.add(case, without)
            self.add(case, with_it, without, f"{more:.0f} ms more; ≤ {goal}", more <= goal)

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
        self.add(case, ours, find, "≤ 1.0 × fd", ours.median <= find.median)
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

    def growth(self):
        """Measures n and 4n of each thing that a command or a policy can create in large numbers."""
        for name, count in (("worktrees", 250), ("modules", 250), ("submodules", 10000), ("journal", 250), ("rules", 20000), ("project_rules", 20000), ("mistakes", 10000), ("braces", 50)):
            before = None
            for number in (count, 4 * count):
                cwd = self.project(f"growth-{name}-{number}")
                self.policy("")
                getattr(self, f"many_{name}")(cwd, number)
                start = self.ours("agent-sandbox", self.project(f"beside-{number}") if name == "journal" else cwd)
                start.may_fail = name in ("mistakes", "braces")
                # The first start removes the leftovers of the killed run, so only it is measured.
                start.seconds = [start.run() for _ in range(1 if name == "journal" else 3)]
                grows = start.median / before if before else None
                goal = (f"{grows:.1f} × the one before; linear: ≤ 4, with noise 5", grows <= 5) if grows else ()
                self.add(f"{number:,} {name}", start, None, *goal)
                before = start.median
                shutil.rmtree(cwd)
        self.policy("")

    def many_worktrees(self, cwd, number):
        for index in range(number):
            git_dir = f"{cwd}/.git/worktrees/w{index}"
            for name, text in (("HEAD", "ref: refs/heads/x"), ("commondir", "../.."), ("gitdir", f"{cwd}/w{index}/.git")):
                write(git_dir, name, text + "\n")
            write(cwd, f"w{index}/.git", f"gitdir: {git_dir}\n")

    def many_modules(self, cwd, number):
        for index in range(number):
            git_dir = f"{cwd}/.git/modules/m{index}"
            write(git_dir, "HEAD", "ref: refs/heads/x\n")
            write(git_dir, "config", "[core]\n")
            for name in ("objects", "refs", "hooks"):
                os.mkdir(f"{git_dir}/{name}")

    def many_submodules(self, cwd, number):
        """An index that names folders which do not exist."""
        index = bytearray(b"DIRC" + struct.pack(">II", 2, number))
        for name in (f"{index:07}".encode() for index in range(number)):
            index += bytes(24) + struct.pack(">I", 0o160000) + bytes(32) + struct.pack(">H", len(name)) + name + bytes(3)
        with open(f"{cwd}/.git/index", "wb") as file:
            file.write(index + hashlib.sha1(index).digest())

    def many_journal(self, cwd, number):
        """Kills a run with `number` placeholders. The measured start is in another project."""
        self.many_worktrees(cwd, number)
        argv = [self.binary, "--", "sh", "-c", 'touch ran; sleep 600']
        killed = subprocess.Popen(argv, cwd=cwd, env=self.env, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        while not os.path.exists(f"{cwd}/ran"):
            time.sleep(0.01)
        killed.kill()
        killed.wait()

    def many_rules(self, cwd, number):
        self.policy(f"[filesystem]\nro = {json.dumps([f'f{index}' for index in range(number)])}\n")

    def many_project_rules(self, cwd, number):
        """Creates files whose names are similar to the paths of the rules."""
        names = [f"f{index}" for index in range(number)]
        write(cwd, ".agent-sandbox.toml", f"[filesystem]\nro = {json.dumps(names)}\n")
        for name in names[:100]:
            write(cwd, f"g{name}", "x")

    def many_mistakes(self, cwd, number):
        self.policy(f"[filesystem]\nro = {json.dumps(list(range(number)))}\n")

    def many_braces(self, cwd, number):
        self.policy('[filesystem]\nro = ["' + "{a," * number + "b" + "}" * number + '"]\n')

    def mounts(self):
        """The caller has made 100 mounts on the host."""
        self.against_printed("host with 100 mounts of its own", self.project("mounts"), max(5, self.rounds // 2))


def linear(before, now):
    """Returns the growth as text, and whether the time grows no faster than the depth, with a fifth for noise."""
    if not before:
        return None, None
    more, grows = now[0] / before[0], now[1] / before[1]
    return f"{grows:.1f} × the one before; linear: ≤ {more:g}", grows <= 1.2 * more


def create(items):
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
    """Runs this script as an ordinary user. Root runs `before` first, in a new mount namespace."""
    drop = ["setpriv", f"--reuid={USER}", f"--regid={USER}", "--clear-groups"] if os.getuid() == 0 else []
    argv = [*drop, sys.executable, os.path.abspath(__file__), *words]
    if before:
        argv = ["unshare", "--mount", "--propagation", "private", "sh", "-ec", before + '\nexec "$@"', "sh", *argv]
    return json.loads(subprocess.run(argv, check=True, stdout=subprocess.PIPE).stdout)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    cases = ["small", "lived_in", "rules", "excluded", "tree", "levels", "mounts", "growth"]
    parser.add_argument("--binary", required=True, help="the agent-sandbox to measure")
    parser.add_argument("--results", help="the folder for table, CSV and plot; needs all cases")
    parser.add_argument("--rounds", type=int, default=40, help="starts of each variant of a short case (default: 40)")
    parser.add_argument("--case", action="append", choices=cases, help="measure only this case, and write no results; repeatable")
    parser.add_argument("--peers", action="store_true", help="also measure other tools, installed from their registries")
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
        # The user must be able to execute the binary, also inside.
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
                    print("bench: mounts: left out, because only root can make mounts", file=sys.stderr)
                    continue
                before = f'mkdir {inside}/on; i=0; while [ $i -lt 100 ]; do mkdir {inside}/on/$i; mount --bind {inside}/on/$i {inside}/on/$i; i=$((i + 1)); done'
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
    # A run of some cases must not replace the results of all cases.
    if arguments.results and chosen == cases:
        report.write(rows, arguments.results)
    sys.stdout.write(report.table(rows))


if __name__ == "__main__":
    main()
