//! A simulated member: the released engine, over the world's network, and the released key-value
//! door, over pipes.

use super::disk::Platter;
use super::plant::SimPlant;
use super::told::ToldDoor;
use crate::Shape;
use base::{MemberSet, Prefix, Rank};
use core::time::Duration;
use engine::multicast::StopError;
use engine::{
    Config, Desk, Engine, Family, FoundState, Keyed, Log, Orders, Parts, Plant, Stats, View,
};
use kv::door::{self, Pipes, Serves};
use kv::keyed::Keys;
use proto::Replicator;
use proto::amcast::{GroupId, Place};
use proto::keyed::{KeyedConfig, KeyedMachine};
use proto::members::Configuration;
use proto::node::NodeConfig;
use proto::planted::{Planting, Sound};
use proto::registry::{self, KeyedSpec, LogSpec};

/// The replicated state of a member, with or without a mistake.
pub(super) type State = door::State<Option<door::Bug>>;

/// A member's process, from its start to its end.
pub(super) trait Member {
    /// Performs one turn of its loop. Returns the time that it may sleep then.
    fn turn(&mut self) -> Duration;
    fn view(&self) -> &View;
    fn stats(&self) -> &Stats;
    fn pipes(&mut self) -> &mut Pipes;
    /// Its environment.
    fn plant(&mut self) -> &mut SimPlant;
    fn disk(&mut self) -> Option<&mut Platter>;
    /// Why it must end.
    fn failure(&self) -> Option<&str> {
        None
    }
    /// Whether no client's request is open there.
    fn is_idle(&self) -> bool {
        true
    }
    /// The members, as it knows them now.
    fn configuration(&self) -> Option<Configuration>;
    /// The seats on which a new incarnation is to begin, for its supervisor.
    fn take_renewals(&mut self) -> Vec<Rank>;
    /// The orders of operators, where no client's connection can bring them.
    fn orders(&mut self) -> Option<&mut Orders> {
        None
    }
    /// The members whose copies are compared, if there are copies.
    fn compared(&self) -> Option<MemberSet> {
        None
    }
    /// The reason why it has to begin again with its copy of a program, if there is one.
    fn rolls_back(&mut self) -> Option<String> {
        None
    }
    /// Whether it has to begin again because its copy lacks entries that are forgotten.
    fn falls_behind(&mut self) -> bool {
        false
    }
    /// The checkpoints that counted, and whether its copy began with one.
    fn checkpoints(&self) -> (u64, bool) {
        (0, false)
    }
    /// How often its copy has begun again at a halt.
    fn n_renewed(&mut self) -> u64 {
        0
    }
    /// The requests that its copy was fed beside the log.
    fn n_read_beside(&mut self) -> u64 {
        0
    }
    /// What its copy has seen since the last call (`timers`), and the timers of it that have ended.
    fn take_seen(&mut self) -> (Vec<(u64, u64)>, u64) {
        (Vec::new(), 0)
    }
    /// The entries that its copy has executed since it first answered otherwise than it should.
    fn n_since_deviation(&self) -> Option<u64> {
        None
    }
    /// Whether its copy takes up nothing (`SimProgram`, P6), and how it stands then.
    fn stall(&mut self) -> Option<Stalled> {
        None
    }
    /// Lets a copy that takes up nothing do so again.
    fn mend_copy(&mut self) {}
    /// The replicated state, if it is one that members of a log share.
    fn state(&self) -> Option<&State> {
        None
    }
    /// The prefix that covers all writes which its clients were told of since the last call.
    fn take_told(&mut self) -> Prefix {
        Prefix::ZERO
    }
    /// The answers to WAIT since the last call (`waits`).
    fn take_waited(&mut self) -> Vec<(Prefix, usize)> {
        Vec::new()
    }
    /// The groups of atomic multicast that it is in, with the place up to which it has delivered,
    /// and the one below which others may have forgotten, as far as it knows.
    fn stands(&self) -> Vec<(GroupId, Place, Place)> {
        Vec::new()
    }
    /// Whether it has its seat in all its groups.
    fn is_seated(&self) -> bool {
        true
    }
    /// The reason why its node has to stop.
    fn stops(&self) -> Option<StopError> {
        None
    }
    /// How its groups stand, in words.
    fn standing(&self) -> String {
        String::new()
    }
    /// The length of what it has executed: of each partition's order, where there are several.
    fn executed(&self) -> Vec<u64> {
        vec![self.view().applied.0]
    }
    /// The digest of each partition's state, and the number of messages that wait between them.
    fn digests(&self) -> Vec<u64> {
        Vec::new()
    }
    /// The number of open connections to all members, if members agree on that.
    fn n_open(&self) -> Option<usize> {
        None
    }
}

/// A copy that takes up nothing.
#[derive(Clone, Copy, Debug)]
pub(super) struct Stalled {
    /// A majority's copies have answered alike further on, as the member knows, and it is begun
    /// again for that (D6 of `replicate::door`).
    pub(super) is_passed: bool,
}

/// One turn of a member whose clients come in by `come_in`, as in the released loop: it looks once
/// more before it sleeps. Returns the time that it may sleep.
pub(super) fn turn<C: Family<Plant = SimPlant>>(
    engine: &mut Engine<C>,
    come_in: impl FnOnce(&mut C::Door, &mut C::App, &mut Desk),
) -> Duration {
    engine.begin_turn();
    engine.begin_slice();
    engine.parts().plant.wake();
    engine.at_the_door(come_in);
    engine.work();
    let idle = if engine.advance() { Duration::ZERO } else { engine.idle_for() };
    engine.note_sleep();
    engine.send();
    engine.parts().plant.breaks_are_heard();
    idle
}

/// The same, with the type of its family and machine.
struct Whole<C>(Engine<C>);

/// What a family's member has beside its turns.
trait Kept: Family<Plant = SimPlant, Door = ToldDoor> + Sized {
    /// See [`Member::disk`].
    fn disk(_: &mut Engine<Self>) -> Option<&mut Platter> {
        None
    }

    /// See [`Member::configuration`].
    fn configuration(_: &Engine<Self>) -> Option<Configuration> {
        None
    }

    /// See [`Member::state`].
    fn state(_: &Engine<Self>) -> Option<&State> {
        None
    }
}

impl<M: KeyedMachine> Kept for Keyed<SimPlant, M, Keys, ToldDoor> {}

impl<R: Replicator> Kept for Log<SimPlant, R, State, ToldDoor> {
    fn disk(engine: &mut Engine<Self>) -> Option<&mut Platter> {
        engine.disk()
    }

    fn configuration(engine: &Engine<Self>) -> Option<Configuration> {
        engine.node().configuration()
    }

    fn state(engine: &Engine<Self>) -> Option<&State> {
        Some(engine.app())
    }
}

impl<C: Kept<App: Serves>> Member for Whole<C> {
    fn turn(&mut self) -> Duration {
        let idle = turn(&mut self.0, |door, state, desk| door.resp.poll(state, desk));
        let Parts { plant, app, .. } = self.0.parts();
        app.take_discarded();
        if let Some(complaint) = app.take_complaint() {
            plant.say(&complaint);
        }
        idle
    }

    fn is_idle(&self) -> bool {
        self.0.is_idle()
    }

    fn view(&self) -> &View {
        self.0.view()
    }

    fn stats(&self) -> &Stats {
        self.0.stats()
    }

    fn pipes(&mut self) -> &mut Pipes {
        &mut self.0.parts().door.resp.streams
    }

    fn plant(&mut self) -> &mut SimPlant {
        self.0.parts().plant
    }

    fn disk(&mut self) -> Option<&mut Platter> {
        C::disk(&mut self.0)
    }

    fn failure(&self) -> Option<&str> {
        self.0.failure()
    }

    fn configuration(&self) -> Option<Configuration> {
        C::configuration(&self.0)
    }

    fn state(&self) -> Option<&State> {
        C::state(&self.0)
    }

    fn take_told(&mut self) -> Prefix {
        std::mem::take(&mut self.0.parts().door.told)
    }

    fn take_waited(&mut self) -> Vec<(Prefix, usize)> {
        self.0.parts().door.waited.take()
    }

    fn take_renewals(&mut self) -> Vec<Rank> {
        std::mem::take(&mut self.0.parts().door.resp.clients.outside.renewals)
    }
}

pub(super) fn kept<S: KeyedSpec, P: Planting<S::Bug>>(
    config: &Config,
    plant: SimPlant,
    door: ToldDoor,
    of_machine: &KeyedConfig,
    planted: P,
) -> Box<dyn Member> {
    let machine = S::start(of_machine, planted);
    let keys = Keys::new(<S::Machine<P> as KeyedMachine>::VALUE_BYTES_MAX, 0);
    Box::new(Whole(Engine::keyed(config, plant, (keys, door), machine)))
}

pub(super) fn made<S: LogSpec>(
    config: &Config,
    plant: SimPlant,
    door: ToldDoor,
    disk: (Option<Platter>, Option<FoundState>),
    of_node: NodeConfig,
    shape: &Shape,
) -> Result<Box<dyn Member>, String> {
    let planted = door.resp.clients.outside.bug;
    let served = (State::with(0, config.origin.life.0, planted), door);
    let engine =
        Engine::<Log<_, S::Machine<Sound>, _, _>>::new(config, plant, served, disk, |host| {
            registry::member::<S, _, _>(of_node, shape, Sound, host)
                .map_err(|error| error.to_string())
        })?;
    Ok(Box::new(Whole(engine)))
}
