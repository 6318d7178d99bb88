//! The S3 simulator as a process: see `docs/develop/simulator.md`.
//!
//! Prints `{"endpoint_url": "http://127.0.0.1:PORT"}` when it listens, and ends when its standard input does, so that
//! it cannot outlive the test that started it; with `--stay` it runs until it is ended.

use std::io::Read as _;
use std::net::SocketAddr;
use std::process::ExitCode;

use seqferry_testkit::sim::Simulator;
use seqferry_testkit::sim::scenario::{Scenario, parse_bucket};
use serde_json::Value;

const USAGE: &str =
    "usage: s3sim [--listen ADDRESS:PORT] [--scenario FILE.json] [--bucket NAME[=SPEC]]... [--set NAME=VALUE]...
             [--time-scale F] [--seed N] [--instant] [--threads N] [--stay]
  --bucket  NAME, NAME='keys=run/{i:04}.bam;count=448;total=11.88TiB' or NAME='{...}' (JSON)
  --set     any field of a scenario: model.part_copy.base_seconds=1, without=[\"part_copy\"], memory=\"1 GiB\"
  --instant every request is answered immediately and none is refused
  --stay    run until ended, not until standard input ends";

struct Options {
    listen: SocketAddr,
    scenario: Scenario,
    threads: usize,
    stay: bool,
}

fn parse() -> Result<Options, String> {
    let mut listen: SocketAddr = ([127, 0, 0, 1], 0).into();
    let (mut file, mut buckets, mut sets) = (None, Vec::new(), Vec::new());
    let (mut threads, mut stay, mut instant) = (1, false, false);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match argument.as_str() {
            "--stay" => stay = true,
            "--instant" => instant = true,
            "--help" | "-h" => return Err(USAGE.to_owned()),
            "--listen" | "--scenario" | "--bucket" | "--set" | "--time-scale" | "--seed" | "--threads" => {
                let value = arguments.next().ok_or_else(|| format!("{argument} wants a value"))?;
                match argument.as_str() {
                    "--listen" => listen = value.parse().map_err(|error| format!("--listen {value}: {error}"))?,
                    "--scenario" => file = Some(value),
                    "--bucket" => buckets.push(parse_bucket(&value)?),
                    "--threads" => {
                        threads = value.parse().map_err(|_| format!("--threads {value}: not a number"))?;
                    }
                    "--time-scale" => sets.push(format!("time_scale={value}")),
                    "--seed" => sets.push(format!("seed={value}")),
                    _ => sets.push(value),
                }
            }
            other => return Err(format!("unknown option {other}\n{USAGE}")),
        }
    }
    let given: Value = match &file {
        None => Value::Object(serde_json::Map::new()),
        Some(path) => {
            let text = std::fs::read_to_string(path).map_err(|error| format!("--scenario {path}: {error}"))?;
            serde_json::from_str(&text).map_err(|error| format!("--scenario {path}: {error}"))?
        }
    };
    let mut scenario = Scenario::read(given, &sets, instant)?;
    scenario.buckets.extend(buckets);
    Ok(Options { listen, scenario, threads, stay })
}

fn start() -> Result<(Simulator, bool), String> {
    let options = parse()?;
    Ok((Simulator::listen(options.listen, options.scenario, options.threads)?, options.stay))
}

fn main() -> ExitCode {
    match start() {
        Ok((simulator, stay)) => {
            println!("{{\"endpoint_url\": \"{}\"}}", simulator.endpoint_url());
            if stay {
                loop {
                    std::thread::park();
                }
            }
            let _ = std::io::stdin().read_to_end(&mut Vec::new());
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("s3sim: {problem}");
            ExitCode::from(2)
        }
    }
}
