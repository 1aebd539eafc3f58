//! `gregale sim`: seeds of a protocol under faults, and the bugs that the sweep must find.

mod args;
mod crew;
mod multicast;
mod options;

pub(crate) use args::SimArgs;

use ::sim::{Config, Finding, Mark, Report};
use ::sim::{cluster, group};
use args::SimProtocol;
use console::{Failure, Format, Outcome};
use serde_json::{Value, json};
use std::ops::Range;
use std::process::ExitCode;
use std::time::Instant;

/// The most seeds that a mutant gets before it counts as survived. One of a cluster has as many
/// operations as some hundred of the others, one of a group as some ten.
const fn mutant_seeds_max(protocol: SimProtocol) -> u64 {
    match protocol {
        SimProtocol::Cluster(_) => 400,
        SimProtocol::Group(_) => 2000,
        SimProtocol::Log(_) | SimProtocol::Multicast(_) => 3000,
    }
}

/// The most runs of a sweep whose history may be too hard for the judge of linearizability: what
/// breaks in one of them is seen by the other judges alone.
const fn unjudged_max(n_seeds: u64) -> u64 {
    1 + n_seeds / 20
}

pub(crate) fn run(args: &SimArgs) -> Outcome {
    options::check(args)?;
    if let Some(outcome) = multicast::run(args) {
        return outcome;
    }
    let members = args.members.map(usize::from);
    let config = Config { members, is_long: args.long, ..Config::default() };
    if let Some(seed) = args.seed {
        return Ok(replay(args, &config, seed));
    }
    if let Some(name) = &args.bug {
        let mutant = match args.protocol {
            SimProtocol::Log(subject) => subject.mutant_named(name),
            SimProtocol::Cluster(protocol) => cluster::mutant_named(protocol, name),
            SimProtocol::Group(kind) => group::mutant_named(kind, name),
            SimProtocol::Multicast(_) => unreachable!("it has a command of its own"),
        };
        let hunted = mutant.map(|mutant| {
            let found = mutant.hunt(&config, args.first, args.seeds);
            found.map(|found| (found.seed, found.violation.to_string()))
        });
        return tell_hunted(args, name, hunted);
    }
    let swept = sweep(args, &config, crew::seeds(args.first, crew::how_many(args))?);
    let mutants = args.mutants.then(|| hunt(args, &config));
    match args.format {
        Format::Json => outln!("{}", as_json(args, &swept, mutants.as_deref())),
        Format::Table => print_table(args, &swept, mutants.as_deref()),
    }
    let survived = mutants.iter().flatten().any(|hunted| hunted.found.is_none());
    let is_covered = !args.cover || missing(args, &swept.report).is_empty();
    let is_judged = swept.report.n_unjudged <= unjudged_max(swept.report.n_seeds);
    let good = swept.report.findings.is_empty() && !survived && is_covered && is_judged;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

/// Prints what a hunt for one bug has found. `None`: the protocol has no such bug.
pub(crate) fn tell_hunted(
    args: &SimArgs,
    name: &str,
    hunted: Option<Option<(u64, String)>>,
) -> Outcome {
    let of = args.protocol.name();
    let Some(found) = hunted else {
        return Err(Failure::new(format_args!(
            "{of} lists no planted bug {name}; --mutants shows those that its sweep must catch"
        )));
    };
    match found {
        Some((seed, violation)) => {
            outln!("{name} {of}: seed {seed}: {violation}");
            Ok(ExitCode::SUCCESS)
        }
        None => {
            outln!("{name} {of}: SURVIVED {} seeds from {}", args.seeds, args.first);
            Ok(ExitCode::FAILURE)
        }
    }
}

/// Runs one seed with its trace.
fn replay(args: &SimArgs, config: &Config, seed: u64) -> ExitCode {
    let outcome = match args.protocol {
        SimProtocol::Log(subject) => ::sim::replay(&subject, config, seed),
        SimProtocol::Cluster(protocol) => cluster::replay(protocol, config, seed),
        SimProtocol::Group(kind) => group::replay(kind, config, seed),
        SimProtocol::Multicast(_) => unreachable!("multicast has a world of its own"),
    };
    if args.trace {
        out!("{}", outcome.trace);
    }
    match outcome.violation {
        None => {
            let judged = if outcome.is_judged { "" } else { "; not judged for linearizability" };
            let ms = outcome.virtual_ns / MS;
            outln!("seed {seed}: no violation in {ms} ms of virtual time{judged}");
            ExitCode::SUCCESS
        }
        Some(violation) => {
            outln!("seed {seed}: {violation}");
            ExitCode::FAILURE
        }
    }
}

const MS: u64 = 1_000_000;

struct Swept {
    report: Report,
    wall_s: f64,
    jobs: usize,
}

fn sweep(args: &SimArgs, config: &Config, seeds: Range<u64>) -> Swept {
    let jobs = crew::jobs(args.jobs);
    let began = Instant::now();
    let parts = crew::share(jobs, seeds, "seeds", |pool| {
        let seeds = pool.numbers();
        let tell = |_: &Report| {
            pool.tell("");
            !crew::is_over(args, began)
        };
        match args.protocol {
            SimProtocol::Log(subject) => ::sim::sweep(&subject, config, seeds, tell),
            SimProtocol::Cluster(protocol) => cluster::sweep(protocol, config, seeds, tell),
            SimProtocol::Group(kind) => group::sweep(kind, config, seeds, tell),
            SimProtocol::Multicast(_) => unreachable!("multicast has a world of its own"),
        }
    });
    let wall_s = began.elapsed().as_secs_f64().max(1e-9);
    Swept { report: Report::joined(parts), wall_s, jobs: jobs.get() }
}

struct Hunted {
    name: &'static str,
    found: Option<Finding>,
}

fn hunt(args: &SimArgs, config: &Config) -> Vec<Hunted> {
    let mutants = match args.protocol {
        SimProtocol::Log(subject) if config.is_long => subject.long_mutants(),
        SimProtocol::Log(subject) => subject.mutants(),
        SimProtocol::Cluster(protocol) => cluster::mutants(protocol),
        SimProtocol::Group(kind) => group::mutants(kind),
        SimProtocol::Multicast(_) => Vec::new(),
    };
    crew::each(crew::jobs(args.jobs), &mutants, "mutants", |mutant| {
        let found = mutant.hunt(config, 0, mutant_seeds_max(args.protocol));
        (Hunted { name: mutant.name, found }, mutant.name)
    })
}

impl Swept {
    fn seeds_per_s(&self) -> f64 {
        self.report.n_seeds as f64 / self.wall_s
    }

    fn virtual_per_wall(&self) -> f64 {
        self.report.virtual_ns as f64 / 1e9 / self.wall_s
    }
}

fn as_json(args: &SimArgs, swept: &Swept, mutants: Option<&[Hunted]>) -> Value {
    let report = &swept.report;
    let mut row = json!({
        "case": args.protocol.name(),
        "protocol": args.protocol.name(),
        "seeds": report.n_seeds,
        "jobs": swept.jobs,
        "violations": report.findings.len(),
        "unjudged": report.n_unjudged,
        "seeds_per_s": swept.seeds_per_s(),
        "virtual_per_wall": swept.virtual_per_wall(),
        "operations": report.n_asked,
        "failing_seeds": report.findings.iter().map(|f| json!({
            "seed": f.seed,
            "violation": f.violation.to_string(),
            "replay": replay_line(args, f.seed),
        })).collect::<Vec<_>>(),
        "never_reached": missing(args, report),
    });
    if let Some(mutants) = mutants {
        row["mutants_total"] = json!(mutants.len());
        row["mutants_caught"] = json!(mutants.iter().filter(|m| m.found.is_some()).count());
        row["mutants"] = json!(
            mutants
                .iter()
                .map(|m| json!({
                    "mutant": m.name,
                    "seed": m.found.as_ref().map(|found| found.seed),
                    "violation": m.found.as_ref().map(|found| found.violation.to_string()),
                }))
                .collect::<Vec<_>>()
        );
    }
    json!({ "bench": "sim", "runs": 1, "rows": [row] })
}

/// The interesting cases that were not reached, except those that this protocol cannot reach.
fn missing(args: &SimArgs, report: &Report) -> Vec<String> {
    let names = |marks: Vec<Mark>| marks.iter().map(|mark| format!("{mark:?}")).collect();
    match args.protocol {
        SimProtocol::Log(subject) => {
            let can = |mark: &Mark| subject.can_reach(*mark, args.long);
            names(report.coverage.missing().filter(can).collect())
        }
        SimProtocol::Cluster(protocol) => {
            let can = |mark: &Mark| protocol.can_reach(*mark, args.long);
            names(report.coverage.missing_in_clusters().filter(can).collect())
        }
        SimProtocol::Group(kind) => {
            let can = |mark: &Mark| kind.can_reach(*mark);
            names(report.coverage.missing_in_groups().filter(can).collect())
        }
        SimProtocol::Multicast(_) => Vec::new(),
    }
}

fn replay_line(args: &SimArgs, seed: u64) -> String {
    let members = args.members.map_or_else(String::new, |n| format!(" --members {n}"));
    let long = if args.long { " --long" } else { "" };
    format!("gregale sim --protocol {} --seed {seed}{members}{long} --trace", args.protocol.name())
}

fn print_table(args: &SimArgs, swept: &Swept, mutants: Option<&[Hunted]>) {
    let report = &swept.report;
    outln!(
        "{}: {} seeds, {} violations; {:.0} seeds/s, {:.0} virtual seconds a wall second on {} \
         threads, {} operations",
        args.protocol.name(),
        report.n_seeds,
        report.findings.len(),
        swept.seeds_per_s(),
        swept.virtual_per_wall(),
        swept.jobs,
        report.n_asked,
    );
    for finding in &report.findings {
        outln!("  seed {}: {}", finding.seed, finding.violation);
        outln!("    {}", replay_line(args, finding.seed));
    }
    if report.n_unjudged > 0 {
        outln!(
            "  {} histories were too hard for the judge of linearizability (at most {} may be)",
            report.n_unjudged,
            unjudged_max(report.n_seeds)
        );
    }
    let missing = missing(args, report);
    if !missing.is_empty() {
        outln!("  never reached: {}", missing.join(", "));
    }
    let Some(mutants) = mutants else { return };
    let caught = mutants.iter().filter(|mutant| mutant.found.is_some()).count();
    outln!("planted bugs: {caught} of {} caught", mutants.len());
    for Hunted { name, found } in mutants {
        match found {
            Some(finding) => {
                let text: String = finding.violation.to_string().chars().take(90).collect();
                outln!("  {name:<26} seed {:<5} {text}", finding.seed);
            }
            None => outln!("  {name:<26} SURVIVED {} seeds", mutant_seeds_max(args.protocol)),
        }
    }
}
