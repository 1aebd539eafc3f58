//! Publish and subscribe, in Redis 7.0's words.

use super::super::{CommandSpec, flag, spec};
use crate::exec::{Run, channels};

/// Publish and subscribe, in Redis 7.0's words.
pub(super) static PUBSUB: [CommandSpec; 6] = [
    spec("psubscribe", -2, flag::PUBSUB | flag::NOSCRIPT | flag::LOADING | flag::STALE)
        .doc("pubsub", "2.0.0", "O(N) where N is the number of patterns the client is already subscribed to.", "Listen for messages published to channels matching the given patterns")
        .categories(&["@pubsub", "@slow"]),
    spec("publish", 3, flag::PUBSUB | flag::LOADING | flag::STALE | flag::FAST | flag::LOGGED)
        .doc("pubsub", "2.0.0", "O(N+M) where N is the number of clients subscribed to the receiving channel and M is the total number of subscribed patterns (by any client).", "Post a message to a channel")
        .categories(&["@pubsub", "@fast"])
        .run(Run::Write(channels::publish)),
    spec("pubsub", -2, 0)
        .doc("pubsub", "2.8.0", "Depends on subcommand.", "A container for Pub/Sub commands")
        .categories(&["@slow"])
        .subcommands(&[
            spec("pubsub|channels", -2, flag::PUBSUB | flag::LOADING | flag::STALE)
                .doc("pubsub", "2.8.0", "O(N) where N is the number of active channels, and assuming constant time pattern matching (relatively short channels and patterns)", "List active channels")
                .categories(&["@pubsub", "@slow"]),
            spec("pubsub|help", 2, flag::LOADING | flag::STALE)
                .doc("pubsub", "6.2.0", "O(1)", "Show helpful text about the different subcommands")
                .categories(&["@slow"]),
            spec("pubsub|numpat", 2, flag::PUBSUB | flag::LOADING | flag::STALE)
                .doc("pubsub", "2.8.0", "O(1)", "Get the count of unique patterns pattern subscriptions")
                .categories(&["@pubsub", "@slow"]),
            spec("pubsub|numsub", -2, flag::PUBSUB | flag::LOADING | flag::STALE)
                .doc("pubsub", "2.8.0", "O(N) for the NUMSUB subcommand, where N is the number of requested channels", "Get the count of subscribers for channels")
                .categories(&["@pubsub", "@slow"]),
            spec("pubsub|shardchannels", -2, flag::PUBSUB | flag::LOADING | flag::STALE)
                .doc("pubsub", "7.0.0", "O(N) where N is the number of active shard channels, and assuming constant time pattern matching (relatively short shard channels).", "List active shard channels")
                .categories(&["@pubsub", "@slow"]),
            spec("pubsub|shardnumsub", -2, flag::PUBSUB | flag::LOADING | flag::STALE)
                .doc("pubsub", "7.0.0", "O(N) for the SHARDNUMSUB subcommand, where N is the number of requested shard channels", "Get the count of subscribers for shard channels")
                .categories(&["@pubsub", "@slow"]),
        ]),
    spec("punsubscribe", -1, flag::PUBSUB | flag::NOSCRIPT | flag::LOADING | flag::STALE)
        .doc("pubsub", "2.0.0", "O(N+M) where N is the number of patterns the client is already subscribed and M is the number of total patterns subscribed in the system (by any client).", "Stop listening for messages posted to channels matching the given patterns")
        .categories(&["@pubsub", "@slow"]),
    spec("subscribe", -2, flag::PUBSUB | flag::NOSCRIPT | flag::LOADING | flag::STALE)
        .doc("pubsub", "2.0.0", "O(N) where N is the number of channels to subscribe to.", "Listen for messages published to the given channels")
        .categories(&["@pubsub", "@slow"]),
    spec("unsubscribe", -1, flag::PUBSUB | flag::NOSCRIPT | flag::LOADING | flag::STALE)
        .doc("pubsub", "2.0.0", "O(N) where N is the number of clients already subscribed to a channel.", "Stop listening for messages posted to the given channels")
        .categories(&["@pubsub", "@slow"]),
];
