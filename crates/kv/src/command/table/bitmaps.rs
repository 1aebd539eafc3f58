//! The commands on single bits of strings.

use super::super::{CommandSpec, Run, flag, key_spec, spec};
use crate::exec::{bitfield, bits};

/// The commands on single bits of strings, with what Redis 7.0 answers about them.
pub(super) static BITMAPS: [CommandSpec; 7] = [
    spec("bitcount", -2, flag::READONLY)
        .doc("bitmap", "2.6.0", "O(N)", "Count set bits in a string")
        .categories(&["@read", "@bitmap", "@slow"])
        .keys(1, 1, 1, &[key_spec("", &["RO", "access"], 1, 0, 1)])
        .run(Run::Read(bits::bitcount)),
    spec("bitfield", -2, flag::WRITE | flag::DENYOOM)
        .doc("bitmap", "3.2.0", "O(1) for each subcommand specified", "Perform arbitrary bitfield integer operations on strings")
        .categories(&["@write", "@bitmap", "@slow"])
        .keys(1, 1, 1, &[key_spec("This command allows both access and modification of the key", &["RW", "access", "update", "variable_flags"], 1, 0, 1)])
        .run(Run::Write(bitfield::bitfield)),
    spec("bitfield_ro", -2, flag::READONLY | flag::FAST)
        .doc("bitmap", "6.0.0", "O(1) for each subcommand specified", "Perform arbitrary bitfield integer operations on strings. Read-only variant of BITFIELD")
        .categories(&["@read", "@bitmap", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RO", "access"], 1, 0, 1)])
        .run(Run::Read(bitfield::bitfield_ro)),
    spec("bitop", -4, flag::WRITE | flag::DENYOOM)
        .doc("bitmap", "2.6.0", "O(N)", "Perform bitwise operations between strings")
        .categories(&["@write", "@bitmap", "@slow"])
        .keys(2, -1, 1, &[key_spec("", &["OW", "update"], 2, 0, 1), key_spec("", &["RO", "access"], 3, -1, 1)])
        .run(Run::Write(bits::bitop)),
    spec("bitpos", -3, flag::READONLY)
        .doc("bitmap", "2.8.7", "O(N)", "Find first bit set or clear in a string")
        .categories(&["@read", "@bitmap", "@slow"])
        .keys(1, 1, 1, &[key_spec("", &["RO", "access"], 1, 0, 1)])
        .run(Run::Read(bits::bitpos)),
    spec("getbit", 3, flag::READONLY | flag::FAST)
        .doc("bitmap", "2.2.0", "O(1)", "Returns the bit value at offset in the string value stored at key")
        .categories(&["@read", "@bitmap", "@fast"])
        .keys(1, 1, 1, &[key_spec("", &["RO", "access"], 1, 0, 1)])
        .run(Run::Read(bits::getbit)),
    spec("setbit", 4, flag::WRITE | flag::DENYOOM)
        .doc("bitmap", "2.2.0", "O(1)", "Sets or clears the bit at offset in the string value stored at key")
        .categories(&["@write", "@bitmap", "@slow"])
        .keys(1, 1, 1, &[key_spec("", &["RW", "access", "update"], 1, 0, 1)])
        .run(Run::Write(bits::setbit)),
];
