//! Scans, checks and jobs over archives on a disk, with sound, foreign and forged indexes.

use std::fs;
use std::path::PathBuf;
use std::time::Duration;

use seqferry_archive::index::{
    Index, IndexBuilder, IndexHead, IndexLimits, IndexMember, TarIdentity, build_from_stream,
};
use seqferry_archive::write::{ArchiveEntry, Layout};
use seqferry_archive::{MemberKind, ReadOptions, ScanStep, Scanner};
use seqferry_client::BudgetLimits;
use seqferry_client::{EndpointSpec, KeyLookup, RequestError};
use seqferry_store::DiskOptions;
use seqferry_transfer::unpack::{ArchiveRef, CheckReport, FoundMember, IndexUse, ScanOptions};
use seqferry_transfer::{Engine, JobEvent, JobItem, JobRequest, ObjectOutcome, ObjectState, Policy};

struct Folder(PathBuf);

impl Folder {
    fn new() -> Self {
        let path = std::env::temp_dir().join(format!("seqferry-unpack-{:x}", fastrand::u64(..)));
        fs::create_dir_all(&path).unwrap();
        Self(fs::canonicalize(path).unwrap())
    }

    fn archive(&self) -> ArchiveRef {
        ArchiveRef { bucket: self.0.to_str().unwrap().to_owned(), key: "x.tar".to_owned() }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _best_effort = fs::remove_dir_all(&self.0);
    }
}

struct Setting {
    folder: Folder,
    engine: Engine,
    contents: Vec<Vec<u8>>,
    tar: Vec<u8>,
}

fn disk() -> EndpointSpec {
    EndpointSpec::Disk(DiskOptions::default())
}

fn name(number: usize) -> String {
    format!("run/{number:03}")
}

impl Setting {
    fn new(members: usize) -> Self {
        let contents: Vec<Vec<u8>> =
            (0..members).map(|number| vec![u8::try_from(number % 251).unwrap(); number * 37]).collect();
        let entries: Vec<ArchiveEntry> = contents
            .iter()
            .enumerate()
            .map(|(number, body)| ArchiveEntry::file(name(number), body.len() as u64))
            .collect();
        let tar = Layout::plan(&entries).unwrap().assemble(|number| contents[number].clone());
        let folder = Folder::new();
        fs::write(folder.0.join("x.tar"), &tar).unwrap();
        Self { folder, engine: Engine::new(BudgetLimits::default(), None).unwrap(), contents, tar }
    }

    fn identity(&self) -> TarIdentity {
        let ArchiveRef { bucket, key } = self.folder.archive();
        let found = self.engine.look_up(&disk(), &bucket, vec![key]).unwrap();
        let KeyLookup::Object(meta) = &found[0].1 else { panic!("no archive") };
        TarIdentity { size: meta.size, etag: Some(meta.etag.clone()), ..TarIdentity::default() }
    }

    fn put_index(&self, bytes: &[u8]) {
        fs::write(self.folder.0.join("x.tar.sfidx"), bytes).unwrap();
    }

    fn sound_index(&self) -> Vec<u8> {
        let head = IndexHead::new("test", self.identity(), None);
        build_from_stream(&head, self.tar.chunks(1000), ReadOptions::default()).unwrap()
    }

    /// The index with every line passed through `forge`.
    fn forged_index(&self, mut forge: impl FnMut(usize, &mut IndexMember)) -> Vec<u8> {
        self.index_of(|number, entry| {
            forge(number, entry);
            true
        })
    }

    /// The index of the lines that `keep` keeps, which may change them; its tail fits these lines.
    fn index_of(&self, mut keep: impl FnMut(usize, &mut IndexMember) -> bool) -> Vec<u8> {
        let mut builder = IndexBuilder::new(&IndexHead::new("test", self.identity(), None));
        let mut scanner = Scanner::new(Some(self.tar.len() as u64), ReadOptions::default());
        let mut number = 0;
        loop {
            match scanner.step().unwrap() {
                ScanStep::Need { offset, len } => {
                    let at = usize::try_from(offset).unwrap();
                    scanner.supply(offset, &self.tar[at..at + len]);
                }
                ScanStep::Member(member) => {
                    let mut entry = IndexMember::from(*member);
                    if keep(number, &mut entry) {
                        builder.member(&entry);
                    }
                    number += 1;
                }
                ScanStep::End(_) => return builder.finish(),
            }
        }
    }

    fn scan(&self, index: IndexUse) -> Result<Vec<FoundMember>, RequestError> {
        let options = ScanOptions { index, ..ScanOptions::default() };
        let scan = self.engine.scan_archive(&disk(), self.folder.archive(), options, false);
        let mut found = Vec::new();
        while let Some(page) = scan.next(Duration::from_secs(30))? {
            found.extend(page);
        }
        Ok(found)
    }

    fn refusal(&self) -> String {
        match self.scan(IndexUse::Auto) {
            Err(RequestError::Failed(error)) => error.code,
            other => panic!("{other:?}"),
        }
    }

    fn check(&self) -> (CheckReport, Vec<(String, String)>) {
        let check = self.engine.check_archive(&disk(), self.folder.archive(), ScanOptions::default());
        let (mut last, mut problems) = (CheckReport::default(), Vec::new());
        while let Some(report) = check.next(Duration::from_secs(30)).unwrap() {
            problems.extend(report.problems.clone());
            last = report;
        }
        (last, problems)
    }

    fn unpack(&self, members: &[FoundMember]) -> Vec<ObjectOutcome> {
        let target = self.folder.0.join("to");
        fs::create_dir_all(&target).unwrap();
        let archive = self.folder.archive();
        let policy = Policy {
            source_bucket: archive.bucket.clone(),
            target_bucket: target.to_str().unwrap().to_owned(),
            data_path: seqferry_transfer::DataPath::Stream,
            ..Policy::default()
        };
        let items = members.iter().enumerate().map(|(id, member)| JobItem {
            id: id as u64,
            source_key: format!("x.tar!/{}", member.path),
            target_key: member.path.clone(),
            size: member.size,
            etag: member.etag.clone(),
            version_id: Some(member.location.clone()),
            ..JobItem::default()
        });
        let (source, target, items) = (&disk(), &disk(), items.collect());
        let request = JobRequest { source, target, policy, items, epoch: None };
        let job = self.engine.start_members(request, &archive);
        let mut outcomes = Vec::new();
        while !job.is_finished() {
            for event in job.wait(Duration::from_secs(30)) {
                match event {
                    JobEvent::RecordUpload { id, .. } => job.acknowledge(&[id]),
                    JobEvent::Ended(outcome) => outcomes.push(*outcome),
                }
            }
        }
        outcomes.sort_by_key(|outcome| outcome.id);
        outcomes
    }
}

#[test]
fn an_index_and_the_headers_tell_of_the_same_members() {
    let setting = Setting::new(200);
    let by_headers = setting.scan(IndexUse::Auto).unwrap();
    setting.put_index(&setting.sound_index());
    let by_index = setting.scan(IndexUse::Auto).unwrap();

    assert_eq!(by_headers.len(), by_index.len());
    for (headers, index) in by_headers.iter().zip(&by_index) {
        assert_eq!((&headers.path, headers.size, &headers.etag), (&index.path, index.size, &index.etag));
        assert!(index.crc32c.is_some() || index.kind == "directory");
    }
    let files: Vec<FoundMember> = by_index.into_iter().filter(|member| member.kind == "file").collect();
    assert!(setting.unpack(&files).iter().all(|outcome| outcome.state == ObjectState::Done));
    for (number, body) in setting.contents.iter().enumerate() {
        assert_eq!(&fs::read(setting.folder.0.join("to").join(name(number))).unwrap(), body);
    }
    let (report, problems) = setting.check();
    assert_eq!((problems, report.compared, report.indexed), (vec![], 200, true));
}

#[test]
fn an_index_of_another_archive_is_refused_before_a_member_is_told() {
    let setting = Setting::new(30);
    let index = setting.sound_index();
    setting.put_index(&index);
    let mut changed = setting.tar.clone();
    changed[0] = b'R';
    fs::write(setting.folder.0.join("x.tar"), &changed[..changed.len() - 512]).unwrap();
    assert_eq!(setting.refusal(), "ForeignIndex");
    // It is read without it, as far as it is sound.
    assert!(setting.scan(IndexUse::Never).is_err());
}

#[test]
fn a_forged_index_is_refused_by_the_headers_at_its_places() {
    let setting = Setting::new(40);
    setting.put_index(&setting.forged_index(|number, entry| entry.member.name = name(number + 1).into_bytes()));
    assert_eq!(setting.refusal(), "ForeignIndex");

    setting.put_index(&setting.sound_index()[..2000]);
    assert_eq!(setting.refusal(), "ForeignIndex");
    setting.put_index(b"no index at all\n");
    assert_eq!(setting.refusal(), "ForeignIndex");
    assert_eq!(setting.scan(IndexUse::Never).unwrap().iter().filter(|member| member.kind == "file").count(), 40);
}

#[test]
fn one_forged_line_never_gives_a_member_the_bytes_of_another() {
    for forged in [1, 777, 1500] {
        let setting = Setting::new(2000);
        setting.put_index(&setting.forged_index(|number, entry| {
            if number == forged {
                entry.member.name = b"run/forged".to_vec();
            }
        }));
        // The samples may have met it.
        let Ok(found) = setting.scan(IndexUse::Auto) else { continue };
        let files: Vec<FoundMember> = found.into_iter().filter(|member| member.kind == "file").collect();
        let failed: Vec<ObjectOutcome> =
            setting.unpack(&files).into_iter().filter(|outcome| outcome.state == ObjectState::Failed).collect();
        assert_eq!(failed.len(), 1);
        assert_eq!(failed[0].failure.as_ref().unwrap().code, "ForeignIndex");
        assert!(!setting.folder.0.join("to/run/forged").exists());
        assert_eq!(setting.check().1.len(), 1);
    }
}

#[test]
fn an_index_that_lacks_members_is_refused_wherever_they_lie() {
    let setting = Setting::new(12);
    let refusal = |keep: &dyn Fn(usize) -> bool| {
        setting.put_index(&setting.index_of(|number, _| keep(number)));
        let Err(RequestError::Failed(error)) = setting.scan(IndexUse::Auto) else { panic!("the index is accepted") };
        (error.code, error.message)
    };
    let cases: [(&dyn Fn(usize) -> bool, usize); 6] = [
        (&|number| number < 2, 2),
        (&|number| number >= 10, 0),
        (&|number| number == 0 || number == 11, 1),
        (&|number| number != 6, 6),
        (&|number| number != 11, 11),
        (&|_| false, 0),
    ];
    for (keep, lacking) in cases {
        let (code, message) = refusal(keep);
        assert_eq!(code, "ForeignIndex", "{message}");
        assert!(message.contains(&format!("it lacks {:?}", name(lacking))), "{message}");
    }
    // The archive itself has them all.
    assert_eq!(setting.scan(IndexUse::Never).unwrap().iter().filter(|member| member.kind == "file").count(), 12);
    setting.put_index(&setting.index_of(|_, _| true));
    assert_eq!(setting.scan(IndexUse::Auto).unwrap().iter().filter(|member| member.kind == "file").count(), 12);
}

#[test]
fn an_index_that_calls_files_something_to_leave_out_is_refused() {
    let setting = Setting::new(12);
    for kind in [MemberKind::Fifo, MemberKind::CharacterDevice, MemberKind::BlockDevice] {
        // The first member is empty, so that nothing of it would remain in a gap.
        setting.put_index(&setting.forged_index(|number, entry| {
            if number == 0 {
                entry.member.kind = kind;
            }
        }));
        assert_eq!(setting.refusal(), "ForeignIndex", "{kind:?}");
    }
}

#[test]
fn a_folder_and_a_link_of_an_index_are_held_against_their_headers() {
    let archive = |target: &str| {
        let entries = [ArchiveEntry::file("empty", 0), ArchiveEntry::symbolic_link("link", target)];
        let tar = Layout::plan(&entries).unwrap().assemble(|_| Vec::new());
        let setting = Setting { tar, ..Setting::new(0) };
        fs::write(setting.folder.0.join("x.tar"), &setting.tar).unwrap();
        setting
    };
    let (judged, real) = (archive("empty"), archive("other"));
    let (links, found) = (judged.scan(IndexUse::Never).unwrap(), real.scan(IndexUse::Never).unwrap());
    let folder = FoundMember {
        path: "empty/".to_owned(),
        location: found[0].location.replace(".f.", ".d."),
        ..found[0].clone()
    };
    let link = FoundMember { location: links[1].location.clone(), ..found[1].clone() };

    for outcome in real.unpack(&[folder, link]) {
        let code = outcome.failure.map(|failure| failure.code);
        assert_eq!((outcome.state, code.as_deref()), (ObjectState::Failed, Some("ForeignIndex")));
    }
    assert!(real.unpack(&found).iter().all(|outcome| outcome.state == ObjectState::Done));
}

#[test]
fn what_belongs_to_no_member_may_lie_between_the_lines() {
    let tar = Setting::new(3).tar;
    // A global header, as git writes it, before the first member.
    let mut header = tar[..512].to_vec();
    header[..100].fill(0);
    header[..17].copy_from_slice(b"pax_global_header");
    header[124..136].copy_from_slice(b"00000000016\0");
    header[156] = b'g';
    header[148..156].fill(b' ');
    let sum: u64 = header.iter().map(|byte| u64::from(*byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    let mut record = b"14 comment=xy\n".to_vec();
    record.resize(512, 0);
    let setting = Setting { tar: [header, record, tar].concat(), ..Setting::new(3) };
    fs::write(setting.folder.0.join("x.tar"), &setting.tar).unwrap();
    setting.put_index(&setting.sound_index());

    assert_eq!(setting.scan(IndexUse::Auto).unwrap().iter().filter(|member| member.kind == "file").count(), 3);
}

#[test]
fn contents_that_changed_since_the_index_are_found_and_not_unpacked() {
    let setting = Setting::new(50);
    let mut tar = setting.tar.clone();
    let at = tar.windows(37 * 20).position(|bytes| bytes.iter().all(|byte| *byte == 20)).unwrap();
    tar[at + 5] ^= 1;
    fs::write(setting.folder.0.join("x.tar"), &tar).unwrap();
    // The index has the checksums of before, under the identity of now.
    setting.put_index(&setting.sound_index());

    let (_, problems) = setting.check();
    assert_eq!(problems.iter().map(|(name, _)| name.as_str()).collect::<Vec<_>>(), ["run/020"]);
    let found = setting.scan(IndexUse::Auto).unwrap();
    let files: Vec<FoundMember> = found.into_iter().filter(|member| member.kind == "file").collect();
    let outcomes = setting.unpack(&files);
    assert_eq!(outcomes.iter().filter(|outcome| outcome.state == ObjectState::Failed).count(), 1);
    assert!(!setting.folder.0.join("to/run/020").exists());
}

#[test]
fn a_line_without_a_checksum_keeps_no_other_member_from_being_compared() {
    let setting = Setting::new(50);
    let sound = Index::read(&setting.sound_index(), &IndexLimits::default()).unwrap();
    let mut builder = IndexBuilder::new(&sound.head);
    for entry in &sound.members {
        let number = entry.member.name.rsplit(|byte| *byte == b'/').next().unwrap();
        let crc32c = match number {
            b"020" => entry.crc32c.map(|crc| crc ^ 1),
            b"021" => None,
            _ => entry.crc32c,
        };
        builder.member(&IndexMember { crc32c, ..entry.clone() });
    }
    setting.put_index(&builder.finish());

    let found = setting.scan(IndexUse::Auto).unwrap();
    let files: Vec<FoundMember> = found.into_iter().filter(|member| member.kind == "file").collect();
    let outcomes = setting.unpack(&files);

    let failed: Vec<&str> = outcomes
        .iter()
        .zip(&files)
        .filter_map(|(outcome, file)| (outcome.state == ObjectState::Failed).then_some(file.path.as_str()))
        .collect();
    assert_eq!(failed, ["run/020"]);
}
