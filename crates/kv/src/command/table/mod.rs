//! The facts about every command, one entry each, in Redis 7.0's words.

mod backup;
mod bitmaps;
mod door;
mod gregale;
mod keys;
mod scripts;
mod strings;
mod values;

use super::CommandSpec;

/// All entries; lookups go through the index that is built from these.
pub(super) static GROUPS: [&[CommandSpec]; 8] = [
    &strings::STRINGS,
    &bitmaps::BITMAPS,
    &values::VALUES,
    &keys::KEYS,
    &scripts::SCRIPTS,
    &door::DOOR,
    &backup::BACKUP,
    &gregale::GREGALE,
];
