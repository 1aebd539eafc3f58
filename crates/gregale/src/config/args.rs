//! `gregale serve` on the command line: the path of the file, and the flags that override it.

use clap::Args;
use std::path::PathBuf;

/// `gregale serve`
#[derive(Debug, Args)]
#[command(after_help = "Example:\n  gregale serve --config member-1.toml\n\n\
    The file:\n  \
    cluster = \"demo\"\n  \
    member = 1\n  \
    fabric = \"tcp\"\n  \
    start = \"bootstrap\"            # \"reattach\" in every later life\n  \
    directory = \"/dev/shm/gregale-demo\"\n  \
    secret_file = \"/etc/gregale/secret\"\n\n  \
    [[members]]\n  \
    id = 1\n  \
    client = \"127.0.0.1:7000\"\n  \
    control = \"127.0.0.1:7200\"\n  \
    fabric = \"127.0.0.1:7100\"\n  \
    # ... one for each member")]
pub(crate) struct ServeArgs {
    /// The configuration file.
    #[arg(long, env = "GREGALE_CONFIG")]
    pub(crate) config: PathBuf,
    /// The password of clients, instead of the file's `requirepass`.
    #[arg(long, env = "GREGALE_REQUIREPASS", hide_env_values = true)]
    pub(crate) requirepass: Option<String>,
    /// The memory limit, instead of the file's `maxmemory`.
    #[arg(long, env = "GREGALE_MAXMEMORY", value_parser = crate::config::parse_bytes)]
    pub(crate) maxmemory: Option<u64>,
    /// The most clients, instead of the file's `maxclients`.
    #[arg(long, env = "GREGALE_MAXCLIENTS")]
    pub(crate) maxclients: Option<u32>,
    /// Standard input is a socket to a supervisor, which passes the listening sockets.
    #[arg(long, hide = true)]
    pub(crate) supervised: bool,
}
