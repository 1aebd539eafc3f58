//! Gregale's own commands: client sessions, and changes of the members.

use super::super::{CommandSpec, flag, spec};

/// See `docs/sessions.md`, and `docs/operations.md` for the members.
pub(super) static GREGALE: [CommandSpec; 5] = [
    spec("gregale.ack", 2, flag::NOSCRIPT | flag::FAST)
        .doc("connection", "0.1.0", "O(1)", "Acknowledge the replies of a session's calls")
        .categories(&["@fast", "@connection"]),
    spec("gregale.call", -3, flag::NOSCRIPT)
        .doc(
            "connection",
            "0.1.0",
            "O(log N) where N is the number of sessions, beside the command's",
            "Execute a command once, however often it is sent",
        )
        .categories(&["@slow", "@connection"]),
    spec("gregale.member", 3, flag::ADMIN | flag::NOSCRIPT)
        .doc("server", "0.1.0", "O(1)", "Change the members; see gregale member --help")
        .categories(&["@admin", "@slow", "@dangerous"]),
    spec("gregale.session", -1, flag::NOSCRIPT)
        .doc(
            "connection",
            "0.1.0",
            "O(log N) where N is the number of sessions",
            "Open, resume or end a session",
        )
        .categories(&["@slow", "@connection"]),
    spec("gregale.snapshot", -2, flag::NOSCRIPT)
        .doc(
            "connection",
            "0.1.0",
            "O(1) beside the command's",
            "Read several partitions at one timestamp, without ordering the read",
        )
        .categories(&["@slow", "@connection"]),
];
