//! A store in three processes, each with a front door over HTTP; any one of them may be killed.
//! With `--data DIR` it is on disk, and all of them may.
//!
//! ```console
//! $ cargo run -p gregale-group --example edge-store
//! $ curl -X PUT -d hello localhost:8401/greeting
//! $ curl localhost:8402/greeting
//! $ curl localhost:8402/greeting?ago=5
//! ```

mod http;
mod keeper;
mod member;
mod store;

use keeper::Keeper;
use member::Role;
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

/// The first word of the arguments of one process.
const MEMBER: &str = "member";
/// In place of the directory of its log.
const NO_DATA: &str = "-";
/// The ports, unless `any` is said.
const PORTS: [u16; keeper::MEMBERS] = [8401, 8402, 8403];

/// The time between two looks at the processes.
const LOOK_EVERY: Duration = Duration::from_millis(50);

const HELP: &str = "\
edge-store              three processes, at ports 8401 to 8403 of this machine
edge-store any          the same at free ports
edge-store --data DIR   the same, with logs in DIR, from which a store that was there comes back";

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    let done = match words[..] {
        [MEMBER, founds, directory, data, seat, port] => {
            let (Ok(seat), Ok(port)) = (seat.parse(), port.parse()) else { return help() };
            let founds = founds == "found";
            let data = (data != NO_DATA).then(|| data.into());
            member::run(&Role { founds, directory: directory.into(), data, seat, port })
        }
        [] => keep(PORTS.to_vec(), None),
        ["any"] => keep_at_any(None),
        ["--data", data] => keep(PORTS.to_vec(), Some(data.into())),
        ["any", "--data", data] => keep_at_any(Some(data.into())),
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
    let Role { founds, directory, data, seat, port } = role;
    let way = if *founds { "found" } else { "join" };
    let directory = directory.display().to_string();
    let data = data.as_ref().map_or(NO_DATA.into(), |data| data.display().to_string());
    [MEMBER.into(), way.into(), directory, data, seat.to_string(), port.to_string()].into()
}

fn keep_at_any(data: Option<PathBuf>) -> Result<(), Box<dyn std::error::Error>> {
    keep(keeper::free_ports()?, data)
}

fn keep(ports: Vec<u16>, data: Option<PathBuf>) -> Result<(), Box<dyn std::error::Error>> {
    let mut store = Keeper::start(ports, data, arguments)?;
    let ports = store.ports.clone();
    let (first, second) = (ports[0], ports[1]);
    println!("Three members serve, at ports {ports:?}. Try:");
    println!("  curl -X PUT -d hello localhost:{first}/greeting");
    println!("  curl localhost:{second}/greeting          # in the order of all calls");
    println!("  curl localhost:{second}/greeting?leased   # as fresh, and no message is sent");
    println!("  curl localhost:{second}/greeting?local    # this member's copy");
    println!("  curl -X POST -d 1 localhost:{first}/visits  # adds");
    println!("  curl localhost:{second}/greeting?ago=5    # as it was five seconds ago");
    println!(
        "  curl localhost:{second}/                  # the view, and the time of the last call"
    );
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
