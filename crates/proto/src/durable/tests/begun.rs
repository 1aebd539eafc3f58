//! A log that begins behind a state, whenever its process dies meanwhile.

use super::*;

/// The entry of slot 2 is of a later ballot than the one in which the state's last slot was
/// decided.
#[test]
fn what_is_off_the_decided_path_is_dropped_whenever_the_process_dies() {
    let members = Members::first(MemberSet::all(3));
    let head = StateHead { ballot: Ballot(18), members_at: Prefix::ZERO, members, coming: None };
    let state = (Prefix(2), Some(head));
    for requests in 0..4 {
        let mut disk = TestDisk::default();
        let mut log = log_of(&mut disk, 2);
        log.append(EntryHead { slot: Slot(2), ballot: Ballot(20), view: 0 }, b"e", &mut disk);
        disk.requests_left = Some(requests);
        log.continue_from(Sound, state.0, state.1, &mut disk);
        disk.requests_left = None;
        let mut log = Log::recover(Sound, 16, &mut disk).expect("there is one");
        log.continue_from(Sound, state.0, state.1, &mut disk);
        let newness = (log.last_ballot(), log.end());
        assert_eq!(newness, (Ballot(18), Prefix(2)), "after {requests} requests");
    }
}
