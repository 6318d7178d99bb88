//! Tests of the journal: acknowledged records are there after any crash, and nothing else is believed.

use std::collections::BTreeSet;

use proptest::prelude::*;

use super::frame::{FRAME, HEADER};
use super::simulated::{DiskStep, SECTOR, SimulatedDisk};
use super::*;

const FIRST: &str = "00000000000000000001.log";

/// A log that was opened, with the records that it gave.
type Opened = (SegmentLog<SimulatedDisk>, Vec<Vec<u8>>, ReplaySummary);

/// Open the journal of a disk; its records.
fn open(disk: &SimulatedDisk) -> Result<Opened, JournalError> {
    let mut records = Vec::new();
    let (log, replay) = SegmentLog::open(disk.clone(), |record| {
        records.push(record.to_vec());
        Ok(())
    })?;
    Ok((log, records, replay))
}

fn group(first: u64, records: &[Vec<u8>]) -> RecordGroup {
    let mut group = RecordGroup::new(first);
    for record in records {
        group.push(record);
    }
    group
}

/// A text that is unlike all others, of one of many lengths.
fn record(random: &mut fastrand::Rng) -> Vec<u8> {
    let length = random.choice([0, 1, 20, 200, 511, 3000]).unwrap();
    let mut bytes = format!("{:016x}", random.u64(..)).into_bytes();
    bytes.resize(bytes.len() + length, random.u8(..));
    bytes
}

/// Write groups, and now and then a checkpoint of all records so far, until the disk dies or the work is done. Returns
/// how many records were acknowledged.
fn work(
    log: &mut SegmentLog<SimulatedDisk>,
    records: &mut Vec<Vec<u8>>,
    random: &mut fastrand::Rng,
    rounds: usize,
) -> usize {
    let mut acknowledged = records.len();
    for round in 0..rounds {
        if round % 4 == 3 {
            let Ok(mut writer) = log.rotate() else { break };
            // A group meanwhile.
            let before = records.clone();
            let new = vec![record(random)];
            records.extend(new.clone());
            if log.write(group(log.next(), &new)).is_err() {
                break;
            }
            acknowledged = records.len();
            let written = before.iter().try_for_each(|record| writer.add(record)).and_then(|()| writer.finish());
            if written.is_err() {
                break;
            }
        } else {
            let new: Vec<_> = (0..random.usize(1..5)).map(|_| record(random)).collect();
            records.extend(new.clone());
            if log.write(group(log.next(), &new)).is_err() {
                break;
            }
            acknowledged = records.len();
        }
    }
    acknowledged
}

/// A crash at a step: what is there is a first part of what was written, and has all that was acknowledged.
fn crash_at(step: usize, seed: u64) -> Option<DiskStep> {
    let mut random = fastrand::Rng::with_seed(seed);
    let mut disk = SimulatedDisk::default();
    let mut records = Vec::new();
    let mut at = None;
    // The second crash comes while the journal is opened, or soon after.
    for (round, steps) in [step, random.usize(0..12), usize::MAX].into_iter().enumerate() {
        disk.die_after(steps);
        let acknowledged = match open(&disk) {
            Ok((mut log, found, _)) => {
                assert!(round > 0 || found.is_empty());
                work(&mut log, &mut records, &mut random, 12)
            }
            Err(error) => {
                assert!(disk.is_dead(), "{error}");
                records.len()
            }
        };
        if round == 0 && disk.is_dead() {
            at = disk.steps().last().copied();
        }
        disk = disk.restarted(&mut random.fork(), random.bool());
        let (log, found, _) = open(&disk).unwrap_or_else(|error| panic!("step {step} seed {seed}: {error}"));
        assert!(found.len() >= acknowledged, "step {step} seed {seed}: {} of {acknowledged}", found.len());
        assert_eq!(found, records[..found.len()], "step {step} seed {seed}");
        drop(log);
        records = found;
    }
    at
}

#[test]
fn what_was_acknowledged_is_there_after_a_crash_at_each_step() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    let mut kinds = BTreeSet::new();
    for step in 0.. {
        let mut ended = false;
        for _ in 0..25 {
            match crash_at(step, random.u64(..)) {
                Some(kind) => drop(kinds.insert(kind)),
                None => ended = true,
            }
        }
        if ended {
            break;
        }
    }
    let all =
        [DiskStep::Create, DiskStep::Append, DiskStep::Sync, DiskStep::Rename, DiskStep::Remove, DiskStep::SyncNames];
    assert_eq!(kinds.into_iter().collect::<Vec<_>>(), all);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn crashes_of_crashes_lose_nothing(step in 0..60_usize, seed in any::<u64>()) {
        crash_at(step, seed);
    }
}

/// Three groups of a record each.
fn filled() -> (SimulatedDisk, Vec<Vec<u8>>) {
    let disk = SimulatedDisk::default();
    let (mut log, _, _) = open(&disk).unwrap();
    let records: Vec<_> = ["first", "second", "third"].map(|text| text.as_bytes().to_vec()).into();
    for record in &records {
        log.write(group(log.next(), std::slice::from_ref(record))).unwrap();
    }
    (disk, records)
}

#[test]
fn a_torn_end_is_cut_off_at_each_byte() {
    let (disk, records) = filled();
    let whole = disk.bytes(FIRST);
    let ends: Vec<usize> = (0..=3)
        .map(|count| HEADER + records[..count].iter().map(|record| FRAME + 4 + record.len()).sum::<usize>())
        .collect();
    assert_eq!(ends[3], whole.len());
    for length in HEADER..whole.len() {
        disk.set(FIRST, &whole[..length]);
        let (mut log, found, replay) = open(&disk).unwrap();
        let count = ends.iter().filter(|end| **end <= length).count() - 1;
        assert_eq!(found, records[..count], "{length} bytes");
        assert_eq!(
            replay,
            ReplaySummary { records: count as u64, torn_bytes: (length - ends[count]) as u64 },
            "{length} bytes"
        );
        log.write(group(log.next(), &[b"more".to_vec()])).unwrap();
        let (_, again, replay) = open(&disk).unwrap();
        assert_eq!((again.len(), again.last().unwrap().as_slice()), (count + 1, &b"more"[..]), "{length} bytes");
        assert_eq!(replay.torn_bytes, 0);
    }
}

#[test]
fn a_journal_opens_on_a_full_disk_and_a_loss_of_power_meanwhile_leaves_it_whole() {
    let kinds = [DiskStep::Create, DiskStep::Append, DiskStep::Rename];
    let cases =
        kinds.into_iter().flat_map(|kind| (0..8).flat_map(move |steps| (0..20).map(move |seed| (kind, steps, seed))));
    let mut dead = 0;
    for (kind, steps, seed) in cases {
        let mut random = fastrand::Rng::with_seed(seed);
        let (disk, records) = filled();
        disk.set(FIRST, &[disk.bytes(FIRST), b"torn".to_vec()].concat());
        disk.fail(&[kind]);
        disk.die_after(steps);
        match open(&disk) {
            Ok((_, found, replay)) => assert_eq!((found, replay.torn_bytes), (records.clone(), 4), "{kind:?}"),
            Err(error) => assert!(disk.is_dead(), "{kind:?} after {steps} steps: {error}"),
        }
        dead += usize::from(disk.is_dead());
        let disk = disk.restarted(&mut random, true);
        let (mut log, found, _) = open(&disk).unwrap_or_else(|error| panic!("{kind:?}, {steps}, {seed}: {error}"));
        assert_eq!(found, records);
        log.write(group(log.next(), &[b"more".to_vec()])).unwrap();
        let (_, found, _) = open(&disk).unwrap();
        assert_eq!(found.last().unwrap(), b"more");
    }
    assert!(dead > 100, "{dead}");
}

#[test]
fn damage_before_the_end_is_refused_and_never_cut_off() {
    let (disk, _) = filled();
    let whole = disk.bytes(FIRST);
    let last = whole.len() - FRAME - 4 - "third".len();
    for at in 0..last {
        disk.set(FIRST, &whole);
        disk.damage(FIRST, at);
        let error = open(&disk).expect_err(&format!("a changed byte at {at}"));
        assert!(error.0.contains("damaged") || error.0.contains("format"), "{at}: {error}");
        assert_eq!(disk.bytes(FIRST).len(), whole.len(), "nothing is cut off");
    }
}

#[test]
fn a_journal_of_another_version_is_refused_with_words() {
    for version in [0_u32, 2, u32::MAX] {
        let (disk, _) = filled();
        let mut bytes = disk.bytes(FIRST);
        bytes[16..20].copy_from_slice(&version.to_le_bytes());
        disk.set(FIRST, &bytes);
        let error = open(&disk).expect_err("another version").0;
        assert!(error.contains(&format!("is of format {version}, and this program reads format 1")), "{error}");
        assert_eq!(disk.bytes(FIRST), bytes);
    }
}

#[test]
fn a_missing_or_foreign_file_is_refused() {
    let (disk, records) = filled();
    let (mut log, _, _) = open(&disk).unwrap();
    let mut writer = log.rotate().unwrap();
    records.iter().try_for_each(|record| writer.add(record)).unwrap();
    writer.finish().unwrap();
    log.write(group(log.next(), &[b"fourth".to_vec()])).unwrap();
    let (_, found, _) = open(&disk).unwrap();
    assert_eq!(found.len(), 4);
    assert_eq!(disk.names().unwrap(), ["00000000000000000002.checkpoint", "00000000000000000002.log"]);

    let (log_name, checkpoint) = ("00000000000000000002.log", "00000000000000000002.checkpoint");
    let (log_bytes, checkpoint_bytes) = (disk.bytes(log_name), disk.bytes(checkpoint));
    disk.set(log_name, &checkpoint_bytes);
    assert!(open(&disk).unwrap_err().0.contains("is another file"));
    disk.set(log_name, &log_bytes);
    disk.set(checkpoint, &checkpoint_bytes[..checkpoint_bytes.len() - FRAME]);
    assert!(open(&disk).unwrap_err().0.contains("does not end as it was written"));
    disk.set(checkpoint, &checkpoint_bytes);
    disk.remove(checkpoint).unwrap();
    assert!(open(&disk).unwrap_err().0.contains("00000000000000000001.log is missing"));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_at_the_same_time_share_syncs_and_their_records_come_back() {
    let path = std::env::temp_dir().join(format!("seqferry-journal-{:016x}", fastrand::u64(..)));
    let (journal, replay) = Journal::open(&path, |_| Ok(())).unwrap();
    assert_eq!(replay, ReplaySummary::default());
    assert!(Journal::open(&path, |_| Ok(())).unwrap_err().0.contains("another gateway uses the journal"));
    let journal = Arc::new(journal);
    let before = journal.stats().syncs;
    let calls: Vec<_> = (0..200_u32)
        .map(|number| {
            let journal = Arc::clone(&journal);
            tokio::spawn(async move {
                let mut room = journal.reserve(1, 4).await.unwrap();
                let position = journal.append(&mut room, &number.to_le_bytes()).unwrap();
                journal.durable(position).await.unwrap();
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    let stats = journal.stats();
    assert_eq!(stats.syncs - before, stats.groups);
    assert!(stats.groups <= 200, "{stats:?}");
    let checkpoint = journal.begin_checkpoint().unwrap();
    assert!(journal.begin_checkpoint().is_none());
    tokio::task::spawn_blocking(move || checkpoint.write((0..7_u8).map(|number| vec![number]))).await.unwrap().unwrap();
    assert!(journal.begin_checkpoint().is_some());
    drop(journal);
    let mut found = Vec::new();
    let replay = |record: &[u8]| {
        found.push(record.to_vec());
        Ok(())
    };
    let (journal, replay) = Journal::open(&path, replay).unwrap();
    assert_eq!((found, replay.records), ((0..7_u8).map(|number| vec![number]).collect(), 7));
    drop(journal);
    std::fs::remove_dir_all(path).unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_disk_that_fails_ends_all_acknowledgements() {
    let disk = SimulatedDisk::default();
    let (journal, _) = Journal::over(disk.clone(), |_| Ok(())).unwrap();
    let mut room = journal.reserve(3, 30).await.unwrap();
    let first = journal.append(&mut room, b"first").unwrap();
    journal.durable(first).await.unwrap();
    disk.die_after(1);
    let second = journal.append(&mut room, b"second").unwrap();
    let error = journal.durable(second).await.unwrap_err();
    assert!(error.0.contains("syncing 00000000000000000001.log"), "{error}");
    let third = journal.append(&mut room, b"third").unwrap();
    assert_eq!(journal.durable(third).await.unwrap_err(), error, "the first reason stays");
    journal.durable(first).await.unwrap();
    assert_eq!(journal.failure(), Some(error));
    drop(room);
    let all = tokio::time::timeout(std::time::Duration::from_secs(20), journal.reserve(1, MAX_PENDING_BYTES - RECORD));
    all.await.expect("no room is lost").unwrap();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_checkpoint_that_a_full_disk_has_no_room_for_changes_nothing() {
    for kind in [DiskStep::Create, DiskStep::Append, DiskStep::Sync, DiskStep::Rename] {
        let disk = SimulatedDisk::default();
        let (journal, _) = Journal::over(disk.clone(), |_| Ok(())).unwrap();
        let mut room = journal.reserve(3, 30).await.unwrap();
        let first = journal.append(&mut room, b"first").unwrap();
        journal.durable(first).await.unwrap();
        let names = disk.names().unwrap();
        disk.fail(&[kind]);
        let checkpoint = journal.begin_checkpoint().unwrap();
        let error = checkpoint.write([b"state"]).expect_err("there is no room");
        assert!(error.0.contains("making 00000000000000000002.log"), "{kind:?}: {error}");
        assert_eq!(journal.failure(), None, "{kind:?}");
        disk.fail(&[]);
        let second = journal.append(&mut room, b"second").unwrap();
        journal.durable(second).await.unwrap();
        assert_eq!(disk.names().unwrap(), names, "{kind:?}: nothing is left behind");
        assert_eq!(open(&disk).unwrap().1, [b"first".to_vec(), b"second".to_vec()], "{kind:?}");
        let checkpoint = journal.begin_checkpoint().expect("the one before has ended");
        checkpoint.write([b"state"]).unwrap();
        let third = journal.append(&mut room, b"third").unwrap();
        journal.durable(third).await.unwrap();
        assert_eq!(open(&disk).unwrap().1, [b"state".to_vec(), b"third".to_vec()], "{kind:?}");
    }
}

#[test]
fn a_checkpoint_that_is_given_up_leaves_no_file() {
    let (disk, records) = filled();
    let (mut log, _, _) = open(&disk).unwrap();
    let mut writer = log.rotate().unwrap();
    writer.add(b"state").unwrap();
    disk.fail(&[DiskStep::Append]);
    writer.finish().unwrap_err();
    disk.fail(&[]);
    assert_eq!(disk.names().unwrap(), [FIRST, "00000000000000000002.log"]);
    log.write(group(log.next(), &[b"more".to_vec()])).unwrap();
    assert_eq!(open(&disk).unwrap().1, [records, vec![b"more".to_vec()]].concat());
}

#[test]
fn records_that_a_failed_sync_left_in_memory_are_written_again_before_they_count() {
    for first_length in [1, SECTOR, 5 * SECTOR] {
        let disk = SimulatedDisk::default();
        let (mut log, _, _) = open(&disk).unwrap();
        log.write(group(log.next(), &[vec![b'a'; first_length]])).unwrap();
        disk.fail(&[DiskStep::Sync]);
        log.write(group(log.next(), &[vec![b'b'; 3 * SECTOR]])).unwrap_err();
        disk.fail(&[]);
        // The next process reads what the system shows, and continues behind it.
        let mut random = fastrand::Rng::with_seed(7);
        let disk = disk.restarted(&mut random, false);
        let (mut log, found, _) = open(&disk).unwrap();
        assert_eq!(found.len(), 2);
        log.write(group(log.next(), &[b"c".to_vec()])).unwrap();
        let disk = disk.restarted(&mut random, true);
        let (_, again, _) = open(&disk).unwrap();
        assert_eq!(again, [found, vec![b"c".to_vec()]].concat());
    }
}

#[tokio::test]
async fn what_waits_is_bounded() {
    let (journal, _) = Journal::over(SimulatedDisk::default(), |_| Ok(())).unwrap();
    let room = journal.reserve(1, MAX_PENDING_BYTES - RECORD).await.unwrap();
    let waiting = tokio::time::timeout(std::time::Duration::from_millis(20), journal.reserve(1, 1));
    assert!(waiting.await.is_err(), "no room");
    drop(room);
    let mut room = journal.reserve(1, 1).await.unwrap();
    assert!(journal.append(&mut room, b"two").unwrap_err().0.contains("larger than the room"));
    let mut room_of_largest = journal.reserve(1, LARGEST_RECORD).await.unwrap();
    journal.append(&mut room_of_largest, &vec![0; LARGEST_RECORD]).unwrap();
    assert!(journal.append(&mut room, &vec![0; LARGEST_RECORD + 1]).unwrap_err().0.contains("larger than 1048576"));
    assert!(journal.reserve(1, MAX_PENDING_BYTES).await.unwrap_err().0.contains("too many"));
}
