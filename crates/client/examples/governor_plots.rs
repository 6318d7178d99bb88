//! Draws the plots of `docs/develop/governor.md`: the real budget against the model of S3, in virtual time.
//!
//! `make governor-plots`; the argument is the folder for them. The same seed gives the same plots.

#[path = "../tests/governor/service.rs"]
mod service;

use std::fmt::Write as _;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use seqferry_testkit::sim::model::{ModelOptions, ModelWork};
use service::{MIB, Second, Service, Worker};

const LIMIT: f64 = 3_500.0;
const SEED: u64 = 1;
const PART: ModelWork = ModelWork::PartCopy { bytes: 128 * MIB };
const SMALL: ModelWork = ModelWork::Copy { bytes: 1024 };

const fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn limited(writes_per_second: f64) -> ModelOptions {
    ModelOptions { writes_per_second, split_after_seconds: None, ..ModelOptions::default() }
}

/// One line of a plot: a value per second.
struct Line {
    name: String,
    colour: &'static str,
    dashed: bool,
    values: Vec<f64>,
}

fn line(name: &str, colour: &'static str, values: Vec<f64>) -> Line {
    Line { name: name.to_owned(), colour, dashed: false, values }
}

fn limit(values: Vec<f64>) -> Line {
    Line { dashed: true, ..line("limit", "#888888", values) }
}

fn taken(seen: &[Second]) -> Vec<f64> {
    seen.iter().map(|second| second.taken.iter().map(|n| f64::from(*n)).sum()).collect()
}

fn refused(seen: &[Second]) -> Vec<f64> {
    seen.iter().map(|second| second.refused.iter().map(|n| f64::from(*n)).sum()).collect()
}

fn in_flight(seen: &[Second]) -> Vec<f64> {
    seen.iter().map(|second| second.in_flight as f64).collect()
}

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 260.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 40.0;
const BOTTOM: f64 = 34.0;

/// A round number at or above this.
fn ceiling(value: f64) -> f64 {
    let power = 10_f64.powf(value.max(1.0).log10().floor());
    [1.0, 2.0, 2.5, 5.0, 10.0].map(|factor| factor * power).into_iter().find(|round| *round >= value).unwrap_or(value)
}

fn svg(title: &str, lines: &[Line]) -> String {
    let length = lines.iter().map(|line| line.values.len()).max().unwrap_or(1).max(2);
    let most = ceiling(lines.iter().flat_map(|line| &line.values).fold(1.0, |most, value| most.max(*value)));
    let x = |second: f64| LEFT + (WIDTH - LEFT - RIGHT) * second / (length - 1) as f64;
    let y = |value: f64| HEIGHT - BOTTOM - (HEIGHT - TOP - BOTTOM) * value / most;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {HEIGHT}\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"{WIDTH}\" height=\"{HEIGHT}\" fill=\"#ffffff\"/>\n<text x=\"{LEFT}\" y=\"16\" font-size=\"13\" fill=\"#222222\">{title}</text>\n"
    );
    for step in 0..=4 {
        let value = most * f64::from(step) / 4.0;
        let _ = writeln!(
            out,
            "<line x1=\"{LEFT}\" x2=\"{}\" y1=\"{y:.1}\" y2=\"{y:.1}\" stroke=\"#dddddd\"/><text x=\"{}\" y=\"{:.1}\" text-anchor=\"end\" fill=\"#444444\">{value:.0}</text>",
            WIDTH - RIGHT,
            LEFT - 6.0,
            y(value) + 4.0,
            y = y(value),
        );
    }
    for second in (0..length).step_by((length / 10).next_multiple_of(10).max(5)) {
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{}\" text-anchor=\"middle\" fill=\"#444444\">{second} s</text>",
            x(second as f64),
            HEIGHT - BOTTOM + 16.0
        );
    }
    let mut at = LEFT;
    for line in lines {
        let points: Vec<String> =
            line.values.iter().enumerate().map(|(i, value)| format!("{:.1},{:.1}", x(i as f64), y(*value))).collect();
        let dash = if line.dashed { " stroke-dasharray=\"5 4\"" } else { "" };
        let _ = writeln!(
            out,
            "<polyline fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"{dash} points=\"{}\"/>\n<line x1=\"{at}\" x2=\"{}\" y1=\"28\" y2=\"28\" stroke=\"{}\" stroke-width=\"2\"{dash}/><text x=\"{}\" y=\"32\" fill=\"#222222\">{}</text>",
            line.colour,
            points.join(" "),
            at + 18.0,
            line.colour,
            at + 23.0,
            line.name
        );
        at += 40.0 + 6.2 * line.name.len() as f64;
    }
    out + "</svg>\n"
}

async fn parts() -> String {
    let service = Service::model(limited(LIMIT), SEED);
    Worker::new(&service, 0).work(seconds(90), |_| PART).await;
    let seen = &service.seen()[..90];
    svg(
        "Parts of 128 MiB (2.4 s each) at a limit of 3,500 requests/s",
        &[
            limit(vec![LIMIT; 90]),
            line("taken per second", "#1f77b4", taken(seen)),
            line("in flight", "#2ca02c", in_flight(seen)),
            line("refused per second", "#d62728", refused(seen)),
        ],
    )
}

async fn changes() -> String {
    let half = LIMIT / 2.0;
    let phases = vec![(Duration::ZERO, limited(LIMIT)), (seconds(40), limited(half)), (seconds(80), limited(LIMIT))];
    let service = Service::changing(phases, SEED);
    let splitting = Arc::clone(&service);
    tokio::spawn(async move {
        tokio::time::sleep(seconds(120)).await;
        splitting.split("8");
    });
    Worker::new(&service, 0).work(seconds(170), |_| SMALL).await;
    let seen = &service.seen()[..170];
    let limits = [vec![LIMIT; 40], vec![half; 40], vec![LIMIT; 40], vec![2.0 * LIMIT; 50]].concat();
    svg(
        "Small copies (0.15 s each): the limit falls to a half, comes back, and doubles as the partition splits",
        &[
            limit(limits),
            line("taken per second", "#1f77b4", taken(seen)),
            line("in flight", "#2ca02c", in_flight(seen)),
            line("refused per second", "#d62728", refused(seen)),
        ],
    )
}

async fn workers() -> String {
    const COUNT: usize = 4;
    let service = Service::model(limited(LIMIT), SEED);
    let begin = |number: usize| {
        let worker = Worker::new(&service, number);
        tokio::spawn(async move {
            tokio::time::sleep(seconds(10 * number as u64)).await;
            worker.work(seconds(180), |_| SMALL).await;
        })
    };
    let working: Vec<_> = (0..COUNT).map(begin).collect();
    for worker in working {
        worker.await.unwrap_or_else(|error| panic!("{error}"));
    }
    let seen = &service.seen()[..180];
    let mut lines = vec![limit(vec![LIMIT; 180]), line("all", "#222222", taken(seen))];
    for (number, colour) in ["#1f77b4", "#ff7f0e", "#2ca02c", "#9467bd"].into_iter().enumerate() {
        let own = seen.iter().map(|second| f64::from(second.taken.get(number).copied().unwrap_or(0))).collect();
        lines.push(line(&format!("process {}", number + 1), colour, own));
    }
    lines.push(line("refused per second", "#d62728", refused(seen)));
    svg("Four processes on one prefix, begun ten seconds apart: taken per second", &lines)
}

async fn queue() -> String {
    let service = Service::queue(16, Duration::from_millis(50));
    Worker::new(&service, 0).work(seconds(120), |_| SMALL).await;
    let seen = &service.seen()[..120];
    svg(
        "A server that works on 16 requests at a time, 50 ms each, queues the others and refuses none",
        &[
            limit(vec![320.0; 120]),
            line("taken per second", "#1f77b4", taken(seen)),
            line("in flight", "#2ca02c", in_flight(seen)),
        ],
    )
}

fn main() {
    let folder = std::env::args().nth(1).unwrap_or_else(|| {
        eprintln!("governor_plots: name the folder for the plots");
        std::process::exit(2);
    });
    let plot = |name: &str, run: &dyn Fn() -> String| {
        let path = Path::new(&folder).join(name);
        if let Err(error) = std::fs::write(&path, run()) {
            eprintln!("governor_plots: {} cannot be written: {error}", path.display());
            std::process::exit(1);
        }
        println!("{}", path.display());
    };
    plot("parts.svg", &|| in_virtual_time(parts()));
    plot("changes.svg", &|| in_virtual_time(changes()));
    plot("workers.svg", &|| in_virtual_time(workers()));
    plot("queue.svg", &|| in_virtual_time(queue()));
}

fn in_virtual_time(run: impl Future<Output = String>) -> String {
    match tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build() {
        Ok(runtime) => runtime.block_on(run),
        Err(error) => panic!("no runtime: {error}"),
    }
}
