//! Scratch.
use bench::failover::Setting;
use bench::group::Launcher;
use bench::member::Wait;
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
        "failover" => {
            let kills = args[3].parse().unwrap();
            let s = |resident_bytes, asleep, followers| Setting {
                fabric,
                resident_bytes,
                asleep,
                followers,
                kills,
            };
            let o = bench::failover::report(
                &launcher,
                &[
                    s(0, false, Wait::Sleep),
                    s(0, false, Wait::Spin),
                    s(0, true, Wait::Sleep),
                    s(1 << 30, false, Wait::Sleep),
                ],
            );
            o.map(|o| {
                std::fs::write("/tmp/failover.svg", o.figure().unwrap()).unwrap();
                o.report
            })
        }
        _ => panic!(),
    };
    match report {
        Ok(r) => println!("{}", r.table()),
        Err(e) => eprintln!("{e}"),
    }
}
