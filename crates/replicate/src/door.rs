//! The door of one member: its clients, its copy of the program, and the feeder between them.
//!
//! - D1 clients are served when the copy has been fed all that was executed before this process
//!   asked the cluster for the first time, and a leader is known.
//! - D2 a leader that has not heard a member for [`GONE_AFTER`] ends the connections that its last
//!   process had, by an entry: the program must not wait for the dead. It hears a majority then:
//!   what a leader says that is cut off itself would be decided when it is back, about members that
//!   were never silent.

use crate::bugs::Bug;
use crate::clients::{self, Clients};
use crate::entry::Entry;
use crate::feeder::{self, Feeder};
use crate::program::Program;
use crate::state::State;
use crate::transcript::Transcript;
use base::{Instant, MAX_MEMBERS, MemberSet, Rank};
use core::time::Duration;
use engine::streams::{Pipes, Ready, Streams};
use engine::{Answer, Application, Asker, Desk, Door, Performed, ReadAnswer, Stats, View};
use proto::Role;
use proto::planted::{Planting, Sound};

/// See D2.
pub const GONE_AFTER: Duration = Duration::from_secs(2);

/// The figures of a door, for operators.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// The clients of this member.
    pub clients: u64,
    /// The open connections of all members.
    pub connections: u64,
    /// The entries that the own copy was fed.
    pub fed: u64,
    /// The bytes that were executed and not fed.
    pub lag_bytes: u64,
    /// The bytes of the transcript.
    pub transcript_bytes: u64,
}

/// The door of the module's text.
#[derive(Debug)]
pub struct ReplicateDoor<S, P, B = Sound> {
    planted: B,
    /// The streams of the clients.
    pub streams: S,
    /// The copy of the program.
    pub program: P,
    clients: Clients<B>,
    feeder: Feeder<B>,
    members: usize,
    /// The time since when each member is not heard.
    silent_since: [Option<Instant>; MAX_MEMBERS],
    /// The bytes of the transcript up to which the copy has to be fed first (D1).
    serves_from: Option<u64>,
    serves: bool,
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
        ReplicateDoor {
            planted,
            streams,
            program,
            clients: Clients::new(of_clients, planted),
            feeder: Feeder::new(of_feeder, planted),
            members,
            silent_since: [None; MAX_MEMBERS],
            serves_from: None,
            serves: false,
            now: Instant::ZERO,
        }
    }

    /// Whether clients are let in (D1).
    pub fn serves(&self) -> bool {
        self.serves
    }

    /// The figures.
    pub fn figures<H: Transcript>(&self, state: &State<H, B>) -> Figures {
        Figures {
            clients: self.clients.len() as u64,
            connections: state.table().n_open() as u64,
            fed: self.feeder.n_fed(),
            lag_bytes: self.feeder.lag_bytes(state.transcript()),
            transcript_bytes: state.transcript().len(),
        }
    }

    /// The reason why this member has to stop, if there is one.
    pub fn failure<'a, H: Transcript>(&'a self, state: &'a State<H, B>) -> Option<&'a str> {
        let is_followed = self.clients.is_followed(state.table());
        let followed = is_followed.then_some("a later process of this member has begun");
        self.feeder.failure().or_else(|| state.transcript().failure()).or(followed)
    }

    /// Accepts clients that wait.
    pub fn accept<H: Transcript>(&mut self, state: &State<H, B>, desk: &mut Desk) {
        if self.serves {
            self.clients.accept(&mut self.streams, state.table(), desk);
        }
    }

    /// A client's stream is ready.
    pub fn on_client<H: Transcript>(&mut self, ready: Ready, state: &State<H, B>, desk: &mut Desk) {
        let lag_bytes = self.feeder.lag_bytes(state.transcript());
        self.clients.on_ready(ready, lag_bytes, &mut self.streams, desk);
    }

    /// The leg `key` is ready.
    pub fn on_leg(&mut self, key: u64, desk: &Desk) {
        self.feeder.on_ready(key, &mut self.program, &mut self.clients, desk.now());
    }

    fn pump<H: Transcript>(&mut self, state: &State<H, B>) -> bool {
        self.feeder.pump(state.transcript(), &mut self.program, &mut self.clients, self.now)
    }

    /// The entry about a member that has been silent for too long, if this member leads (D2).
    fn dead<H: Transcript>(&self, state: &State<H, B>, view: &View) -> Option<Entry<'static>> {
        let may_bury = self.clients.may_bury() && !self.planted.has(Bug::DeadStayOpen);
        if view.role != Role::Leader || !may_bury || !self.hears_majority(view) {
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

    fn hears_majority(&self, view: &View) -> bool {
        let all = MemberSet::all(self.members);
        let voters = view.configuration.map_or(all, |of| of.members.voters);
        view.heard.intersection(voters).is_majority_of(voters.len())
    }

    fn listen(&mut self, view: &View) {
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

    /// No reads are submitted.
    fn perform(&mut self, _: Asker, _: u64, _: &mut State<H, B>, _: &mut Desk) -> Performed {
        Performed::Done
    }

    fn describe_read(&mut self, _: Asker, _: &mut Vec<u8>) {}

    fn answer(&mut self, asker: Asker, answer: Answer<'_>, _: &mut Desk) {
        self.clients.answer(asker, answer);
    }

    fn answer_read(&mut self, _: Asker, _: ReadAnswer<'_>, _: &mut Desk) {}

    fn answer_wait(&mut self, _: Asker, _: usize, _: &mut Desk) {}

    fn resume(&mut self, state: &mut State<H, B>, desk: &mut Desk) -> bool {
        self.now = desk.now();
        let view = *desk.view();
        self.listen(&view);
        let worked = self.pump(state);
        let lag_bytes = self.feeder.lag_bytes(state.transcript());
        if self.clients.may_enter(state.table()) && !self.serves {
            // The own Begin is decided, and so is all that was answered before it was said.
            let from = *self.serves_from.get_or_insert(state.transcript().len());
            self.serves = state.transcript().len() - lag_bytes >= from;
        }
        let dead = self.dead(state, &view);
        worked | self.clients.resume(dead, lag_bytes, &mut self.streams, desk)
    }

    fn flush(&mut self, desk: &mut Desk) {
        self.clients.flush(&mut self.streams, desk);
    }

    fn deadline(&self) -> Option<Instant> {
        let silent = self.silent_since.iter().flatten().map(|since| since.plus(GONE_AFTER));
        // A member that was reported, or that another leader reports, is looked at once.
        let silent = silent.filter(|at| *at > self.now).min();
        self.feeder.deadline().into_iter().chain(silent).min()
    }

    /// The process asks for [`ReplicateDoor::figures`].
    fn publish(&mut self, _: &View, _: &Stats, _: &mut State<H, B>) {}
}
