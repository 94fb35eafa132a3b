//! The lowest layer of the environment, as data. `--debug` and `--print-args=annotated` show the
//! reason of each name.

/// A part of the lowest layer.
pub(super) struct Default {
    /// Patterns (SPEC E2).
    pub names: &'static [&'static str],
    pub when: When,
    pub why: &'static str,
}

#[derive(Clone, Copy)]
pub(super) enum When {
    Always,
    DockerIs(bool),
    /// The caller has a variable of this name.
    Has(&'static str),
}

/// Sockets and sessions of the host: a command that reaches them acts outside of the sandbox.
pub(super) const UNSET: &[Default] = &[
    always(&["SSH_AUTH_SOCK", "SSH_AGENT_PID"], "ssh-agent signs with your keys"),
    always(&["GPG_AGENT_INFO", "GNOME_KEYRING_CONTROL", "GNOME_KEYRING_PID"], "gpg-agent and keyring hold your keys"),
    always(&["OP_SESSION_*", "BW_SESSION"], "it opens your password store"),
    always(
        &["DBUS_*", "AT_SPI_BUS_ADDRESS", "IBUS_ADDRESS", "IBUS_DAEMON_PID"],
        "services on the bus start commands outside",
    ),
    always(
        &["DISPLAY", "WAYLAND_DISPLAY", "WAYLAND_SOCKET", "XAUTHORITY", "ICEAUTHORITY", "SESSION_MANAGER"],
        "the display sees your keys and your screen",
    ),
    always(
        &["XDG_SESSION_*", "XDG_SEAT", "XDG_SEAT_PATH", "XDG_VTNR", "XDG_ACTIVATION_TOKEN", "DESKTOP_STARTUP_ID"],
        "a handle of your desktop session",
    ),
    always(
        &["I3SOCK", "SWAYSOCK", "HYPRLAND_INSTANCE_SIGNATURE", "NIRI_SOCKET", "WAYFIRE_SOCKET", "BSPWM_SOCKET"],
        "the window manager starts commands outside",
    ),
    always(
        &["TMUX", "TMUX_PANE", "STY", "ZELLIJ", "ZELLIJ_*"],
        "the terminal multiplexer types into your other terminals",
    ),
    always(
        &[
            "KITTY_LISTEN_ON",
            "WEZTERM_UNIX_SOCKET",
            "ALACRITTY_SOCKET",
            "KONSOLE_DBUS_*",
            "GNOME_TERMINAL_SERVICE",
            "GNOME_TERMINAL_SCREEN",
            "TERMINATOR_DBUS_*",
        ],
        "the terminal takes commands from it",
    ),
    always(
        &["NVIM", "NVIM_LISTEN_ADDRESS", "VIM_SERVERNAME", "EMACS_SOCKET_NAME", "EMACS_SERVER_FILE"],
        "the editor takes commands from it",
    ),
    always(&["VSCODE_IPC_HOOK*", "VSCODE_GIT_*"], "the editor takes commands from it"),
    // Without VSCODE_GIT_ASKPASS_MAIN, GIT_ASKPASS is a deliberate setting, as in CI, and passes.
    Default {
        names: &["GIT_ASKPASS"],
        when: When::Has("VSCODE_GIT_ASKPASS_MAIN"),
        why: "the editor's helper asks the editor for passwords",
    },
    always(&["SSH_ASKPASS", "SSH_ASKPASS_REQUIRE", "SUDO_ASKPASS"], "it asks for passwords on your desktop"),
    always(&["PULSE_SERVER", "PULSE_COOKIE", "PULSE_RUNTIME_PATH", "PIPEWIRE_*"], "the sound server has a microphone"),
    always(
        &["NOTIFY_SOCKET", "LISTEN_FDS", "LISTEN_FDNAMES", "LISTEN_PID", "WATCHDOG_PID", "WATCHDOG_USEC"],
        "it connects the caller to the service manager",
    ),
    always(&["CREDENTIALS_DIRECTORY"], "secrets for the caller's service"),
    always(&["WATCHMAN_SOCK"], "watchman starts commands outside"),
    always(&["WSL_INTEROP"], "it starts Windows programs"),
    Default { names: DOCKER, when: When::DockerIs(false), why: "docker is off" },
];

/// Variables that pass even with `inherit = false`: programs need them, and they hold no secret.
pub(super) const PASS: &[Default] = &[
    always(&["HOME", "LOGNAME", "PATH", "SHELL", "USER"], "every program needs it"),
    always(&["PWD"], "bwrap sets it to the working directory"),
    always(
        &["TERM", "TERMINFO", "TERMINFO_DIRS", "TERM_PROGRAM", "TERM_PROGRAM_VERSION", "COLUMNS", "LINES"],
        "the abilities of the terminal",
    ),
    always(&["CLICOLOR", "CLICOLOR_FORCE", "COLORTERM", "FORCE_COLOR", "NO_COLOR"], "the choice of colours"),
    always(&["LANG", "LANGUAGE", "LC_*", "LOCALE_ARCHIVE", "TZ", "TZDIR"], "language and time zone"),
    always(&["EDITOR", "PAGER", "VISUAL"], "programs of your choice"),
    always(
        &["TMPDIR", "XDG_CACHE_HOME", "XDG_CONFIG_*", "XDG_DATA_*", "XDG_RUNTIME_DIR", "XDG_STATE_HOME"],
        "folders for the files of programs",
    ),
    always(
        &["CURL_CA_BUNDLE", "NIX_SSL_CERT_FILE", "NODE_EXTRA_CA_CERTS", "REQUESTS_CA_BUNDLE", "SSL_CERT_*"],
        "the trusted certificates",
    ),
    Default { names: DOCKER, when: When::DockerIs(true), why: "docker is on" },
];

const DOCKER: &[&str] = &[
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "CONTAINER_HOST",
    "CONTAINER_CONNECTION",
    "CONTAINERD_ADDRESS",
    "BUILDKIT_HOST",
    "LXD_SOCKET",
    "INCUS_SOCKET",
];

/// A name that `set` cannot take.
pub(super) struct Reserved {
    pub names: &'static [&'static str],
    pub why: &'static str,
    pub help: &'static str,
}

pub(super) const RESERVED: &[Reserved] = &[
    // The loader and the C library of bwrap obey these, so a project's file could have bwrap run
    // code of the project outside.
    Reserved {
        names: &["LD_*", "GLIBC_TUNABLES", "GCONV_PATH", "LOCPATH"],
        why: "acts on bwrap as well, before there is a sandbox",
        help: "give it to the command alone: `agent-sandbox -- env NAME=VALUE COMMAND`",
    },
    Reserved { names: &[super::MARK], why: "tells programs that they are inside", help: "take it out; it is always 1" },
    Reserved {
        names: &["PWD"],
        why: "is set by bwrap, to the working directory",
        help: "take it out; `--cwd DIR` starts the command elsewhere",
    },
];

const fn always(names: &'static [&'static str], why: &'static str) -> Default {
    Default { names, when: When::Always, why }
}
