//! Mu as a subject. It needs memory whose owner can keep a writer out: the tcp-like provider.

use crate::member::{self, Member};
use proto::Host;
use proto::node::{Layout, Node, NodeConfig, mu_layout};

/// A member that replicates by Mu.
pub type Mu = Member<Kind>;

/// Mu, as a kind of member.
#[derive(Debug)]
pub enum Kind {}

impl member::Kind for Kind {
    const NAME: &'static str = "mu";
    type Machine = proto::mu::Mu;

    fn layout(members: usize, shape: &proto::velos::Shape) -> Layout {
        mu_layout(members, shape)
    }

    fn node<H: Host>(
        config: NodeConfig,
        shape: &proto::velos::Shape,
        host: &mut H,
    ) -> Node<proto::mu::Mu> {
        Node::mu(config, shape, host).expect("the world runs Mu on tcp-like memory only")
    }
}
