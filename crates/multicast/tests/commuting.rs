//! Messages that commute, through the door (paper 004, section 4.4.3).

#[allow(dead_code, reason = "not every test binary uses everything that systems offer")]
mod common;

use common::{PATIENCE, Town};
use multicast::{Door, FabricKind, Footprint, GroupId, GroupSet, Options, Seat};

/// A message to two groups of which one does not run yet waits for it. A conflicting message waits
/// behind it; a commuting one is delivered at once.
#[test]
fn what_commutes_does_not_wait_for_a_group_that_is_away() {
    let mut town = Town::new(FabricKind::Shm, 6, vec![vec![1, 2, 3], vec![4, 5, 6]]);
    town.system.commutes = true;
    let open = |node| Door::open(&town.system, Seat::new(node)).expect("the node opens");
    let mut doors: Vec<Door> = (1..=3).map(open).collect();
    let (here, both) = (GroupId::at(0).alone(), GroupSet::all(2));
    let touching = |footprint| Options { footprint, patience: PATIENCE, ..Options::default() };
    let writes = |key: &[u8]| touching(Footprint::NONE.writing(key));
    let reads = |key: &[u8]| touching(Footprint::NONE.reading(key));

    let slow = doors[0].multicast(both, *b"slow", &writes(b"apple")).unwrap();
    let free = doors[0].multicast(here, *b"free", &writes(b"pear")).unwrap();
    free.wait().expect("it waits for nobody");
    for door in &doors {
        assert_eq!(&*door.next(PATIENCE).expect("it was delivered").message.payload, b"free");
    }
    // The slow message has its place by now: it came to the same primary before the free one did.
    // (Messages that arrive together are proposed in another order.)
    let behind = doors[0].multicast(here, *b"behind", &reads(b"apple")).unwrap();
    let silent = touching(Footprint::ALL);
    let all = doors[1].multicast(here, *b"all", &silent).unwrap();

    doors.extend((4..=6).map(open));
    for one in [slow, behind, all] {
        one.wait().expect("everybody is there now");
    }
    for (at, door) in doors.iter().enumerate() {
        let n = if at < 3 { 3 } else { 1 };
        let heard: Vec<Vec<u8>> = (0..n)
            .map(|_| door.next(PATIENCE).expect("it was delivered").message.payload.to_vec())
            .collect();
        let place = |what: &[u8]| heard.iter().position(|one| one == what);
        assert!(place(b"slow").is_some(), "node {}: {heard:?}", at + 1);
        if at < 3 {
            assert!(place(b"slow") < place(b"behind"), "node {}: {heard:?}", at + 1);
            assert!(place(b"slow") < place(b"all"), "what says nothing waits: {heard:?}");
        }
    }
}
