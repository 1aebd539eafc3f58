//! Streams of frames that cannot be read.

use super::*;
use crate::flow::CHANNEL;
use crate::mock;
use crate::service::Asker;

const LEADER: Rank = Rank::at(1);

#[test]
fn commands_go_out_again_when_what_their_leader_sends_cannot_be_read() {
    let mut core = mock::core(0, Default::default());
    core.target = Some(LEADER);
    core.world.desk.now = Instant(1);
    core.world.desk.write(Asker { connection: 1, request: 0 }, b"command");
    let mut leader = Incoming::default();
    let mut arrive = |core: &mut Core<mock::Wire, mock::Obedient, mock::Passive>| {
        core.dispatch_commands();
        let World { flows, fabric, .. } = &mut core.world;
        flows.send(fabric);
        let (mut attempts, mut refused) = (Vec::new(), None);
        for message in fabric.take(LEADER) {
            let unread = leader.on_message(Rank::at(0), &message, |frame| match frame {
                Frame::Commands { attempt, items, .. } => {
                    attempts.push((attempt, items.iter().count()));
                }
                other => panic!("{other:?}"),
            });
            refused = refused.or(unread);
        }
        (attempts, refused)
    };
    let (attempts, refused) = arrive(&mut core);
    assert_eq!((attempts.len(), refused), (1, None));
    assert_eq!(arrive(&mut core), (vec![], None), "it is on its way");
    // The answer comes in a stream that nobody can read.
    let mut incoming = Incoming::default();
    let stream = 7u64;
    let mut message = vec![CHANNEL, 1];
    message.extend_from_slice(&stream.to_le_bytes());
    message.extend_from_slice(&[0; 9]);
    core.on_message(LEADER, &message, &mut incoming);
    assert_eq!(incoming.n_malformed, 1);
    assert!(core.refuse_streams(&mut incoming));
    let (again, refused) = arrive(&mut core);
    assert_eq!(refused, Some(stream), "the leader hears of it, and begins another");
    assert_eq!(again, [(attempts[0].0 + 1, 1)], "and the command is there again");
}

#[test]
fn streams_end_once_for_each_that_cannot_be_read() {
    let mut core = mock::core(0, Default::default());
    core.target = Some(LEADER);
    let mut incoming = Incoming::default();
    let before = core.attempt;
    let refusal = |stream: u64| {
        let mut message = vec![CHANNEL, 2];
        message.extend_from_slice(&stream.to_le_bytes());
        message
    };
    let present = (0..1 << 22).find(|n| core.world.flows.is_present(LEADER, *n)).expect("named");
    core.on_message(LEADER, &refusal(present), &mut incoming);
    assert_eq!(core.attempt, before + 1);
    core.on_message(LEADER, &refusal(present), &mut incoming);
    assert_eq!(core.attempt, before + 1, "that stream has ended already");
}
