//! Tests of a whole door: reads beside the log.

use super::*;
use crate::feeder::Reads;
use crate::transcript::Transcript;
use engine::ReadAnswer;

impl<B: Planting<Bug>> Rig<B> {
    /// Takes the reads that wait for a check off the desk.
    fn take_reads(&mut self) -> Vec<Asker> {
        let mut askers = Vec::new();
        self.desk.take(|laid| {
            let is_read = matches!(laid, Laid::Read(_));
            if let Laid::Read(asker) = laid {
                askers.push(asker);
            }
            is_read
        });
        askers
    }

    /// The checks of reads that wait for one are made. Returns their number.
    pub(super) fn check(&mut self) -> usize {
        let askers = self.take_reads();
        for asker in &askers {
            self.door.perform(*asker, 0, &mut self.state, &mut self.desk);
        }
        self.turn();
        askers.len()
    }

    /// A client whose opening was decided.
    fn opened(&mut self) -> PipeId {
        let client = self.client();
        self.decide();
        self.turn();
        client
    }

    /// What the program has read in lines, and what lies before it.
    fn n_lines(&self) -> usize {
        let unread = self.door.program.legs.values().map(|(input, ..)| input);
        let lines = unread.flatten().filter(|byte| **byte == b'\n').count();
        self.door.program.seen.len() + lines
    }
}

#[test]
fn c6_reads_wait_for_a_check_and_not_for_the_log() {
    let mut rig = Rig::begun(Sound);
    let client = rig.opened();
    let len = rig.state.transcript().len();
    rig.ask(client, b"GET a\r\nGET bc\r\n");
    rig.answer_all();
    assert_eq!(rig.n_lines(), 0, "nothing is checked");
    assert_eq!(rig.check(), 1, "one check for both");
    rig.answer_all();
    assert_eq!(rig.heard(client), b":5\r\n:6\r\n");
    assert!(rig.decide().is_empty() && rig.state.transcript().len() == len, "the log has nothing");
    assert_eq!(rig.door.figures(&rig.state).reads, 2);
}

#[test]
fn c6_reads_behind_what_is_not_decided_are_a_part_of_the_log() {
    let beside = |planted: Option<Bug>| {
        let mut rig = Rig::begun(planted);
        let client = rig.opened();
        rig.ask(client, b"SET a\r\n");
        rig.ask(client, b"GET a\r\n");
        let n = rig.check();
        (n, rig.decide().len())
    };
    assert_eq!(beside(None), (0, 2));
    assert_eq!(beside(Some(Bug::ReadOvertakes)), (1, 1), "the mistake shows");
    // The opening is such a thing, too.
    let mut rig = Rig::begun(Sound);
    let client = rig.client();
    rig.ask(client, b"GET a\r\n");
    assert_eq!((rig.check(), rig.decide().len()), (0, 2));
}

#[test]
fn c6_what_a_client_says_behind_reads_is_said_when_they_are_answered() {
    let mut rig = Rig::begun(Sound);
    let client = rig.opened();
    rig.ask(client, b"GET a\r\n");
    rig.ask(client, b"SET a\r\n");
    rig.check();
    rig.turn();
    assert!(rig.decide().is_empty(), "the read is not answered");
    rig.answer_all();
    rig.turn();
    assert_eq!(rig.decide().len(), 1);
    rig.answer_all();
    rig.answer_all();
    assert_eq!(rig.heard(client), b":5\r\n:5\r\n");
}

#[test]
fn i10_reads_wait_until_the_copy_has_executed_what_was_said_before() {
    let fed_early = |planted: Option<Bug>| {
        let mut rig = Rig::begun(planted);
        let [writes, reads] = [rig.opened(), rig.opened()];
        rig.ask(writes, b"SET a\r\n");
        rig.decide();
        rig.turn();
        rig.ask(reads, b"GET a\r\n");
        assert_eq!((rig.check(), rig.door.program.seen.len()), (1, 0));
        let is_early = rig.n_lines() > 1;
        rig.answer_all();
        rig.answer_all();
        assert_eq!(rig.heard(reads), b":5\r\n");
        is_early
    };
    assert!(!fed_early(None));
    assert!(fed_early(Some(Bug::ReadBeforeExecuted)), "the mistake shows");
}

#[test]
fn d7_a_read_that_the_leader_has_checked_waits_for_the_leaders_place() {
    let fed_early = |planted: Option<Bug>| {
        let mut rig = Rig::begun(planted);
        let client = rig.opened();
        rig.ask(client, b"GET a\r\n");
        let asker = rig.take_reads()[0];
        let mut behind = Vec::new();
        let tick = entry(&Entry::Begin { owner: OTHER, run: Incarnation(3) });
        // The leader has executed an entry that this member has not.
        let mut leader = Rig::begun(planted);
        leader.opened();
        leader.apply(std::slice::from_ref(&tick));
        leader.state.read(&[], 0, &mut behind);
        let answer = ReadAnswer::Forwarded(&behind);
        Door::<State<InMemory, _>>::answer_read(&mut rig.door, asker, answer, &mut rig.desk);
        rig.turn();
        let is_early = rig.n_lines() > 0;
        rig.apply(&[tick]);
        rig.turn();
        assert_eq!(rig.n_lines(), 1);
        is_early
    };
    assert!(!fed_early(None));
    assert!(fed_early(Some(Bug::ReadAtOwnPlace)), "the mistake shows");
}

#[test]
fn d7_reads_that_no_member_can_check_are_not_answered() {
    let mut rig = Rig::begun(Sound);
    let client = rig.opened();
    rig.ask(client, b"GET a\r\n");
    let asker = rig.take_reads()[0];
    let answer = ReadAnswer::Unavailable;
    Door::<State<InMemory>>::answer_read(&mut rig.door, asker, answer, &mut rig.desk);
    rig.turn();
    assert!(rig.door.streams.is_closed(client) && rig.n_lines() == 0);
    let said = rig.decide();
    assert!(matches!(Entry::parse(&said[0]), Ok(Entry::Abort { .. })), "{said:?}");
}

/// The hash at the first point, with or without a read between the entries.
fn hash<B: Planting<Bug>>(planted: B, reads: bool) -> Vec<Vec<u8>> {
    let mut rig = Rig::comparing(4, planted).begin();
    let client = rig.opened();
    rig.ask(client, b"SET a\r\n");
    rig.decide();
    rig.turn();
    rig.answer_all();
    if reads {
        rig.ask(client, b"GET abc\r\n");
        assert_eq!(rig.check(), 1);
        rig.answer_all();
    }
    rig.ask(client, b"SET b\r\n");
    rig.decide();
    rig.turn();
    rig.answer_all();
    rig.turn();
    let said = rig.decide();
    assert!(matches!(Entry::parse(&said[0]), Ok(Entry::Hash { at: 4, .. })), "{said:?}");
    said
}

#[test]
fn i10_no_hash_has_the_answer_to_a_read() {
    assert_eq!(hash(Sound, true), hash(Sound, false));
    let planted = || Planted(Bug::ReadHashed);
    assert_ne!(hash(planted(), true), hash(planted(), false), "the mistake shows");
}

/// Clients that read without a pause, and one that writes.
#[test]
fn i10_an_entry_is_fed_between_two_feedings_of_reads() {
    let mut rig = Rig::begun(Sound);
    let [writes, first, second] = [rig.opened(), rig.opened(), rig.opened()];
    rig.ask(first, b"GET a\r\n");
    rig.check();
    rig.ask(second, b"GET b\r\n");
    rig.check();
    rig.ask(writes, b"SET c\r\n");
    rig.decide();
    rig.turn();
    assert_eq!(rig.n_lines(), 1, "the first read is not answered");
    for expected in ["GET a", "SET c", "GET b"] {
        rig.answer_all();
        assert_eq!(rig.door.program.seen.last().unwrap(), expected.as_bytes());
    }
}

#[test]
fn a_leg_that_the_program_closes_at_a_read_differs_from_no_other_copys() {
    let said = |closes: bool| {
        let mut rig = Rig::comparing(5, Sound).begin();
        let [client, other] = [rig.opened(), rig.opened()];
        if closes {
            rig.ask(client, b"GET a\r\n");
            assert_eq!(rig.check(), 1);
            rig.door.program.legs.get_mut(&0).unwrap().2 = true;
            rig.door.program.legs.get_mut(&0).unwrap().0.clear();
        } else {
            rig.door.streams.break_off(client);
        }
        rig.turn();
        rig.turn();
        assert!(rig.door.streams.is_closed(client) || !closes);
        rig.decide();
        rig.turn();
        rig.ask(other, b"SET a\r\n");
        rig.decide();
        rig.turn();
        rig.answer_all();
        rig.turn();
        rig.decide()
    };
    assert_eq!(said(true), said(false));
}

/// By the log's time, reads that wait for their check, or for the copy, count as those that the
/// copy has had at this time: they may all be fed at once.
#[test]
fn i10_reads_that_wait_count_to_the_bound_at_one_time() {
    let mut rig = Rig::new(Sound);
    let settings = Settings {
        members: 3,
        compare: 0,
        checkpoint: 0,
        renews: false,
        time_step_ms: 10,
        output: Output::AtOnce,
    };
    rig.state = State::new(settings, InMemory::default(), Sound);
    rig.apply_at(1000, &[entry(&Entry::Begin { owner: OTHER, run: Incarnation(3) })]);
    let mut rig = rig.begin();
    let clients = [rig.opened(), rig.opened()];
    rig.turn();
    assert_eq!(rig.door.feeder.n_reads_taken(), 4096);
    let id = ConnectionId { owner: ME, run: RUN, number: 9 };
    rig.door.feeder.read(Reads { id, at: u64::MAX, bytes: Vec::new(), n: 4093 });
    rig.apply_at(1020, &[entry(&Entry::Begin { owner: OTHER, run: Incarnation(4) })]);
    rig.turn();
    assert_eq!(rig.door.feeder.n_reads_taken(), 3, "they may be fed at this time");
    rig.ask(clients[0], b"GET a\r\nGET b\r\nGET c\r\n");
    rig.ask(clients[1], b"GET a\r\n");
    assert_eq!((rig.take_reads().len(), rig.door.clients.n_unchecked), (1, 3));
    assert_eq!(rig.decide().len(), 1, "what the second one says is the log's");
    rig.door.streams.break_off(clients[0]);
    rig.turn();
    rig.decide();
    assert_eq!(rig.door.clients.n_unchecked, 0, "what is not checked is forgotten");
}
