//! Mu as a subject. It needs memory whose owner can keep a writer out: the tcp-like provider.

use crate::member::{self, Member};
use crate::sweep::{Mutant, mutant};
use core::marker::PhantomData;
use proto::Host;
use proto::mu::variant::{Sound, Variant};
use proto::node::{Layout, Node, NodeConfig, mu_layout};

/// A member that replicates by (this variant of) Mu.
pub type Mu<V = Sound> = Member<Kind<V>>;

/// Mu, as a kind of member.
#[derive(Debug)]
pub struct Kind<V: Variant>(PhantomData<V>);

impl<V: Variant> member::Kind for Kind<V> {
    const NAME: &'static str = V::NAME;
    type Machine = proto::mu::Mu<V>;

    fn layout(members: usize, shape: &proto::velos::Shape) -> Layout {
        mu_layout(members, shape)
    }

    fn node<H: Host>(
        config: NodeConfig,
        shape: &proto::velos::Shape,
        host: &mut H,
    ) -> Node<Self::Machine> {
        Node::mu(config, shape, host).expect("the world runs Mu on tcp-like memory only")
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
            vec![$(mutant::<Mu<$name>, Mu>(),)*]
        }
    };
}

mutants! {
    AdmitAnybody: ADMIT_ANYBODY,
    GrantLower: GRANT_LOWER,
    ForgetPromise: FORGET_PROMISE,
    GrantOfOne: GRANT_OF_ONE,
    IgnoreMajority: IGNORE_MAJORITY,
    IgnoreFoundValue: IGNORE_FOUND_VALUE,
    AdoptLowest: ADOPT_LOWEST,
    ProposeBeforeCopy: PROPOSE_BEFORE_COPY,
    ReadWithoutCheck: READ_WITHOUT_CHECK,
    ReadChecksOne: READ_CHECKS_ONE,
    ReadBeforeRecovery: READ_BEFORE_RECOVERY,
    ApplyBareIndex: APPLY_BARE_INDEX,
    ServeAsLearner: SERVE_AS_LEARNER,
}
