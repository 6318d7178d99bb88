//! Rates of the gateway's journal alone: creates that are on the disk, each second, and the syncs that they took.
//!
//! Usage: `make bench-journal`, or `journal_load FOLDER [--seconds S] [--rounds N]`. A create is one record with a
//! name, attributes and the bytes of a small file; it counts once the journal says that it is on the disk. Clients wait
//! for their own create before the next. Beside it stands what one file for each create costs on the same disk:
//! written, synced, renamed, and its folder synced. The order of the rounds alternates. Output: a table of medians and
//! ranges.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use seqferry_gateway::journal::Journal;
use tokio::runtime::Runtime;

/// Bytes of a name and attributes in a record.
const HEAD: usize = 160;

/// Clients, bytes of each file, and whether the journal makes it.
const CASES: [(usize, usize, bool); 8] = [
    (1, 0, true),
    (1, 10_000, true),
    (16, 10_000, true),
    (64, 0, true),
    (64, 10_000, true),
    (64, 65_536, true),
    (1, 10_000, false),
    (16, 10_000, false),
];

/// Results of a run.
struct Run {
    rate: f64,
    syncs_each: f64,
    p50: Duration,
    p99: Duration,
}

fn main() {
    let mut arguments = std::env::args().skip(1);
    let folder = PathBuf::from(arguments.next().expect("a folder of the disk to measure"));
    let (mut seconds, mut rounds) = (2.0, 3);
    while let Some(name) = arguments.next() {
        let value = arguments.next().expect("a value");
        match name.as_str() {
            "--seconds" => seconds = value.parse().expect("seconds"),
            "--rounds" => rounds = value.parse().expect("a number of rounds"),
            _ => panic!("unknown option {name}"),
        }
    }
    let length = Duration::from_secs_f64(seconds);
    let mut results: Vec<Vec<Run>> = CASES.iter().map(|_| Vec::new()).collect();
    for round in 0..rounds {
        for step in 0..CASES.len() {
            let place = if round % 2 == 0 { step } else { CASES.len() - 1 - step };
            let (clients, bytes, is_journal) = CASES[place];
            let scratch = folder.join(format!("journal-load-{:016x}", fastrand::u64(..)));
            let measure = if is_journal { journal } else { files };
            results[place].push(measure(&scratch, clients, bytes, length));
            fs::remove_dir_all(&scratch).expect("removing the scratch folder");
        }
    }
    println!("| creates by | clients | bytes | creates/s: median (range) | syncs each | wait p50, p99 |");
    println!("|---|---|---|---|---|---|");
    for ((clients, bytes, is_journal), mut runs) in CASES.into_iter().zip(results) {
        runs.sort_by(|a, b| a.rate.total_cmp(&b.rate));
        let (low, middle, high) = (runs[0].rate, &runs[runs.len() / 2], runs[runs.len() - 1].rate);
        let name = if is_journal { "journal" } else { "a file each" };
        let milliseconds = |time: Duration| time.as_secs_f64() * 1e3;
        println!(
            "| {name} | {clients} | {bytes} | {:.0} ({low:.0}..{high:.0}) | {:.2} | {:.1} ms, {:.1} ms |",
            middle.rate,
            middle.syncs_each,
            milliseconds(middle.p50),
            milliseconds(middle.p99),
        );
    }
}

fn summary(mut waits: Vec<Duration>, elapsed: Duration, syncs: u64) -> Run {
    waits.sort_unstable();
    let count = waits.len();
    let at = |percent: usize| waits[(count * percent / 100).min(count - 1)];
    let (rate, syncs_each) = (count as f64 / elapsed.as_secs_f64(), syncs as f64 / count as f64);
    Run { rate, syncs_each, p50: at(50), p99: at(99) }
}

fn journal(folder: &Path, clients: usize, bytes: usize, length: Duration) -> Run {
    let runtime = Runtime::new().expect("threads");
    let (journal, _) = Journal::open(folder, |_| Ok(())).expect("a journal");
    let journal = Arc::new(journal);
    let before = journal.stats().syncs;
    let start = Instant::now();
    let create = async |journal: Arc<Journal>| {
        let mut waits = Vec::new();
        let mut record = vec![0; HEAD + bytes];
        fastrand::fill(&mut record);
        while start.elapsed() < length {
            let asked = Instant::now();
            let mut room = journal.reserve(1, record.len()).await.expect("room");
            let position = journal.append(&mut room, &record).expect("a record");
            journal.durable(position).await.expect("a sync");
            waits.push(asked.elapsed());
        }
        waits
    };
    let waits = runtime.block_on(async {
        let running = (0..clients).map(|_| create(Arc::clone(&journal)));
        futures::future::join_all(running).await.concat()
    });
    summary(waits, start.elapsed(), journal.stats().syncs - before)
}

fn files(folder: &Path, clients: usize, bytes: usize, length: Duration) -> Run {
    fs::create_dir(folder).expect("a folder");
    let start = Instant::now();
    let mut content = vec![0; bytes];
    fastrand::fill(&mut content);
    let create = |client: usize| {
        let mut waits = Vec::new();
        while start.elapsed() < length {
            let asked = Instant::now();
            let name = folder.join(format!("{client}-{}", waits.len()));
            let new = name.with_extension("new");
            let mut file = File::create(&new).expect("a file");
            file.write_all(&content).expect("bytes");
            file.sync_data().expect("a sync");
            fs::rename(&new, &name).expect("a name");
            File::open(folder).and_then(|folder| folder.sync_all()).expect("a sync of the folder");
            waits.push(asked.elapsed());
        }
        waits
    };
    let waits: Vec<Duration> = std::thread::scope(|scope| {
        let running: Vec<_> = (0..clients)
            .map(|client| {
                scope.spawn({
                    let create = &create;
                    move || create(client)
                })
            })
            .collect();
        running.into_iter().flat_map(|client| client.join().expect("a client")).collect()
    });
    let syncs = 2 * waits.len() as u64;
    summary(waits, start.elapsed(), syncs)
}
