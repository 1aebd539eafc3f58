//! Tests of a whole door: halts, at which connections are closed and copies begin again.

use super::copies::hash_of;
use super::*;

const THIRD: Rank = Rank::at(2);
const THEIR_RUN: Incarnation = Incarnation(3);
const LIMIT: Duration = Duration::from_secs(3);

/// A rig with a point after every five entries, whose others have begun.
fn rig<B: Planting<Bug>>(renews: bool, closes: bool, planted: B) -> Rig<B> {
    let by = (Rest::Quiet, Some(Protocol::Resp));
    let mut rig = Rig::saved_by(renews, planted, Order::Serial, by, (5, Output::AtOnce));
    rig.door = rig.door.closes_after(closes.then_some(LIMIT));
    let mut rig = rig.begin();
    let begin = |owner| entry(&Entry::Begin { owner, run: THEIR_RUN });
    rig.apply(&[begin(OTHER), begin(THIRD)]);
    rig
}

impl<B: Planting<Bug>> Rig<B> {
    /// Everything is decided and answered, and another member's copy agrees with what this one
    /// says. Returns the entries.
    fn agree(&mut self) -> Vec<Vec<u8>> {
        let mut all = Vec::new();
        for _ in 0..20 {
            self.turn_after(Duration::from_millis(1));
            let said = self.decide();
            for (at, value) in said.iter().filter_map(|one| hash_of(std::slice::from_ref(one))) {
                self.apply(&[entry(&Entry::Hash { owner: OTHER, run: THEIR_RUN, at, value })]);
            }
            all.extend(said);
            self.answer_all();
        }
        all
    }

    fn asks(&mut self, client: PipeId, requests: &[&[u8]]) -> Vec<Vec<u8>> {
        requests.iter().for_each(|request| self.door.streams.push(client, request));
        self.agree()
    }
}

fn halts(said: &[Vec<u8>]) -> Vec<bool> {
    let halt = |bytes: &Vec<u8>| match Entry::parse(bytes) {
        Ok(Entry::Halt { closes, .. }) => Some(closes),
        _ => None,
    };
    said.iter().filter_map(halt).collect()
}

const NO_HALT: [bool; 0] = [];

/// Requests that are read one by one.
const SEVEN: [&[u8]; 7] = [
    b"SET a\r\n",
    b"SET b\r\n",
    b"SET c\r\n",
    b"SET d\r\n",
    b"SET e\r\n",
    b"SET f\r\n",
    b"SET g\r\n",
];

/// A rig whose client has said enough for a checkpoint.
fn due<B: Planting<Bug>>(renews: bool, closes: bool, planted: B) -> (Rig<B>, PipeId) {
    let mut rig = rig(renews, closes, planted);
    let client = rig.client();
    rig.asks(client, &[b"MULTI\r\n"]);
    for request in SEVEN {
        assert_eq!(halts(&rig.asks(client, &[request])), NO_HALT, "the time is not over");
    }
    (rig, client)
}

#[test]
fn d12_connections_that_put_a_checkpoint_off_are_closed_after_the_time_that_is_set() {
    let (mut rig, client) = due(false, true, Sound);
    assert!(rig.door.checkpoint_trouble().is_some(), "a transaction is open");
    rig.now = rig.now.plus(LIMIT);
    assert_eq!(halts(&rig.agree()), [true]);
    assert!(rig.door.streams.is_closed(client));
    assert_eq!((rig.state.table().n_open(), rig.door.program.legs.len()), (0, 0));
    assert_eq!(rig.door.program.starts, [0], "it is asked to save, and works on");
    let next = rig.client();
    rig.asks(next, &SEVEN[..1]);
    rig.asks(next, &SEVEN[1..]);
    let (n_adopted, _) = rig.state.checkpoints().counts();
    assert_eq!((n_adopted, rig.door.checkpoint_trouble()), (1, None));
    let (mut rig, client) = due(false, false, Sound);
    rig.now = rig.now.plus(LIMIT * 9);
    assert_eq!(halts(&rig.agree()), NO_HALT, "without a time they stay");
    assert!(!rig.door.streams.is_closed(client));
}

#[test]
fn k7_a_copy_that_is_saved_by_its_files_begins_again_with_them() {
    let (mut rig, client) = due(true, true, Sound);
    assert_eq!(rig.state.checkpoints().making(), None, "no regular point is one for it");
    rig.now = rig.now.plus(LIMIT);
    rig.door.program.ends_slowly = true;
    assert_eq!(halts(&rig.agree()), [true]);
    let at = rig.state.checkpoints().making().expect("a checkpoint is made").at;
    assert!(rig.door.streams.is_closed(client) && !rig.door.program.starts.contains(&at));
    // Its member's loop sleeps meanwhile.
    rig.now = rig.now.plus(LIMIT);
    rig.agree();
    assert!(rig.door.feeder().deadline().is_some_and(|at| at > rig.now));
    rig.door.program.ends_slowly = false;
    let next = rig.client();
    rig.asks(next, &[b"SET later\r\n"]);
    assert_eq!(rig.door.program.starts, [0, at]);
    assert_eq!(rig.door.program.seen.last().unwrap(), b"SET later");
    assert_eq!(rig.door.program.seen.len(), 9, "what was there before is there");
    rig.asks(next, &SEVEN[1..]);
    assert_eq!((rig.state.checkpoints().counts(), rig.state.base().position), ((1, 0), at));

    // Another copy begins where this one did, with its files.
    let (saving, mut bytes) = (rig.state.begin_save(), Vec::new());
    while rig.state.save_piece(saving, 64 << 10, &mut bytes) == Some(true) {}
    let by = (Rest::Quiet, Some(Protocol::Resp));
    let mut other = Rig::saved_by(true, Sound, Order::Serial, by, (5, Output::AtOnce));
    other.state.begin_restore();
    other.state.restore_piece(&bytes).unwrap();
    other.state.end_restore().unwrap();
    other.agree();
    assert_eq!(other.door.program.starts, [at]);
    assert_eq!(other.door.program.seen, rig.door.program.seen);
}

/// What a copy executes that was down: the halt that others have passed long ago stands in the
/// transcript, and it begins again there too.
#[test]
fn k7_a_copy_that_executes_a_halt_later_begins_again_there() {
    let starts = |planted: Option<Bug>| {
        let mut rig = rig(true, false, planted);
        let mut other = rig.client();
        rig.asks(other, &SEVEN[..1]);
        for n in 0..14 {
            rig.asks(other, &[SEVEN[n % 7]]);
            if rig.state.checkpoints().is_due(rig.state.judge()) {
                break;
            }
        }
        let halt = Entry::Halt { owner: OTHER, run: THEIR_RUN, closes: true };
        rig.apply(&[entry(&halt)]);
        let making = rig.state.checkpoints().making().expect("it counts");
        let (maker, run) = making.maker;
        // It is given up before this copy is there.
        let at = making.at;
        rig.apply(&[entry(&Entry::Piece { owner: maker, run, at, offset: 0, len: 0, bytes: b"" })]);
        assert_eq!(rig.state.checkpoints().making(), None);
        rig.agree();
        other = rig.client();
        rig.asks(other, &SEVEN[..1]);
        rig.door.program.starts.clone()
    };
    assert_eq!(starts(None).len(), 2);
    assert_eq!(starts(Some(Bug::NotRenewed)).len(), 1, "the mistake shows");
}

#[test]
fn d12_without_a_connection_nothing_has_to_be_closed() {
    let (mut rig, client) = due(true, false, Sound);
    rig.now = rig.now.plus(LIMIT * 9);
    assert_eq!(halts(&rig.agree()), NO_HALT, "a client is there");
    rig.door.streams.break_off(client);
    assert_eq!(halts(&rig.agree()), [false]);
    assert_eq!(rig.door.program.starts.len(), 2);
}

#[test]
fn k6_a_halt_does_not_count_while_connections_are_open_that_it_may_not_close() {
    let (mut rig, client) = due(true, false, Sound);
    let halt = |closes| entry(&Entry::Halt { owner: ME, run: RUN, closes });
    let position = rig.state.judge().position();
    rig.apply(&[halt(false)]);
    assert_eq!(rig.state.judge().position(), position);
    rig.apply(&[halt(true)]);
    assert_eq!((rig.state.judge().position(), rig.state.table().n_open()), (position + 1, 0));
    rig.agree();
    assert!(rig.door.streams.is_closed(client));
}

/// A checkpoint that was made at a halt is given up.
fn give_up<B: Planting<Bug>>(rig: &mut Rig<B>) {
    let making = rig.state.checkpoints().making().expect("a checkpoint is made");
    let ((owner, run), at) = (making.maker, making.at);
    rig.apply(&[entry(&Entry::Piece { owner, run, at, offset: 0, len: 0, bytes: b"" })]);
}

fn counts_again(planted: Option<Bug>) -> bool {
    let (mut rig, _) = due(true, true, planted);
    rig.now = rig.now.plus(LIMIT);
    assert_eq!(halts(&rig.agree()), [true]);
    give_up(&mut rig);
    let position = rig.state.judge().position();
    rig.apply(&[entry(&Entry::Halt { owner: ME, run: RUN, closes: true })]);
    rig.state.judge().position() > position
}

#[test]
fn k6_a_checkpoint_in_vain_does_not_close_clients_again_at_once() {
    assert!(!counts_again(None));
    assert!(counts_again(Some(Bug::HaltedAgain)), "the mistake shows");
    let (mut rig, _) = due(true, true, Sound);
    rig.now = rig.now.plus(LIMIT);
    rig.agree();
    give_up(&mut rig);
    let client = rig.client();
    rig.asks(client, &SEVEN[..1]);
    rig.now = rig.now.plus(LIMIT * 9);
    assert_eq!(halts(&rig.agree()), NO_HALT);
    assert!(!rig.door.streams.is_closed(client));
}
