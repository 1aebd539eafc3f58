//! `gregale sim` for atomic multicast: a world, judges and step counts of its own.

use super::args::{SimArgs, SimProtocol};
use super::crew;
use ::sim::amcast::steps::{Bench, Steps, measure};
use ::sim::amcast::{Config, Finding, Report, mutants, run as run_seed, sweep};
use console::{Format, Outcome};
use proto::amcast::linear::Rule;
use proto::registry::MulticastProtocol;
use serde_json::{Value, json};
use std::num::NonZeroUsize;
use std::process::ExitCode;
use std::time::Instant;

/// The most seeds that a mutant gets before it counts as survived.
const MUTANT_SEEDS_MAX: u64 = 20_000;
/// The number of schedules in which steps are counted.
const SCHEDULES: u64 = 1000;

/// Simulates, if it is a protocol of atomic multicast.
pub(super) fn run(args: &SimArgs) -> Option<Outcome> {
    let SimProtocol::Multicast(subject) = args.protocol else { return None };
    let config = Config {
        groups: args.groups.map(usize::from),
        members: args.members.map(usize::from),
        trace: args.trace,
        aimed: args.aimed,
        restless: args.restless,
        ..subject.config(args.rule.map(Rule::from))
    };
    if let Some(name) = &args.bug {
        let mutant = mutants().into_iter().find(|mutant| mutant.name == name);
        let hunted = mutant.map(|mutant| {
            let found = mutant.hunt(args.first, args.seeds);
            found.map(|found| (found.seed, found.violation.to_string()))
        });
        return Some(super::tell_hunted(args, name, hunted));
    }
    Some(simulate(args, subject.protocol, &config))
}

struct Hunted {
    name: &'static str,
    is_scheduled: bool,
    found: Option<Finding>,
}

fn simulate(args: &SimArgs, protocol: MulticastProtocol, config: &Config) -> Outcome {
    if let Some(seed) = args.seed {
        return Ok(replay(protocol, config, seed));
    }
    let seeds = crew::seeds(args.first, crew::how_many(args))?;
    let jobs = crew::jobs(args.jobs);
    let began = Instant::now();
    let parts = crew::share(jobs, seeds, "seeds", |pool| {
        sweep(protocol, config, pool.numbers(), |_| {
            pool.tell("");
            !crew::is_over(args, began)
        })
    });
    let report = Report::joined(parts);
    let wall_s = began.elapsed().as_secs_f64().max(1e-9);
    let members =
        if protocol.abilities().survives_crashes { config.members.unwrap_or(3) } else { 1 };
    let groups = config.groups.unwrap_or(3);
    let bench = Bench::new(config.rule, groups, members, SCHEDULES);
    let steps = measure(protocol, &Bench { commutes: config.commutes, ..bench });
    let hunted = args.mutants.then(|| hunt(jobs, protocol, config));
    match args.format {
        Format::Json => {
            let row = as_json(args, config, (&report, wall_s), &steps, hunted.as_deref());
            outln!("{row}");
        }
        Format::Table => print_table(args, config, (&report, wall_s), &steps, hunted.as_deref()),
    }
    let survived = hunted.iter().flatten().any(|one| one.found.is_none());
    let good = report.findings.is_empty() && !survived;
    Ok(if good { ExitCode::SUCCESS } else { ExitCode::FAILURE })
}

fn replay(protocol: MulticastProtocol, config: &Config, seed: u64) -> ExitCode {
    let outcome = run_seed(protocol, config, seed);
    out!("{}", outcome.trace);
    match outcome.violation {
        None => {
            let ms = outcome.virtual_ns / 1_000_000;
            outln!("seed {seed}: no violation in {ms} ms of virtual time");
            ExitCode::SUCCESS
        }
        Some(violation) => {
            outln!("seed {seed}: {violation}");
            ExitCode::FAILURE
        }
    }
}

/// Hunts every planted bug, or only those of crash recovery or of changes of members; of a protocol
/// that is there for comparison only its own.
fn hunt(jobs: NonZeroUsize, protocol: MulticastProtocol, config: &Config) -> Vec<Hunted> {
    let mut mutants = mutants();
    let of_all = !protocol.abilities().for_comparison;
    mutants.retain(|mutant| of_all || mutant.protocol() == protocol);
    mutants.retain(|mutant| mutant.is_of_recovery() || !config.recovers);
    mutants.retain(|mutant| mutant.is_of_members() || !config.changes_members);
    crew::each(jobs, &mutants, "mutants", |mutant| {
        let found = mutant.hunt(0, MUTANT_SEEDS_MAX);
        (Hunted { name: mutant.name, is_scheduled: mutant.is_scheduled(), found }, mutant.name)
    })
}

fn replay_line(args: &SimArgs, config: &Config, seed: u64) -> String {
    let option = |name: &str, value: Option<u16>| {
        value.map_or_else(String::new, |value| format!(" --{name} {value}"))
    };
    let rule = args.rule.map_or_else(String::new, |_| format!(" --rule {}", config.rule.name()));
    let aimed = if args.aimed { " --aimed" } else { "" };
    let restless = if args.restless { " --restless" } else { "" };
    format!(
        "gregale sim --protocol {} --seed {seed}{rule}{aimed}{restless}{}{} --trace",
        args.protocol.name(),
        option("groups", args.groups.map(u16::from)),
        option("members", args.members),
    )
}

fn as_json(
    args: &SimArgs,
    config: &Config,
    (report, wall_s): (&Report, f64),
    steps: &Steps,
    hunted: Option<&[Hunted]>,
) -> Value {
    let mut row = json!({
        "case": args.protocol.name(),
        "protocol": args.protocol.name(),
        "rule": config.rule.name(),
        "seeds": report.n_seeds,
        "violations": report.findings.len(),
        "seeds_per_s": report.n_seeds as f64 / wall_s,
        "virtual_per_wall": report.virtual_ns as f64 / 1e9 / wall_s,
        "operations": report.counts.delivered,
        "steps_collision_free": steps.collision_free,
        "steps_collision_free_least": steps.collision_free_least,
        "steps_failure_free": steps.failure_free,
        "steps_deliveries": steps.n_deliveries,
        "crashes_of_primaries": report.counts.crashes_of_primaries,
        "commuted": report.counts.commuted,
        "snapshots": report.counts.snapshots,
        "new_primaries": report.counts.new_primaries,
        "member_changes": report.counts.changes.made,
        "newcomers": report.counts.changes.newcomers,
        "failing_seeds": report.findings.iter().map(|f| json!({
            "seed": f.seed,
            "violation": f.violation.to_string(),
            "replay": replay_line(args, config, f.seed),
        })).collect::<Vec<_>>(),
    });
    if let Some(hunted) = hunted {
        row["mutants_total"] = json!(hunted.len());
        row["mutants_caught"] = json!(hunted.iter().filter(|one| one.found.is_some()).count());
        let each = hunted.iter().map(|one| {
            json!({
                "mutant": one.name,
                "by": if one.is_scheduled { "schedule" } else { "seed" },
                "seed": one.found.as_ref().filter(|_| !one.is_scheduled).map(|found| found.seed),
                "violation": one.found.as_ref().map(|found| found.violation.to_string()),
            })
        });
        row["mutants"] = each.collect();
    }
    json!({ "bench": "sim", "runs": 1, "rows": [row] })
}

fn print_table(
    args: &SimArgs,
    config: &Config,
    (report, wall_s): (&Report, f64),
    steps: &Steps,
    hunted: Option<&[Hunted]>,
) {
    outln!(
        "{} ({}): {} seeds, {} violations; {:.0} seeds/s, {} deliveries, {} new primaries",
        args.protocol.name(),
        config.rule.name(),
        report.n_seeds,
        report.findings.len(),
        report.n_seeds as f64 / wall_s,
        report.counts.delivered,
        report.counts.new_primaries,
    );
    outln!(
        "  steps to the last destination: {} alone, at most {:.2} among others ({} deliveries)",
        steps.collision_free,
        steps.failure_free,
        steps.n_deliveries,
    );
    if config.changes_members {
        let counts = &report.counts;
        outln!(
            "  {} changes of members, {} amid messages; {} removals, {} of them of the living; {} \
             newcomers, {} of them for dead primaries",
            counts.changes.made,
            counts.changes.amid_messages,
            counts.changes.removals,
            counts.changes.removals_of_living,
            counts.changes.newcomers,
            counts.changes.primaries_replaced,
        );
    }
    if config.commutes {
        outln!("  {} pairs seen in different orders", report.counts.commuted);
    }
    for finding in &report.findings {
        outln!("  seed {}: {}", finding.seed, finding.violation);
        outln!("    {}", replay_line(args, config, finding.seed));
    }
    let Some(hunted) = hunted else { return };
    let caught = hunted.iter().filter(|one| one.found.is_some()).count();
    outln!("planted bugs: {caught} of {} caught", hunted.len());
    for Hunted { name, is_scheduled, found } in hunted {
        match found {
            Some(finding) => {
                let text: String = finding.violation.to_string().chars().take(90).collect();
                let by = match is_scheduled {
                    true => "by schedule".to_owned(),
                    false => format!("seed {}", finding.seed),
                };
                outln!("  {name:<32} {by:<12} {text}");
            }
            None if *is_scheduled => outln!("  {name:<32} SURVIVED its schedule"),
            None => outln!("  {name:<32} SURVIVED {MUTANT_SEEDS_MAX} seeds"),
        }
    }
}
