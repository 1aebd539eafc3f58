//! Sound Mu, and Mu with one bug planted; see the same of Velos.
//!
//! One that was planted once never showed in 3000 seeds, and was taken out again: *recycle a slot
//! when it is decided, whoever has applied it*. A member that is behind then asks for a state, and
//! there is one as long as a majority lives, which is what the simulated faults leave.

/// One way to build the machine.
pub trait Variant: 'static {
    /// How it is called in reports.
    const NAME: &'static str;

    /// Grant the log without keeping the other writers out.
    const ADMIT_ANYBODY: bool = false;
    /// Grant the log to a ballot below one that it was granted to before.
    const GRANT_LOWER: bool = false;
    /// Forget the highest ballot granted when the process restarts.
    const FORGET_PROMISE: bool = false;
    /// One grant is enough to propose.
    const GRANT_OF_ONE: bool = false;
    /// One log is enough to decide.
    const IGNORE_MAJORITY: bool = false;
    /// Propose an own value although a granted log holds an entry.
    const IGNORE_FOUND_VALUE: bool = false;
    /// Adopt the entry with the lowest ballot.
    const ADOPT_LOWEST: bool = false;
    /// Take the slots that a predecessor left for free before its entries are copied.
    const PROPOSE_BEFORE_COPY: bool = false;
    /// Write a place's entries over one another, whatever a WRITE that is cut off leaves. (Shown by
    /// a schedule of its own, `tests`; no sweep hunts it.)
    const ONE_HALF: bool = false;
    /// Grant the log while its owner's own WRITEs into it are under way. (By a schedule too.)
    const GRANT_WHILE_WRITING: bool = false;
    /// Answer reads without having asked a majority of the logs.
    const READ_WITHOUT_CHECK: bool = false;
    /// Ask one log only.
    const READ_CHECKS_ONE: bool = false;
    /// A new leader answers reads before it has applied what it found.
    const READ_BEFORE_RECOVERY: bool = false;
    /// Apply the own log's entry below the decided prefix whoever proposed it.
    const APPLY_BARE_INDEX: bool = false;
    /// Serve as a full member right after a restart, without the state.
    const SERVE_AS_LEARNER: bool = false;
}

/// The protocol as it should be.
#[derive(Clone, Copy, Debug)]
pub enum Sound {}

impl Variant for Sound {
    const NAME: &'static str = "mu";
}
