//! Sound Durable, and Durable with one bug planted.
//!
//! As in Velos: a zero-sized type whose constants the compiler folds, so nobody can switch a bug on
//! at run time. The simulator's sweep must catch each one, but for those that need a schedule which
//! no seed finds soon; `tests` steps through these: `ACK_UNVERIFIED`, `COMMIT_OLDER_BALLOT`,
//! `CUT_DURING_SYNC`, `TORN_ACK`, `CHANGE_BEFORE_OWN_ENTRY`, `PROMISE_DURING_SYNC`,
//! `VOTE_OF_ANY_BALLOT`, `HEAD_ABOVE_APPLIED`, `HOLD_WITHOUT_STATE`.

/// One way to build the machine.
pub trait Variant: 'static {
    /// How it is called in reports.
    const NAME: &'static str;

    /// Acknowledge what was appended, not what was synced.
    const ACK_BEFORE_SYNC: bool = false;
    /// Let a vote leave before the promise is on disk.
    const VOTE_BEFORE_SYNC: bool = false;
    /// A leader counts itself before its own sync.
    const COUNT_SELF_EARLY: bool = false;
    /// Go on accepting from a leader after a promise to a later ballot.
    const ACCEPT_OLDER_BALLOT: bool = false;
    /// Take it for granted that the own log continues the leader's.
    const SKIP_LOG_MATCH: bool = false;
    /// Acknowledge the own log's whole durable prefix, the part that was not compared too.
    const ACK_UNVERIFIED: bool = false;
    /// Apply up to the leader's commit point what was not compared with the leader's log.
    const APPLY_UNVERIFIED: bool = false;
    /// Commit an entry of an older ballot because a majority holds it.
    const COMMIT_OLDER_BALLOT: bool = false;
    /// Vote for whoever asks first in a ballot, however old its log.
    const ELECT_OLDER_LOG: bool = false;
    /// One vote is enough.
    const ELECT_BY_ONE: bool = false;
    /// One durable copy is enough.
    const COMMIT_AT_ONE: bool = false;
    /// Say that every disk holds what a majority's hold.
    const HOLD_BY_MAJORITY: bool = false;
    /// Say that a disk holds what it acknowledges although the state before its log is damaged.
    const HOLD_WITHOUT_STATE: bool = false;
    /// Take a new disk's acknowledgements for those of the disk that it replaces, while that one
    /// may yet be a voter again.
    const HOLD_BY_SUCCESSOR: bool = false;
    /// What a sync covers is not shortened by a cut that was asked for meanwhile.
    const CUT_DURING_SYNC: bool = false;
    /// Answer what the members are after a state of more than is decided here.
    const HEAD_ABOVE_APPLIED: bool = false;
    /// What an earlier life left is taken for durable without a sync.
    const TRUST_RECOVERED: bool = false;
    /// Forget the promise when the process restarts.
    const FORGET_PROMISE: bool = false;
    /// Believe an acknowledgement without its checksum.
    const TORN_ACK: bool = false;
    /// Believe a record as soon as its first word is there.
    const TORN_RECORD: bool = false;
    /// Answer reads without looking at a majority's promises.
    const READ_WITHOUT_CHECK: bool = false;
    /// Let the answer to any READ serve every check that waits, also those that began after it.
    const ANY_ANSWER_SERVES: bool = false;
    /// What a sync covers includes a promise that was made while it was under way.
    const PROMISE_DURING_SYNC: bool = false;
    /// Count a vote whatever ballot it was given in.
    const VOTE_OF_ANY_BALLOT: bool = false;
    /// Serve before an entry of the own ballot is committed.
    const SERVE_EARLY: bool = false;
    /// Count members that a configuration has removed.
    const COUNT_REMOVED: bool = false;
    /// Begin a change of members before the last one is committed.
    const TWO_CHANGES: bool = false;
    /// Show readers a promise before the own log says that this disk votes.
    const PUBLISH_AS_LEARNER: bool = false;
    /// Give the vote in one ballot to whoever asks from that seat, whichever disk it is.
    const VOTE_TWICE: bool = false;
    /// Begin a change of members before an entry of the own ballot is committed.
    const CHANGE_BEFORE_OWN_ENTRY: bool = false;
    /// Let a learner vote before it holds everything that is committed.
    const PROMOTE_BEFORE_CAUGHT_UP: bool = false;
    /// Take acknowledgements and votes of another incarnation for the member's.
    const ANY_INCARNATION: bool = false;
    /// The same, of votes only.
    const OLD_INCARNATION_VOTES: bool = false;
    /// Take only those for leaders that the own log names, also while another tells it more.
    const IGNORE_WINNER: bool = false;
    /// Ask for a majority of every configuration since the last that is known to be committed,
    /// although its disks may be gone.
    const ELECT_BY_EVERY_CONFIGURATION: bool = false;
    /// Open another stream to whoever stands still, asked or not.
    const BEGIN_WHATEVER_STANDS_STILL: bool = false;
    /// Append whatever comes, however much waits for the disk.
    const IGNORE_ROOM: bool = false;
    /// What is held back for those that are not needed stays so, however late something is.
    const HOLD_BACK: bool = false;
}

/// The protocol as it should be.
#[derive(Clone, Copy, Debug)]
pub enum Sound {}

impl Variant for Sound {
    const NAME: &'static str = "durable";
}
