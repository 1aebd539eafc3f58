//! Finding a command by name: one multiplication, and rarely a second probe.
//!
//! A name of up to 16 bytes is one 128-bit word, so a lookup compares words and allocates nothing.
//! The index is built at compile time; a name that is too long, not lower case or not unique does
//! not compile.

use super::{CommandSpec, NAME_BYTES_MAX, table};

/// The size of the index: a power of two, several times the number of commands, so that probes are
/// short.
const SLOTS: usize = 256;

struct Slot {
    name: u128,
    spec: Option<&'static CommandSpec>,
}

static INDEX: [Slot; SLOTS] = build();

/// The command of this name in any case; a container (`OBJECT`) represents its subcommands.
pub fn lookup(name: &[u8]) -> Option<&'static CommandSpec> {
    if name.len() > NAME_BYTES_MAX {
        return None;
    }
    let mut bytes = [0; NAME_BYTES_MAX];
    bytes[..name.len()].copy_from_slice(name);
    bytes.make_ascii_lowercase();
    let wanted = u128::from_le_bytes(bytes);
    let mut at = slot_of(wanted);
    loop {
        let slot = &INDEX[at];
        let spec = slot.spec?;
        // The length distinguishes "get" from "get\0", which pad to the same word.
        if slot.name == wanted && spec.name.len() == name.len() {
            return Some(spec);
        }
        at = (at + 1) % SLOTS;
    }
}

/// The subcommand of this name in any case: `encoding` of `OBJECT`.
pub fn lookup_subcommand(container: &CommandSpec, name: &[u8]) -> Option<&'static CommandSpec> {
    let skip = container.name.len() + 1;
    container.subcommands.iter().find(|sub| sub.name.as_bytes()[skip..].eq_ignore_ascii_case(name))
}

const fn slot_of(name: u128) -> usize {
    let folded = (name as u64) ^ ((name >> 64) as u64).rotate_left(31);
    (folded.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 56) as usize
}

const fn build() -> [Slot; SLOTS] {
    let mut index = [const { Slot { name: 0, spec: None } }; SLOTS];
    let mut group = 0;
    while group < table::GROUPS.len() {
        let mut entry = 0;
        while entry < table::GROUPS[group].len() {
            let spec = &table::GROUPS[group][entry];
            let name = pack(spec.name.as_bytes());
            let mut at = slot_of(name);
            while index[at].spec.is_some() {
                assert!(index[at].name != name, "I2: a command is in the table twice");
                at = (at + 1) % SLOTS;
            }
            index[at] = Slot { name, spec: Some(spec) };
            entry += 1;
        }
        group += 1;
    }
    index
}

const fn pack(name: &[u8]) -> u128 {
    assert!(name.len() <= NAME_BYTES_MAX, "I2: a name is too long");
    let mut word = 0u128;
    let mut at = name.len();
    while at > 0 {
        at -= 1;
        assert!(!name[at].is_ascii_uppercase(), "I2: a name is not lower case");
        word = (word << 8) | name[at] as u128;
    }
    word
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i2_every_command_is_found_in_any_case_and_nothing_else() {
        for spec in super::super::all() {
            assert!(std::ptr::eq(lookup(spec.name.as_bytes()).unwrap(), spec));
            assert!(std::ptr::eq(lookup(spec.name.to_uppercase().as_bytes()).unwrap(), spec));
            for sub in spec.subcommands {
                let (container, name) = sub.name.split_once('|').unwrap();
                assert_eq!(container, spec.name);
                let found = lookup_subcommand(spec, name.to_uppercase().as_bytes()).unwrap();
                assert!(std::ptr::eq(found, sub));
            }
        }
        for absent in ["", "get\0", "gets", "ge", "a-name-far-too-long", "\u{e9}"] {
            assert!(lookup(absent.as_bytes()).is_none(), "{absent:?}");
        }
    }
}
