//! The facts about every command, one entry each, in Redis 7.0's words.

mod backup;
mod bitmaps;
mod cluster;
mod door;
mod gregale;
mod keys;
mod pubsub;
mod scripts;
mod strings;
mod values;

use super::CommandSpec;

/// All entries; lookups go through the index that is built from these.
pub(super) static GROUPS: [&[CommandSpec]; 10] = [
    &strings::STRINGS,
    &bitmaps::BITMAPS,
    &values::VALUES,
    &keys::KEYS,
    &scripts::SCRIPTS,
    &pubsub::PUBSUB,
    &cluster::CLUSTER,
    &door::DOOR,
    &backup::BACKUP,
    &gregale::GREGALE,
];
