//! Schedule of the uploader: running tasks, pauses after failures, and planned tasks.

use std::collections::{HashMap, HashSet, VecDeque};
use std::time::Duration;

use seqferry_client::Backoff;
use tokio::time::Instant;

use super::UploadError;
use super::plan::{FileUpload, UploadTask};

/// Pauses before a file is tried again.
const PAUSES: Backoff = Backoff { first: Duration::from_secs(1), longest: Duration::from_mins(5) };

/// Attempts in a row at one generation that find another object than expected, before that counts as a failure.
const MOST_CHANGES: u32 = 3;
/// Subjects whose last attempt found another object, at most; all are forgotten then.
const MOST_CHANGED: usize = 4096;

/// Generation of each file, and when it was seen first.
type Generations = HashMap<u64, (u64, Instant)>;

/// Wait of a file or key after a failure.
#[derive(Debug, Clone, Copy)]
struct FailurePause {
    until: Instant,
    failures: u32,
}

/// Work of which one is under way at a time.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum TaskKey {
    File(u64),
    Key(Box<str>),
    /// The parts of a file that grows.
    Parts(u64),
    CleanFiles,
}

/// See the module.
#[derive(Debug)]
pub(super) struct Schedule {
    since: Instant,
    generations: Generations,
    pauses: HashMap<TaskKey, FailurePause>,
    /// Generation of what was attempted last, and attempts in a row that found another object.
    changed: HashMap<TaskKey, (u64, u32)>,
    busy: HashSet<TaskKey>,
    keys: HashSet<Box<str>>,
    /// Work that was found and has not begun, and when it was found.
    planned: VecDeque<UploadTask>,
    planned_at: Option<Instant>,
}

/// Files that are checked: those settle that are the same generation for long enough.
#[derive(Debug)]
pub(super) struct SettleTracker<'a> {
    schedule: &'a Schedule,
    quiet: Duration,
    now: Instant,
    generations: Generations,
}

impl<'a> SettleTracker<'a> {
    pub(super) fn new(schedule: &'a Schedule, quiet: Duration, now: Instant) -> Self {
        Self { schedule, quiet, now, generations: HashMap::with_capacity(schedule.generations.len()) }
    }

    /// True when requests of a process that was killed right before this run are not on their way any more.
    pub(super) fn may_resolve(&self) -> bool {
        self.now.duration_since(self.schedule.since) >= self.quiet
    }

    pub(super) fn is_settled(&mut self, number: u64, changed: u64) -> bool {
        let known = self.schedule.generations.get(&number).filter(|(generation, _)| *generation == changed);
        let since = known.map_or(self.now, |(_, since)| *since);
        self.generations.insert(number, (changed, since));
        self.now.duration_since(since) >= self.quiet
    }

    /// True for a file that was found to have settled.
    pub(super) fn has_settled(&self, number: u64, changed: u64) -> bool {
        let known = self.generations.get(&number).filter(|(generation, _)| *generation == changed);
        known.is_some_and(|(_, since)| self.now.duration_since(*since) >= self.quiet)
    }

    /// True when no work on a file is under way, and none has failed just now.
    pub(super) fn may_begin(&self, number: u64) -> bool {
        let subject = TaskKey::File(number);
        let waits = self.schedule.pauses.get(&subject).is_some_and(|pause| pause.until > self.now);
        !waits && !self.schedule.busy.contains(&subject) && !self.schedule.busy.contains(&TaskKey::Parts(number))
    }

    pub(super) fn generations(self) -> Generations {
        self.generations
    }
}

impl Schedule {
    pub(super) fn new() -> Self {
        Self {
            since: Instant::now(),
            generations: HashMap::new(),
            pauses: HashMap::new(),
            changed: HashMap::new(),
            busy: HashSet::new(),
            keys: HashSet::new(),
            planned: VecDeque::new(),
            planned_at: None,
        }
    }

    /// Waits after failures end, and everything is checked again.
    pub(super) fn retry_now(&mut self) {
        self.pauses.clear();
        self.planned.clear();
    }

    /// True when nothing is planned, or what is planned was found longer ago than `most`.
    pub(super) fn needs_plan(&self, most: Duration) -> bool {
        self.planned.is_empty() || self.planned_at.is_none_or(|at| at.elapsed() >= most)
    }

    /// Take over what was found, apart from what is under way or waits.
    pub(super) fn plan(&mut self, found: Vec<UploadTask>, generations: Generations, now: Instant) {
        self.pauses.retain(|_, pause| pause.until + PAUSES.longest > now);
        let may_begin = |work: &UploadTask| {
            let waits = self.pauses.get(&TaskKey::of(work)).is_some_and(|pause| pause.until > now);
            !waits && !self.is_busy(work)
        };
        self.planned = found.into_iter().filter(may_begin).collect();
        self.planned_at = Some(now);
        self.generations = generations;
    }

    /// The next of what is planned. Files that are to be sent are checked again before that; the rest may be another
    /// one later, and has to be found again.
    pub(super) fn begin(&mut self, room: usize) -> Vec<UploadTask> {
        let mut begun = Vec::new();
        while begun.len() < room
            && let Some(work) = self.planned.pop_front()
        {
            if !self.is_busy(&work) {
                self.busy.insert(TaskKey::of(&work));
                self.keys.extend(key_of(&work).map(Box::from));
                begun.push(work);
            }
        }
        let subjects: HashSet<TaskKey> = begun.iter().map(TaskKey::of).collect();
        self.planned.retain(|work| matches!(work, UploadTask::Send(_)) && !subjects.contains(&TaskKey::of(work)));
        begun
    }

    /// The end of work, where one generation that continues finding another object than expected has failed: else it
    /// would be sent over and over without a pause.
    pub(super) fn limit_changes(
        &mut self,
        work: &UploadTask,
        done: Result<(), UploadError>,
    ) -> Result<(), UploadError> {
        let subject = TaskKey::of(work);
        match &done {
            Err(UploadError::Superseded) => {
                if self.changed.len() >= MOST_CHANGED {
                    self.changed.clear();
                }
                let generation = if let UploadTask::Send(file_upload) = work { file_upload.changed } else { 0 };
                let attempts = self.changed.entry(subject).or_default();
                *attempts = (generation, if attempts.0 == generation { attempts.1 + 1 } else { 1 });
                if attempts.1 < MOST_CHANGES { done } else { Err(UploadError::refused(work, attempts.1)) }
            }
            Err(UploadError::Stopped) => done,
            Ok(()) | Err(UploadError::NothingToDo | UploadError::Failed(_)) => {
                self.changed.remove(&subject);
                done
            }
        }
    }

    /// Work has ended.
    pub(super) fn end(&mut self, work: &UploadTask, done: Result<(), UploadError>) {
        let subject = TaskKey::of(work);
        self.busy.remove(&subject);
        if let Some(key) = key_of(work) {
            self.keys.remove(key);
        }
        match done {
            Ok(()) => drop(self.pauses.remove(&subject)),
            Err(UploadError::Superseded | UploadError::Stopped) => {}
            Err(UploadError::NothingToDo) => {
                self.pause(subject);
            }
            Err(UploadError::Failed(failure)) => {
                let wait = self.pause(subject);
                tracing::warn!("{failure} It is tried again in {} s", wait.as_secs());
            }
        }
    }

    /// True while any work is under way.
    pub(super) fn is_any_busy(&self) -> bool {
        !self.busy.is_empty()
    }

    /// True while work on the same, or another one with its key, is under way.
    fn is_busy(&self, work: &UploadTask) -> bool {
        // A file and its parts are not worked on at a time.
        let other = match TaskKey::of(work) {
            TaskKey::File(number) => Some(TaskKey::Parts(number)),
            TaskKey::Parts(number) => Some(TaskKey::File(number)),
            TaskKey::Key(_) | TaskKey::CleanFiles => None,
        };
        self.busy.contains(&TaskKey::of(work))
            || other.is_some_and(|other| self.busy.contains(&other))
            || key_of(work).is_some_and(|key| self.keys.contains(key))
    }

    /// Do no work on a subject for a while, which is longer each time.
    fn pause(&mut self, subject: TaskKey) -> Duration {
        let failures = self.pauses.get(&subject).map_or(0, |pause| pause.failures + 1);
        let wait = PAUSES.after(failures);
        self.pauses.insert(subject, FailurePause { until: Instant::now() + wait, failures });
        wait
    }
}

impl TaskKey {
    fn of(work: &UploadTask) -> Self {
        match work {
            UploadTask::Send(file_upload) => Self::File(file_upload.number),
            UploadTask::Fetch(number) | UploadTask::Resolve(number) | UploadTask::Move(number) => Self::File(*number),
            UploadTask::Remove { path, .. } => Self::Key(path.clone()),
            UploadTask::Grow(number) | UploadTask::AbortGrowing(number) => Self::Parts(*number),
            UploadTask::Evict => Self::CleanFiles,
        }
    }
}

fn key_of(work: &UploadTask) -> Option<&str> {
    match work {
        UploadTask::Send(FileUpload { path, .. }) | UploadTask::Remove { path, .. } => Some(path.trim_end_matches('/')),
        UploadTask::Fetch(_)
        | UploadTask::Resolve(_)
        | UploadTask::Move(_)
        | UploadTask::Grow(_)
        | UploadTask::AbortGrowing(_)
        | UploadTask::Evict => None,
    }
}
