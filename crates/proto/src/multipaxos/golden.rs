//! Golden scripts of Multi-Paxos.

use super::wire::Message;
use super::*;
use crate::stage::golden::{Readable, check_log};
use alloc::format;
use alloc::string::String;

impl Readable for Spec {
    fn place(at: At, _: &[u64]) -> String {
        unreachable!("{at:?}: messages alone")
    }

    fn message(bytes: &[u8]) -> String {
        Message::decode(bytes).map_or_else(|| "what is no message".into(), |of| format!("{of:?}"))
    }
}

#[test]
fn an_election_and_a_decision() {
    check_log::<Spec>("multipaxos/scripts/decision.txt");
}

#[test]
fn a_takeover_proposes_what_was_accepted() {
    check_log::<Spec>("multipaxos/scripts/takeover.txt");
}
