//! The door of one member: its clients, its copy of the program, and the feeder between them.
//!
//! - D1 clients are served when the copy has been fed all that was executed before this process
//!   asked the cluster for the first time, and a leader is known.
//! - D2 a leader that has not heard a member for [`GONE_AFTER`] ends the connections that its last
//!   process had, by an entry: the program must not wait for the dead. It hears a majority then:
//!   what a leader says that is cut off itself would be decided when it is back, about members that
//!   were never silent.
//! - D8 a leader says of each member that is in (`verdict`, V7), and has no seat by the decided
//!   members, that it has left. Its clients' connections end by that in all copies, and verdicts
//!   count without it. A process whose member is out serves no client.
//! - D9 a process says that it begins when its incarnation is decided to have its seat, by the
//!   members that it knows. Else a leader that has not given it the seat yet would say, behind
//!   that, that it has left (D8), and nothing of the process would ever be executed. Seed 16 of
//!   `replicate`.
//! - D12 where open connections put a checkpoint off for a time that is set, and where copies are
//!   saved by their files and no connection is open, a leader says a halt (`checkpoint`, K6). Each
//!   member counts the time for itself; what the halt does is decided by the log.
//! - D3 a process whose copy differs from a majority (`verdict`, V3) serves no client from then on.
//!   It ends, to begin again with the transcript, when it hears a majority without itself: its own
//!   death must not be what costs the cluster its majority. Where the settings say so, a process
//!   whose copy is one of a split (V4) serves no client either, until an operator ends it.
//! - D5 where times are kept, a leader makes a tick when the time has come that its copy waits for.
//!   A copy that was not fed with everything may wait for any: then time does not stand still for
//!   longer than [`BLIND_TICK_MS`].
//! - D4 a process that was given another member's state, and whose copy lacks what that state has
//!   forgotten, ends once the state is kept on its own disk. Before that the next process would
//!   begin where this one began, be given a state, and end, without end.
//! - D6 a process whose copy stalls (`stall`), while a majority's copies have answered alike at a
//!   later point (`verdict`), is treated as in D3. Where all copies work on one request for long,
//!   no copy has passed it, and all continue. A process that has not served yet executes what the
//!   others have passed, for as long as that takes: it is never treated so, nor is one that D4 is
//!   about.
//! - D7 reads of clients run beside the log at the place that their check covers, or later: where
//!   this member was when its own check succeeded, or where the leader was that made one, by the
//!   bytes of the transcript, which all members count alike. Reads that no member can check within
//!   the desk's patience are not answered: their connection is closed. So nothing that is older
//!   than the request is ever shown.
//! - D10 the copy begins when the member's machine continues from the state that is here, not while
//!   it is a learner: what it is given first may be old, and the next state may begin behind that.
//!   The copy would lack what lies between, the process would end (D4), and the next one would be
//!   given the same two states, for as long as the member that gives the first one is behind.
//! - D11 a process reports nothing of its copy before its own beginning is executed: what comes
//!   before that is not answered (`table`), and would take the desk's room from the beginning.
//!   (Seed 2 of `replicate` found a member whose clients waited for ever.)

use crate::bugs::Bug;
use crate::clients::{self, Clients, LAG_BYTES_MAX, Room};
use crate::entry::{self, Entry};
use crate::feeder::{self, Audience, Feeder, Reads};
use crate::halts::Halts;
use crate::held::HeldFigures;
use crate::pace::Pace;
use crate::program::Program;
use crate::reports::Reports;
use crate::stall::{STALLED_AFTER, Stall};
use crate::state::State;
use crate::transcript::Transcript;
use crate::verdict::{Agreed, Counts};
use base::{Incarnation, Instant, MAX_MEMBERS, MemberSet, Rank};
use core::time::Duration;
use engine::streams::{Pipes, Ready, Streams};
use engine::{
    Answer, Application, Asker, Changed, Desk, Door, Orders, Performed, ReadAnswer, Stats, View,
};
use proto::Role;
use proto::planted::{Planting, Sound};

/// See D2.
pub const GONE_AFTER: Duration = Duration::from_secs(2);

/// See D5.
pub const BLIND_TICK_MS: u64 = 100;

/// The figures of a door, for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The clients of this member.
    pub clients: u64,
    /// The open connections of all members.
    pub connections: u64,
    /// The entries that the own copy was fed.
    pub fed: u64,
    /// The requests that it was fed beside the log.
    pub reads: u64,
    /// The bytes that were executed and not fed.
    pub lag_bytes: u64,
    /// The bytes of the transcript.
    pub transcript_bytes: u64,
    /// The entries of connections that are executed by the own copy.
    pub position: u64,
    /// Those of them that were before the copy's beginning.
    pub began_at: u64,
    /// Those before the newest checkpoint that counts.
    pub base: u64,
    /// The checkpoints that counted, and those that were begun in vain.
    pub checkpoints: (u64, u64),
    /// The verdicts about the copies.
    pub verdicts: Counts,
    /// The newest point at which a majority of the copies agreed.
    pub agreed: Agreed,
    /// The newest point at which there was no majority; 0 if there was none.
    pub split_at: u64,
    /// The time for which the own copy has taken up nothing, though that is waited for.
    pub stalled: Duration,
    /// The answers that wait for a verdict.
    pub held: HeldFigures,
}

/// What a member does when no majority of the copies answers alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WhenSplit {
    /// Serves on.
    #[default]
    Serve,
    /// Serves no client until its process has begun again (D3).
    Stop,
}

/// Whether this member's incarnation is decided to have its seat (D9). A founder's has it from the
/// beginning, whatever it knows yet, and so have all where members never change.
fn sits(view: &View) -> bool {
    let Some(of) = view.configuration else { return view.incarnation == Incarnation::FIRST };
    let is_seated = of.members.all().contains(view.me);
    is_seated && of.members.incarnation(view.me) == view.incarnation && of.is_decided
}

/// The door of the module's text.
#[derive(Debug)]
pub struct ReplicateDoor<S, P, B = Sound> {
    planted: B,
    /// The streams of the clients.
    pub streams: S,
    /// The copy of the program.
    pub program: P,
    /// The orders of operators.
    pub orders: Orders,
    pub(crate) clients: Clients<B>,
    pub(crate) feeder: Feeder<B>,
    reports: Reports,
    when_split: WhenSplit,
    members: usize,
    /// The time since when each member is not heard.
    silent_since: [Option<Instant>; MAX_MEMBERS],
    /// The bytes of the transcript up to which the copy has to be fed first (D1).
    serves_from: Option<u64>,
    serves: bool,
    /// See D6.
    stall: Stall,
    pace: Pace,
    /// See D12.
    halts: Halts,
    /// The own copy may not serve (D3).
    is_put_down: bool,
    /// A majority is heard, without this member.
    is_dispensable: bool,
    /// The next process of this member finds the present state (D4).
    is_kept: bool,
    /// See D10.
    may_begin: bool,
    now: Instant,
}

impl<S: Streams, P: Program, B: Planting<Bug>> ReplicateDoor<S, P, B> {
    /// A door without a client, of a cluster of `members`; `program` is in its first state.
    pub fn new(
        of_clients: clients::Config,
        of_feeder: feeder::Config,
        members: usize,
        streams: S,
        program: P,
        planted: B,
    ) -> ReplicateDoor<S, P, B> {
        let longer = entry::PIECE_HEADER_BYTES - entry::HEADER_BYTES;
        let piece_bytes_max = of_clients.input_bytes_max - longer;
        ReplicateDoor {
            planted,
            streams,
            program,
            orders: Orders::default(),
            clients: Clients::new(of_clients, planted),
            feeder: Feeder::new(of_feeder, planted),
            reports: Reports::new(of_feeder.me, of_feeder.run, piece_bytes_max),
            when_split: WhenSplit::Serve,
            members,
            silent_since: [None; MAX_MEMBERS],
            serves_from: None,
            serves: false,
            stall: Stall::new(STALLED_AFTER),
            pace: Pace::new(),
            halts: Halts::default(),
            is_put_down: false,
            is_dispensable: false,
            is_kept: false,
            may_begin: planted.has(Bug::LearnersCopyBegins),
            now: Instant::ZERO,
        }
    }

    /// Sets what happens when the copies are split.
    pub fn when_split(mut self, when_split: WhenSplit) -> ReplicateDoor<S, P, B> {
        self.when_split = when_split;
        self
    }

    /// Sets the time after which a copy that takes up nothing is begun again (D6).
    pub fn stalled_after(mut self, limit: Duration) -> ReplicateDoor<S, P, B> {
        self.stall = Stall::new(limit);
        self
    }

    /// Sets the time after which connections that put a checkpoint off are closed (D12); none is
    /// closed for it without.
    pub fn closes_after(mut self, limit: Option<Duration>) -> ReplicateDoor<S, P, B> {
        self.halts.closes_after = limit;
        self
    }

    /// Whether clients are let in (D1, D3).
    pub fn serves(&self) -> bool {
        self.serves && !self.is_put_down
    }

    /// Whether clients were let in once (D1): a copy that stalls before is never dropped (D6).
    pub fn has_served(&self) -> bool {
        self.serves
    }

    /// The member, and its process.
    pub fn process(&self) -> (Rank, Incarnation) {
        self.clients.process()
    }

    /// The feeder of the own copy.
    pub fn feeder(&self) -> &Feeder<B> {
        &self.feeder
    }

    /// The figures.
    pub fn figures<H: Transcript>(&self, state: &State<H, B>) -> Figures {
        Figures {
            clients: self.clients.len() as u64,
            connections: state.table().n_open() as u64,
            fed: self.feeder.n_fed(),
            reads: self.feeder.n_read_beside(),
            lag_bytes: self.feeder.lag_bytes(state.transcript()),
            transcript_bytes: state.transcript().len() - state.transcript().start(),
            began_at: self.feeder.position() - self.feeder.n_fed(),
            base: state.base().position,
            checkpoints: state.checkpoints().counts(),
            position: self.feeder.position(),
            verdicts: state.judge().counts(),
            agreed: state.judge().agreed(),
            split_at: state.judge().split_at(),
            stalled: self.stall.counted(),
            held: self.clients.held(),
        }
    }

    /// The reason why no checkpoint was made here when it was this member's turn.
    pub fn checkpoint_trouble(&self) -> Option<&str> {
        self.reports.trouble()
    }

    /// Whether the copy cannot be fed on, for the entries that it lacks are forgotten: another
    /// member's state took the place of one that was far behind. It has to begin again (D3, D4).
    pub fn falls_behind<H: Transcript>(&self, state: &State<H, B>) -> bool {
        let is_kept = self.is_kept || self.planted.has(Bug::EndsBeforeKept);
        self.is_dispensable && is_kept && self.feeder.is_behind(state.transcript())
    }

    /// The reason why this member has to begin again, with its copy, if there is one (D3, D6).
    pub fn rolls_back<H: Transcript>(&self, state: &State<H, B>) -> Option<String> {
        if !self.is_dispensable {
            return None;
        }
        let why = match (self.differs(state), self.is_passed(state)) {
            (Some(at), _) => format!(
                "the answers of its copy are not those of a majority's copies, up to entry {at}"
            ),
            (None, true) => format!(
                "its copy has taken up nothing for {} s, at entry {}, and a majority's copies are \
                 beyond entry {}",
                self.stall.counted().as_secs(),
                self.feeder.position(),
                state.judge().agreed().at,
            ),
            (None, false) => return None,
        };
        Some(format!("{why}: the copy is dropped, and executes the transcript again"))
    }

    /// D6
    fn is_passed<H: Transcript>(&self, state: &State<H, B>) -> bool {
        let is_passed = self.feeder.is_before(state.judge().agreed().at);
        let may_stall = self.serves && !self.feeder.is_behind(state.transcript());
        let is_told = !self.planted.has(Bug::StalledServes);
        may_stall && is_passed && self.stall.is_over() && is_told
    }

    /// D3
    fn differs<H: Transcript>(&self, state: &State<H, B>) -> Option<u64> {
        let (me, run) = self.clients.process();
        state.judge().differs(me, run).filter(|_| !self.planted.has(Bug::DifferingServes))
    }

    /// D3
    fn is_to_put_down<H: Transcript>(&self, state: &State<H, B>) -> bool {
        let (me, run) = self.clients.process();
        let is_split = state.judge().is_split(me, run).is_some();
        let is_behind = self.feeder.is_behind(state.transcript());
        let differs = self.differs(state).is_some();
        let is_out = !state.judge().members().contains(me);
        differs
            || is_out
            || is_behind
            || self.is_passed(state)
            || is_split && self.when_split == WhenSplit::Stop
    }

    /// The reason why this member has to stop, if there is one.
    pub fn failure<'a, H: Transcript>(&'a self, state: &'a State<H, B>) -> Option<&'a str> {
        let is_followed = self.clients.is_followed(state.table());
        let followed = is_followed.then_some("a later process of this member has begun");
        self.feeder.failure().or_else(|| state.transcript().failure()).or(followed)
    }

    /// Accepts clients that wait.
    pub fn accept<H: Transcript>(&mut self, state: &State<H, B>, desk: &mut Desk) {
        if self.serves() {
            self.clients.accept(&mut self.streams, state.table(), desk);
        }
    }

    /// A client's stream is ready.
    pub fn on_client<H: Transcript>(&mut self, ready: Ready, state: &State<H, B>, desk: &mut Desk) {
        let is_in_step = self.is_in_step(state);
        let room = Room { is_in_step, n_reads: self.feeder.n_reads_taken() };
        self.clients.on_ready(ready, room, &mut self.streams, desk);
        if self.planted.has(Bug::ReadUnchecked) {
            let number = self.clients.number_of(ready.key).unwrap_or(0);
            self.read(number, state.transcript().len());
        }
    }

    /// The leg `key` is ready.
    pub fn on_leg(&mut self, key: u64, desk: &Desk) {
        self.feeder.on_ready(key, &mut self.program, &mut self.clients, desk.now());
    }

    /// Whether clients may be read: neither the own copy nor a majority's are far behind.
    fn is_in_step<H: Transcript>(&self, state: &State<H, B>) -> bool {
        let is_held = self.pace.holds() && !self.planted.has(Bug::MajorityOutrun);
        let is_full = is_held || self.clients.holds_much();
        let lag_bytes = self.feeder.lag_bytes(state.transcript());
        let fed_until = state.transcript().len() - lag_bytes;
        let is_level = fed_until >= state.said_until(self.clients.process().0);
        lag_bytes < LAG_BYTES_MAX && is_level && !is_full
    }

    /// The reads of a client are fed next, when the copy is as far as that (D7).
    fn read(&mut self, number: u64, at: u64) {
        if let Some((id, bytes, n)) = self.clients.checked(number) {
            self.feeder.read(Reads { id, at, bytes, n });
        }
    }

    fn pump<H: Transcript>(&mut self, state: &State<H, B>) -> bool {
        self.may_begin && self.feeder.pump(state, &mut self.program, &mut self.clients, self.now)
    }

    /// The entry that a leader alone says, if one is due (D8, D2, D12).
    fn leaders_word<H: Transcript>(
        &self,
        state: &State<H, B>,
        view: &View,
    ) -> Option<Entry<'static>> {
        if view.role != Role::Leader || !self.clients.may_say_word() {
            return None;
        }
        let about_members = self.left(state, view).or_else(|| self.dead(state, view));
        about_members.or_else(|| self.halt(state))
    }

    /// D12
    fn halt<H: Transcript>(&self, state: &State<H, B>) -> Option<Entry<'static>> {
        let checkpoints = state.checkpoints();
        let is_empty = checkpoints.renews() && state.table().n_open() == 0;
        let closes = self.halts.closes(self.now);
        if !closes && !is_empty || !self.clients.may_enter(state.table()) {
            return None;
        }
        let run_of = |rank| state.table().run_of(rank);
        let may_say = checkpoints.takes_halt(state.judge(), run_of);
        let (owner, run) = self.clients.process();
        may_say.then_some(Entry::Halt { owner, run, closes })
    }

    /// O6 of `held`: any member says so for its own clients.
    fn compare<H: Transcript>(&self, state: &State<H, B>) -> Option<Entry<'static>> {
        let may_say = self.clients.may_say_word() && self.clients.may_enter(state.table());
        let is_level = self.feeder.is_feeding() && self.feeder.lag_bytes(state.transcript()) == 0;
        let (owner, run) = self.clients.process();
        let is_wanted = may_say && is_level && self.clients.wants_point(self.now);
        is_wanted.then_some(Entry::Compare { owner, run })
    }

    /// D8
    fn left<H: Transcript>(&self, state: &State<H, B>, view: &View) -> Option<Entry<'static>> {
        let of = view.configuration.filter(|of| of.is_decided)?;
        let mut left = state.judge().members().difference(of.members.all()).iter();
        let owner = left.next().filter(|_| !self.planted.has(Bug::LeftUnsaid))?;
        Some(Entry::Left { owner, run: state.table().run_of(owner) })
    }

    /// The entry about a member that has been silent for too long (D2).
    fn dead<H: Transcript>(&self, state: &State<H, B>, view: &View) -> Option<Entry<'static>> {
        if self.planted.has(Bug::DeadStayOpen) || !self.hears_majority(view) {
            return None;
        }
        let is_late = |since: Instant| self.now >= since.plus(GONE_AFTER);
        Rank::all(self.members)
            .filter(|rank| self.silent_since[rank.index()].is_some_and(is_late))
            .find_map(|owner| {
                let last = state.table().open_of(owner).next_back()?;
                Some(Entry::Gone { owner, run: last.run, below: last.number + 1 })
            })
    }

    /// D5
    fn awaited_ms<H: Transcript>(&mut self, state: &State<H, B>) -> Option<u64> {
        let time_ms = state.time_ms().filter(|_| !state.transcript().is_empty())?;
        if self.planted.has(Bug::TicksForgotten) {
            return None;
        }
        let is_blind = self.feeder.lag_bytes(state.transcript()) > 0 || !self.feeder.is_feeding();
        let awaited_ms = if is_blind { None } else { Some(self.program.awaited_ms()?) };
        Some(awaited_ms.unwrap_or(time_ms + BLIND_TICK_MS).max(time_ms + 1))
    }

    /// The members whose votes count.
    fn voters(&self, view: &View) -> MemberSet {
        let all = MemberSet::all(self.members);
        view.configuration.map_or(all, |of| of.members.voters)
    }

    fn hears_majority(&self, view: &View) -> bool {
        let voters = self.voters(view);
        view.heard.intersection(voters).is_majority_of(voters.len())
    }

    fn listen(&mut self, view: &View) {
        let voters = self.voters(view);
        let mut others = view.heard.intersection(voters);
        others.remove(view.me);
        self.is_dispensable = others.is_majority_of(voters.len());
        self.is_kept = view.is_kept;
        self.may_begin |= view.role != Role::Learner;
        for rank in Rank::all(self.members) {
            let is_heard = rank == view.me || view.heard.contains(rank);
            let since = &mut self.silent_since[rank.index()];
            *since = if is_heard { None } else { Some(since.unwrap_or(self.now)) };
        }
    }
}

impl<P: Program, B: Planting<Bug>> ReplicateDoor<Pipes, P, B> {
    /// Accepts clients and reads from all that are ready: what a poller does for sockets.
    pub fn poll<H: Transcript>(&mut self, state: &State<H, B>, desk: &mut Desk) {
        self.accept(state, desk);
        for ready in self.streams.ready() {
            self.on_client(ready, state, desk);
        }
    }
}

impl<H: Transcript, S: Streams, P: Program, B: Planting<Bug>> Door<State<H, B>>
    for ReplicateDoor<S, P, B>
{
    fn applied(&mut self, state: &mut State<H, B>)
    where
        State<H, B>: Application,
    {
        self.pump(state);
    }

    /// D7: the check covers what was executed here.
    fn perform(
        &mut self,
        asker: Asker,
        _: u64,
        state: &mut State<H, B>,
        _: &mut Desk,
    ) -> Performed {
        self.read(asker.connection, state.transcript().len());
        Performed::Done
    }

    /// A leader has no need to know what is read: it tells where it is ([`State::read`]).
    fn describe_read(&mut self, _: Asker, _: &mut Vec<u8>) {}

    fn answer(&mut self, asker: Asker, answer: Answer<'_>, _: &mut Desk) {
        match Reports::is_own(asker) {
            true => self.reports.answer(asker, matches!(answer, Answer::Executed(..))),
            false => self.clients.answer(asker, answer),
        }
    }

    /// D7: the check covers what the leader had executed.
    fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>, _: &mut Desk) {
        let at = match answer {
            ReadAnswer::Forwarded(place) => place.try_into().ok().map(u64::from_le_bytes),
            ReadAnswer::Unavailable => None,
        };
        match at {
            Some(_) if self.planted.has(Bug::ReadAtOwnPlace) => self.read(asker.connection, 0),
            Some(at) => self.read(asker.connection, at),
            None => self.clients.cut_off(asker.connection),
        }
    }

    fn answer_wait(&mut self, _: Asker, _: usize, _: &mut Desk) {}

    fn answer_change(&mut self, asker: Asker, changed: Changed, _: &mut Desk) {
        self.orders.answer(asker, changed);
    }

    fn resume(&mut self, state: &mut State<H, B>, desk: &mut Desk) -> bool {
        self.now = desk.now();
        let view = *desk.view();
        self.listen(&view);
        let mut worked = self.pump(state);
        while let Some(taken) = self.feeder.take_hash() {
            self.reports.push(taken);
        }
        if let Some(saved) = self.feeder.take_saved() {
            self.reports.ship(saved);
        }
        let has_begun = self.clients.may_enter(state.table());
        if has_begun || self.planted.has(Bug::ReportsUnbegun) {
            worked |= self.reports.resume(state, &mut self.program, desk); // D11
        }
        state.release(self.feeder.needs_from());
        let awaited_ms = self.awaited_ms(state);
        worked |= state.await_time(awaited_ms);
        self.stall.look(self.feeder.still_since(state.transcript()), self.now);
        self.is_put_down = self.is_to_put_down(state);
        if self.is_put_down {
            self.clients.abort_all();
        }
        let lag_bytes = self.feeder.lag_bytes(state.transcript());
        if has_begun && !self.serves {
            // The own Begin is decided, and so is all that was answered before it was said.
            let from = *self.serves_from.get_or_insert(state.transcript().len());
            self.serves = state.transcript().len() - lag_bytes >= from;
        }
        worked |= self.orders.resume(desk);
        if sits(&view) || self.planted.has(Bug::BeginsUnseated) {
            self.clients.let_begin();
        }
        self.halts.look(state.checkpoints().is_due(state.judge()), self.now);
        let word = self.leaders_word(state, &view).or_else(|| self.compare(state));
        let judge = state.judge();
        worked |= self.clients.release(judge, self.now);
        self.pace.look(judge.agreed().at, judge.position(), judge.ahead_max(), self.now);
        let is_in_step = self.is_in_step(state);
        worked | self.clients.resume(word, is_in_step, &mut self.streams, desk)
    }

    fn flush(&mut self, desk: &mut Desk) {
        self.clients.flush(&mut self.streams, desk);
    }

    fn deadline(&self) -> Option<Instant> {
        let silent = self.silent_since.iter().flatten().map(|since| since.plus(GONE_AFTER));
        // A member that was reported, or that another leader reports, is looked at once.
        let silent = silent.filter(|at| *at > self.now).min();
        let own = [self.feeder.deadline(), self.stall.deadline(), self.pace.deadline()];
        let halt = self.halts.deadline().filter(|at| *at > self.now);
        let own = own.into_iter().chain([self.clients.deadline(self.now), halt]);
        own.flatten().chain(silent).min()
    }

    /// The process asks for [`ReplicateDoor::figures`].
    fn publish(&mut self, _: &View, _: &Stats, _: &mut State<H, B>) {}
}
