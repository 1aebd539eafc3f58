//! The addresses of the members, which have to fit together.

use super::{Config, FabricKind, Member};
use console::{Failure, Outcome};
use std::net::SocketAddr;

impl Config {
    /// Refuses addresses that no other can find, or that two are to listen on.
    pub(super) fn check_addresses(&self) -> Outcome<()> {
        let of = |member: &Member| {
            let id = member.id;
            let fabric = member.fabric.filter(|_| self.fabric == FabricKind::Tcp);
            let all = [Some(member.client), Some(member.control), fabric];
            all.into_iter().flatten().map(move |address| (address, id))
        };
        let all: Vec<(SocketAddr, u16)> = self.members.iter().flat_map(of).collect();
        if let Some((address, id)) = all.iter().find(|(address, _)| address.port() == 0) {
            return Err(Failure::new(format_args!(
                "member {id} at {address}: port 0 is another one in each life; name a port"
            )));
        }
        // On one host all addresses are different. Of several hosts only the fabric's are.
        let on_this_host: Vec<(SocketAddr, u16)> = match self.fabric {
            FabricKind::Shm => all,
            FabricKind::Tcp => of(self.own()).collect(),
        };
        let fabric = self.members.iter().filter_map(|member| Some((member.fabric?, member.id)));
        for addresses in [on_this_host, fabric.collect()] {
            for (at, (address, id)) in addresses.iter().enumerate() {
                if let Some((_, other)) = addresses[..at].iter().find(|(it, _)| it == address) {
                    return Err(Failure::new(format_args!(
                        "{address} is listed twice, for member {other} and for member {id}: give \
                         each its own"
                    )));
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = r#"
cluster = "demo"
member = 2
start = "bootstrap"
directory = "/dev/shm/x"
secret_file = "/dev/shm/x/secret"

[[members]]
id = 1
client = "127.0.0.1:7000"
control = "127.0.0.1:7200"
fabric = "127.0.0.1:7100"

[[members]]
id = 2
client = "127.0.0.1:7001"
control = "127.0.0.1:7201"
fabric = "127.0.0.1:7101"
"#;

    fn checked(text: &str) -> Outcome<()> {
        toml::from_str::<Config>(text).unwrap().validate()
    }

    #[test]
    fn addresses_that_cannot_be_are_refused() {
        let with = |from: &str, to: &str| checked(&FILE.replace(from, to)).unwrap_err().to_string();
        assert!(with("127.0.0.1:7001", "127.0.0.1:0").contains("name a port"));
        let twice = with("127.0.0.1:7001", "127.0.0.1:7200");
        assert!(twice.contains("127.0.0.1:7200 is listed twice, for member 1 and for"), "{twice}");
        assert!(with("127.0.0.1:7001", "127.0.0.1:7201").contains("for member 2 and for member 2"));
        let tcp = FILE.replace("member = 2", "member = 2\nfabric = \"tcp\"");
        assert!(checked(&tcp).is_ok());
        let twice = checked(&tcp.replace(":7101", ":7100")).unwrap_err().to_string();
        assert!(twice.contains("127.0.0.1:7100 is listed twice"), "{twice}");
        let own = checked(&tcp.replace(":7101", ":7001")).unwrap_err().to_string();
        assert!(own.contains("127.0.0.1:7001 is listed twice"), "{own}");
    }

    /// Their control ports are bound to loopback, and their clients may be local, too.
    #[test]
    fn members_of_several_hosts_may_have_ports_alike() {
        let tcp = FILE
            .replace("member = 2", "member = 2\nfabric = \"tcp\"")
            .replace("127.0.0.1:7101", "10.0.0.2:7100")
            .replace(":7201", ":7200")
            .replace(":7001", ":7000");
        assert!(checked(&tcp).is_ok());
    }
}
