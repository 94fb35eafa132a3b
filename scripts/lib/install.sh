# shellcheck shell=sh
# Installs missing commands with the package manager of this system. Sourced, not run.

say() { printf '%s: %s\n' "${0##*/}" "$*" >&2; }

# ensure COMMAND…: installs the commands that are missing. Returns 125 if it cannot.
ensure() {
    missing=
    for wanted in "$@"; do
        is_there "$wanted" || missing="$missing $wanted"
    done
    [ -n "$missing" ] || return 0

    for manager in apt-get dnf pacman zypper apk none; do
        command -v "$manager" >/dev/null 2>&1 && break
    done
    if [ "$manager" = none ]; then
        say "missing:$missing, and no package manager that this script knows; please install by hand"
        return 125
    fi
    packages=
    for wanted in $missing; do
        packages="$packages $(package_of "$manager" "$wanted")"
    done

    as_root=
    if [ "$(id -u)" != 0 ]; then
        # Without a terminal nobody can answer sudo's question for a password.
        if [ -t 0 ]; then as_root=sudo; else as_root='sudo -n'; fi
        if ! command -v sudo >/dev/null 2>&1; then
            say "missing:$missing, and only root can install; as root, install$packages with $manager"
            return 125
        fi
    fi
    say "installing$packages with $manager"
    # shellcheck disable=SC2086 # several words
    if ! install_with "$manager" "$as_root" $packages </dev/null >&2; then
        say "could not install$packages with $manager; as root, install by hand"
        return 125
    fi
}

is_there() {
    case $1 in
    # Not a command, but modules of Python that some systems leave out.
    python3-venv) /usr/bin/python3 -c 'import ensurepip, venv' >/dev/null 2>&1 ;;
    # Debian calls it fdfind, because it has another program called fd.
    fd) command -v fd >/dev/null 2>&1 || command -v fdfind >/dev/null 2>&1 ;;
    # Systems with apk have no systemd. There, the tests of scopes check the diagnostic.
    systemd-run) command -v systemd-run >/dev/null 2>&1 || command -v apk >/dev/null 2>&1 ;;
    *) command -v "$1" >/dev/null 2>&1 ;;
    esac
}

# package_of MANAGER COMMAND: prints the packages that contain the command.
package_of() {
    case "$1:$2" in
    *:bwrap) echo bubblewrap ;;
    *:apparmor_parser) echo apparmor ;;
    apt-get:cc) echo gcc libc6-dev ;;
    apk:cc) echo gcc musl-dev ;;
    *:cc) echo gcc ;;
    pacman:python3 | pacman:python3-venv) echo python ;;
    dnf:python3-venv | zypper:python3-venv) echo python3 ;;
    apk:python3-venv) echo py3-pip ;;
    *:node) echo nodejs ;;
    apt-get:fd | dnf:fd) echo fd-find ;;
    dnf:vim) echo vim-enhanced ;;
    apk:unshare) echo util-linux-misc ;;
    apk:setpriv) echo setpriv ;;
    *:unshare | *:setpriv) echo util-linux ;;
    *:systemd-run) echo systemd ;;
    dnf:shellcheck | zypper:shellcheck) echo ShellCheck ;;
    *) echo "$2" ;;
    esac
}

# install_with MANAGER SUDO PACKAGE…: installs the packages without questions.
install_with() {
    manager=$1 as_root=$2
    shift 2
    # shellcheck disable=SC2086 # empty, or a command with its flags
    case $manager in
    apt-get)
        # A new machine has no list of packages yet.
        $as_root apt-get -qq update &&
            $as_root env DEBIAN_FRONTEND=noninteractive apt-get -qq install -y --no-install-recommends "$@"
        ;;
    dnf) $as_root dnf -q install -y "$@" ;;
    # Arch supports no partial upgrades, so the list is refreshed only together with all packages.
    pacman) $as_root pacman -S --noconfirm --needed "$@" || $as_root pacman -Syu --noconfirm --needed "$@" ;;
    zypper) $as_root zypper -q --non-interactive install "$@" ;;
    apk) $as_root apk add -q "$@" ;;
    esac
}
