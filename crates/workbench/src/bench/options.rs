//! Options of `gregale bench` that a benchmark would ignore: each is refused. (Those that exclude
//! each other by name alone are refused where they are declared.)

use super::{BenchArgs, How, What};
use bench::group::needs_disk;
use console::Failure;
use proto::registry::LogProtocol;

/// Refuses what the benchmark would ignore.
pub(super) fn check(args: &BenchArgs) -> Result<(), Failure> {
    let why = ignored(&args.how, &args.what);
    why.map_or(Ok(()), |why| Err(Failure::new(why)))
}

/// Why it is measured once, if it is.
fn once(what: &What) -> Option<&'static str> {
    match what {
        What::Failover { .. } | What::Comeback { .. } => Some("say --kills"),
        What::Replicate { programs, .. } if programs.kills().is_some() => Some("say --kills"),
        What::Shapes { .. } => Some("virtual time is the same each time"),
        What::Multicast { group, .. } if group.schedules => Some("it is a calculation"),
        _ => None,
    }
}

fn ignored(how: &How, what: &What) -> Option<String> {
    if let Some(why) = once(what).filter(|_| how.runs.is_some()) {
        return Some(format!("--runs: this is measured once; {why}"));
    }
    match what {
        What::Multicast { group, .. } if group.schedules && how.quick => {
            Some("--quick: --schedules is a calculation, which is quick".to_owned())
        }
        What::Decide { protocol, place, .. } => in_memory(protocol, place.data.is_some()),
        What::Failover { protocol, place, .. } => in_memory(&[*protocol], place.data.is_some()),
        What::Versions { versions, .. } => versions.of_another_part().map(str::to_owned),
        _ => None,
    }
}

/// `--data`, where none of the protocols writes to a disk.
fn in_memory(protocols: &[LogProtocol], has_data: bool) -> Option<String> {
    let is_idle = has_data && !protocols.iter().any(|protocol| needs_disk(*protocol));
    let names: Vec<&str> = protocols.iter().map(|protocol| protocol.name()).collect();
    is_idle.then(|| format!("--data: {} keeps nothing on disk", names.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;
    use report::figure::FigureError;

    #[derive(Debug, Parser)]
    struct Line {
        #[command(flatten)]
        args: BenchArgs,
    }

    fn parsed(line: &str) -> Result<BenchArgs, String> {
        let words = std::iter::once("bench").chain(line.split_whitespace());
        Line::try_parse_from(words).map(|line| line.args).map_err(|error| error.to_string())
    }

    /// The refusal of a command line, if it is refused.
    fn refusal(line: &str) -> Option<String> {
        parsed(line).and_then(|args| check(&args).map_err(|error| error.to_string())).err()
    }

    #[test]
    fn an_option_that_the_benchmark_would_ignore_is_refused() {
        for (line, why) in [
            ("failover --runs 3", "--runs: this is measured once; say --kills"),
            ("comeback --runs 3", "--runs: this is measured once; say --kills"),
            ("shapes --runs 3", "--runs: this is measured once; virtual time"),
            ("replicate --kills 5 --runs 3", "--runs: this is measured once; say --kills"),
            ("replicate --kills 5 --clients 4", "cannot be used with"),
            ("multicast --schedules --runs 3", "--runs: this is measured once; it is a calc"),
            ("multicast --schedules --quick", "--quick: --schedules is a calculation"),
            ("multicast --schedules --fabric tcp", "cannot be used with"),
            ("multicast --schedules --senders 1", "cannot be used with"),
            ("multicast --schedules --members 4", "cannot be used with"),
            ("multicast --schedules --relay chain", "cannot be used with"),
            ("versions --shards 1", "--shards is for --part shards"),
            ("versions --part arguments --shards 1", "--shards is for --part shards"),
            ("versions --part shards --data /x", "--data is for --part storage"),
            ("decide --protocol velos,mu --data /x", "--data: velos, mu keeps nothing on disk"),
            ("failover --data /x", "--data: velos keeps nothing on disk"),
            ("fabric --runs 0", "0 is not in 1.."),
        ] {
            let refused = refusal(line).unwrap_or_else(|| panic!("{line} is taken"));
            assert!(refused.contains(why), "{line}: {refused}");
        }
    }

    #[test]
    fn what_the_benchmark_heeds_is_taken() {
        for line in [
            "fabric --runs 1",
            "shapes --quick",
            "failover --kills 3 --quick",
            "failover --protocol durable --data /x",
            "decide --protocol velos,durable --data /x --runs 2",
            "replicate --clients 4 --runs 2",
            "multicast --schedules --message 1048576",
            "multicast --members 4 --fabric tcp --relay chain",
            "versions --part shards --shards 1,6",
            "versions --data /x",
        ] {
            assert_eq!(refusal(line), None, "{line}");
        }
    }

    #[test]
    fn a_figure_that_cannot_be_drawn_fails_only_a_command_that_wants_it() {
        let report = bench::run::report("x", 1, Vec::new());
        let told = |line: &str| {
            let how = parsed(line).expect("it is a command").how;
            how.tell(&report, "x", Err(FigureError::Twice("100 B".to_owned()))).is_ok()
        };
        assert!(told("shapes"));
        let out = tempfile::tempdir().expect("a directory");
        let line = format!("shapes --out {}", out.path().display());
        assert!(!told(&line) && out.path().join("x.json").exists());
    }
}
