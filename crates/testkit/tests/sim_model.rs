//! The service model: its times, limits and splits, in time that the tests give.

use std::time::Duration;

use seqferry_testkit::data::seed;
use seqferry_testkit::sim::model::{Load, Model, ModelOptions, ModelVerdict, ModelWork};

const MIB: u64 = 1 << 20;

fn seconds(verdict: ModelVerdict) -> f64 {
    match verdict {
        ModelVerdict::Serve { after, .. } => after.as_secs_f64(),
        ModelVerdict::SlowDown { .. } => panic!("refused"),
    }
}

fn served(verdict: ModelVerdict) -> bool {
    matches!(verdict, ModelVerdict::Serve { .. })
}

/// `rate` requests per second for `length` seconds from `from` on; how many were served in each second.
fn load(model: &mut Model, load: Load, rate: u32, from: u32, length: u32, key: impl Fn(u32) -> String) -> Vec<u32> {
    let mut each_second = Vec::new();
    for second in from..from + length {
        let mut count = 0;
        for request in 0..rate {
            let now = Duration::from_secs(u64::from(second)) + Duration::from_secs(1) * request / rate;
            count += u32::from(served(model.arrive(now, load, "b", &key(request), ModelWork::Small)));
        }
        each_second.push(count);
    }
    each_second
}

#[test]
fn a_part_copy_takes_the_line_that_the_sources_give() {
    let mut model = Model::new(ModelOptions { tail_probability: 0.0, ..ModelOptions::default() }, seed());

    for (bytes, expected) in [(16 * MIB, 0.8 + 16.0 / 78.0), (128 * MIB, 0.8 + 128.0 / 78.0)] {
        let times: Vec<f64> = (0..2_000)
            .map(|i| {
                let now = Duration::from_millis(i * 10);
                seconds(model.arrive(now, Load::Write, "b", "k", ModelWork::PartCopy { bytes }))
            })
            .collect();

        let mean = times.iter().sum::<f64>() / 2_000.0;
        assert!((mean / expected - 1.0).abs() < 0.02, "{mean} for {expected}");
        assert!(times.iter().all(|time| (0.9 * expected..=1.1 * expected).contains(time)));
        // Later arrivals would be in the past of the next size.
        model = Model::new(model.options().clone(), seed());
    }
}

#[test]
fn the_slow_tail_is_as_long_as_told() {
    let options = ModelOptions { tail_probability: 0.1, tail_factor: 10.0, ..ModelOptions::default() };
    let mut model = Model::new(options, seed());

    let slow = (0..5_000_u64)
        .filter(|i| {
            let verdict = model.arrive(Duration::from_millis(*i), Load::Read, "b", "k", ModelWork::Small);
            seconds(verdict) > 0.9
        })
        .count();

    assert!((400..600).contains(&slow), "{slow}");
}

#[test]
fn a_download_begins_before_it_ends() {
    let mut model = Model::new(ModelOptions::default(), seed());

    let ModelVerdict::Serve { after, first_byte } =
        model.arrive(Duration::ZERO, Load::Read, "b", "k", ModelWork::Get { bytes: 81 * MIB })
    else {
        panic!("refused")
    };

    let ratio = after.as_secs_f64() / first_byte.as_secs_f64();
    assert!((ratio - 1.15 / 0.15).abs() < 1e-6, "{ratio}");
}

#[test]
fn reads_and_writes_have_limits_of_their_own() {
    for (kind, other, limit) in [(Load::Write, Load::Read, 3_500), (Load::Read, Load::Write, 5_500)] {
        let mut model = Model::new(ModelOptions::default(), seed());

        let served_in = load(&mut model, kind, 12_000, 0, 4, |_| "k".to_owned());

        assert!((limit..=limit + limit / 2).contains(&served_in[0]), "the burst: {served_in:?}");
        assert!(served_in[1..].iter().all(|count| count.abs_diff(limit) <= 1), "{served_in:?}");
        assert!(served(model.arrive(Duration::from_secs(4), other, "b", "k", ModelWork::Small)));
    }
}

#[test]
fn load_within_the_limit_is_never_refused() {
    let mut model = Model::new(ModelOptions::default(), seed());

    let served_in = load(&mut model, Load::Write, 3_500, 0, 20, |_| "k".to_owned());

    assert!(served_in.iter().all(|count| *count == 3_500), "{served_in:?}");
    assert_eq!(model.partitions("b").len(), 1);
}

#[test]
fn lasting_overload_splits_the_range_between_the_keys() {
    let options = ModelOptions { split_after_seconds: Some(5.0), maximum_partitions: 4, ..ModelOptions::default() };
    let mut model = Model::new(options, seed());
    let key = |request: u32| format!("run/{:04}", request % 1_000);

    let served_in = load(&mut model, Load::Write, 20_000, 0, 30, key);

    assert!(served_in[1..5].iter().all(|count| count.abs_diff(3_500) <= 1), "before the first: {served_in:?}");
    assert_eq!(model.partitions("b").len(), 4, "no more than allowed");
    assert!(served_in[29] >= 13_000, "four partitions, about evenly loaded: {served_in:?}");
    let firsts = model.partitions("b");
    assert!(firsts.is_sorted() && firsts[0].is_empty() && firsts[1].starts_with("run/"), "{firsts:?}");
}

#[test]
fn one_hot_key_cannot_be_split() {
    let options = ModelOptions { split_after_seconds: Some(2.0), ..ModelOptions::default() };
    let mut model = Model::new(options, seed());

    load(&mut model, Load::Write, 5_000, 0, 10, |_| "k".to_owned());

    // At most once, between the keys before it and itself.
    assert!(model.partitions("b").len() <= 2);
    assert_eq!(load(&mut model, Load::Write, 5_000, 10, 1, |_| "k".to_owned()), [3_500]);
}

#[test]
fn a_pause_ends_the_overload_and_none_means_never() {
    for (split_after_seconds, pause) in [(Some(5.0), 20), (None, 0)] {
        let options = ModelOptions { split_after_seconds, ..ModelOptions::default() };
        let mut model = Model::new(options, seed());

        for start in 0..5 {
            load(&mut model, Load::Write, 5_000, start * (4 + pause), 4, |request| request.to_string());
        }

        assert_eq!(model.partitions("b").len(), 1);
    }
}

#[test]
fn buckets_and_given_partitions_are_apart() {
    let mut model = Model::new(ModelOptions::default(), seed());
    model.split(Duration::ZERO, "b", "m");
    load(&mut model, Load::Write, 8_000, 0, 2, |_| "a".to_owned());

    let now = Duration::from_secs(2);
    for _ in 0..1_000 {
        assert!(served(model.arrive(now, Load::Write, "b", "m", ModelWork::Small)));
        assert!(served(model.arrive(now, Load::Write, "other", "a", ModelWork::Small)));
    }
}

#[test]
fn the_same_seed_and_arrivals_give_the_same_verdicts() {
    let run = |seed| {
        let mut model = Model::new(ModelOptions::default(), seed);
        (0..20_000_u64)
            .map(|i| model.arrive(Duration::from_micros(i * 100), Load::Write, "b", "k", ModelWork::Copy { bytes: i }))
            .collect::<Vec<_>>()
    };

    assert_eq!(run(seed()), run(seed()));
    assert_ne!(run(seed()), run(seed() + 1));
}

#[test]
fn impossible_options_are_named() {
    type OptionChange = fn(&mut ModelOptions);
    let table: &[(&str, OptionChange)] = &[
        ("writes_per_second", |o| o.writes_per_second = 0.0),
        ("reads_per_second", |o| o.reads_per_second = f64::NAN),
        ("tail_probability", |o| o.tail_probability = 1.5),
        ("tail_factor", |o| o.tail_factor = 0.5),
        ("part_copy.base_seconds", |o| o.part_copy.base_seconds = -1.0),
        ("get.mib_per_second", |o| o.get.mib_per_second = f64::INFINITY),
        ("small.jitter", |o| o.small.jitter = 2.0),
        ("burst_seconds", |o| o.burst_seconds = 0.0),
        ("maximum_partitions", |o| o.maximum_partitions = 0),
        ("split_after_seconds", |o| o.split_after_seconds = Some(-1.0)),
    ];

    for (name, spoil) in table {
        let mut options = ModelOptions::default();
        spoil(&mut options);
        let problem = options.check().expect_err(name);
        assert!(problem.contains(name), "{problem}");
    }
    assert_eq!(ModelOptions::default().check(), Ok(()));
    assert_eq!(ModelOptions::instant().check(), Ok(()));
}
