//! A store in three processes, each with a front door over HTTP; any one of them may be killed.
//!
//! ```console
//! $ cargo run -p gregale-group --example edge-store
//! $ curl -X PUT -d hello localhost:8401/greeting
//! $ curl localhost:8402/greeting
//! ```

mod http;
mod keeper;
mod member;
mod store;

use keeper::Keeper;
use member::Role;
use std::process::ExitCode;
use std::time::Duration;

/// The first word of the arguments of one process.
const MEMBER: &str = "member";
/// The ports, unless `any` is said.
const PORTS: [u16; keeper::MEMBERS] = [8401, 8402, 8403];

/// The time between two looks at the processes.
const LOOK_EVERY: Duration = Duration::from_millis(50);

const HELP: &str = "\
edge-store        three processes, at ports 8401 to 8403 of this machine
edge-store any    the same at free ports";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        [MEMBER, founds, directory, seat, port] => {
            let (Ok(seat), Ok(port)) = (seat.parse(), port.parse()) else { return help() };
            let founds = founds == "found";
            member::run(&Role { founds, directory: directory.into(), seat, port })
        }
        [] => keep(PORTS.to_vec()),
        ["any"] => keeper::free_ports().map_err(Into::into).and_then(keep),
        _ => return help(),
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("edge-store: {error}");
            ExitCode::FAILURE
        }
    }
}

fn help() -> ExitCode {
    eprintln!("{HELP}");
    ExitCode::from(2)
}

fn arguments(role: &Role) -> Vec<String> {
    let Role { founds, directory, seat, port } = role;
    let way = if *founds { "found" } else { "join" };
    let directory = directory.display().to_string();
    [MEMBER.into(), way.into(), directory, seat.to_string(), port.to_string()].into()
}

fn keep(ports: Vec<u16>) -> Result<(), Box<dyn std::error::Error>> {
    let mut store = Keeper::start(ports, arguments)?;
    let ports = store.ports.clone();
    let (first, second) = (ports[0], ports[1]);
    println!("Three members serve, at ports {ports:?}. Try:");
    println!("  curl -X PUT -d hello localhost:{first}/greeting");
    println!("  curl localhost:{second}/greeting          # in the order of all calls");
    println!("  curl localhost:{second}/greeting?local    # this member's copy");
    println!("  curl -X POST -d 1 localhost:{first}/visits  # adds");
    println!("  curl localhost:{second}/                  # the view");
    println!(
        "  kill -9 {}                         # another process takes its place",
        store.pid(1)
    );
    loop {
        if store.look_after()? {
            println!("a member had ended, and another one has joined");
        }
        std::thread::sleep(LOOK_EVERY);
    }
}
