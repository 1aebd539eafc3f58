//! The list of protocols, by family: those that replicate a log, those that keep each
//! key separately, and those that multicast. There is no other: `serve`, `up`, the simulator, the
//! benchmarks and the tables of the documentation follow from it.
//!
//! A protocol is a folder with a machine ([`Replicator`], [`KeyedMachine`], [`Multicast`]), its
//! planted bugs, and a [`LogSpec`], [`KeyedSpec`] or [`MulticastSpec`] that joins them; and one
//! line below.

use crate::amcast::linear::Rule;
use crate::amcast::{self, Multicast, fastcast, primcast, skeen, whitebox};
use crate::claims::{Accepting, Acceptor, Entry, Reads, Rising};
use crate::keyed::{KeyedConfig, KeyedMachine};
use crate::node::{Layout, Node, NodeConfig};
use crate::planted::{Bugs, Planting, Sound};
use crate::table::Row;
use crate::{Host, LogShape, Replicator, abd, durable, mu, multipaxos, velos};
use base::At;
use base::verb::Unsupported;
use core::fmt::Debug;

/// A protocol that replicates a log, in the registry.
pub trait LogSpec: Copy + Debug + 'static {
    /// Promises and costs.
    const ROW: &'static Row;

    /// Whether a dead member's memory still answers for it, where the fabric's memory outlives its
    /// process. If not, Ω counts no dead member.
    const DEAD_MEMORY_COUNTS: bool;

    /// Whether its promises end where a clock jumps; clocks may always drift.
    const NEEDS_STEADY_CLOCKS: bool = false;

    /// The interesting cases of the simulator, by name, that its members do not meet.
    const UNMET: &'static [&'static str] = &[];

    /// Whether a leader alone checks reads: one that falls refuses those that wait.
    const LEADER_ALONE_READS: bool = false;

    /// Planted mistakes.
    type Bug: Bugs;

    /// The machine, with at most one of the planted mistakes.
    type Machine<P: Planting<Self::Bug>>: Replicator + 'static;

    /// The region of a member among `members`.
    fn layout(members: usize, shape: &LogShape) -> Layout;

    /// The place in every region of the ballot that `leader` writes there before the word after it,
    /// which says what that ballot has decided; `None` where there are no such words.
    fn introduction(_members: usize, _shape: &LogShape, _leader: base::Rank) -> Option<At> {
        None
    }

    /// The words whose change may accept a value, in the order of the ring's places.
    fn accepting(_members: usize, _shape: &LogShape) -> Accepting {
        Accepting::default()
    }

    /// The words that the owner of a region never lowers.
    fn rising(_members: usize, _shape: &LogShape) -> Rising {
        0..0
    }

    /// What the entry at this index of [`LogSpec::accepting`] holds.
    fn entry(_members: usize, _shape: &LogShape, _region: &[u64], _index: u32) -> Entry {
        Entry::Empty
    }

    /// Whether a WRITE of `words` at `at` would destroy a value that may be decided.
    fn spoils(
        _members: usize,
        _shape: &LogShape,
        _region: &[u64],
        _at: At,
        _words: &[u64],
    ) -> bool {
        false
    }

    /// The acceptor for `slot` in the words of a region; `None` if it is not in memory.
    fn acceptor<'a>(
        _members: usize,
        _shape: &LogShape,
        _region: &'a [u64],
        _slot: base::Slot,
    ) -> Option<Acceptor<'a>> {
        None
    }

    /// The reason why members may answer reads, as far as memory shows it.
    fn reads(_members: usize, _shape: &LogShape) -> Reads {
        Reads::Unseen
    }

    /// The member to which this one, at this time of its clock, has granted that it promises
    /// nothing to others; `None` also where there are no such grants.
    fn granted<P: Planting<Self::Bug>>(
        _machine: &Self::Machine<P>,
        _now: base::Instant,
    ) -> Option<base::Rank> {
        None
    }

    /// Makes the machine of a member. `host` is its memory and its disk; nothing is posted yet.
    ///
    /// # Errors
    /// [`StartError`]: the host is not what the protocol needs.
    fn start<P: Planting<Self::Bug>, H: Host>(
        config: &NodeConfig,
        shape: &LogShape,
        planted: P,
        host: &mut H,
    ) -> Result<Self::Machine<P>, StartError>;

    /// The number of slots that the machine has read from others and delivered, if it counts them.
    fn n_caught_up<P: Planting<Self::Bug>>(_machine: &Self::Machine<P>) -> u64 {
        0
    }
}

/// The reason why a machine cannot run on a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StartError {
    /// The fault of the disk.
    Disk(durable::Unusable),
    /// The operation that the memory does not support.
    Memory(Unsupported),
}

impl core::fmt::Display for StartError {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            StartError::Disk(error) => write!(f, "{error}"),
            StartError::Memory(error) => write!(f, "{error}"),
        }
    }
}

impl core::error::Error for StartError {}

impl From<durable::Unusable> for StartError {
    fn from(error: durable::Unusable) -> StartError {
        StartError::Disk(error)
    }
}

impl From<Unsupported> for StartError {
    fn from(error: Unsupported) -> StartError {
        StartError::Memory(error)
    }
}

/// A member that replicates by the protocol `S`: Ω and its machine.
///
/// # Errors
/// See [`LogSpec::start`].
pub fn member<S: LogSpec, P: Planting<S::Bug>, H: Host>(
    config: NodeConfig,
    shape: &LogShape,
    planted: P,
    host: &mut H,
) -> Result<Node<S::Machine<P>>, StartError> {
    let machine = S::start(&config, shape, planted, host)?;
    let memory_outlives_process = config.memory_outlives_process && S::DEAD_MEMORY_COUNTS;
    Ok(Node::new(&NodeConfig { memory_outlives_process, ..config }, machine))
}

/// A protocol that keeps each key separately, in the registry.
pub trait KeyedSpec: Copy + Debug + 'static {
    /// Promises and costs.
    const ROW: &'static Row;

    /// Planted mistakes.
    type Bug: Bugs;

    /// The machine, with at most one of the planted mistakes.
    type Machine<P: Planting<Self::Bug>>: KeyedMachine + 'static;

    /// The region of a member among `members`.
    fn layout(members: usize) -> Layout;

    /// Makes the machine of a member.
    fn start<P: Planting<Self::Bug>>(config: &KeyedConfig, planted: P) -> Self::Machine<P>;
}

/// A protocol of atomic multicast, in the registry. A message's cost is in communication steps to
/// the last destination: alone, and among others.
pub trait MulticastSpec: Copy + Debug + 'static {
    /// Promises and costs of the order [`Rule::Plain`].
    const ROW: &'static Row;

    /// The options that have a row of their own.
    const VARIANTS: &'static [Variant] = &[];

    /// Whether it is there for others to be compared with, and not for use.
    const FOR_COMPARISON: bool;

    /// Whether it takes the rules that make the order respect real time.
    const TAKES_RULES: bool = false;

    /// Whether messages that do not conflict may overtake each other, where the configuration says
    /// so ([`amcast::Config::commutes`]).
    const COMMUTES: bool = false;

    /// The machine, with at most one of the planted mistakes.
    type Machine<P: Planting<amcast::bugs::Bug>>: Multicast<Planted = P>;
}

/// A protocol of atomic multicast under some of its options.
#[derive(Clone, Copy, Debug)]
pub struct Variant {
    /// Promises and costs.
    pub row: &'static Row,
    /// The rule for the order across groups.
    pub rule: Rule,
    /// Whether messages that do not conflict may overtake each other.
    pub commutes: bool,
}

/// What a protocol of atomic multicast can do.
#[derive(Clone, Copy, Debug)]
pub struct Abilities {
    /// See [`MulticastSpec::FOR_COMPARISON`].
    pub for_comparison: bool,
    /// See [`MulticastSpec::TAKES_RULES`].
    pub takes_rules: bool,
    /// See [`MulticastSpec::COMMUTES`].
    pub commutes: bool,
    /// See [`Multicast::SURVIVES_CRASHES`].
    pub survives_crashes: bool,
    /// See [`Multicast::RECOVERS`].
    pub recovers: bool,
    /// See [`Multicast::CHANGES_MEMBERS`].
    pub changes_members: bool,
}

/// Code that is compiled for each protocol: [`MulticastProtocol::visit`] chooses one.
pub trait MulticastVisitor {
    /// The result.
    type Output;

    /// Runs the code for the protocol `S`.
    fn visit<S: MulticastSpec>(self) -> Self::Output;
}

/// Code that is compiled for each protocol: [`KeyedProtocol::visit`] chooses one.
pub trait KeyedVisitor {
    /// The result.
    type Output;

    /// Runs the code for the protocol `S`.
    fn visit<S: KeyedSpec>(self) -> Self::Output;
}

/// Code that is compiled for each protocol: [`LogProtocol::visit`] chooses one.
pub trait LogVisitor {
    /// The result.
    type Output;

    /// Runs the code for the protocol `S`.
    fn visit<S: LogSpec>(self) -> Self::Output;
}

/// The enum of each family, from the names of its protocols.
macro_rules! protocols {
    ($(
        $(#[doc = $doc:literal])*
        $all:ident($kind:ident, $visitor:ident) { $($name:ident => $spec:ty),* $(,)? }
    )*) => {$(
        $(#[doc = $doc])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $all {
            $(
                #[doc = concat!("`", stringify!($spec), "`.")]
                $name,
            )*
        }

        impl $all {
            /// Every protocol of the family.
            pub const ALL: &'static [$all] = &[$($all::$name,)*];

            /// Passes the protocol to code that is generic over it.
            pub fn visit<V: $visitor>(self, visitor: V) -> V::Output {
                match self {
                    $($all::$name => visitor.visit::<$spec>(),)*
                }
            }

            /// Promises and costs.
            pub const fn row(self) -> &'static Row {
                match self {
                    $($all::$name => <$spec as $kind>::ROW,)*
                }
            }

            /// The name on the command line.
            pub const fn name(self) -> &'static str {
                self.row().name
            }
        }
    )*};
}

protocols! {
    /// A protocol that replicates a log, chosen at run time.
    LogProtocol(LogSpec, LogVisitor) {
        Velos => velos::Spec,
        Mu => mu::Spec,
        Durable => durable::Spec,
        MultiPaxos => multipaxos::Spec,
    }

    /// A protocol that keeps each key separately, chosen at run time.
    KeyedProtocol(KeyedSpec, KeyedVisitor) {
        Abd => abd::Spec,
    }

    /// A protocol of atomic multicast, chosen at run time.
    MulticastProtocol(MulticastSpec, MulticastVisitor) {
        Skeen => skeen::Spec,
        Whitebox => whitebox::Spec,
        Fastcast => fastcast::Spec,
        Primcast => primcast::Spec,
    }
}

/// The rows of the protocols that keep data for clients: of a log, and of keys.
pub fn rows() -> impl Iterator<Item = &'static Row> {
    let logs = LogProtocol::ALL.iter().map(|one| one.row());
    logs.chain(KeyedProtocol::ALL.iter().map(|one| one.row()))
}

impl MulticastProtocol {
    /// Every protocol, each first under no option and then under those that have a row.
    pub fn variants() -> impl Iterator<Item = (MulticastProtocol, Variant)> {
        struct List;
        impl MulticastVisitor for List {
            type Output = (Variant, &'static [Variant]);

            fn visit<S: MulticastSpec>(self) -> Self::Output {
                (Variant { row: S::ROW, rule: Rule::Plain, commutes: false }, S::VARIANTS)
            }
        }
        MulticastProtocol::ALL.iter().flat_map(|one| {
            let (plain, others) = one.visit(List);
            core::iter::once(plain).chain(others.iter().copied()).map(|variant| (*one, variant))
        })
    }

    /// What it can do.
    pub fn abilities(self) -> Abilities {
        struct Ask;
        impl MulticastVisitor for Ask {
            type Output = Abilities;

            fn visit<S: MulticastSpec>(self) -> Abilities {
                type Machine<S> = <S as MulticastSpec>::Machine<Sound>;
                Abilities {
                    for_comparison: S::FOR_COMPARISON,
                    takes_rules: S::TAKES_RULES,
                    commutes: S::COMMUTES,
                    survives_crashes: Machine::<S>::SURVIVES_CRASHES,
                    recovers: Machine::<S>::RECOVERS,
                    changes_members: Machine::<S>::CHANGES_MEMBERS,
                }
            }
        }
        self.visit(Ask)
    }
}

impl KeyedProtocol {
    /// The region of a member among `members`.
    pub fn layout(self, members: usize) -> Layout {
        struct Measure(usize);
        impl KeyedVisitor for Measure {
            type Output = Layout;

            fn visit<S: KeyedSpec>(self) -> Layout {
                S::layout(self.0)
            }
        }
        self.visit(Measure(members))
    }
}

impl LogProtocol {
    /// The protocol for this durability, where no other is asked for: the first that gives it.
    ///
    /// # Panics
    /// If none gives it.
    pub fn usual(durability: &str) -> LogProtocol {
        let mut all = LogProtocol::ALL.iter().copied();
        all.find(|one| one.row().gives(durability)).expect("a protocol gives it")
    }

    /// See [`LogSpec::NEEDS_STEADY_CLOCKS`].
    pub fn needs_steady_clocks(self) -> bool {
        self.visit(Simulated).0
    }

    /// See [`LogSpec::UNMET`].
    pub fn unmet(self) -> &'static [&'static str] {
        self.visit(Simulated).1
    }

    /// The region of a member among `members`.
    pub fn layout(self, members: usize, shape: &LogShape) -> Layout {
        struct Measure<'a>(usize, &'a LogShape);
        impl LogVisitor for Measure<'_> {
            type Output = Layout;

            fn visit<S: LogSpec>(self) -> Layout {
                S::layout(self.0, self.1)
            }
        }
        self.visit(Measure(members, shape))
    }
}

/// What a simulated world has to know of a protocol: whether clocks may jump in it, and the cases
/// that it need not bring about.
struct Simulated;

impl LogVisitor for Simulated {
    type Output = (bool, &'static [&'static str]);

    fn visit<S: LogSpec>(self) -> Self::Output {
        (S::NEEDS_STEADY_CLOCKS, S::UNMET)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;

    #[test]
    fn every_durability_has_a_usual_protocol() {
        for durability in LogProtocol::ALL.iter().flat_map(|one| one.row().durability) {
            assert!(LogProtocol::usual(durability).row().gives(durability), "{durability}");
        }
    }

    #[test]
    fn names_and_layouts_differ() {
        let names: BTreeSet<_> = LogProtocol::ALL.iter().map(|one| one.name()).collect();
        assert_eq!(names.len(), LogProtocol::ALL.len());
        let layout = |one: &LogProtocol| one.layout(3, &LogShape::default()).fingerprint;
        let layouts: BTreeSet<_> = LogProtocol::ALL.iter().map(layout).collect();
        assert_eq!(layouts.len(), LogProtocol::ALL.len());
    }

    #[test]
    fn a_variant_takes_only_options_that_its_protocol_has() {
        for (protocol, variant) in MulticastProtocol::variants() {
            let Abilities { takes_rules, commutes, .. } = protocol.abilities();
            assert!(variant.row.name.starts_with(protocol.name()));
            assert!(takes_rules || variant.rule == Rule::Plain, "{}", variant.row.name);
            assert!(commutes || !variant.commutes, "{}", variant.row.name);
        }
    }
}
