//! The kinds of faults.

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Crash,
    CrashLeader,
    Pause,
    PauseLeader,
    /// The leader dies or stops in the middle of its next proposal.
    Ambush,
    /// The next candidate dies or stops in the middle of its recovery.
    Usurp,
    /// All members but the leader stop; it continues alone (where memory works by itself), and
    /// dies.
    Desert,
    Cut,
    Slow,
    Sluggish,
    Partition,
    Drift,
    Jump,
    FalseHint,
    Reset,
    /// One node loses its power; with a disk only.
    PowerCut,
    /// All nodes lose their power at once.
    PowerCutAll,
    /// Nothing becomes durable for a while.
    DiskStall,
    /// The same, for want of room.
    DiskFull,
    /// A sync fails, and its process dies of it.
    SyncFails,
    /// A bit flips in durable data, and the process dies.
    DiskRot,
    /// A process dies, comes back at once, and soon after the power fails.
    Relapse,
    /// A process dies between two effects of one call (`ambush`, A1).
    Halfway,
    /// The power fails between a message's leaving and the next sync (A3).
    Unsynced,
    /// One verb or message is late by a second (A4).
    Belated,
    /// A process ends as soon as something that it said has been heard (A9).
    LastWords,
    /// A link that has just come back breaks again, or one of its ends dies (A5).
    Fickle,
    /// A follower is away for long; once it is back, the leader reaches it alone (A8).
    Stranger,
    /// The next leaders die as they take over (A6).
    Succession,
    /// The leader hears everything late, and the others suspect it.
    Deaf,
    /// A wall clock is set, or drifts, and is corrected later.
    Wall,
    /// A member dies and is back at once, while the leader decides slowly what it had forwarded.
    Echo,
}

/// The kinds that every protocol may meet.
pub(crate) const KINDS: [Kind; 15] = [
    Kind::Crash,
    Kind::CrashLeader,
    Kind::Pause,
    Kind::PauseLeader,
    Kind::Ambush,
    Kind::Usurp,
    Kind::Desert,
    Kind::Cut,
    Kind::Slow,
    Kind::Sluggish,
    Kind::Partition,
    Kind::Drift,
    Kind::Jump,
    Kind::FalseHint,
    Kind::Reset,
];
