//! Starting while another sandbox works in the same project.

use std::io::{BufRead, BufReader};
use std::process::Stdio;

use crate::sandbox::{policy, sandbox, shell, write};
use crate::support::Place;

for_both!(a_run_starts_beside_another_that_writes);

/// Its files come and go all the time, and nothing of that is the business of a rule.
// SPEC C12
fn a_run_starts_beside_another_that_writes(place: &Place) {
    const WORK: &str = "
import os, sys
os.makedirs('work/deep', exist_ok=True)
print('started', flush=True)
while not os.path.exists('stop'):
    for number in range(20):
        open(f'work/deep/{number}', 'w').close()
    for number in range(20):
        os.rename(f'work/deep/{number}', f'work/{number}')
        os.unlink(f'work/{number}')
    os.mkdir('work/new')
    os.rmdir('work/new')
    __import__('time').sleep(0.02)
";
    policy(place, "exclude = ['**/.env', 'missing/**/key', { path = '.blocked', if-missing = 'block' }]");
    write(place, "sub/.env", "secret\n");
    let mut other = sandbox(place);
    other.args(["--", "/usr/bin/python3", "-I", "-c", WORK]).stdout(Stdio::piped());
    let mut other = other.spawn().unwrap();
    let mut said = String::new();
    BufReader::new(other.stdout.take().unwrap()).read_line(&mut said).unwrap();
    assert_eq!(said, "started\n");
    for _ in 0..10 {
        assert_eq!(shell(place, "cat sub/.env 2>/dev/null || echo hidden"), "hidden\n");
    }
    std::fs::write(place.project().join("stop"), "").unwrap();
    assert!(other.wait().unwrap().success());
}
