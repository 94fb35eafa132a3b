//! Building and testing in several languages.

use crate::sandbox::write;
use crate::support::{Place, stderr, stdout};
use crate::{inside, need, output_inside, outside};

for_both!(
    a_program_in_c_is_made,
    a_script_runs_in_node,
    a_package_is_installed_and_tested_with_npm,
    a_package_is_installed_with_pip,
    package_managers_work_with_settings_without_their_credentials,
);
// The toolchain that built the tests may be in a home that no other user can enter.
for_root!(
    a_crate_is_built_and_tested,
    a_program_is_not_installed_on_the_path_of_the_host,
    placeholders_do_not_disturb_cargo_and_maven,
);

fn a_program_in_c_is_made(place: &Place) {
    need("make");
    write(place, "Makefile", "CC = cc\nhello: hello.o\n\t$(CC) -o $@ $<\ntest: hello\n\t./hello >said\n");
    write(place, "hello.c", "#include <stdio.h>\nint main(void) { puts(\"hello\"); return 0; }\n");
    inside(place, "make -s test; make -s test");
    assert_eq!(outside(place, "cat said; ./hello"), "hello\nhello\n");
}

fn a_script_runs_in_node(place: &Place) {
    need("node");
    write(
        place,
        "work.js",
        "const fs = require('fs'); fs.mkdirSync('out'); fs.writeFileSync('out/t', 'x'); fs.renameSync('out/t', 'out/done');",
    );
    inside(place, "node work.js");
    assert_eq!(outside(place, "cat out/done"), "x");
}

/// `npm` fails if it cannot create `~/.npm`.
// SPEC P9
fn a_package_is_installed_and_tested_with_npm(place: &Place) {
    need("npm");
    place.renew_home();
    write(place, "dep/package.json", r#"{ "name": "dep", "version": "1.0.0", "main": "i.js", "bin": "i.js" }"#);
    write(place, "dep/i.js", "#!/usr/bin/env node\nmodule.exports = 42\n");
    let manifest = r#"{ "name": "x", "version": "1.0.0", "scripts": { "test": "node t.js && dep" }, "dependencies": { "dep": "file:dep-1.0.0.tgz" } }"#;
    write(place, "package.json", manifest);
    write(place, "t.js", "if (require('dep') !== 42) throw 1; require('fs').writeFileSync('tested', 'yes')");
    inside(
        place,
        "(cd dep; npm pack -s >/dev/null; mv dep-1.0.0.tgz ..)
         npm install --offline --no-audit --no-fund --silent; npm test --silent; npm ci --offline --no-audit --no-fund --silent",
    );
    assert_eq!(outside(place, "cat tested; ls node_modules; test -d ~/.npm"), "yesdep\n");
    let global = output_inside(place, "npm install -g --offline ./dep-1.0.0.tgz");
    assert!(!global.status.success(), "the command cannot install on the host's PATH");
}

fn a_package_is_installed_with_pip(place: &Place) {
    write(place, "pyproject.toml", "[project]\nname = \"lib\"\nversion = \"1\"\n");
    write(place, "wheel.py", WHEEL);
    write(
        place,
        "test_lib.py",
        "import lib, unittest\nclass T(unittest.TestCase):\n    def test(self): self.assertEqual(lib.answer, 42)\n",
    );
    inside(
        place,
        "/usr/bin/python3 wheel.py; /usr/bin/python3 -m venv .venv
         .venv/bin/pip install -q --disable-pip-version-check --no-index ./lib-1-py3-none-any.whl
         .venv/bin/python -m unittest -q 2>tested",
    );
    assert_eq!(outside(place, "tail -n1 tested; .venv/bin/python -c 'import lib; print(lib.answer)'"), "OK\n42\n");
}

/// The tools obey the copies of settings without the credentials.
// SPEC P16
fn package_managers_work_with_settings_without_their_credentials(place: &Place) {
    need("npm");
    place.renew_home();
    let npmrc = "registry=https://r.example/\n//r.example/:_authToken=T0KEN\n@team:registry=https://t.example/\n";
    place.write("home/.npmrc", npmrc);
    write(place, ".npmrc", "save-exact=true\n//r.example/:_password=T0KEN\n");
    place.write("home/.config/pip/pip.conf", "[global]\nindex-url = https://me:T0KEN@r.example/simple\ntimeout = 7\n");
    write(place, "wheel.py", WHEEL);
    let settings = "npm config get registry; npm config get @team:registry; npm config get save-exact
         /usr/bin/python3 -m venv .venv
         .venv/bin/pip config get global.index-url; .venv/bin/pip config get global.timeout";
    let said = "https://r.example/\nhttps://t.example/\ntrue\nhttps://r.example/simple\n7\n";
    assert_eq!(inside(place, settings), said);
    write(place, "dep/package.json", r#"{ "name": "dep", "version": "1.0.0" }"#);
    write(place, "package.json", r#"{ "name": "x", "version": "1.0.0" }"#);
    inside(
        place,
        "(cd dep; npm pack -s >/dev/null; mv dep-1.0.0.tgz ..)
         npm install --offline --no-audit --no-fund --silent ./dep-1.0.0.tgz
         /usr/bin/python3 wheel.py
         .venv/bin/pip install -q --disable-pip-version-check --no-index ./lib-1-py3-none-any.whl",
    );
    assert_eq!(outside(place, "ls node_modules; .venv/bin/python -c 'import lib; print(lib.answer)'"), "dep\n42\n");
    assert!(outside(place, "cat ~/.npmrc .npmrc ~/.config/pip/pip.conf").matches("T0KEN").count() == 3);
    let pom = "<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>b</artifactId>\
               <version>1</version><packaging>pom</packaging></project>\n";
    write(place, "pom.xml", pom);
    let settings = "<settings><servers><server><id>r</id><password>T0KEN</password></server></servers></settings>";
    place.write("home/.m2/settings.xml", settings);
    let maven = "cat ~/.m2/settings.xml; command -v mvn >/dev/null || exit 0; mvn -B -q -o -Duser.home=$HOME validate";
    let said = "<settings><servers><server><id>r</id></server></servers></settings>";
    assert!(inside(place, maven).starts_with(said));
}

/// Writes a wheel by hand, because machines have no tool to build one by default.
const WHEEL: &str = r#"
import zipfile
with zipfile.ZipFile("lib-1-py3-none-any.whl", "w") as wheel:
    wheel.writestr("lib.py", "answer = 42\n")
    wheel.writestr("lib-1.dist-info/METADATA", "Metadata-Version: 2.1\nName: lib\nVersion: 1\n")
    wheel.writestr("lib-1.dist-info/WHEEL", "Wheel-Version: 1.0\nGenerator: a test\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
    wheel.writestr("lib-1.dist-info/RECORD", "lib.py,,\nlib-1.dist-info/METADATA,,\nlib-1.dist-info/WHEEL,,\nlib-1.dist-info/RECORD,,\n")
"#;

fn a_crate(place: &Place) {
    write(place, "Cargo.toml", "[package]\nname = \"tool\"\nversion = \"0.1.0\"\nedition = \"2021\"\n");
    write(place, "src/main.rs", "fn main() { println!(\"hello\") }\n#[test]\nfn works() { assert_eq!(2 + 2, 4) }\n");
}

fn a_crate_is_built_and_tested(place: &Place) {
    a_crate(place);
    inside(place, "cargo build -q --offline; cargo test -q --offline >tested; cargo run -q --offline >said");
    assert_eq!(
        outside(place, "cat said; target/debug/tool; grep -c 'test result: ok. 1 passed' tested"),
        "hello\nhello\n1\n"
    );
}

/// The installation fails whether `~/.cargo/bin` exists or not.
fn a_program_is_not_installed_on_the_path_of_the_host(place: &Place) {
    a_crate(place);
    for prepare in ["mkdir -p ~/.cargo/bin", "rmdir ~/.cargo/bin", "rm -r ~/.cargo"] {
        outside(place, prepare);
        let installed = output_inside(place, "cargo install -q --offline --path . --debug");
        assert!(!installed.status.success(), "{prepare}");
        assert!(stderr(&installed).contains("Read-only file system"), "{prepare}: {}", stderr(&installed));
        assert_eq!(outside(place, "ls -A ~/.cargo/bin 2>/dev/null || true"), "", "{prepare}");
    }
}

/// The real tools read the placeholders of missing settings.
// SPEC M4
fn placeholders_do_not_disturb_cargo_and_maven(place: &Place) {
    a_crate(place);
    outside(place, "mkdir -p ~/.cargo ~/.m2; echo '[net]' >~/.cargo/config.toml");
    let checked = output_inside(place, "cargo check --offline");
    assert!(checked.status.success() && !stderr(&checked).contains("warning"), "{}", stderr(&checked));
    outside(place, "rm ~/.cargo/config.toml");
    let checked = output_inside(place, "touch src/main.rs; cargo check --offline && ls ~/.cargo/config.toml");
    assert!(checked.status.success() && !stderr(&checked).contains("warning"), "{}", stderr(&checked));
    let pom = "<project><modelVersion>4.0.0</modelVersion><groupId>a</groupId><artifactId>b</artifactId>\
               <version>1</version><packaging>pom</packaging></project>\n";
    write(place, "pom.xml", pom);
    // The home is read-only, so the settings need no placeholder.
    let maven = "touch ~/.m2/settings.xml 2>/dev/null && exit 1
         command -v mvn >/dev/null || exit 0; mvn -B -q -o -Duser.home=$HOME validate";
    let built = output_inside(place, maven);
    assert!(built.status.success(), "{}{}", stdout(&built), stderr(&built));
    assert_eq!(outside(place, "ls -A ~/.m2 | grep -vx -e repository -e wrapper || true"), "", "no placeholder is left");
}
