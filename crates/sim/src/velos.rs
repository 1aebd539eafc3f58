//! Velos as a subject, and the bugs that the sweep must find in it.

use crate::sweep::{Mutant, mutant};
use crate::{Birth, Setup, Shape, Subject};
use base::{Event, Instant, Prefix, Rank, Slot};
use proto::node::{Node, NodeConfig, Start, Timing, velos_layout};
use proto::velos::{
    Machine,
    variant::{self, Variant},
};
use proto::{Host, Refused, Status, Ticket};

/// A member that replicates by (this variant of) Velos.
pub struct Velos<V: Variant>(Node<Machine<V>>);

fn shape_of(shape: &Shape) -> proto::velos::Shape {
    proto::velos::Shape { ring_slots: shape.ring_slots, value_bytes: shape.value_bytes }
}

impl<V: Variant> Subject for Velos<V> {
    const NAME: &'static str = V::NAME;

    fn n_words(members: usize, shape: &Shape) -> usize {
        velos_layout(members, &shape_of(shape)).n_words as usize
    }

    fn start<H: Host>(setup: &Setup, _now: Instant, host: &mut H) -> Self {
        let config = NodeConfig {
            me: setup.me,
            members: setup.members,
            start: match setup.birth {
                Birth::Fresh => Start::Bootstrap,
                Birth::Reattached => Start::Reattach,
            },
            timing: Timing::default(),
            memory_outlives_process: setup.memory_outlives_process,
            peer_works: setup.peer_works,
        };
        Velos(Node::velos(config, &shape_of(&setup.shape), host))
    }

    fn value_bytes_max(&self) -> usize {
        self.0.value_bytes_max()
    }

    fn propose<H: Host>(
        &mut self,
        value: &[u8],
        now: Instant,
        host: &mut H,
    ) -> Result<Slot, Refused> {
        self.0.propose(value, now, host)
    }

    fn read<H: Host>(&mut self, ticket: Ticket, now: Instant, host: &mut H) {
        self.0.read(ticket, now, host);
    }

    fn on_event<H: Host>(&mut self, event: Event<'_>, now: Instant, host: &mut H) {
        self.0.on_event(event, now, host);
    }

    fn poll<H: Host>(&mut self, now: Instant, host: &mut H) {
        self.0.poll(now, host);
    }

    fn deadline(&self) -> Option<Instant> {
        Some(self.0.deadline())
    }

    fn install<H: Host>(&mut self, applied: Prefix, now: Instant, host: &mut H) {
        self.0.install(applied, now, host);
    }

    fn status(&self) -> Status {
        self.0.status()
    }

    fn trusted(&self) -> Option<Rank> {
        self.0.trusted()
    }

    fn n_caught_up(&self) -> u64 {
        self.0.machine().counters().applied_from_fetch
    }
}

/// Declares a variant with one planted bug, and lists it.
macro_rules! mutants {
    ($($name:ident: $flag:ident),* $(,)?) => {
        $(
            enum $name {}

            impl Variant for $name {
                const NAME: &'static str = stringify!($flag);
                const $flag: bool = true;
            }
        )*

        /// Every planted bug, by name.
        pub fn mutants() -> Vec<Mutant> {
            vec![
                $(mutant::<Velos<$name>, Velos<variant::Sound>>(),)*
                mutant::<Velos<RpcWithoutSeal>, Velos<variant::Narrow>>(),
            ]
        }
    };
}

mutants! {
    SkipPrepare: SKIP_PREPARE,
    IgnoreMajority: IGNORE_MAJORITY,
    PromiseOfOne: PROMISE_OF_ONE,
    AdoptFromPredictions: ADOPT_FROM_PREDICTIONS,
    IgnoreFoundValue: IGNORE_FOUND_VALUE,
    AdoptLowest: ADOPT_LOWEST,
    CountFailedAccepts: COUNT_FAILED_ACCEPTS,
    RecycleEarly: RECYCLE_EARLY,
    ReadWithoutCheck: READ_WITHOUT_CHECK,
    ReadChecksNextFree: READ_CHECKS_NEXT_FREE,
    ReadChecksOne: READ_CHECKS_ONE,
    ReadBeforeRecovery: READ_BEFORE_RECOVERY,
    ForgetPromise: FORGET_PROMISE,
    ApplyBareIndex: APPLY_BARE_INDEX,
    TornFact: TORN_FACT,
    SkipChecksum: SKIP_CHECKSUM,
    ValueAfterCas: VALUE_AFTER_CAS,
    ReuseArea: REUSE_AREA,
    FetchAcrossGenerations: FETCH_ACROSS_GENERATIONS,
    SkipSurvey: SKIP_SURVEY,
    ServeAsLearner: SERVE_AS_LEARNER,
}

/// Needs narrow words: only then are there messages at all.
enum RpcWithoutSeal {}

impl Variant for RpcWithoutSeal {
    const NAME: &'static str = "RPC_WITHOUT_SEAL";
    const PACKING: proto::velos::word::Packing = variant::Narrow::PACKING;
    const RPC_WITHOUT_SEAL: bool = true;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Provider;
    use crate::script::{Operation, PATIENCE, Script};
    use std::time::Duration;

    /// How many of 100 writes a leader answers while everybody else is stopped.
    fn alone<V: Variant>() -> (Script<Velos<V>>, usize, u64) {
        let shape = Shape { ring_slots: 16, value_bytes: 128 };
        let mut script = Script::<Velos<V>>::new(3, Provider::Shm, shape, 2);
        assert!(script.run_until(PATIENCE, |script| script.leaders().len() == 1));
        let leader = script.leaders()[0];
        (0..3).filter(|node| *node != leader).for_each(|node| script.pause(node));
        let mut n_answered = 0;
        for value in 1..=100 {
            script.ask(0, leader, 0, Operation::Write(value));
            let answered = |script: &Script<_>| script.answer(0) == Some(value);
            if !script.run_until(Duration::from_millis(2), answered) {
                break;
            }
            n_answered += 1;
        }
        (script, leader, n_answered)
    }

    /// Memory answers for the stopped, but what they have not applied is not recycled (I3).
    #[test]
    fn a_leader_alone_goes_on_for_one_ring_and_no_further() {
        let (script, _, n_answered) = alone::<variant::Sound>();
        assert!((4..=16).contains(&n_answered), "{n_answered} writes in a ring of 16");
        script.check().expect("nothing is wrong");
    }

    #[test]
    fn recycling_early_loses_what_only_the_leader_had_applied() {
        let (mut script, leader, n_answered) = alone::<RecycleEarly>();
        assert_eq!(n_answered, 100, "the bug lets it go on");
        script.crash(leader);
        (0..3).filter(|node| *node != leader).for_each(|node| script.resume(node));
        script.ask(1, (leader + 1) % 3, 0, Operation::Read);
        script.run_for(Duration::from_secs(2));
        assert_eq!(script.answer(1), None, "nobody has the state any more");
    }
}
