//! Velos as a subject, and the bugs that the sweep must find in it.

use crate::durable::{Alone, Around, Operated};
use crate::member::{self, Member};
use crate::sweep::{Mutant, mutant};
use crate::{Snapshots, Stamps};
use core::marker::PhantomData;
use proto::Host;
use proto::node::{Layout, Node, NodeConfig, velos_layout};
use proto::velos::{
    Machine,
    variant::{self, Variant},
};

/// A member that replicates by (this variant of) Velos.
pub type Velos<V> = Member<Kind<V>>;

/// The same, with an operator who changes the members.
pub type VelosMembers<V> = Member<Kind<V, Operated>>;

/// Velos, as a kind of member.
#[derive(Debug)]
pub struct Kind<V: Variant, A: Around = Alone>(PhantomData<(V, A)>);

impl<V: Variant, A: Around> member::Kind for Kind<V, A> {
    const NAME: &'static str = match A::NAME {
        Some(name) => name,
        None => V::NAME,
    };
    const HAS_OPERATOR: bool = A::HAS_OPERATOR;
    const SNAPSHOTS: Snapshots = A::SNAPSHOTS;
    const STAMPS: Stamps = A::STAMPS;
    type Machine = Machine<V>;

    fn layout(members: usize, shape: &proto::velos::Shape) -> Layout {
        velos_layout(members, shape)
    }

    fn node<H: Host>(
        config: NodeConfig,
        shape: &proto::velos::Shape,
        host: &mut H,
    ) -> Node<Machine<V>> {
        Node::velos(config, shape, host)
    }

    fn n_caught_up(machine: &Machine<V>) -> u64 {
        machine.counters().applied_from_fetch
    }
}

/// Declares variants with one planted bug each.
macro_rules! variants {
    ($($name:ident: $flag:ident),* $(,)?) => {
        $(
            enum $name {}

            impl Variant for $name {
                const NAME: &'static str = stringify!($flag);
                const $flag: bool = true;
            }
        )*
    };
}

/// The same, and lists them.
macro_rules! mutants {
    ($($name:ident: $flag:ident),* $(,)?) => {
        variants! { $($name: $flag,)* }

        /// Every planted bug of a log whose members never change, by name.
        pub fn mutants() -> Vec<Mutant> {
            vec![
                $(mutant::<Velos<$name>, Velos<variant::Sound>>(),)*
                mutant::<Velos<RpcWithoutSeal>, Velos<variant::Narrow>>(),
            ]
        }
    };
}

/// The same, of members that change.
macro_rules! members_mutants {
    ($($name:ident: $flag:ident),* $(,)?) => {
        variants! { $($name: $flag,)* }

        /// Every planted bug of a change of members, by name.
        pub fn members_mutants() -> Vec<Mutant> {
            vec![
                $(mutant::<VelosMembers<$name>, VelosMembers<variant::Sound>>(),)*
                mutant::<GivenTooSoon, VelosMembers<variant::Sound>>(),
            ]
        }
    };
}

members_mutants! {
    CountRemoved: COUNT_REMOVED,
    AnyIncarnation: ANY_INCARNATION,
    GovernAtOnce: GOVERN_AT_ONCE,
    PrepareAhead: PREPARE_AHEAD,
    ChangeUnsettled: CHANGE_UNSETTLED,
    PromoteBeforeCaughtUp: PROMOTE_BEFORE_CAUGHT_UP,
    AnyClaim: ANY_CLAIM,
}

/// A runtime that gives states of what a transfer has brought and the machine has not applied.
#[derive(Debug)]
enum OfWhatIsNotApplied {}

impl Around for OfWhatIsNotApplied {
    const HAS_OPERATOR: bool = true;
    const SNAPSHOTS: Snapshots = Snapshots::OfWhatIsNotApplied;
}

/// Such a runtime, over a machine that says what goes with these states.
type GivenTooSoon = Member<Kind<HeadAboveApplied, OfWhatIsNotApplied>>;

variants! { HeadAboveApplied: HEAD_ABOVE_APPLIED }

/// A leader that stamps with its wall clock.
enum StampOfWallClock {}

impl Around for StampOfWallClock {
    const NAME: Option<&'static str> = Some("STAMP_OF_WALL_CLOCK");
    const STAMPS: Stamps = Stamps::OfWallClock;
}

/// A leader whose state time stands still while nothing happens.
enum StandStillWhileIdle {}

impl Around for StandStillWhileIdle {
    const NAME: Option<&'static str> = Some("STAND_STILL_WHILE_IDLE");
    const STAMPS: Stamps = Stamps::StandStillWhileIdle;
}

/// The planted bugs that show in long runs only.
pub fn long_mutants() -> Vec<Mutant> {
    vec![
        mutant::<Member<Kind<variant::Sound, StampOfWallClock>>, Velos<variant::Sound>>(),
        mutant::<Member<Kind<variant::Sound, StandStillWhileIdle>>, Velos<variant::Sound>>(),
    ]
}

mutants! {
    SkipPrepare: SKIP_PREPARE,
    IgnoreMajority: IGNORE_MAJORITY,
    PromiseOfOne: PROMISE_OF_ONE,
    AdoptFromPredictions: ADOPT_FROM_PREDICTIONS,
    IgnoreFoundValue: IGNORE_FOUND_VALUE,
    AdoptLowest: ADOPT_LOWEST,
    CountFailedAccepts: COUNT_FAILED_ACCEPTS,
    ReadWithoutCheck: READ_WITHOUT_CHECK,
    ReadChecksOne: READ_CHECKS_ONE,
    ReadBeforeRecovery: READ_BEFORE_RECOVERY,
    AnyAnswerServes: ANY_ANSWER_SERVES,
    ApplyBareIndex: APPLY_BARE_INDEX,
    TornFact: TORN_FACT,
    ValueAfterCas: VALUE_AFTER_CAS,
    FetchAcrossGenerations: FETCH_ACROSS_GENERATIONS,
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
    use crate::Shape;
    use crate::script::{Operation, PATIENCE, Script};
    use core::time::Duration;

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

    /// Shown by a script instead of hunted: a sweep meets it too rarely.
    enum RecycleEarly {}

    impl Variant for RecycleEarly {
        const NAME: &'static str = "RECYCLE_EARLY";
        const RECYCLE_EARLY: bool = true;
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
