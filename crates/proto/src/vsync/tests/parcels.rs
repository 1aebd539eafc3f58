//! Parcels beside slots, at their sender and at a receiver.

use super::*;
use base::{At, Bulk, Parcel};

const HEADER: Header = Header::Packed { number: 1, n_bytes: 3 };

fn parcel(tag: u64, bytes: &[u8]) -> Parcel {
    Parcel { tag, bulk: Bulk::copied(bytes) }
}

/// The parcels that the first of three members posts: when it sends a message, and when the link to
/// the second one is there again.
fn posted<P: Plantings>(planted: P) -> [Vec<(Rank, At, Parcel)>; 2] {
    let mut current = Rows::of(3).read_by(0, planted);
    let mut port = Region { parcels: Some(Default::default()), ..Region::default() };
    let mut outbox = Outbox::default();
    outbox.put(Payload::packed(Bulk::copied(b"abc")));
    assert!(current.send(0, &mut outbox, &mut unlanded(planted), &mut port));
    let posted = |port: &mut Region| {
        let [posted, _] = port.parcels.as_mut().expect("parcels are carried");
        core::mem::take(posted)
    };
    let first = posted(&mut port);
    assert!(port.written.iter().all(|(_, n_words)| *n_words == 2), "a header and a stamp");
    port.written.clear();
    current.write_ring(0, &outbox, set(&[1]), &mut port);
    assert_eq!(port.written, [(Rank::at(1), 2)]);
    [first, posted(&mut port)]
}

#[test]
fn v23_a_parcel_goes_before_its_slot_also_when_a_link_is_back() {
    let rows = Rows::of(3);
    let current = rows.read_by(0, Sound);
    let at = rows.layout.slot_of(current.lane(0).senders[0].ring, 0);
    let to = |seat: usize| (Rank::at(seat), at, parcel(HEADER.word(), b"abc"));
    assert_eq!(posted(Sound), [vec![to(1), to(2)], vec![to(1)]]);
    assert_eq!(posted(Planted(Bug::SlotAlone)), [vec![to(1), to(2)], vec![]]);
}

/// A member that sees a slot of another one's, and has these parcels of it, as `use_it` finds it:
/// with the place of the slot.
fn receiver<P: Plantings, T>(
    planted: P,
    come: &[(u64, &[u8])],
    use_it: impl FnOnce(&mut Current<P>, &mut Region) -> T,
) -> T {
    let mut rows = Rows::of(2);
    rows.tell(1, |row, table| table.set(row.sent, 0, 1));
    let mut current = rows.read_by(0, planted);
    let n_words = super::super::region(&rows.layout.shape).n_words as usize;
    let sender = current.lane(0).senders[1];
    let at = rows.layout.slot_of(sender.ring, 0);
    let come = come.iter().map(|(tag, bytes)| (Rank::at(1), at, parcel(*tag, bytes))).collect();
    let parcels = Some([Vec::new(), come]);
    let mut port = Region { words: vec![0; n_words], parcels, ..Region::default() };
    port.words[at.0 as usize] = HEADER.word();
    port.words[sender.named.0 as usize] = 1;
    use_it(&mut current, &mut port)
}

/// The number of messages that it tells as received.
fn received<P: Plantings>(planted: P, come: &[(u64, &[u8])]) -> Result<u64, End> {
    receiver(planted, come, |current, port| {
        current.note_received(0, port)?;
        Ok(current.received(0, Rank::at(0), Rank::at(1)))
    })
}

#[test]
fn v24_what_is_received_was_taken_and_is_what_the_slot_says() {
    let tag = HEADER.word();
    assert_eq!(received(Sound, &[]), Ok(0));
    assert_eq!(received(Sound, &[(tag, b"abc")]), Ok(1));
    assert_eq!(received(Sound, &[(tag, b"abcd")]), Err(End::Damaged(Rank::at(1))));
    assert_eq!(received(Sound, &[(tag + 1, b"abc")]), Err(End::Damaged(Rank::at(1))));
    assert_eq!(received(Planted(Bug::ReceivedUntaken), &[]), Ok(1));
    let read = receiver(Sound, &[(tag, b"abc")], |current, port| {
        current.note_received(0, port).expect("it is there");
        port.parcels = Some(Default::default());
        let sender = current.lane(0).senders[1];
        current.read_slot(&sender, 0, port).ok().flatten().map(|read| read.message)
    });
    assert_eq!(read.as_deref(), Some(&b"abc"[..]), "it is held");
}

#[test]
fn v25_what_was_not_taken_goes_with_its_view() {
    let left = |planted: Option<Bug>| {
        let come: &[(u64, &[u8])] = &[(7, b"late")];
        let left = |port: &Region| port.parcels.as_ref().map(|[_, come]| come.len());
        match planted {
            Some(bug) => receiver(Planted(bug), come, |current, port| {
                current.let_all_go(port);
                left(port)
            }),
            None => receiver(Sound, come, |current, port| {
                current.let_all_go(port);
                left(port)
            }),
        }
    };
    assert_eq!((left(None), left(Some(Bug::ParcelsKept))), (Some(0), Some(1)));
}
