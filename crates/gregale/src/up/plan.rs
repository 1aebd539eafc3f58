//! The sockets of all members, and the configurations of their first lives.

use super::UpArgs;
use super::data::Data;
use crate::channel::Sockets;
use crate::config::{self, Config, FabricKind, Start};
use console::{Failure, Outcome};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::path::Path;

/// The listening sockets of all seats.
pub(super) fn listen(args: &UpArgs) -> Outcome<Vec<Sockets>> {
    let bind = |ip: IpAddr, port: u16| {
        let address = SocketAddr::new(ip, port);
        TcpListener::bind(address)
            .map_err(|error| Failure::os(format_args!("listen on {address}"), error))
    };
    let loopback = IpAddr::V4(Ipv4Addr::LOCALHOST);
    (0..u16::from(args.seats()))
        .map(|at| {
            let fabric = match args.fabric {
                FabricKind::Shm => None,
                FabricKind::Tcp => Some(bind(loopback, 0)?),
            };
            let client = bind(args.bind, args.port + at)?;
            Ok(Sockets { client, control: bind(loopback, 0)?, fabric })
        })
        .collect()
}

/// All members with their addresses.
pub(super) fn listed(sockets: &[Sockets]) -> Outcome<Vec<config::Member>> {
    let member = |(at, sockets): (usize, &Sockets)| {
        Ok(config::Member {
            id: at as u16 + 1,
            client: address_of(&sockets.client)?,
            control: address_of(&sockets.control)?,
            fabric: sockets.fabric.as_ref().map(address_of).transpose()?,
        })
    };
    sockets.iter().enumerate().map(member).collect()
}

/// The configuration of a member's first life, with its memory in `directory`.
pub(super) fn config_of(
    args: &UpArgs,
    member: u16,
    listed: &[config::Member],
    directory: &Path,
    data: Option<&Data>,
) -> Config {
    Config {
        cluster: args.cluster.clone(),
        member,
        fabric: args.fabric,
        protocol: args.protocol(),
        durability: args.durability(),
        start: Start::Bootstrap,
        directory: directory.to_path_buf(),
        data: data.map(|data| data.member(member)),
        snapshot_log_bytes: args.snapshot_log_bytes,
        partitions: args.partitioning(),
        program: args.program.program(),
        secret_file: data.map_or_else(|| directory.join("secret"), Data::secret_file),
        requirepass: args.password().map(str::to_owned),
        maxmemory: args.maxmemory(),
        maxclients: args.maxclients,
        cluster_discovery: args.cluster_discovery,
        founders: data.map(Data::founders),
        members: listed.to_vec(),
    }
}

fn address_of(listener: &TcpListener) -> Outcome<SocketAddr> {
    listener.local_addr().map_err(|error| Failure::os("name a listening socket", error))
}
