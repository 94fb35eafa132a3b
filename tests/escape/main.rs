//! Attacks on the built binary by the command inside, judged on the host afterwards.
//!
//! Each attack runs twice. Against the product, agent-sandbox, it must fail. In the control,
//! without the mitigation that is meant to stop it, it must succeed. So no test passes because its
//! attack never worked. `attacks/` holds the programs that the command runs. The modules here set
//! the scene and judge the outcome.
//!
//! An attack that needs a certain moment holds the product at a point (`scene::Held`). No test
//! hopes to win a race.
#![allow(clippy::disallowed_methods, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[macro_use]
mod situations;

mod scene;

mod agent_repositories;
mod autorun;
mod bare;
mod beside;
mod cgroups;
mod closed;
mod credentials;
mod deep_repositories;
mod defaults;
mod git;
mod git_links;
mod git_state;
mod home;
mod inject;
mod kernel;
mod killed;
mod limits;
mod masks;
mod missing;
mod moves;
mod named_elsewhere;
mod namespaces;
mod nested;
mod new_repositories;
mod next_run;
mod other_mounts;
mod outcome;
mod outside;
mod planted;
mod private;
mod processes;
mod progress;
mod random;
mod reports;
mod restore;
mod robustness;
mod root;
mod scopes;
mod soak;
mod sockets;
mod spellings;
mod start;
mod streams;
mod worktrees_elsewhere;

#[path = "../support/mod.rs"]
mod support;
