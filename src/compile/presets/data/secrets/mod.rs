//! `@secrets`.
//!
//! A file that holds nothing but credentials is hidden, or reads as empty where a tool stops at a
//! file that it may not open. A file that also names the registry of a build is shown without its
//! credentials. Only paths that exist get a mount.

mod applications;
mod copies;
mod credentials;
mod histories;

pub(crate) use copies::PUBLIC_ENV;

use super::VariableEffect::{Drop, DropWord};
use super::{BuiltinPreset, Group, RelativeTo, variables};

const PARTS: [&[Group]; 4] =
    [credentials::CREDENTIALS, applications::APPLICATIONS, histories::HISTORIES, copies::COPIES];

const GROUPS: [Group; PARTS[0].len() + PARTS[1].len() + PARTS[2].len() + PARTS[3].len()] = {
    let mut all = [PARTS[0][0]; PARTS[0].len() + PARTS[1].len() + PARTS[2].len() + PARTS[3].len()];
    let (mut part, mut at, mut to) = (0, 0, 0);
    while to < all.len() {
        if at == PARTS[part].len() {
            (part, at) = (part + 1, 0);
        }
        all[to] = PARTS[part][at];
        (at, to) = (at + 1, to + 1);
    }
    all
};

pub(super) const SECRETS: BuiltinPreset = BuiltinPreset {
    // A `.env` above a nested repository must stay hidden even if a command plants `sub/.git`.
    relative_to: RelativeTo::OutermostRepository,
    // A file that the index holds unchanged can be read from the repository anyway, and a mask
    // breaks `git commit -a`.
    leave_tracked: true,
    // Trees of third-party code and tool state. Output folders (`dist`, `.next`) are not here:
    // bundlers copy the real `.env` into them.
    skip_directories: &[
        ".git",
        ".hg",
        ".jj",
        ".svn",
        "node_modules",
        "bower_components",
        "target",
        ".venv",
        "venv",
        "site-packages",
        "__pycache__",
        ".tox",
        ".nox",
        ".gradle",
        "Pods",
    ],
    groups: &GROUPS,
    variables: &[
        // `*_KEY` is not here, because many harmless names end with it: `GPG_KEY` of Python's
        // images is a fingerprint.
        variables(
            DropWord,
            "all",
            "names that programs and CI services use for tokens, passwords and keys",
            &[
                "*_TOKEN",
                "*_SECRET",
                "*_PASS",
                "*_PASSWD",
                "*_PASSWORD",
                "*_PASSPHRASE",
                "*_CREDENTIALS",
                "*_JWT",
                "*_PAT",
                "*_APIKEY",
                "*_API_KEY",
                "*_ACCESS_KEY",
                "*_ENCRYPTION_KEY",
                "*_MASTER_KEY",
                "*_PRIVATE_KEY",
                "*_SECRET_KEY",
            ],
        ),
        variables(Drop, "Stripe", "Stripe, \"API keys\": the name that guides use", &["STRIPE_KEY"]),
        variables(
            Drop,
            "AWS CLI",
            "AWS CLI, \"Environment variables to configure the AWS CLI\"",
            &["AWS_ACCESS_KEY_ID"],
        ),
        variables(Drop, "PostgreSQL", "PostgreSQL, \"libpq: Environment Variables\"", &["PGPASSWORD"]),
        variables(Drop, "MySQL", "MySQL Reference Manual, \"Environment Variables\"", &["MYSQL_PWD"]),
        variables(Drop, "Redis", "redis-cli, \"Host, port, password, and database\"", &["REDISCLI_AUTH"]),
        variables(Drop, "sshpass", "sshpass(1), -e", &["SSHPASS"]),
        variables(Drop, "Docker", "Docker, \"docker login\": credentials in the environment", &["DOCKER_AUTH_CONFIG"]),
        variables(
            Drop,
            "npm",
            "npm-config(7): settings of a registry",
            &["npm_config_//*", "npm_config__auth*", "NPM_CONFIG__AUTH*"],
        ),
        variables(Drop, "Rails", "Ruby on Rails Guides, \"Securing Rails Applications\"", &["SECRET_KEY_BASE"]),
    ],
    ..BuiltinPreset::new(
        "secrets",
        "keys, tokens, password stores, histories, browser profiles and `.env` files are hidden",
    )
};
