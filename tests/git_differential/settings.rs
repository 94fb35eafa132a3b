//! Settings of the user that name programs in the project.

use std::path::Path;

use crate::dice::Dice;
use crate::shapes::Shape;

pub const IDENTITY: &str = "[user]\n\tname = U\n\temail = u@example.org\n[init]\n\tdefaultBranch = main\n[protocol \"file\"]\n\tallow = always\n";

/// Creates the harmless programs of the user that settings name.
pub const PROGRAMS: &str = r#"
mkdir -p tools/deep tools/hooks tools/template/hooks 'my tools'
harmless() { printf '#!/bin/sh\ncat\n' >"$1" && chmod 755 "$1"; }
for program in tools/prog prog.sh 'my tools/prog'; do harmless "$program"; done
for hook in pre-commit post-commit post-index-change post-checkout reference-transaction; do printf '#!/bin/sh\n' >"tools/hooks/$hook"; chmod 755 "tools/hooks/$hook"; done
[ -e link ] || ln -s tools link
[ -e prog.link ] || ln -s tools/prog prog.link
printf '[alias]\n\tst = status\n' >team.gitconfig
echo more >>file
"#;

#[derive(Debug, Default)]
pub struct UserSettings {
    pub global: String,
    pub system: String,
    /// A script that makes the settings of the repository.
    pub script: String,
    pub variables: Vec<(String, String)>,
}

/// Settings that run a program.
const COMMANDS: [&str; 26] = [
    "core.fsmonitor",
    "core.fsmonitor",
    "filter.f.clean",
    "filter.f.smudge",
    "filter.f.process",
    "diff.d.textconv",
    "diff.d.command",
    "diff.external",
    "merge.m.driver",
    "core.editor",
    "sequence.editor",
    "gpg.program",
    "gpg.ssh.defaultKeyCommand",
    "core.sshCommand",
    "core.gitProxy",
    "core.askPass",
    "core.alternateRefsCommand",
    "credential.helper",
    "remote.origin.uploadpack",
    "trailer.t.command",
    "trailer.t.cmd",
    "interactive.diffFilter",
    "uploadpack.packObjectsHook",
    "tar.t.command",
    "gc.recentObjectsHook",
    "hook.h.command",
];

/// Ways to name a program of `PROGRAMS`. `PROJECT` is the absolute path of the project.
const FORMS: [&str; 24] = [
    "./tools/prog",
    "tools/prog",
    "sh tools/prog",
    "sh prog.sh",
    "$PWD/tools/prog",
    "\"$PWD\"/tools/prog",
    "\"$(git rev-parse --show-toplevel)/tools/prog\"",
    "cd tools && ./prog",
    "cd tools/deep && ../prog",
    "cd tools; cd deep; sh ../prog",
    "PROJECT/tools/prog",
    "sh 'my tools/prog'",
    "sh my\\ tools/prog",
    "sh -c 'cd \"my tools\" && ./prog'",
    "PATH=tools:$PATH prog",
    "PATH=\"$PWD/tools:$PATH\"; prog",
    "env X=1 tools/prog",
    "tools/../tools/prog",
    "link/prog",
    "./prog.link",
    "~/code/project/tools/prog",
    "!tools/prog",
    "!sh ./prog.sh",
    "tools/absent",
];

const HOOK_FORMS: [&str; 8] = [
    "tools/hooks",
    "./tools/hooks/",
    "PROJECT/tools/hooks",
    "~/code/project/tools/hooks",
    "link/hooks",
    "tools/absent/hooks",
    "~daemon/../../..PROJECT/tools/hooks",
    "tools/deep/../hooks",
];

const INCLUDE_FORMS: [&str; 3] =
    ["PROJECT/team.gitconfig", "~/code/project/team.gitconfig", "PROJECT/absent.gitconfig"];

impl UserSettings {
    pub fn random(dice: &mut Dice, shape: Shape, project: &Path) -> Self {
        let mut settings =
            Self { global: String::new(), system: String::new(), script: String::new(), variables: Vec::new() };
        if dice.one_in(2) {
            settings.global.push_str("[index]\n\tthreads = 4\n");
        }
        if dice.one_in(4) {
            settings.global.push_str("[commit]\n\tgpgSign = true\n");
        }
        if dice.one_in(3) {
            settings.global.push_str("[status]\n\tsubmoduleSummary = true\n[diff]\n\tsubmodule = diff\n");
        }
        for _ in 0..dice.roll(3) {
            let (key, form) = match dice.roll(6) {
                0 => ("core.hooksPath", *dice.pick(&HOOK_FORMS)),
                1 => (*dice.pick(&["include.path", "includeIf.gitdir:~/code/.path"]), *dice.pick(&INCLUDE_FORMS)),
                _ => (*dice.pick(&COMMANDS), *dice.pick(&FORMS)),
            };
            settings.add(dice, shape, project, (key, &form.replace("PROJECT", project.to_str().unwrap())));
        }
        settings
    }

    fn add(&mut self, dice: &mut Dice, shape: Shape, project: &Path, (key, value): (&str, &str)) {
        let (section, name) = key.rsplit_once('.').unwrap();
        let header = match section.split_once('.') {
            Some((section, subsection)) => format!("[{section} \"{subsection}\"]"),
            None => format!("[{section}]"),
        };
        let quoted = value.replace('\\', "\\\\").replace('"', "\\\"");
        let text = format!("{header}\n\t{name} = \"{quoted}\"\n");
        let shell = |text: &str| format!("'{}'", text.replace('\'', "'\\''"));
        match dice.roll(7) {
            0 => self.global.push_str(&text),
            1 => {
                self.system.push_str(&text);
                let home = project.ancestors().nth(2).unwrap();
                self.variables.push(("GIT_CONFIG_SYSTEM".into(), home.join("system").to_str().unwrap().into()));
            }
            2 => {
                self.variables.push(("GIT_CONFIG_COUNT".into(), "1".into()));
                self.variables.push(("GIT_CONFIG_KEY_0".into(), key.into()));
                self.variables.push(("GIT_CONFIG_VALUE_0".into(), value.into()));
            }
            3 => self.variables.push(("GIT_CONFIG_PARAMETERS".into(), format!("{}={}", shell(key), shell(value)))),
            4 => self.script.push_str(&format!(
                "mkdir -p \"$HOME/.config/git\"; printf %s {} >\"$HOME/.config/git/more\"; git config --global include.path '~/.config/git/more'\n",
                shell(&text)
            )),
            5 if shape == Shape::WorktreeInside || shape == Shape::IsWorktree => {
                self.script.push_str(&format!("git config --worktree {} {}\n", shell(key), shell(value)));
            }
            _ => self.script.push_str(&format!("git config {} {}\n", shell(key), shell(value))),
        }
    }
}
