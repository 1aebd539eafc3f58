//! Requests on a machine that obeys.

use super::*;
use crate::mock::Wire;
use crate::service::Asker;
use base::{Incarnation, Rank};
use proto::keyed::{KeyedCounts, Op};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// A machine whose operations end when a test says so.
#[derive(Debug, Default)]
struct Obedient {
    /// Under way: whether it writes, and its key.
    open: BTreeMap<u64, (bool, Vec<u8>)>,
    /// In the order in which they were begun.
    begun: Vec<(u64, Vec<u8>)>,
    /// So many are taken at a time.
    room: usize,
    /// What is to end at the next poll, and how.
    ends: VecDeque<(u64, Ending)>,
    is_merging: bool,
}

#[derive(Clone, Copy, Debug)]
enum Ending {
    Well,
    NotDone,
    Unknown,
}

impl KeyedMachine for Obedient {
    const VALUE_BYTES_MAX: usize = 100;

    fn submit<H: KeyedHost>(
        &mut self,
        ticket: Ticket,
        op: Op<'_>,
        _: Instant,
        _: Instant,
        _: &mut H,
    ) -> Result<(), Refused> {
        if self.is_merging {
            return Err(Refused::Merging);
        }
        if self.open.len() >= self.room {
            return Err(Refused::Full);
        }
        let is_write = matches!(op, Op::Write { .. });
        self.open.insert(ticket.0, (is_write, op.key().to_vec()));
        self.begun.push((ticket.0, op.key().to_vec()));
        Ok(())
    }

    fn on_event<H: KeyedHost>(&mut self, _: Event<'_>, _: Instant, _: &mut H) {}

    fn poll<H: KeyedHost>(&mut self, _: Instant, host: &mut H) {
        while let Some((number, ending)) = self.ends.pop_front() {
            let (is_write, key) = self.open.remove(&number).expect("it was begun");
            let ticket = Ticket(number);
            let value = host.register(&key).map_or(Vec::new(), |(_, value)| value.to_vec());
            match ending {
                Ending::Well if is_write => {
                    let mut new = Vec::new();
                    if host.compute(ticket, &value, &mut new) {
                        host.put_register(&key, Tag::NONE, &new);
                    }
                    host.end(ticket, End::Written);
                }
                Ending::Well => host.end(ticket, End::Value(&value)),
                Ending::NotDone => host.end(ticket, End::NotDone),
                Ending::Unknown => host.end(ticket, End::Unknown),
            }
        }
    }

    fn deadline(&self) -> Instant {
        Instant(u64::MAX)
    }

    fn status(&self) -> KeyedStatus {
        let all = base::MemberSet::all(3);
        KeyedStatus { counts: !self.is_merging, heard: all, counting: all, is_lost: false }
    }

    fn counts(&self) -> KeyedCounts {
        KeyedCounts::default()
    }
}

/// Registers of one byte: a request is `r` or `w` and its keys; a write adds one.
#[derive(Debug, Default)]
struct Bytes(BTreeMap<Vec<u8>, (Tag, Vec<u8>)>);

impl Registers for Bytes {
    fn register(&self, key: &[u8]) -> Option<(Tag, &[u8])> {
        self.0.get(key).map(|(tag, value)| (*tag, value.as_slice()))
    }

    fn put_register(&mut self, key: &[u8], tag: Tag, value: &[u8]) {
        self.0.insert(key.to_vec(), (tag, value.to_vec()));
    }

    fn next_register(&self, _: Option<&[u8]>) -> Option<(&[u8], Tag, &[u8])> {
        None
    }

    fn plan(&mut self, request: &[u8]) -> Result<Plan, Vec<u8>> {
        match request.split_first() {
            Some((kind, keys)) if !keys.is_empty() => {
                let keys = keys.iter().map(|key| vec![*key]).collect();
                Ok(Plan { keys, is_write: *kind == b'w' })
            }
            _ => Err(b"refused".to_vec()),
        }
    }

    fn perform(
        &mut self,
        request: &[u8],
        _: usize,
        value: &[u8],
        new: &mut Vec<u8>,
        reply: &mut Vec<u8>,
    ) -> bool {
        let n = value.first().copied().unwrap_or(0);
        new.push(n + 1);
        reply.push(b'0' + n);
        request[0] == b'w'
    }

    fn note(&mut self, _: KeyedCounts) {}

    fn join(&mut self, _: &[u8], parts: &[Vec<u8>], reply: &mut Vec<u8>) {
        parts.iter().for_each(|part| reply.extend_from_slice(part));
    }
}

/// What clients have heard.
#[derive(Debug, Default)]
struct Heard {
    reads: BTreeMap<u64, Vec<u8>>,
    answers: Vec<(u64, String)>,
    waits: BTreeSet<usize>,
    changes: Vec<Changed>,
}

impl Door<Bytes> for Heard {
    fn describe_read(&mut self, asker: Asker, out: &mut Vec<u8>) {
        out.extend_from_slice(&self.reads[&asker.request]);
    }

    fn perform(
        &mut self,
        _: Asker,
        _: u64,
        _: &mut Bytes,
        _: &mut Desk,
    ) -> crate::service::Performed {
        unreachable!("registers are no application of a log")
    }

    fn answer(&mut self, asker: Asker, answer: Answer<'_>, _: &mut Desk) {
        let text = match answer {
            Answer::Executed(_, reply) => String::from_utf8_lossy(reply).into_owned(),
            Answer::Unknown => "unknown".to_owned(),
        };
        self.answers.push((asker.request, text));
    }

    fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>, _: &mut Desk) {
        let text = match answer {
            ReadAnswer::Forwarded(reply) => String::from_utf8_lossy(reply).into_owned(),
            ReadAnswer::Unavailable => "unavailable".to_owned(),
        };
        self.answers.push((asker.request, text));
    }

    fn answer_wait(&mut self, _: Asker, n: usize, _: &mut Desk) {
        self.waits.insert(n);
    }

    fn answer_change(&mut self, _: Asker, changed: Changed, _: &mut Desk) {
        self.changes.push(changed);
    }

    fn resume(&mut self, _: &mut Bytes, _: &mut Desk) -> bool {
        false
    }

    fn flush(&mut self, _: &mut Desk) {}

    fn publish(&mut self, _: &View, _: &Stats, _: &mut Bytes) {}
}

type Member = Engine<Keyed<Wire, Obedient, Bytes, Heard>>;

fn member(room: usize) -> Member {
    let origin = Origin { rank: Rank::at(0), life: Incarnation(1) };
    let machine = Obedient { room, ..Obedient::default() };
    let served = (Bytes::default(), Heard::default());
    let mut member = Engine::keyed(&Config::new(origin, 3), Wire::default(), served, machine);
    member.begin_turn();
    member
}

/// A client's request, laid down.
fn ask(member: &mut Member, connection: u64, request: u64, words: &str) {
    let asker = Asker { connection, request };
    let is_read = words.starts_with('r');
    member.at_the_door(|door, _, desk| {
        if is_read {
            door.reads.insert(request, words.as_bytes().to_vec());
            desk.read(asker);
        } else {
            desk.write(asker, words.as_bytes());
        }
    });
}

/// Ends the operations that were begun as the `n`th ones, and takes a turn.
fn end(member: &mut Member, which: &[(usize, Ending)]) {
    let machine = &mut member.family.machine;
    for (n, ending) in which {
        let (number, _) = machine.begun[*n];
        machine.ends.push_back((number, *ending));
    }
    member.work();
}

fn begun(member: &Member) -> String {
    let keys = member.machine().begun.iter().flat_map(|(_, key)| key);
    keys.map(|key| char::from(*key)).collect()
}

fn answers(member: &mut Member) -> Vec<(u64, String)> {
    std::mem::take(&mut member.parts().door.answers)
}

fn said(list: &[(u64, &str)]) -> Vec<(u64, String)> {
    list.iter().map(|(request, text)| (*request, (*text).to_owned())).collect()
}

#[test]
fn e1_a_request_is_answered_when_its_last_part_has_ended() {
    let mut member = member(10);
    ask(&mut member, 1, 1, "wabc");
    member.work();
    end(&mut member, &[(0, Ending::Well), (2, Ending::Well)]);
    assert_eq!(answers(&mut member), []);
    end(&mut member, &[(1, Ending::Well)]);
    assert_eq!(answers(&mut member), said(&[(1, "000")]));
    assert!(member.is_idle());
    ask(&mut member, 1, 2, "rcba");
    ask(&mut member, 1, 3, "w");
    member.work();
    assert_eq!(answers(&mut member), said(&[(3, "refused")]));
    end(&mut member, &[(3, Ending::Well), (4, Ending::Well), (5, Ending::Well)]);
    assert_eq!(answers(&mut member), said(&[(2, "111")]));
}

#[test]
fn e2_one_client_is_served_in_its_order() {
    let mut member = member(10);
    for (request, words) in [(1, "wa"), (2, "wb"), (3, "wa"), (4, "waa")] {
        ask(&mut member, 1, request, words);
    }
    ask(&mut member, 2, 5, "wa");
    member.work();
    assert_eq!(begun(&member), "aba", "another client's may overlap");
    end(&mut member, &[(1, Ending::Well), (2, Ending::Well)]);
    assert_eq!(begun(&member), "aba");
    end(&mut member, &[(0, Ending::Well)]);
    assert_eq!(begun(&member), "abaa");
    end(&mut member, &[(3, Ending::Well)]);
    end(&mut member, &[(4, Ending::Well)]);
    end(&mut member, &[(5, Ending::Well)]);
    let expected = said(&[(2, "0"), (5, "0"), (1, "1"), (3, "2"), (4, "34")]);
    assert_eq!(answers(&mut member), expected);
}

#[test]
fn e3_what_may_have_been_done_in_part_is_unknown() {
    use Ending::{NotDone, Unknown, Well};
    for (words, ends, heard) in [
        ("wab", [Well, Well], "00"),
        ("wab", [NotDone, NotDone], "unavailable"),
        ("wab", [Well, NotDone], "unknown"),
        ("wab", [NotDone, Well], "unknown"),
        ("wab", [NotDone, Unknown], "unknown"),
        ("wab", [Unknown, Unknown], "unknown"),
        ("rab", [Well, NotDone], "unavailable"),
        ("rab", [NotDone, NotDone], "unavailable"),
    ] {
        let mut member = member(10);
        ask(&mut member, 1, 1, words);
        member.work();
        end(&mut member, &[(0, ends[0]), (1, ends[1])]);
        assert_eq!(answers(&mut member), said(&[(1, heard)]), "{words} {ends:?}");
    }
}

#[test]
fn e4_what_cannot_be_begun_ends_as_not_done_at_its_deadline() {
    let mut member = member(1);
    for (request, words) in [(1, "wa"), (2, "wa"), (3, "rb")] {
        ask(&mut member, 1, request, words);
    }
    member.work();
    assert_eq!(begun(&member), "a");
    let patience = crate::desk::PATIENCE;
    member.parts().plant.now = Instant(1).plus(patience);
    member.begin_turn();
    member.work();
    assert_eq!(answers(&mut member), said(&[(3, "unavailable")]), "it had no place");
    end(&mut member, &[(0, Ending::Unknown)]);
    let expected = said(&[(1, "unknown"), (2, "unavailable")]);
    assert_eq!(answers(&mut member), expected, "what stood behind it was never begun");
    assert!(member.is_idle());
}

#[test]
fn a_member_without_a_state_keeps_clients_waiting_until_it_has_one() {
    let mut member = member(10);
    member.family.machine.is_merging = true;
    ask(&mut member, 1, 1, "wa");
    member.work();
    assert_eq!((begun(&member).as_str(), member.view().role), ("", Role::Learner));
    member.family.machine.is_merging = false;
    member.work();
    assert_eq!((begun(&member).as_str(), member.view().role), ("a", Role::Leader));
}

#[test]
fn e5_what_has_no_room_stays_on_the_desk() {
    let mut member = member(0);
    for request in 0..requests::REQUESTS_MAX as u64 - 1 {
        ask(&mut member, 1, request, "wa");
    }
    member.work();
    for request in 0..3 {
        ask(&mut member, 2, 1_000_000 + request, "wa");
    }
    member.work();
    let Keyed { host, desk, .. } = &member.family;
    assert!(!host.requests.has_room());
    assert_eq!(desk.writes.len(), 2);
    // What is taken at last has as long again.
    for (n_patiences, n_ended) in [(1, requests::REQUESTS_MAX), (2, 2)] {
        member.parts().plant.now = Instant(1).plus(n_patiences * crate::desk::PATIENCE);
        member.begin_turn();
        member.work();
        assert_eq!(answers(&mut member).len(), n_ended);
    }
    assert!(member.is_idle());
}

#[test]
fn waits_and_changes_are_answered_at_once() {
    let mut member = member(1);
    member.at_the_door(|_, _, desk| {
        let asker = Asker { connection: 1, request: 1 };
        let prefix = base::Prefix::ZERO;
        assert!(desk.wait(asker, prefix, 2, None));
        assert!(desk.change(asker, proto::members::Change::Remove(Rank::at(1))));
    });
    member.work();
    let door = member.parts().door;
    assert_eq!((door.waits.clone(), door.changes.len()), (BTreeSet::from([1]), 1));
    assert_eq!(door.changes[0], Changed::Refused(NoChange::Fixed));
}
