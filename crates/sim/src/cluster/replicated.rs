//! A simulated member that replicates a program: the released engine and replicate door, over pipes
//! to clients and to a simulated copy.

use super::disk::Platter;
use super::member::{Member, turn};
use super::plant::{SimPlant, UNREAD_BYTES_MAX};
use super::program::SimProgram;
use crate::plan::Plan;
use base::Rank;
use core::time::Duration;
use engine::streams::Pipes;
use engine::{Config, Engine, FoundState, Log, Origin, Parts, Plant, Stats, View};
use proto::Replicator;
use proto::members::Configuration;
use proto::node::NodeConfig;
use proto::planted::Sound;
use proto::registry::{self, LogSpec};
use replicate::bugs::Bug;
use replicate::door::ReplicateDoor;
use replicate::program::Program;
use replicate::state::State;
use replicate::transcript::InMemory;
use replicate::{batch, clients, entry, feeder};

/// The door of such a member.
type Door = ReplicateDoor<Pipes, SimProgram, Option<Bug>>;
/// The family of such a member.
type Replicated<R> = Log<SimPlant, R, State<InMemory, Option<Bug>>, Door>;

/// The time after which a copy with something to do is run again.
const RUNS_EVERY: Duration = Duration::from_micros(20);

/// The member of the module's text.
struct Copied<R: Replicator>(Engine<Replicated<R>>);

impl<R: Replicator> Member for Copied<R> {
    fn turn(&mut self) -> Duration {
        let idle = turn(&mut self.0, |door, state, desk| {
            door.program.run();
            for key in door.program.ready() {
                door.on_leg(key, desk);
            }
            door.poll(state, desk);
        });
        let Parts { plant, door, app, .. } = self.0.parts();
        if let Some(why) = door.failure(app) {
            let why = why.to_owned();
            plant.say(&why);
        }
        let copy_waits = door.program.is_asleep() && door.program.ready().is_empty();
        if copy_waits { idle } else { idle.min(RUNS_EVERY) }
    }

    fn view(&self) -> &View {
        self.0.view()
    }

    fn stats(&self) -> &Stats {
        self.0.stats()
    }

    fn pipes(&mut self) -> &mut Pipes {
        &mut self.0.parts().door.streams
    }

    fn plant(&mut self) -> &mut SimPlant {
        self.0.parts().plant
    }

    fn disk(&mut self) -> Option<&mut Platter> {
        self.0.disk()
    }

    fn configuration(&self) -> Option<Configuration> {
        self.0.node().configuration()
    }

    fn take_renewals(&mut self) -> Vec<Rank> {
        Vec::new()
    }

    fn n_open(&self) -> Option<usize> {
        Some(self.0.app().table().n_open())
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
    program: SimProgram,
    disk: (Option<Platter>, Option<FoundState>),
    of_node: NodeConfig,
    plan: &Plan,
    planted: Option<Bug>,
) -> Result<Box<dyn Member>, String> {
    let Origin { rank: me, life: run } = config.origin;
    let of_clients = clients::Config {
        me,
        run,
        clients_max: 1000,
        input_bytes_max: plan.shape.value_bytes as usize - ENTRY_OVERHEAD_BYTES,
    };
    let of_feeder =
        feeder::Config { me, run, order: feeder::Order::Serial, rest: feeder::Rest::Resp };
    let pipes = Pipes::new("member", UNREAD_BYTES_MAX);
    let door = ReplicateDoor::new(of_clients, of_feeder, plan.members, pipes, program, planted);
    let served = (State::new(InMemory::default(), planted), door);
    let engine =
        Engine::<Replicated<S::Machine<Sound>>>::new(config, plant, served, disk, |host| {
            registry::member::<S, _, _>(of_node, &plan.shape, Sound, host)
                .map_err(|error| error.to_string())
        })?;
    Ok(Box::new(Copied(engine)))
}
