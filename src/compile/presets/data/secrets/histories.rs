//! Histories of shells and of programs that read commands: people type and paste secrets there.
//! Most programs start even if they may not open their history. Programs that would stop or
//! complain find an empty history.

use super::super::{Group, exclude, group};

pub(super) const HISTORIES: &[Group] = &[
    group(
        "bash",
        "bash(1), HISTFILE: the default file, and one that guides use",
        &[exclude("~/.bash_history"), exclude("~/.local/state/bash/history")],
    ),
    group(
        "zsh",
        "zshparam(1), HISTFILE: names that guides use",
        &[
            exclude("~/.zsh_history"),
            exclude("~/.config/zsh/.zsh_history"),
            exclude("~/.zhistory"),
            exclude("~/.histfile"),
            exclude("~/.local/share/zsh/history"),
            exclude("~/.local/state/zsh/history"),
        ],
    ),
    group("fish", "fish, \"history\": files of sessions", &[exclude("~/.local/share/fish/fish_history")]),
    group(
        "other shells",
        "ksh(1), ash(1), tcsh(1), Nushell, PowerShell: the default file",
        &[
            exclude("~/.sh_history"),
            exclude("~/.ash_history"),
            exclude("~/.history"),
            exclude("~/.config/nushell/history.txt").reads_as_empty(),
            exclude("~/.config/nushell/history.sqlite3"),
            exclude("~/.local/share/powershell/PSReadLine/ConsoleHost_history.txt").reads_as_empty(),
        ],
    ),
    group(
        "Atuin, McFly",
        "Atuin, \"Config\": the database; McFly, README",
        &[exclude("~/.local/share/atuin"), exclude("~/.local/share/mcfly"), exclude("~/.mcfly")],
    ),
    group("Python", "Python, site: .python_history", &[exclude("~/.python_history")]),
    group("IPython", "IPython, \"HistoryManager\": history.sqlite", &[exclude("~/.ipython/profile_*/history.sqlite")]),
    group("Node.js", "Node.js, \"REPL\": NODE_REPL_HISTORY", &[exclude("~/.node_repl_history")]),
    group(
        "Ruby",
        "irb, \"History\"; Pry, \"History\"",
        &[
            exclude("~/.irb_history").reads_as_empty(),
            exclude("~/.local/state/irb/irb_history").reads_as_empty(),
            exclude("~/.pry_history").reads_as_empty(),
            exclude("~/.local/share/pry/pry_history").reads_as_empty(),
        ],
    ),
    group(
        "other interpreters",
        "php(1), PsySH, R, Julia, Scala, Ammonite, GHCi, Leiningen: the default file",
        &[
            exclude("~/.php_history"),
            exclude("~/.config/psysh/psysh_history"),
            exclude("~/.Rhistory"),
            exclude("~/.julia/logs/repl_history.jl"),
            exclude("~/.scala_history").reads_as_empty(),
            exclude("~/.ammonite/history").reads_as_empty(),
            exclude("~/.ghc/ghci_history"),
            exclude("~/.lein/repl-history").reads_as_empty(),
        ],
    ),
    group("PostgreSQL", "psql(1), HISTFILE; pgcli", &[exclude("~/.psql_history"), exclude("~/.config/pgcli/history")]),
    group(
        "MySQL",
        "mysql(1), \"mysql Client Logging\"; mycli",
        &[exclude("~/.mysql_history"), exclude("~/.mariadb_history"), exclude("~/.mycli-history")],
    ),
    group(
        "SQLite",
        "sqlite3(1): SQLITE_HISTORY; litecli",
        &[exclude("~/.sqlite_history"), exclude("~/.local/state/sqlite_history"), exclude("~/.config/litecli/history")],
    ),
    group(
        "Redis",
        "redis-cli, \"REDISCLI_HISTFILE\"",
        &[exclude("~/.rediscli_history"), exclude("~/.valkeycli_history")],
    ),
    group("MongoDB", "mongosh, \"Logs\": its folder", &[exclude("~/.mongodb/mongosh"), exclude("~/.dbshell")]),
    group(
        "other databases",
        "DuckDB, ClickHouse, cqlsh, InfluxDB: histories of the clients",
        &[
            exclude("~/.duckdb_history"),
            exclude("~/.clickhouse-client-history"),
            exclude("~/.cassandra/cqlsh_history"),
            exclude("~/.influx_history"),
        ],
    ),
    group("usql", "usql, README: USQL_HISTORY", &[exclude("~/.usql_history")]),
    group("Scapy", "Scapy, config.py, histfile", &[exclude("~/.config/scapy/history"), exclude("~/.scapy_history")]),
    group("Midnight Commander", "mc(1), FILES: history of its input lines", &[exclude("~/.local/share/mc/history")]),
    group("less", "less(1), LESSHISTFILE", &[exclude("~/.lesshst"), exclude("~/.local/state/lesshst")]),
    group("Vim", "Vim, `:help viminfo`", &[exclude("~/.viminfo")]),
    group(
        "Neovim",
        "Neovim, `:help shada`",
        &[
            exclude("~/.local/state/nvim/shada/main.shada").reads_as_empty(),
            exclude("~/.local/share/nvim/shada/main.shada").reads_as_empty(),
        ],
    ),
    group("GDB", "GDB, \"Command History\"", &[exclude("~/.gdb_history")]),
    group(
        "lftp",
        "lftp(1), FILES: history and bookmarks with passwords",
        &[exclude("~/.local/share/lftp"), exclude("~/.lftp")],
    ),
    group(
        "clipboard managers",
        "Klipper, CopyQ, GPaste, cliphist, greenclip: what was copied",
        &[
            exclude("~/.local/share/klipper"),
            exclude("~/.local/share/copyq"),
            exclude("~/.config/copyq"),
            exclude("~/.local/share/gpaste"),
            exclude("~/.cache/cliphist"),
            exclude("~/.cache/greenclip.history"),
        ],
    ),
    group(
        "curl, Wget",
        "curl(1), --cookie-jar; Wget, \"HTTP Options\": cookies that people keep",
        &[exclude("~/.cookies"), exclude("~/.cookies.txt")],
    ),
];
