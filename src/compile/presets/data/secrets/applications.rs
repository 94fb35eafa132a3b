//! Password managers, wallets, browsers, chat, mail, and other applications that keep sessions.

use super::super::{Group, exclude, group, ro};

pub(super) const APPLICATIONS: &[Group] = &[
    group(
        "KeePass",
        "KeePassXC User Guide, \"Creating Your First Database\": `.kdbx` wherever its user saves it",
        &[
            // The folders in which people keep and synchronise `.kdbx` files. A walk of the whole
            // home would take too long.
            exclude("~/*.kdbx"),
            exclude("~/Desktop/*.kdbx"),
            exclude("~/Documents/*.kdbx"),
            exclude("~/Downloads/*.kdbx"),
            exclude("~/Dropbox/*.kdbx"),
            exclude("~/Nextcloud/*.kdbx"),
            exclude("~/OneDrive/*.kdbx"),
            exclude("~/Sync/*.kdbx"),
            exclude("**/*.kdbx"),
            exclude("~/.keepass"),
            exclude("~/.config/KeePass"),
            exclude("~/.config/keepassxc"),
            exclude("~/.cache/keepassxc"),
        ],
    ),
    group(
        "Flatpak, Snap",
        "flatpak-run(1), snapd, \"Data locations\": the data of each application, with its sessions",
        &[exclude("~/.var/app"), exclude("~/snap")],
    ),
    group(
        "1Password",
        "1Password for Linux: its data; op 1: its session",
        &[exclude("~/.config/1Password"), exclude("~/.op")],
    ),
    group(
        "Bitwarden",
        "Bitwarden, \"Storage\"; rbw, README",
        &[
            exclude("~/.config/Bitwarden"),
            exclude("~/.config/Bitwarden CLI"),
            exclude("~/.config/rbw"),
            exclude("~/.local/share/rbw"),
            exclude("~/.cache/rbw"),
        ],
    ),
    group(
        "LastPass CLI",
        "lpass(1), \"Configuration\"",
        &[exclude("~/.lpass"), exclude("~/.config/lpass"), exclude("~/.local/share/lpass")],
    ),
    group(
        "gopass",
        "gopass, \"Configuration\" and \"Setup\"",
        &[exclude("~/.config/gopass"), exclude("~/.local/share/gopass")],
    ),
    group(
        "Enpass, Proton Pass, Dashlane",
        "the applications keep their vaults there",
        &[exclude("~/Documents/Enpass"), exclude("~/.config/Proton Pass"), exclude("~/.dashlane")],
    ),
    group(
        "authenticators",
        "google-authenticator(1), pam_u2f(8), Authy: secrets of a second factor",
        &[exclude("~/.google_authenticator"), exclude("~/.config/Yubico"), exclude("~/.config/Authy Desktop")],
    ),
    group(
        "GNOME Keyring, KWallet",
        "older places of the keyrings",
        &[exclude("~/.gnome2/keyrings"), exclude("~/.kde/share/apps/kwallet"), exclude("~/.kde4/share/apps/kwallet")],
    ),
    group(
        "Bitcoin and forks",
        "Bitcoin Core, \"Data Directory\": wallet.dat",
        &[
            exclude("~/.bitcoin"),
            exclude("~/.litecoin"),
            exclude("~/.dogecoin"),
            exclude("~/.dashcore"),
            exclude("~/.zcash"),
        ],
    ),
    group(
        "Ethereum",
        "geth, \"Data Directory\": keystore; Foundry, `cast wallet`; Brownie, \"Account Management\"",
        &[exclude("~/.ethereum"), exclude("~/.foundry/keystores"), exclude("~/.brownie/accounts")],
    ),
    group(
        "Sui, NEAR",
        "Sui CLI, \"keytool\": sui.keystore; near-cli-rs, README: keys of accounts",
        &[exclude("~/.sui/sui_config/sui.keystore"), exclude("~/.near-credentials")],
    ),
    group(
        "Daedalus, Wasabi, Sparrow, Atomic",
        "the wallets keep their data there",
        &[
            exclude("~/.local/share/Daedalus"),
            exclude("~/.walletwasabi"),
            exclude("~/.sparrow"),
            exclude("~/.config/atomic"),
        ],
    ),
    group("Electrum", "Electrum, FAQ: wallets", &[exclude("~/.electrum")]),
    group("Solana", "Solana CLI, \"File System Wallets\": id.json", &[exclude("~/.config/solana/id.json")]),
    group(
        "Monero",
        "Monero GUI: wallets",
        &[exclude("~/Monero/wallets"), exclude("~/.config/monero-project"), exclude("~/.shared-ringdb")],
    ),
    group(
        "Exodus, Ledger Live, Trezor Suite",
        "the applications keep their data there",
        &[exclude("~/.config/Exodus"), exclude("~/.config/Ledger Live"), exclude("~/.config/@trezor")],
    ),
    group("Slack", "Slack for Linux: cookies and tokens", &[exclude("~/.config/Slack")]),
    group("Signal", "Signal Desktop: messages and their key", &[exclude("~/.config/Signal")]),
    group("signal-cli", "signal-cli(1), FILES: keys of the account", &[exclude("~/.local/share/signal-cli")]),
    group(
        "Discord",
        "Discord: tokens in local storage",
        &[exclude("~/.config/discord"), exclude("~/.config/discordcanary"), exclude("~/.config/vesktop")],
    ),
    group("Telegram", "Telegram Desktop: tdata", &[exclude("~/.local/share/TelegramDesktop")]),
    group("Element", "Element Desktop, README: user data", &[exclude("~/.config/Element")]),
    group(
        "Teams, Zoom, Skype",
        "the applications keep their sessions there",
        &[
            exclude("~/.config/Microsoft/Microsoft Teams"),
            exclude("~/.config/teams-for-linux"),
            exclude("~/.zoom"),
            exclude("~/.config/skypeforlinux"),
        ],
    ),
    group(
        "IRC and XMPP clients",
        "WeeChat, irssi(1), Pidgin, Gajim: passwords in the settings",
        &[
            exclude("~/.weechat"),
            exclude("~/.config/weechat"),
            exclude("~/.irssi"),
            exclude("~/.purple"),
            exclude("~/.config/gajim"),
            exclude("~/.local/share/gajim"),
        ],
    ),
    group(
        "mutt",
        "mutt(1), neomutt(1): passwords in the settings",
        &[
            exclude("~/.mutt"),
            exclude("~/.muttrc"),
            exclude("~/.neomuttrc"),
            exclude("~/.config/mutt"),
            exclude("~/.config/neomutt"),
        ],
    ),
    group(
        "mail clients",
        "aerc-accounts(5), himalaya, alpine, Claws Mail, Evolution, Geary: accounts and mail",
        &[
            exclude("~/.config/aerc"),
            exclude("~/.config/himalaya"),
            exclude("~/.pine-passfile"),
            exclude("~/.claws-mail"),
            exclude("~/.config/evolution"),
            exclude("~/.local/share/evolution"),
            exclude("~/.config/geary"),
            exclude("~/.local/share/geary"),
        ],
    ),
    group(
        "mail transfer",
        "msmtp(1), mbsync(1), offlineimap(1), fetchmail(1), getmail: passwords",
        &[
            exclude("~/.msmtprc"),
            exclude("~/.config/msmtp"),
            exclude("~/.mbsyncrc"),
            exclude("~/.config/isyncrc"),
            exclude("~/.offlineimaprc"),
            exclude("~/.config/offlineimap"),
            exclude("~/.fetchmailrc"),
            exclude("~/.getmail"),
        ],
    ),
    group(
        "Proton Mail Bridge",
        "Proton Mail Bridge, README, \"Files\": the vault, and mail that it keeps",
        &[exclude("~/.config/protonmail"), exclude("~/.local/share/protonmail")],
    ),
    group("mail", "mbsync(1), postfix: folders with mail", &[exclude("~/.mail"), exclude("~/Maildir")]),
    group(
        "DBeaver",
        "DBeaver, \"Workspace Location\": credentials-config.json opens with a known key",
        &[exclude("~/.local/share/DBeaverData"), exclude("~/.dbeaver4")],
    ),
    group(
        "JetBrains IDEs",
        "DataGrip, \"Passwords\": the KeePass file and its key",
        &[exclude("~/.config/JetBrains/*/c.kdbx"), exclude("~/.config/JetBrains/*/c.pwd")],
    ),
    group(
        "pgAdmin",
        "pgAdmin 4, \"The config.py File\": SQLITE_PATH",
        &[exclude("~/.pgadmin"), exclude("~/.config/pgadmin4")],
    ),
    group(
        "database clients",
        "MySQL Workbench, MongoDB Compass, Redis Insight, Beekeeper Studio: saved connections",
        &[
            exclude("~/.mysql/workbench"),
            exclude("~/.config/MongoDB Compass"),
            exclude("~/.redis-insight"),
            exclude("~/.config/beekeeper-studio"),
        ],
    ),
    group("Postman", "Postman, \"Install\": local data", &[exclude("~/.config/Postman")]),
    group(
        "Insomnia, Bruno",
        "\"Insomnia data directory\"; Bruno: secrets.json",
        &[exclude("~/.config/Insomnia"), exclude("~/.config/bruno")],
    ),
    group(
        "GitKraken",
        "GitKraken: profiles hold tokens of hosting services",
        &[exclude("~/.gitkraken"), exclude("~/.config/GitKraken")],
    ),
    group("FileZilla", "FileZilla: sitemanager.xml", &[exclude("~/.config/filezilla"), exclude("~/.filezilla")]),
    group(
        "Remmina",
        "Remmina: profiles with passwords",
        &[exclude("~/.config/remmina"), exclude("~/.local/share/remmina"), exclude("~/.remmina")],
    ),
    group("Nextcloud", "Nextcloud desktop client: accounts", &[exclude("~/.config/Nextcloud")]),
    group(
        "Proton VPN, Mullvad",
        "the applications keep their sessions there",
        &[exclude("~/.config/protonvpn"), exclude("~/.config/Proton"), exclude("~/.config/Mullvad VPN")],
    ),
    // Cookies are sessions, and saved passwords open with the user's own key.
    group(
        "Firefox, Thunderbird",
        "Mozilla Support, \"Profiles - Where Firefox stores your data\"",
        &[
            exclude("~/.mozilla"),
            exclude("~/.config/mozilla"),
            exclude("~/.librewolf"),
            exclude("~/.zen"),
            exclude("~/.thunderbird"),
        ],
    ),
    group(
        "Chromium",
        "Chromium, \"User Data Directory\"",
        &[
            exclude("~/.config/google-chrome"),
            exclude("~/.config/google-chrome-beta"),
            exclude("~/.config/google-chrome-unstable"),
            exclude("~/.config/chromium"),
            exclude("~/.config/BraveSoftware"),
            exclude("~/.config/microsoft-edge"),
            exclude("~/.config/vivaldi"),
            exclude("~/.config/opera"),
            exclude("~/.local/share/qutebrowser"),
            exclude("~/.local/share/epiphany"),
            exclude("~/.local/share/falkon"),
            exclude("~/.config/falkon"),
        ],
    ),
    // `@caches` would open them.
    group(
        "browsers",
        "the cache holds pages that were read while logged in",
        &[
            exclude("~/.cache/mozilla"),
            exclude("~/.cache/google-chrome"),
            exclude("~/.cache/chromium"),
            exclude("~/.cache/BraveSoftware"),
            exclude("~/.cache/microsoft-edge"),
            exclude("~/.cache/qutebrowser"),
            exclude("~/.cache/epiphany"),
        ],
    ),
    group(
        "browsers of agents",
        "chrome-devtools-mcp and playwright-mcp, README, \"User profile\"; Antigravity, \"Browser\"",
        &[
            exclude("~/.cache/chrome-devtools-mcp"),
            exclude("~/.cache/ms-playwright/mcp-*"),
            exclude("~/.gemini/antigravity-browser-profile"),
        ],
    ),
    // With the network on, a command can connect to services on loopback. Only the token keeps the
    // command out.
    group(
        "Jupyter",
        "Jupyter, \"Common Directories and File Locations\": runtime files hold tokens and keys",
        &[exclude("~/.local/share/jupyter/runtime")],
    ),
    group(
        "Claude Code",
        "Claude Code: lock files of its editor extensions hold the token of a WebSocket server",
        &[exclude("~/.claude/ide"), ro("~/.claude/ide").moved_aside()],
    ),
    group("code-server", "code-server, FAQ: the password is in config.yaml", &[exclude("~/.config/code-server")]),
    group(
        "Syncthing",
        "syncthing-config(5): config.xml holds the key of the REST API",
        &[exclude("~/.config/syncthing"), exclude("~/.local/state/syncthing")],
    ),
    group(
        "Emacs",
        "GNU Emacs Manual, \"TCP Emacs server\": the authentication key is in a file",
        &[exclude("~/.emacs.d/server"), exclude("~/.config/emacs/server")],
    ),
    group(
        "VS Code Server",
        "VS Code Server: `--connection-token-file` of a server that waits on loopback",
        &[exclude("~/.vscode-server/.*.token"), exclude("~/.cursor-server/.*.token")],
    ),
    group(
        "JetBrains IDEs",
        "IntelliJ Platform: user.token and user.web.token of the built-in web server",
        &[exclude("~/.config/JetBrains/*/user*.token")],
    ),
    group(
        "X11",
        "Xsecurity(7): the cookie opens displays on loopback, as ssh(1) forwards them",
        &[exclude("~/.Xauthority"), exclude("~/.ICEauthority")],
    ),
    group("PulseAudio", "PulseAudio, module-native-protocol-tcp: the cookie", &[exclude("~/.config/pulse/cookie")]),
];
