//! Checkpoints: the point from which a copy can begin, in place of the program's first state.
//!
//! At a point that is due, one member is chosen. When its copy is at rest there, it saves what the
//! program holds, and says that in *pieces*, which are entries. So every member has the checkpoint
//! when the last piece is executed: it stands in the transcript, behind its own point.
//!
//! ```text
//! content:  header length u32, n u32 requests of the program, n u32 connections, the program's own
//! request:  length u32, bytes
//! connection:  owner u8, run u64, number u64, its requests as one
//! ```
//!
//! - K1 which member saves, and which checkpoint counts, is a function of the log, as verdicts are.
//! - K2 a checkpoint counts when its maker's copy was one of an agreed majority (`verdict`) at the
//!   checkpoint's own point and at the next. Until then it may be that of a copy that has gone its
//!   own way: a hash tells of the answers since the point before alone, and further on such a copy
//!   may answer as the others do. One whose maker differs, or behind which the copies are split,
//!   never counts.
//! - K8 a process that is in doubt (`verdict`, V10) makes no checkpoint, and none of it counts: if
//!   it is the one that has answered wrongly, all copies that begin with what it holds would be
//!   wrong with it, and be the majority. (Seed 661400000131 of `replicate-waits`: two copies had
//!   differed while the third was away.)
//! - K3 the pieces of one checkpoint are executed in their order, each once. A maker that cannot
//!   save gives up by a piece of length 0.
//! - K4 a maker without progress for [`PATIENCE`] comparisons (times the entries between two of
//!   them), or as many entries as lie between two checkpoints if that is more, is given up.
//! - K6 a *halt* is an entry by which a leader ends all connections, so that a copy can be saved
//!   behind it whatever they were. It counts if a checkpoint is due, none is made, and so many
//!   entries lie behind the last halt as lie between two checkpoints: one in vain does not close
//!   clients again at once.
//! - K7 where copies are saved by their files, that is done at halts alone, and *every* copy begins
//!   again there with its own files, as the one does that begins with the checkpoint. What a
//!   program holds in memory (the numbers of connections, ids of processes, how far it has drawn)
//!   is shown to clients, and is not in its files. (Copies whose processes are dumped are saved at
//!   halts alone too, and continue there: their memory is in the checkpoint.)
//! - K5 the content holds the requests that made the connections what they are (`session`), so that
//!   a copy that begins there treats them as the others do. A connection that requests do not
//!   explain puts the checkpoint off.

use crate::bugs::Bug;
use crate::entry::ConnectionId;
use crate::table::Verdict;
use crate::verdict::Judge;
use crate::words;
use base::{Incarnation, Rank};
use proto::planted::Planting;

/// See K4.
pub const PATIENCE: u64 = 8;

/// A checkpoint that is made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Making {
    /// The point.
    pub at: u64,
    /// The member, and its process.
    pub maker: (Rank, Incarnation),
    /// The bytes that were said.
    pub next: u64,
    /// All bytes, once some were said.
    pub len: u64,
    /// The newest point when something of it was said.
    moved_at: u64,
    /// See K2.
    is_matched: bool,
}

impl Making {
    fn is_whole(&self) -> bool {
        self.len > 0 && self.next == self.len
    }
}

/// One piece, without its bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    /// The member that says it, and its process.
    pub maker: (Rank, Incarnation),
    /// The checkpoint's point.
    pub at: u64,
    /// The bytes before it.
    pub offset: u64,
    /// The bytes of all pieces; 0 to give up.
    pub len: u64,
    /// The bytes of this one.
    pub n_bytes: u64,
    /// The entries that are executed when it is, up to the newest of every so many.
    pub position: u64,
}

/// The checkpoints of the module's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Checkpoints<B> {
    planted: B,
    /// The least number of entries from one to the next; 0 for none.
    every: u64,
    /// See K7.
    renews: bool,
    making: Option<Making>,
    /// The point of the newest halt; 0 before the first.
    halted_at: u64,
    /// The point of the newest that counts; 0 before the first.
    adopted_at: u64,
    n_adopted: u64,
    n_given_up: u64,
}

impl<B: Planting<Bug>> Checkpoints<B> {
    /// None yet.
    pub fn new(every: u64, planted: B) -> Checkpoints<B> {
        Checkpoints {
            planted,
            every,
            renews: false,
            making: None,
            halted_at: 0,
            adopted_at: 0,
            n_adopted: 0,
            n_given_up: 0,
        }
    }

    /// The same, of copies that are saved by their files if `renews` (K7).
    pub fn renewing(self, renews: bool) -> Checkpoints<B> {
        Checkpoints { renews, ..self }
    }

    /// Whether copies begin again at halts (K7).
    pub fn renews(&self) -> bool {
        self.renews
    }

    /// Whether there is to be a checkpoint, as far as entries tell: if none is made, it is put off
    /// by open connections.
    pub fn is_due(&self, judge: &Judge<B>) -> bool {
        let last = self.adopted_at.max(self.halted_at);
        self.every > 0 && judge.position() - last >= self.every
    }

    /// Whether a halt counts now (K6).
    pub fn takes_halt(&self, judge: &Judge<B>, run_of: impl Fn(Rank) -> Incarnation) -> bool {
        let is_late = self.is_due(judge) || self.planted.has(Bug::HaltedAgain);
        is_late && self.making.is_none() && self.makers(judge, run_of).next().is_some()
    }

    /// The members that may save (K8).
    fn makers(
        &self,
        judge: &Judge<B>,
        run_of: impl Fn(Rank) -> Incarnation,
    ) -> impl Iterator<Item = (Rank, Incarnation)> {
        let agreed = judge.agreed().members.iter().map(move |rank| (rank, run_of(rank)));
        agreed.filter(|(maker, run)| !self.is_in_doubt(judge, *maker, *run))
    }

    fn is_in_doubt(&self, judge: &Judge<B>, maker: Rank, run: Incarnation) -> bool {
        !self.planted.has(Bug::DoubtfulMakes) && judge.is_in_doubt(maker, run)
    }

    /// A halt was executed, which counts: a copy is to save at its point.
    pub(crate) fn halt(&mut self, judge: &Judge<B>, run_of: impl Fn(Rank) -> Incarnation) {
        self.halted_at = judge.position();
        self.begin(judge, run_of);
    }

    /// The one that is made.
    pub fn making(&self) -> Option<Making> {
        self.making
    }

    /// The number of those that counted, and of those that were begun in vain.
    pub fn counts(&self) -> (u64, u64) {
        (self.n_adopted, self.n_given_up)
    }

    /// The copies are to pass a point. Returns whether one of them is to save there.
    pub fn pass_point(&mut self, judge: &Judge<B>, run_of: impl Fn(Rank) -> Incarnation) -> bool {
        let at = judge.position();
        let patience = self.every.max(PATIENCE * judge.every());
        if self.making.is_some_and(|making| at >= making.moved_at + patience) {
            self.give_up(); // K4
        }
        let is_early = self.every == 0 || at - self.adopted_at < self.every;
        if is_early || self.making.is_some() || self.renews {
            return false;
        }
        self.begin(judge, run_of)
    }

    /// Chooses the member that saves at the point where the copies are. Returns whether there is
    /// one (K1).
    fn begin(&mut self, judge: &Judge<B>, run_of: impl Fn(Rank) -> Incarnation) -> bool {
        let at = judge.position();
        let makers: Vec<_> = self.makers(judge, run_of).collect();
        let n_points = at / judge.every();
        let turn = n_points.checked_rem(makers.len() as u64).unwrap_or(0);
        let Some(maker) = makers.get(turn as usize).copied() else { return false };
        self.making = Some(Making { at, maker, next: 0, len: 0, moved_at: at, is_matched: false });
        true
    }

    fn give_up(&mut self) {
        self.making = None;
        self.n_given_up += 1;
    }

    /// Executes a piece (K3).
    pub fn take(&mut self, piece: Piece) -> Verdict {
        let Piece { maker, at, offset, len, n_bytes, position } = piece;
        let expected = |making: &&mut Making| making.at == at && making.maker == maker;
        let Some(making) = self.making.as_mut().filter(expected) else { return Verdict::Over };
        if len == 0 {
            self.give_up();
            return Verdict::Execute;
        }
        if offset != making.next {
            return if offset < making.next { Verdict::Over } else { Verdict::TooEarly };
        }
        let is_odd = making.len > 0 && making.len != len || n_bytes == 0 || offset + n_bytes > len;
        if is_odd {
            return Verdict::Over;
        }
        (making.len, making.next) = (len, offset + n_bytes);
        making.moved_at = making.moved_at.max(position);
        Verdict::Execute
    }

    /// Looks at the verdicts (K2). Returns whether the checkpoint that was made counts from now on.
    pub fn look(&mut self, judge: &Judge<B>) -> bool {
        let Some(making) = &mut self.making else { return false };
        let (maker, run) = making.maker;
        if judge.differs(maker, run).is_some() || judge.split_at() >= making.at {
            self.give_up();
            return false;
        }
        let has_agreed = |at: u64| judge.has_agreed(maker, run, at);
        let is_there = has_agreed(making.at);
        let is_behind = judge.point_behind(making.at).is_some_and(has_agreed);
        making.is_matched |= is_behind && (is_there || self.planted.has(Bug::MatchedBehindAlone));
        making.is_matched |= is_there && self.planted.has(Bug::CheckpointByOwnPoint);
        making.is_matched |= self.planted.has(Bug::CheckpointUnmatched);
        if !making.is_whole() || !making.is_matched || self.is_in_doubt(judge, maker, run) {
            return false;
        }
        let making = self.making.take().expect("it is whole");
        self.adopted_at = making.at;
        self.n_adopted += 1;
        true
    }

    /// A later process of a member has begun, or the member was removed: the earlier one says
    /// nothing more, and what the later one answers tells nothing of the earlier one's copy (K2).
    pub fn ended(&mut self, member: Rank) {
        if self.making.is_some_and(|making| making.maker.0 == member) {
            self.give_up();
        }
    }

    /// Appends what it knows.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        words::put(out, &[self.adopted_at, self.halted_at, self.n_adopted, self.n_given_up]);
        words::put(out, &[u64::from(self.making.is_some())]);
        if let Some(Making { at, maker: (maker, run), next, len, moved_at, is_matched }) =
            self.making
        {
            let is_matched = u64::from(is_matched);
            words::put(out, &[at, maker.index() as u64, run.0, next, len, moved_at, is_matched]);
        }
    }

    /// Reads that back, into one without knowledge.
    pub(crate) fn read(&mut self, rest: &mut &[u8]) -> Option<()> {
        let [adopted_at, halted_at, n_adopted, n_given_up, is_making] = words::take_all(rest)?;
        (self.adopted_at, self.halted_at) = (adopted_at, halted_at);
        (self.n_adopted, self.n_given_up) = (n_adopted, n_given_up);
        if is_making > 0 {
            let [at, maker, run, next, len, moved_at, is_matched] = words::take_all(rest)?;
            let maker = (Rank::new(maker as usize)?, Incarnation(run));
            let is_matched = is_matched > 0;
            self.making = Some(Making { at, maker, next, len, moved_at, is_matched });
        }
        Some(())
    }
}

/// The part of a checkpoint that is not the program's own (K5).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Header {
    /// Requests that changed what the program's own checkpoint does not hold.
    pub(crate) common: Vec<Vec<u8>>,
    /// The open connections, each with the requests that it needs.
    pub(crate) connections: Vec<(ConnectionId, Vec<u8>)>,
}

/// The bytes that say how long a header is.
pub(crate) const HEADER_LEN_BYTES: usize = 4;

impl Header {
    /// The header's bytes, with their length before them.
    pub(crate) fn bytes(&self) -> Vec<u8> {
        let mut out = vec![0; HEADER_LEN_BYTES];
        let put = |out: &mut Vec<u8>, n: usize| out.extend_from_slice(&(n as u32).to_le_bytes());
        put(&mut out, self.common.len());
        put(&mut out, self.connections.len());
        for request in &self.common {
            put(&mut out, request.len());
            out.extend_from_slice(request);
        }
        for (id, requests) in &self.connections {
            out.push(id.owner.index() as u8);
            words::put(&mut out, &[id.run.0, id.number]);
            put(&mut out, requests.len());
            out.extend_from_slice(requests);
        }
        let len = (out.len() - HEADER_LEN_BYTES) as u32;
        out[..HEADER_LEN_BYTES].copy_from_slice(&len.to_le_bytes());
        out
    }

    /// The header of these bytes, without the length.
    pub(crate) fn parse(mut bytes: &[u8]) -> Option<Header> {
        let rest = &mut bytes;
        let number = |rest: &mut &[u8]| {
            let (n, left) = rest.split_first_chunk()?;
            *rest = left;
            Some(u32::from_le_bytes(*n) as usize)
        };
        let text = |rest: &mut &[u8]| {
            let n = number(rest)?;
            let (text, left) = rest.split_at_checked(n)?;
            *rest = left;
            Some(text.to_vec())
        };
        let (n_common, n_connections) = (number(rest)?, number(rest)?);
        let mut header = Header::default();
        for _ in 0..n_common {
            header.common.push(text(rest)?);
        }
        for _ in 0..n_connections {
            let (&owner, left) = rest.split_first()?;
            *rest = left;
            let [run, number] = words::take_all(rest)?;
            let owner = Rank::new(owner.into())?;
            let id = ConnectionId { owner, run: Incarnation(run), number };
            header.connections.push((id, text(rest)?));
        }
        rest.is_empty().then_some(header)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use proto::planted::{Planted, Sound};

    const RUN: Incarnation = Incarnation(5);

    struct Rig<B> {
        judge: Judge<B>,
        checkpoints: Checkpoints<B>,
    }

    impl<B: Planting<Bug>> Rig<B> {
        /// Three members, a point after every entry, and a checkpoint after every second one.
        fn new(planted: B) -> Rig<B> {
            Rig { judge: Judge::new(3, 1, planted), checkpoints: Checkpoints::new(2, planted) }
        }

        /// Passes a point, at which the members have these hashes. Returns whether one is to save.
        fn pass(&mut self, hashes: [u64; 3]) -> bool {
            assert!(self.judge.step());
            let saves = self.checkpoints.pass_point(&self.judge, |_| RUN);
            for (value, member) in hashes.into_iter().zip(0..) {
                self.judge.take(Rank::at(member), RUN, self.judge.position(), value);
            }
            saves
        }

        fn piece(&mut self, offset: u64, len: u64, n_bytes: u64) -> Verdict {
            let Some(Making { at, maker, .. }) = self.checkpoints.making() else {
                return Verdict::Over;
            };
            let position = self.judge.position();
            self.checkpoints.take(Piece { maker, at, offset, len, n_bytes, position })
        }

        fn look(&mut self) -> bool {
            self.checkpoints.look(&self.judge)
        }
    }

    /// A rig with a whole checkpoint at its second point.
    fn whole<B: Planting<Bug>>(planted: B) -> (Rig<B>, usize) {
        let mut rig = Rig::new(planted);
        assert!(!rig.pass([7, 7, 7]), "nothing is due");
        assert!(rig.pass([7, 7, 7]));
        assert_eq!(rig.piece(0, 10, 6), Verdict::Execute);
        assert_eq!(rig.piece(6, 10, 4), Verdict::Execute);
        let maker = rig.checkpoints.making().unwrap().maker.0.index();
        (rig, maker)
    }

    #[test]
    fn k1_one_of_those_that_agreed_saves_and_they_take_turns() {
        let mut makers = Vec::new();
        let mut rig = Rig::new(Sound);
        for _ in 0..12 {
            if rig.pass([7, 8, 7]) {
                makers.push(rig.checkpoints.making().unwrap().maker.0.index());
                rig.piece(0, 0, 0);
            }
        }
        assert!(makers.contains(&0) && makers.contains(&2) && !makers.contains(&1), "{makers:?}");
        let mut rig = Rig::new(Sound);
        assert!((0..5).all(|_| !rig.pass([7, 8, 9])), "nobody is known to be right");
    }

    #[test]
    fn k2_a_checkpoint_counts_when_its_maker_agrees_behind_it() {
        let (mut rig, _) = whole(Sound);
        assert!(!rig.look(), "its own point does not tell");
        rig.pass([7, 7, 7]);
        assert!(rig.look());
        assert_eq!((rig.checkpoints.counts(), rig.checkpoints.making()), ((1, 0), None));
        for bug in [Bug::CheckpointUnmatched, Bug::CheckpointByOwnPoint] {
            assert!(whole(Planted(bug)).0.look(), "the mistake shows");
        }
    }

    #[test]
    fn k2_a_checkpoint_of_a_copy_that_differs_never_counts() {
        let (mut rig, maker) = whole(Sound);
        let mut hashes = [7; 3];
        hashes[maker] = 8;
        rig.pass(hashes);
        assert!(!rig.look());
        assert_eq!(rig.checkpoints.counts(), (0, 1));
        let (mut rig, _) = whole(Sound);
        rig.pass([7, 8, 9]);
        assert!(!rig.look());
        assert_eq!(rig.checkpoints.counts(), (0, 1), "nor behind a split");
    }

    /// (Seed 7700268 of `replicate`: the third copy was down, so no verdict saw the difference, and
    /// the other one's hash came later.)
    #[test]
    fn k2_a_checkpoint_whose_own_point_is_open_does_not_count() {
        fn counts<B: Planting<Bug>>(planted: B) -> [bool; 2] {
            let mut rig = Rig::new(planted);
            rig.pass([7, 7, 7]);
            rig.judge.step();
            assert!(rig.checkpoints.pass_point(&rig.judge, |_| RUN));
            let at = rig.judge.position();
            let maker = rig.checkpoints.making().unwrap().maker.0;
            let third = Rank::at((maker.index() + 2) % 3);
            rig.judge.take(maker, RUN, at, 8);
            rig.piece(0, 10, 10);
            rig.pass([7, 7, 7]);
            let before = rig.look();
            rig.judge.take(third, RUN, at, 8);
            [before, before || rig.look()]
        }
        assert_eq!(counts(Sound), [false, true], "its hash is the majority's after all");
        assert_eq!(counts(Planted(Bug::MatchedBehindAlone)), [true; 2], "the mistake shows");
    }

    /// (Two copies differ while the third is away, and answer alike from then on.)
    #[test]
    fn k8_a_copy_in_doubt_makes_no_checkpoint() {
        fn makes<B: Planting<Bug>>(planted: B) -> bool {
            let mut rig = Rig::new(planted);
            let mut saves = false;
            for (one, other) in [(7, 8), (7, 7), (7, 7), (7, 7)] {
                rig.judge.step();
                saves |= rig.checkpoints.pass_point(&rig.judge, |_| RUN);
                let at = rig.judge.position();
                rig.judge.take(Rank::at(0), RUN, at, one);
                rig.judge.take(Rank::at(1), RUN, at, other);
            }
            assert_eq!(rig.checkpoints.takes_halt(&rig.judge, |_| Incarnation(6)), !saves);
            let may_halt = rig.checkpoints.takes_halt(&rig.judge, |_| RUN);
            saves || may_halt
        }
        assert!(!makes(Sound));
        assert!(makes(Planted(Bug::DoubtfulMakes)), "the mistake shows");
    }

    #[test]
    fn k8_a_checkpoint_counts_when_the_doubt_is_over() {
        let (mut rig, maker) = whole(Sound);
        rig.pass([7, 7, 7]);
        let third = Rank::at((maker + 1) % 3);
        rig.judge.step();
        let at = rig.judge.position();
        for member in (0..3).map(Rank::at).filter(|member| *member != third) {
            rig.judge.take(member, RUN, at, 7 + u64::from(member.index() == maker));
        }
        assert!(!rig.look(), "its maker may be wrong");
        rig.judge.take(third, RUN, at, 8);
        assert!(rig.look(), "it is not");
    }

    #[test]
    fn k3_pieces_are_taken_in_order_and_once() {
        let mut rig = Rig::new(Sound);
        rig.pass([7; 3]);
        rig.pass([7; 3]);
        assert_eq!(rig.piece(6, 10, 4), Verdict::TooEarly);
        assert_eq!(rig.piece(0, 10, 6), Verdict::Execute);
        assert_eq!(rig.piece(0, 10, 6), Verdict::Over);
        assert_eq!(rig.piece(6, 11, 4), Verdict::Over, "of another length");
        assert_eq!(rig.piece(6, 10, 5), Verdict::Over, "too long");
        let Making { at, maker: (maker, _), .. } = rig.checkpoints.making().unwrap();
        let (maker, position) = ((maker, Incarnation(6)), at);
        let other = Piece { maker, at, offset: 6, len: 10, n_bytes: 4, position };
        assert_eq!(rig.checkpoints.take(other), Verdict::Over, "another process");
        assert_eq!(rig.piece(6, 10, 4), Verdict::Execute);
    }

    #[test]
    fn k4_a_maker_without_progress_is_given_up() {
        let mut rig = Rig::new(Sound);
        rig.pass([7; 3]);
        assert!(rig.pass([7; 3]));
        assert!((1..PATIENCE).all(|_| !rig.pass([7; 3])));
        assert!(rig.pass([7; 3]), "another one begins");
        rig.checkpoints.ended(rig.checkpoints.making().unwrap().maker.0);
        assert_eq!(rig.checkpoints.making(), None, "or a later process has begun");
    }

    #[test]
    fn what_it_knows_is_moved() {
        let (rig, _) = whole(Sound);
        let mut bytes = Vec::new();
        rig.checkpoints.write(&mut bytes);
        let mut other = Checkpoints::new(2, Sound);
        assert_eq!(other.read(&mut &bytes[..]), Some(()));
        assert_eq!(other, rig.checkpoints);
        assert_eq!(Checkpoints::new(2, Sound).read(&mut &bytes[..bytes.len() - 1]), None);
    }

    proptest! {
        #[test]
        fn a_header_is_read_as_it_was_written(
            common in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..20), 0..4),
            connections in prop::collection::vec(
                (0..base::MAX_MEMBERS, any::<u64>(), prop::collection::vec(any::<u8>(), 0..20)),
                0..4,
            ),
        ) {
            let connections = connections.into_iter().map(|(owner, number, requests)| {
                (ConnectionId { owner: Rank::at(owner), run: RUN, number }, requests)
            });
            let header = Header { common, connections: connections.collect() };
            let bytes = header.bytes();
            prop_assert_eq!(Header::parse(&bytes[HEADER_LEN_BYTES..]), Some(header));
            prop_assert_eq!(Header::parse(&bytes[HEADER_LEN_BYTES..bytes.len() - 1]), None);
        }

        #[test]
        fn any_bytes_are_read_without_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..80)) {
            Header::parse(&bytes);
        }
    }
}
