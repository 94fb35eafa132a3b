//! Random indexes that a command could write without git.

use sha1::{Digest, Sha1};

use crate::dice::Dice;

const SUBMODULE: u32 = 0o160_000;
const FILE: u32 = 0o100_644;
const LONG: usize = 0x0fff;

struct Entry {
    mode: u32,
    name: Vec<u8>,
    /// The number of bytes of the previous name that begin this name in version 4.
    kept: usize,
    /// The rest of the name.
    rest: Vec<u8>,
}

/// An index that names `new` in one of many ways. git accepts most of these indexes.
pub fn random(dice: &mut Dice, project: &str) -> Vec<u8> {
    let version = 2 + dice.roll(3) as u32;
    let odd = [format!("{project}/new"), "./new".to_owned(), "../project/new".to_owned(), "a/../new".to_owned()];
    let name = if dice.one_in(3) { dice.pick(&odd).clone().into_bytes() } else { b"new".to_vec() };
    let file = |number: usize| (FILE, format!("m{number}").into_bytes());
    let mut names: Vec<(u32, Vec<u8>)> = (0..dice.roll(6)).map(file).collect();
    // In such an index, a reader that knows the long name reads another name after it.
    let is_lie = version == 4 && dice.one_in(2);
    if is_lie {
        names.push((FILE, [b"mm".as_slice(), &[b'x'; 4200]].concat()));
    }
    names.push((SUBMODULE, name));
    if !is_lie && dice.one_in(2) {
        names.push((FILE, b"z".to_vec()));
    }
    let mut entries: Vec<Entry> = Vec::new();
    for (mode, name) in names {
        let previous = entries.last().map(|entry| entry.name.clone()).unwrap_or_default();
        let common = previous.iter().zip(&name).take_while(|(a, b)| a == b).count();
        let (kept, rest) = match mode {
            SUBMODULE if is_lie => (previous.len(), name),
            _ => (common, name[common..].to_vec()),
        };
        entries.push(Entry { mode, name: [&previous[..kept], &rest].concat(), kept, rest });
    }

    let mut text = [b"DIRC".as_slice(), &version.to_be_bytes(), &(entries.len() as u32).to_be_bytes()].concat();
    let mut starts = Vec::new();
    let mut previous = 0;
    for entry in &entries {
        starts.push(text.len() as u32);
        write(&mut text, entry, previous, version);
        previous = entry.name.len();
    }
    let end = text.len() as u32;
    match dice.roll(5) {
        0 => {}
        1 | 2 => text.extend(tables(end, &blocks(dice, &starts))),
        3 => text.extend(tables(end - dice.roll(2) as u32, &blocks(dice, &starts))),
        _ => {
            // The tables and one entry are in an unknown extension.
            let hidden = end + 8;
            let name = b"new".to_vec();
            let mut content = Vec::new();
            write(&mut content, &Entry { mode: SUBMODULE, rest: name.clone(), name, kept: 0 }, 0, version);
            let (at, others) = (hidden + content.len() as u32, starts.len() as u32 - 1);
            let blocks = [(starts[0], others), (hidden, 1)];
            content.extend(tables(at, if others > 0 { &blocks } else { &blocks[1..] }));
            text.extend(extension(b"ZZZZ", &content));
        }
    }
    let sum = Sha1::digest(&text);
    [text.as_slice(), sum.as_slice()].concat()
}

/// Blocks for git's threads: the start and the number of entries of each.
fn blocks(dice: &mut Dice, starts: &[u32]) -> Vec<(u32, u32)> {
    // The block of the last entry begins without a previous name, so its name reads differently.
    let cut = if dice.one_in(2) { starts.len() - 1 } else { dice.roll(starts.len()) };
    let first = (cut > 0).then(|| (starts[0], cut as u32));
    first.into_iter().chain([(starts[cut], (starts.len() - cut) as u32)]).collect()
}

fn write(text: &mut Vec<u8>, entry: &Entry, previous: usize, version: u32) {
    let start = text.len();
    text.extend([0; 24]);
    text.extend(entry.mode.to_be_bytes());
    text.extend([0; 12]);
    text.extend([0x11; 20]);
    text.extend((entry.name.len().min(LONG) as u16).to_be_bytes());
    if version == 4 {
        text.extend(varint(previous - entry.kept));
        text.extend(&entry.rest);
        text.push(0);
    } else {
        text.extend(&entry.name);
        let padded = (text.len() - start + 8) / 8 * 8;
        text.resize(start + padded, 0);
    }
}

fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = vec![(value & 0x7f) as u8];
    while value > 0x7f {
        value = (value >> 7) - 1;
        bytes.insert(0, 0x80 | (value & 0x7f) as u8);
    }
    bytes
}

fn extension(name: &[u8; 4], content: &[u8]) -> Vec<u8> {
    [name, (content.len() as u32).to_be_bytes().as_slice(), content].concat()
}

/// The table of blocks and the end of the entries, as git writes them.
fn tables(end: u32, blocks: &[(u32, u32)]) -> Vec<u8> {
    let mut table = 1_u32.to_be_bytes().to_vec();
    table.extend(blocks.iter().flat_map(|(start, number)| [start.to_be_bytes(), number.to_be_bytes()].concat()));
    let table = extension(b"IEOT", &table);
    let sum = Sha1::digest(&table[..8]);
    let end = extension(b"EOIE", &[end.to_be_bytes().as_slice(), sum.as_slice()].concat());
    [table, end].concat()
}
