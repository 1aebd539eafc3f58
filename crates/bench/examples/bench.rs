//! Scratch.
use bench::group::Launcher;
use bench::run::Effort;
use bench::worker::order::FabricKind;
fn main() {
    let args: Vec<String> = std::env::args().collect();
    if args[1] == "bench-worker" {
        return bench::worker::run();
    }
    let fabric = if args[2] == "shm" { FabricKind::Shm } else { FabricKind::Tcp };
    let launcher = Launcher::this_program("bench-worker").unwrap();
    let report = match args[1].as_str() {
        "decide" => bench::decide::report(&launcher, fabric, &Effort::QUICK),
        _ => panic!(),
    };
    match report {
        Ok(r) => println!("{}", r.table()),
        Err(e) => eprintln!("{e}"),
    }
}
