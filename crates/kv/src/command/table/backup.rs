//! The command of `gregale backup`; not for other clients.

use super::super::{CommandSpec, flag, spec};

/// See [`crate::backup`].
pub(super) static BACKUP: [CommandSpec; 1] =
    [spec("gregale.backup", -3, flag::ADMIN | flag::NOSCRIPT)
        .doc(
            "server",
            "0.1.0",
            "O(N) where N is the number of keys",
            "Freeze the content and fetch it in pieces",
        )
        .categories(&["@admin", "@slow", "@dangerous"])];
