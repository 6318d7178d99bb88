//! A random history of operations against a pure model, with kills and losses of power at any step.

use std::collections::BTreeMap;

use super::tests::{Setting, root};
use super::*;

/// Names of which paths are made: few, so that operations meet.
const NAMES: [&str; 4] = ["a", "b", "sub", "x"];

/// Bytes of a file as they show, as they are on the disk, and what was written since.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct ModelBytes {
    pub(super) now: Vec<u8>,
    durable: Vec<u8>,
    unsynced: Vec<(usize, Vec<u8>)>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) enum ModelItem {
    File(ModelBytes),
    Directory,
    Link(Vec<u8>),
}

pub(super) type Model = BTreeMap<String, ModelItem>;

#[derive(Debug, Clone)]
pub(super) enum ModelCall {
    Create(String),
    Directory(String),
    Link(String),
    Write { path: String, offset: usize, bytes: Vec<u8>, is_synced: bool },
    Commit(String),
    Resize(String, usize),
    Mode(String),
    Remove(String),
    RemoveDirectory(String),
    Rename(String, String),
}

/// The model after a call in which the process was killed: it was done or not, whatever it answered; bytes that it
/// wrote may be there.
pub(super) fn unanswered(before: &Model, call: &ModelCall, has_failed: bool) -> Vec<Model> {
    let mut candidates = Vec::new();
    if let ModelCall::Write { path, offset, bytes, .. } = call {
        let mut written = before.clone();
        let unsynced = ModelCall::Write { path: path.clone(), offset: *offset, bytes: bytes.clone(), is_synced: false };
        apply(&mut written, &unsynced);
        candidates.push(written);
    }
    candidates.extend(has_failed.then(|| before.clone()));
    candidates
}

fn parent(path: &str) -> (&str, &str) {
    path.rsplit_once('/').unwrap_or(("", path))
}

fn random_path(random: &mut fastrand::Rng) -> String {
    let depth = random.usize(1..=3);
    (0..depth).map(|_| *random.choice(NAMES.iter()).unwrap()).collect::<Vec<_>>().join("/")
}

pub(super) fn random_call(random: &mut fastrand::Rng) -> ModelCall {
    let path = random_path(random);
    match random.usize(0..20) {
        0..3 => ModelCall::Create(path),
        3..5 => ModelCall::Directory(path),
        5 => ModelCall::Link(path),
        6..11 => {
            let bytes = vec![random.u8(1..); random.usize(0..1500)];
            ModelCall::Write { path, offset: random.usize(0..2000), bytes, is_synced: random.bool() }
        }
        11..13 => ModelCall::Commit(path),
        13..15 => ModelCall::Resize(path, random.usize(0..2500)),
        15 => ModelCall::Mode(path),
        16 => ModelCall::Remove(path),
        17 => ModelCall::RemoveDirectory(path),
        _ => ModelCall::Rename(path, random_path(random)),
    }
}

fn is_directory(model: &Model, path: &str) -> bool {
    path.is_empty() || model.get(path) == Some(&ModelItem::Directory)
}

fn has_below(model: &Model, path: &str) -> bool {
    let below = format!("{path}/");
    model.keys().any(|key| key.starts_with(&below))
}

fn overwrite(bytes: &mut Vec<u8>, offset: usize, new: &[u8]) {
    if new.is_empty() {
        return;
    }
    bytes.resize(bytes.len().max(offset + new.len()), 0);
    bytes[offset..offset + new.len()].copy_from_slice(new);
}

/// Apply a call to the model. False: it fails, and changes nothing.
pub(super) fn apply(model: &mut Model, call: &ModelCall) -> bool {
    match call {
        ModelCall::Create(path) | ModelCall::Directory(path) | ModelCall::Link(path) => {
            if !is_directory(model, parent(path).0) || model.contains_key(path) {
                return false;
            }
            let item = match call {
                ModelCall::Create(_) => ModelItem::File(ModelBytes::default()),
                ModelCall::Directory(_) => ModelItem::Directory,
                _ => ModelItem::Link(b"target".to_vec()),
            };
            model.insert(path.clone(), item);
        }
        ModelCall::Write { path, offset, bytes, is_synced } => {
            let Some(ModelItem::File(content)) = model.get_mut(path) else { return false };
            overwrite(&mut content.now, *offset, bytes);
            content.unsynced.push((*offset, bytes.clone()));
            if *is_synced {
                apply(model, &ModelCall::Commit(path.clone()));
            }
        }
        ModelCall::Commit(path) => {
            let Some(ModelItem::File(content)) = model.get_mut(path) else { return false };
            content.durable.clone_from(&content.now);
            content.unsynced.clear();
        }
        ModelCall::Resize(path, size) => {
            let Some(ModelItem::File(content)) = model.get_mut(path) else { return false };
            content.now.resize(*size, 0);
            content.durable.resize(*size, 0);
            for (offset, bytes) in &mut content.unsynced {
                bytes.truncate(size.saturating_sub(*offset));
            }
        }
        ModelCall::Mode(path) => return model.contains_key(path),
        ModelCall::Remove(path) => {
            if !model.contains_key(path) || is_directory(model, path) {
                return false;
            }
            model.remove(path);
        }
        ModelCall::RemoveDirectory(path) => {
            if !is_directory(model, path) || has_below(model, path) {
                return false;
            }
            model.remove(path);
        }
        ModelCall::Rename(from, to) => {
            if !model.contains_key(from) || !is_directory(model, parent(to).0) {
                return false;
            }
            if from == to {
                return true;
            }
            let is_moved = is_directory(model, from);
            let is_replaced = model.contains_key(to);
            let is_clash = is_replaced && (is_moved != is_directory(model, to) || has_below(model, to));
            if to.starts_with(&format!("{from}/")) || is_clash {
                return false;
            }
            let below = format!("{from}/");
            let moved: Vec<String> =
                model.keys().filter(|key| *key == from || key.starts_with(&below)).cloned().collect();
            model.remove(to);
            for key in moved {
                let item = model.remove(&key).unwrap();
                model.insert(format!("{to}{}", &key[from.len()..]), item);
            }
        }
    }
    true
}

/// Make a call on the share.
pub(super) async fn run(setting: &Setting, call: &ModelCall) -> Result<()> {
    let share = &setting.share;
    let plain = SetAttributes::default();
    let place = async |path: &str| {
        let (directory, name) = parent(path);
        Ok::<_, FileError>((setting.find(directory).await?.file, name.as_bytes().to_vec()))
    };
    match call {
        ModelCall::Create(path) => {
            let (directory, name) = place(path).await?;
            share.create(&root(), directory, &name, CreateMode::Guarded(plain)).await.map(drop)
        }
        ModelCall::Directory(path) => {
            let (directory, name) = place(path).await?;
            share.create_directory(&root(), directory, &name, plain).await.map(drop)
        }
        ModelCall::Link(path) => {
            let (directory, name) = place(path).await?;
            share.create_link(&root(), directory, &name, Bytes::from_static(b"target"), plain).await.map(drop)
        }
        ModelCall::Write { path, offset, bytes, is_synced } => {
            let file = setting.find(path).await?.file;
            let stability = if *is_synced { Stability::File } else { Stability::Unstable };
            share.write(&root(), file, *offset as u64, Bytes::from(bytes.clone()), stability).await.map(drop)
        }
        ModelCall::Commit(path) => share.commit(&root(), setting.find(path).await?.file).await.map(drop),
        ModelCall::Resize(path, size) => {
            let set = SetAttributes { size: Some(*size as u64), ..plain };
            share.set_attributes(&root(), setting.find(path).await?.file, set, None).await.map(drop)
        }
        ModelCall::Mode(path) => {
            let set = SetAttributes { mode: Some(0o751), ..plain };
            share.set_attributes(&root(), setting.find(path).await?.file, set, None).await.map(drop)
        }
        ModelCall::Remove(path) => {
            let (directory, name) = place(path).await?;
            share.remove(&root(), directory, &name).await.map(drop)
        }
        ModelCall::RemoveDirectory(path) => {
            let (directory, name) = place(path).await?;
            share.remove_directory(&root(), directory, &name).await.map(drop)
        }
        ModelCall::Rename(from, to) => {
            let ((old, old_name), (new, new_name)) = (place(from).await?, place(to).await?);
            share.rename(&root(), old, &old_name, new, &new_name).await.map(drop)
        }
    }
}

/// All that the share shows, with identities.
pub(super) async fn view(setting: &Setting) -> BTreeMap<String, (FileId, ModelItem)> {
    let mut shown = BTreeMap::new();
    let mut todo = vec![(String::new(), setting.share.root())];
    while let Some((path, directory)) = todo.pop() {
        let mut cookie = 2;
        loop {
            let page = setting.share.read_directory(&root(), directory, cookie, 2, EntryDetail::All).await.unwrap();
            for entry in page.entries {
                cookie = entry.cookie;
                let name = std::str::from_utf8(&entry.name).unwrap();
                let path = if path.is_empty() { name.to_owned() } else { format!("{path}/{name}") };
                let file = entry.attributes.file;
                let looked_up = setting.share.lookup(&root(), directory, name.as_bytes()).await.unwrap();
                // Not by its time: that of a folder of the bucket is known once the folder was listed.
                let facts = |found: &Attributes| (found.file, found.kind, found.size);
                assert_eq!(facts(&looked_up), facts(&entry.attributes), "{path}");
                let item = match entry.attributes.kind {
                    seqferry_share::FileKind::Directory => {
                        todo.push((path.clone(), file));
                        ModelItem::Directory
                    }
                    seqferry_share::FileKind::Symlink => {
                        ModelItem::Link(setting.share.read_link(&root(), file).await.unwrap().to_vec())
                    }
                    seqferry_share::FileKind::File => {
                        let now = setting.bytes(file).await.unwrap();
                        assert_eq!(now.len() as u64, entry.attributes.size, "{path}");
                        ModelItem::File(ModelBytes { durable: now.clone(), now, unsynced: Vec::new() })
                    }
                };
                assert!(shown.insert(path, (file, item)).is_none(), "a name is listed once");
            }
            if page.is_end {
                break;
            }
        }
    }
    shown
}

/// Calls in a few words.
pub(super) fn brief(calls: &[ModelCall]) -> String {
    let brief = |call: &ModelCall| match call {
        ModelCall::Write { path, offset, bytes, is_synced } => {
            let synced = if *is_synced { " synced" } else { "" };
            format!("Write{synced} {path} {offset}..{} of {:?}", offset + bytes.len(), bytes.first())
        }
        other => format!("{other:?}"),
    };
    calls.iter().map(brief).collect::<Vec<_>>().join("\n")
}

/// Differences between a share and a model, in a few words.
pub(super) fn differences(model: &Model, seen: &BTreeMap<String, (FileId, ModelItem)>) -> String {
    let brief = |item: Option<&ModelItem>| match item {
        Some(ModelItem::File(contents)) => {
            let (now, durable) = (&contents.now, &contents.durable);
            let first = |bytes: &[u8]| bytes.first().copied();
            format!("file of {} bytes ({} durable, from {:?})", now.len(), durable.len(), first(now))
        }
        other => format!("{other:?}"),
    };
    let paths: std::collections::BTreeSet<&String> = model.keys().chain(seen.keys()).collect();
    let lines = paths.into_iter().filter_map(|path| {
        let (expected, found) = (model.get(path), seen.get(path).map(|(_, item)| item));
        let is_same = match (expected, found) {
            (Some(ModelItem::File(expected)), Some(ModelItem::File(found))) => expected.now == found.now,
            (expected, found) => expected == found,
        };
        (!is_same).then(|| format!("{path}: expected {}, found {}\n", brief(expected), brief(found)))
    });
    lines.collect()
}

/// True when the share shows what the model has now.
pub(super) fn is_current(model: &Model, seen: &BTreeMap<String, (FileId, ModelItem)>) -> bool {
    let is_same = |(path, item): (&String, &ModelItem)| match (item, seen.get(path)) {
        (ModelItem::File(expected), Some((_, ModelItem::File(found)))) => expected.now == found.now,
        (expected, Some((_, found))) => expected == found,
        (_, None) => false,
    };
    model.len() == seen.len() && model.iter().all(is_same)
}

/// True when the share shows what the model may have after a crash: each byte that was committed, or that was written
/// over it since.
pub(super) fn is_recovered(model: &Model, seen: &BTreeMap<String, (FileId, ModelItem)>) -> bool {
    let is_same = |(path, item): (&String, &ModelItem)| match (item, seen.get(path)) {
        (ModelItem::File(expected), Some((_, ModelItem::File(found)))) => {
            let may_be = |at: usize, byte: u8| {
                byte == expected.durable[at]
                    || expected
                        .unsynced
                        .iter()
                        .any(|(offset, bytes)| at.checked_sub(*offset).and_then(|at| bytes.get(at)) == Some(&byte))
            };
            found.now.len() == expected.durable.len()
                && found.now.iter().enumerate().all(|(at, byte)| may_be(at, *byte))
        }
        (expected, Some((_, found))) => expected == found,
        (_, None) => false,
    };
    model.len() == seen.len() && model.iter().all(is_same)
}

/// The model after a crash. A killed process has left bytes that are not on the disk, and that a loss of power may take
/// until they are committed.
pub(super) fn recovered(mut model: Model, seen: Model, lost_power: bool) -> Model {
    for (path, item) in seen {
        match (model.get_mut(&path), item) {
            (Some(ModelItem::File(expected)), ModelItem::File(found)) if !lost_power => expected.now = found.now,
            (Some(expected), found) => *expected = found,
            (None, _) => {}
        }
    }
    model
}

pub(super) fn model_of(seen: BTreeMap<String, (FileId, ModelItem)>) -> Model {
    seen.into_iter().map(|(path, (_, item))| (path, item)).collect()
}

#[allow(clippy::similar_names)] // the seed, and what is seen
async fn history(seed: u64) {
    let mut random = fastrand::Rng::with_seed(seed);
    let objects =
        [("a", vec![b'1'; 900]), ("sub/a", vec![b'2'; 1300]), ("sub/sub/b", b"3".to_vec()), ("sub/x", vec![])];
    let mut setting = Setting::new(&objects).await;
    let mut model = model_of(view(&setting).await);
    assert_eq!(model.len(), 6, "four objects and two folders");
    for round in 0..4 {
        if random.bool() {
            let disk = if random.bool() { &setting.journal } else { &setting.data };
            disk.die_after(random.usize(0..40));
        }
        let mut candidates = Vec::new();
        let mut calls = Vec::new();
        for _ in 0..25 {
            let call = random_call(&mut random);
            calls.push(call.clone());
            let before = model.clone();
            let expected = apply(&mut model, &call);
            let done = run(&setting, &call).await;
            if setting.journal.is_dead() || setting.data.is_dead() {
                candidates.extend(unanswered(&before, &call, done.is_err()));
                break;
            }
            if let ModelCall::Commit(_) | ModelCall::Mode(_) = &call
                && !expected
            {
                continue;
            }
            assert_eq!(done.is_ok(), expected, "seed {seed} round {round}: {done:?}\n{calls:#?}");
            if random.u8(..) < 40 {
                assert!(is_current(&model, &view(&setting).await), "seed {seed} round {round}: {calls:#?}");
            }
        }
        candidates.push(model.clone());
        let file_table = if candidates.len() == 1 { view(&setting).await } else { BTreeMap::new() };
        let lost_power = random.bool();
        setting = setting.restarted(&mut random, lost_power).await;
        let seen = view(&setting).await;
        let found = candidates.iter().find(|candidate| is_recovered(candidate, &seen));
        assert!(found.is_some(), "seed {seed} round {round}: {calls:#?}\n{model:?}\n{seen:?}");
        for (path, (file, _)) in &file_table {
            assert_eq!(seen[path].0, *file, "seed {seed} round {round}: the identity of {path}");
        }
        model = recovered(found.cloned().unwrap_or_default(), model_of(seen), lost_power);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_random_history_shows_what_a_model_does_after_any_crash() {
    let seed = fastrand::u64(..);
    println!("seed {seed}");
    let mut random = fastrand::Rng::with_seed(seed);
    for _ in 0..120 {
        history(random.u64(..)).await;
    }
}
