//! The cluster to which a command connects.

use clap::Args;
use std::net::SocketAddr;

/// The address of a cluster, and its password.
#[derive(Debug, Args)]
pub(crate) struct ConnectArgs {
    /// Any live member's client address.
    #[arg(
        long = "connect",
        value_name = "CONNECT",
        env = "GREGALE_CONNECT",
        default_value = "127.0.0.1:7000"
    )]
    pub(crate) address: SocketAddr,
    /// The password, if the cluster wants one.
    #[arg(long, env = "GREGALE_REQUIREPASS", hide_env_values = true)]
    pub(crate) password: Option<String>,
}
