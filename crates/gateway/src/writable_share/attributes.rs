//! Extended attributes of files: a record of the journal for each that is set or removed.

use bytes::Bytes;
use seqferry_share::{Access, Caller, FileError, FileId, Result, XattrCondition};

use super::Inner;
use super::checks::check_data;
use crate::file_table::ROOT;
use crate::journal::Disk;
use crate::overlay::{Change, Overlay};

/// Bytes of the names and values of one file: as much as Linux lists, or takes as one value.
const FILE_BYTES: usize = 64 << 10;
/// Bytes of memory for the attributes of all files: those of some 200,000 files that Samba has written. Where it is
/// used up, clean files lose theirs first.
const SHARE_BYTES: usize = 32 << 20;
/// Bytes of them that are made free at a time, where there are so many.
const ROOM: usize = 256 << 10;
/// Files that lose their attributes at a time, at most: a record of the journal has space for them.
const MAX_DROPPED: usize = 4096;

impl<D: Disk> Inner<D> {
    /// Value of an attribute. None: the file has no attribute of this name.
    pub(super) async fn attribute(&self, caller: &Caller, file: FileId, name: &[u8]) -> Result<Option<Bytes>> {
        let found = self.find(file).await?;
        check_data(caller, &found.attributes, &[Access::READ])?;
        Ok(self.overlay.read(|overlay| overlay.attributes().get(file.number, name).cloned()))
    }

    /// Value of an attribute that describes the share as a whole, which its root has.
    pub(super) async fn mount_attribute(&self, file: FileId, name: &str) -> Option<Bytes> {
        if file.number != ROOT {
            return None;
        }
        let value = self.files.xattr(seqferry_vfs::ROOT, name).await;
        value.ok().flatten().map(Bytes::from)
    }

    /// Names of the attributes of a file.
    pub(super) async fn attribute_names(&self, file: FileId) -> Result<Vec<Bytes>> {
        self.find(file).await?;
        let names = |overlay: &Overlay| {
            overlay.attributes().of(file.number).map(|(name, _)| Bytes::copy_from_slice(name)).collect()
        };
        Ok(self.overlay.read(names))
    }

    /// Set an attribute, or remove it. It is on the disk when this returns.
    pub(super) async fn set_attribute(
        &self,
        caller: &Caller,
        file: FileId,
        name: &[u8],
        value: Option<Bytes>,
        presence: XattrCondition,
    ) -> Result<()> {
        self.check_disk()?;
        let found = self.find(file).await?;
        check_data(caller, &found.attributes, &[Access::MODIFY])?;
        let changed = self.overlay.change(|overlay| {
            // It may have been removed meanwhile.
            overlay.locate(&self.file_table, file)?;
            let before = overlay.attributes().get(file.number, name);
            match (presence, before) {
                (XattrCondition::Absent, Some(_)) => return Err(FileError::Exists),
                (XattrCondition::Present, None) => return Err(FileError::NotFound),
                (XattrCondition::Any | XattrCondition::Absent | XattrCondition::Present, _) => {}
            }
            let mut changes = match &value {
                Some(value) => room_for(overlay, file.number, name, value)?,
                None => Vec::new(),
            };
            changes.push(Change::Attribute { number: file.number, name: name.into(), value });
            Ok((changes, ()))
        });
        changed.await
    }
}

/// Changes that free space for an attribute.
///
/// # Errors
/// `NoSpace` where the file, or the share, has as many bytes of attributes as it may.
fn room_for(overlay: &Overlay, number: u64, name: &[u8], value: &Bytes) -> Result<Vec<Change>> {
    let attributes = overlay.attributes();
    let others = attributes.of(number).filter(|(other, _)| *other != name);
    let others: usize = others.map(|(name, value)| name.len() + value.len()).sum();
    if others + name.len() + value.len() > FILE_BYTES {
        return Err(FileError::NoSpace);
    }
    // An attribute of this name that is there already is counted twice, which needs a little more room than it takes.
    let (mut bytes, needed) = (attributes.bytes(), name.len() + value.len());
    if bytes + needed <= SHARE_BYTES {
        return Ok(Vec::new());
    }
    let mut changes = Vec::new();
    let of_bucket = attributes.files().filter(|(other, _)| *other != number && overlay.node(*other).is_none());
    for (other, freed) in of_bucket.take(MAX_DROPPED) {
        bytes -= freed;
        changes.push(Change::NoAttributes(other));
        // More than is needed now, so that this is rare.
        if bytes + needed + ROOM <= SHARE_BYTES {
            break;
        }
    }
    if bytes + needed <= SHARE_BYTES { Ok(changes) } else { Err(FileError::NoSpace) }
}

#[cfg(test)]
mod tests {
    use seqferry_share::{FileId, Share as _};

    use super::super::tests::{Setting, random, root};
    use super::*;

    const NAME: &[u8] = b"user.DOSATTRIB";

    async fn set(setting: &Setting, file: FileId, name: &[u8], value: &[u8], presence: XattrCondition) -> Result<()> {
        let value = Some(Bytes::copy_from_slice(value));
        setting.share.set_extended_attribute(&root(), file, name, value, presence).await
    }

    async fn get(setting: &Setting, file: FileId, name: &[u8]) -> Option<Vec<u8>> {
        setting.share.extended_attribute(&root(), file, name).await.unwrap().map(|value| value.to_vec())
    }

    #[tokio::test]
    async fn attributes_follow_their_file_until_it_is_removed_or_replaced() {
        let mut setting = Setting::new(&[("old", b"old".to_vec()), ("folder/x", b"x".to_vec())]).await;
        let top = setting.share.root();
        let (old, new) = (setting.id("old").await, setting.put("new", "new").await);
        let folder = setting.id("folder").await;
        for (file, value) in [(old, b"1"), (new, b"2"), (folder, b"3"), (setting.id("folder/x").await, b"4")] {
            set(&setting, file, NAME, value, XattrCondition::Any).await.unwrap();
        }
        setting.share.rename(&root(), top, b"old", top, b"renamed").await.unwrap();
        setting.share.rename(&root(), top, b"folder", top, b"moved").await.unwrap();

        for lost_power in [false, true] {
            setting = setting.restarted(&mut random(), lost_power).await;
            for (path, value) in [("renamed", b"1"), ("new", b"2"), ("moved", b"3"), ("moved/x", b"4")] {
                let file = setting.id(path).await;
                assert_eq!(get(&setting, file, NAME).await.as_deref(), Some(&value[..]), "{path}, {lost_power}");
            }
        }
        setting.share.rename(&root(), top, b"new", top, b"renamed").await.unwrap();
        assert_eq!(get(&setting, new, NAME).await, Some(b"2".to_vec()));
        let moved = setting.id("moved").await;
        setting.share.remove(&root(), moved, b"x").await.unwrap();
        setting.share.remove(&root(), top, b"renamed").await.unwrap();
        let left = setting.share.0.overlay.read(|overlay| overlay.attributes().files().count());
        assert_eq!(left, 1, "those of the folder");
        let setting = setting.restarted(&mut random(), true).await;
        assert_eq!(setting.share.0.overlay.read(|overlay| overlay.attributes().files().count()), 1);
    }

    #[tokio::test]
    async fn an_attribute_is_set_and_removed_under_its_condition() {
        let setting = Setting::new(&[("old", b"old".to_vec())]).await;
        let file = setting.id("old").await;
        assert_eq!(set(&setting, file, NAME, b"1", XattrCondition::Present).await, Err(FileError::NotFound));
        set(&setting, file, NAME, b"1", XattrCondition::Absent).await.unwrap();
        assert_eq!(set(&setting, file, NAME, b"2", XattrCondition::Absent).await, Err(FileError::Exists));
        set(&setting, file, b"user.empty", b"", XattrCondition::Any).await.unwrap();
        set(&setting, file, NAME, b"3", XattrCondition::Present).await.unwrap();
        assert_eq!(get(&setting, file, NAME).await, Some(b"3".to_vec()));
        assert_eq!(get(&setting, file, b"user.empty").await, Some(Vec::new()));
        let names = setting.share.extended_attribute_names(&root(), file).await.unwrap();
        assert_eq!(names, [NAME, b"user.empty"]);

        let share = &setting.share;
        share.set_extended_attribute(&root(), file, NAME, None, XattrCondition::Present).await.unwrap();
        let again = share.set_extended_attribute(&root(), file, NAME, None, XattrCondition::Present).await;
        assert_eq!(again, Err(FileError::NotFound));
        assert_eq!(get(&setting, file, NAME).await, None);
        assert_eq!(share.waiting(), 0, "the bucket never has attributes");
    }

    #[tokio::test]
    async fn a_file_has_so_many_bytes_of_attributes_and_no_more() {
        let setting = Setting::new(&[]).await;
        let file = setting.put("file", "bytes").await;
        let half = vec![1; FILE_BYTES / 2 - 6];
        set(&setting, file, b"user.a", &half, XattrCondition::Any).await.unwrap();
        set(&setting, file, b"user.b", &half, XattrCondition::Any).await.unwrap();
        assert_eq!(set(&setting, file, b"user.c", b"", XattrCondition::Any).await, Err(FileError::NoSpace));
        set(&setting, file, b"user.b", &half, XattrCondition::Present).await.unwrap();
        assert_eq!(get(&setting, file, b"user.b").await, Some(half));
    }

    #[test]
    fn files_of_the_bucket_lose_their_attributes_first_when_there_are_too_many() {
        let mut overlay = Overlay::default();
        let value = Bytes::from(vec![1; FILE_BYTES - 64]);
        // One less than there is space for.
        let files = SHARE_BYTES / FILE_BYTES - 1;
        for number in 0..files as u64 {
            overlay.apply(Change::Attribute { number, name: NAME.into(), value: Some(value.clone()) });
        }
        let small = Bytes::from_static(b"x");
        assert_eq!(room_for(&overlay, 0, b"user.x", &small), Ok(Vec::new()), "little is left");
        let changes = room_for(&overlay, 0, b"user.x", &value.slice(..1024));
        assert_eq!(changes, Err(FileError::NoSpace), "of the file itself");
        let changes = room_for(&overlay, u64::MAX, NAME, &value).unwrap();
        assert_eq!(changes.first(), Some(&Change::NoAttributes(0)));
        for change in changes {
            overlay.apply(change);
        }
        assert!(overlay.attributes().bytes() + FILE_BYTES <= SHARE_BYTES);
        assert_eq!(room_for(&overlay, u64::MAX, NAME, &value), Ok(Vec::new()));
    }
}
