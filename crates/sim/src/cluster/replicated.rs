//! A simulated member that replicates a program: the released engine and replicate door, over pipes
//! to clients and to a simulated copy.

use super::compared::{CopyId, SharedSent, Tapped};
use super::disk::Platter;
use super::kinds::Copies;
use super::makers::SharedMakers;
use super::member::{Member, Stalled, turn};
use super::plant::{SimPlant, UNREAD_BYTES_MAX};
use super::program::SimProgram;
use crate::plan::Plan;
use base::{MemberSet, Rank, majority};
use core::time::Duration;
use engine::streams::Pipes;
use engine::{Config, Engine, FoundState, Log, Orders, Origin, Parts, Plant, Stats, View};
use proto::Replicator;
use proto::members::Configuration;
use proto::node::NodeConfig;
use proto::planted::Sound;
use proto::registry::{self, LogSpec};
use replicate::bugs::Bug;
use replicate::door::ReplicateDoor;
use replicate::program::Program;
use replicate::state::{Settings, State};
use replicate::transcript::InMemory;
use replicate::verdict::Output;
use replicate::{batch, clients, entry, feeder, framing};

/// The way in which copies are fed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Feeding {
    pub(super) order: feeder::Order,
    pub(super) rest: feeder::Rest,
    pub(super) replies: Option<framing::Protocol>,
}

impl Feeding {
    /// The protocol of reads beside the log, if there are some: they have a place in the serial
    /// order alone, and what one copy alone has answered cannot be compared.
    pub(super) fn reads(&self, around: &Around) -> Option<framing::Protocol> {
        let may_be = self.order == feeder::Order::Serial && around.strict.is_none();
        self.replies.filter(|_| around.reads && may_be)
    }
}

/// The door of such a member.
type Door = ReplicateDoor<Tapped, SimProgram, Option<Bug>>;
/// The family of such a member.
type Replicated<R> = Log<SimPlant, R, State<InMemory, Option<Bug>>, Door>;

/// The time after which a copy with something to do is run again.
const RUNS_EVERY: Duration = Duration::from_micros(20);

/// How a copy is compared with the others, and what it does of which they know nothing.
#[derive(Clone, Debug, Default)]
pub(super) struct Around {
    /// See `replicate::state::Settings`.
    pub(super) compare: u64,
    /// Likewise.
    pub(super) checkpoint: u64,
    /// Likewise.
    pub(super) renews: bool,
    /// See `replicate::state::Settings`.
    pub(super) time_step_ms: u64,
    /// See `SimProgram`, P3.
    pub(super) deviates_after: Option<u64>,
    /// See `SimProgram`, P10.
    pub(super) strays: bool,
    /// What is known of makers of checkpoints.
    pub(super) makers: SharedMakers,
    /// See `SimProgram`, P6.
    pub(super) stalls_after: Option<u64>,
    /// The time after which a copy that takes up nothing is put down.
    pub(super) stalled_after: Option<Duration>,
    /// The time after which connections that put a checkpoint off are closed, if they are.
    pub(super) closes_after: Option<Duration>,
    /// Whether reads run beside the log.
    pub(super) reads: bool,
    /// Whether a program with a loop is at rest by its replies, where they tell.
    pub(super) counts: bool,
    /// Of answers that are held until they are compared: the manner of the copies, and what they
    /// have sent.
    pub(super) strict: Option<(Copies, SharedSent)>,
}

/// The member of the module's text.
struct Copied<R: Replicator> {
    engine: Engine<Replicated<R>>,
    /// The entries that the copy has executed, and those when it first deviated.
    position: u64,
    /// Those before its beginning.
    began_at: u64,
    deviated_at: Option<u64>,
    /// See `Around`.
    sent: Option<SharedSent>,
    makers: SharedMakers,
    /// The checkpoint that was made when its turn ended, if one was, and the counts of others.
    made: Option<(u64, CopyId)>,
    counts: (u64, u64),
}

impl<R: Replicator> Copied<R> {
    /// The number of members that are a majority, by the verdicts.
    fn majority(&self) -> usize {
        majority(self.engine.app().judge().members().len())
    }

    /// Notes a checkpoint that counts since this turn (`makers`): the one that was made before, if
    /// it was the only one.
    fn note_what_counts(&mut self) {
        let checkpoints = self.engine.app().checkpoints();
        let (n_adopted, n_given_up) = std::mem::replace(&mut self.counts, checkpoints.counts());
        let made = std::mem::replace(
            &mut self.made,
            checkpoints.making().map(|making| (making.at, making.maker)),
        );
        if let Some((at, maker)) = made
            && self.counts == (n_adopted + 1, n_given_up)
        {
            self.makers.borrow_mut().count(at, maker);
        }
    }

    /// Notes what has left to clients in a turn, where so many were a majority before it.
    fn note_what_left(&mut self, majority_before: usize) {
        let least = self.majority().min(majority_before);
        let (me, run) = self.engine.parts().door.process();
        let written = self.engine.parts().door.streams.take_written();
        let Some(sent) = &self.sent else { return };
        for (number, bytes) in written {
            let id = entry::ConnectionId { owner: me, run, number };
            sent.borrow_mut().leave(id, &bytes, least);
        }
    }
}

impl<R: Replicator> Member for Copied<R> {
    fn turn(&mut self) -> Duration {
        let majority_before = self.majority();
        let mut shown_at = None;
        let idle = turn(&mut self.engine, |door, state, desk| {
            let legs = door.feeder().legs().collect::<Vec<_>>();
            door.program.know_legs(&legs);
            door.program.run();
            if door.program.has_deviated() {
                shown_at.get_or_insert(door.feeder().position());
            }
            for key in door.program.ready() {
                door.on_leg(key, desk);
            }
            door.accept(state, desk);
            for ready in door.streams.pipes.ready() {
                door.on_client(ready, state, desk);
            }
        });
        self.note_what_left(majority_before);
        self.note_what_counts();
        if let Some(at) = shown_at {
            let copy = self.engine.parts().door.process();
            self.makers.borrow_mut().show(copy, at);
        }
        let had_begun = self.began_at > 0;
        let Parts { plant, door, app, .. } = self.engine.parts();
        self.position = door.feeder().position();
        self.began_at = door.figures(app).began_at;
        if let Some(sent) = self.sent.as_ref().filter(|_| self.began_at > 0 && !had_begun) {
            let open = door.feeder().legs().map(|(_, id, _)| id);
            sent.borrow_mut().begin_with(door.process().0, open);
        }
        if door.program.is_tainted() {
            plant.say("it begins with what a copy had saved that answered otherwise");
        }
        if door.program.has_deviated() {
            self.deviated_at.get_or_insert(self.position);
        }
        if let Some(why) = door.failure(app) {
            let why = why.to_owned();
            plant.say(&why);
        }
        let copy_waits = door.program.is_asleep() && door.program.ready().is_empty();
        if copy_waits { idle } else { idle.min(RUNS_EVERY) }
    }

    fn is_idle(&self) -> bool {
        self.engine.is_idle()
    }

    fn view(&self) -> &View {
        self.engine.view()
    }

    fn stats(&self) -> &Stats {
        self.engine.stats()
    }

    fn pipes(&mut self) -> &mut Pipes {
        &mut self.engine.parts().door.streams.pipes
    }

    fn plant(&mut self) -> &mut SimPlant {
        self.engine.parts().plant
    }

    fn disk(&mut self) -> Option<&mut Platter> {
        self.engine.disk()
    }

    fn failure(&self) -> Option<&str> {
        self.engine.failure()
    }

    fn configuration(&self) -> Option<Configuration> {
        self.engine.node().configuration()
    }

    fn take_renewals(&mut self) -> Vec<Rank> {
        let orders = &mut self.engine.parts().door.orders;
        std::iter::from_fn(|| orders.take_renewal()).collect()
    }

    fn orders(&mut self) -> Option<&mut Orders> {
        Some(&mut self.engine.parts().door.orders)
    }

    fn compared(&self) -> Option<MemberSet> {
        Some(self.engine.app().judge().members())
    }

    /// Of the connections, and of what is known of the copies (I21).
    fn digests(&self) -> Vec<u64> {
        let app = self.engine.app();
        let known = [
            format!("{:?}", app.table()),
            format!("{:?}", app.judge()),
            format!("{:?}", app.checkpoints()),
        ];
        known.iter().map(|text| crate::kv::hash(text.as_bytes())).collect()
    }

    fn falls_behind(&mut self) -> bool {
        let Parts { door, app, .. } = self.engine.parts();
        door.falls_behind(app)
    }

    fn checkpoints(&self) -> (u64, bool) {
        let (n_adopted, _) = self.engine.app().checkpoints().counts();
        (n_adopted, self.began_at > 0)
    }

    fn n_renewed(&mut self) -> u64 {
        self.engine.parts().door.program.n_renewed()
    }

    fn n_read_beside(&mut self) -> u64 {
        self.engine.parts().door.feeder().n_read_beside()
    }

    fn rolls_back(&mut self) -> Option<String> {
        let Parts { door, app, .. } = self.engine.parts();
        door.rolls_back(app)
    }

    fn take_seen(&mut self) -> (Vec<(u64, u64)>, u64) {
        let timers = &mut self.engine.parts().door.program.timers;
        (timers.take_fresh(), timers.n_ended())
    }

    fn n_since_deviation(&self) -> Option<u64> {
        Some(self.position - self.deviated_at?)
    }

    fn stall(&mut self) -> Option<Stalled> {
        let Parts { door, app, .. } = self.engine.parts();
        let is_passed = door.has_served() && door.feeder().is_before(app.judge().agreed().at);
        door.program.is_stalled().then_some(Stalled { is_passed })
    }

    fn mend_copy(&mut self) {
        self.engine.parts().door.program.mend();
    }

    fn n_open(&self) -> Option<usize> {
        Some(self.engine.app().table().n_open())
    }
}

/// The bytes of a value of the log that are not a client's: the engine's place, and a batch of one
/// entry.
const ENTRY_OVERHEAD_BYTES: usize = 24 + batch::OVERHEAD_BYTES + entry::HEADER_BYTES;

/// A member with a copy of the program.
///
/// # Errors
/// The text of the process that does not start.
pub(super) fn copied<S: LogSpec>(
    config: &Config,
    plant: SimPlant,
    (program, around, feeding): (SimProgram, Around, Feeding),
    disk: (Option<Platter>, Option<FoundState>),
    of_node: NodeConfig,
    plan: &Plan,
    planted: Option<Bug>,
) -> Result<Box<dyn Member>, String> {
    let Origin { rank: me, life: run } = config.origin;
    let output = if around.strict.is_some() { Output::Strict } else { Output::AtOnce };
    let of_clients = clients::Config {
        me,
        run,
        clients_max: 1000,
        input_bytes_max: plan.shape.value_bytes as usize - ENTRY_OVERHEAD_BYTES,
        reads: feeding.reads(&around),
        output,
    };
    let Feeding { order, rest, replies } = feeding;
    let Around { compare, checkpoint, renews, time_step_ms, .. } = around;
    let (speaks, members) = (replies, plan.members);
    let of_feeder =
        feeder::Config { me, run, order, rest, replies, speaks, compare, output, renews };
    let settings = Settings { members, compare, checkpoint, renews, time_step_ms, output };
    let pipes = Tapped::new(Pipes::new("member", UNREAD_BYTES_MAX));
    let door = ReplicateDoor::new(of_clients, of_feeder, plan.members, pipes, program, planted)
        .stalled_after(around.stalled_after.unwrap_or(Duration::MAX))
        .closes_after(around.closes_after);
    let served = (State::new(settings, InMemory::default(), planted), door);
    let engine =
        Engine::<Replicated<S::Machine<Sound>>>::new(config, plant, served, disk, |host| {
            registry::member::<S, _, _>(of_node, &plan.shape, Sound, host)
                .map_err(|error| error.to_string())
        })?;
    let sent = around.strict.map(|(_, sent)| sent);
    Ok(Box::new(Copied {
        engine,
        position: 0,
        began_at: 0,
        deviated_at: None,
        sent,
        makers: around.makers,
        made: None,
        counts: (0, 0),
    }))
}
