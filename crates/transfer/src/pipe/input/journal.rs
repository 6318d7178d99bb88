//! The journal of an upload from a descriptor: a file with the upload's id.

use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use rustix::fs::OFlags;
use seqferry_client::{RecordedUpload, RequestError, UploadJournal};
use seqferry_store::{ObjectUri, file_error};

use super::InputTarget;

/// Journal of the upload to `target`: the file `path`.
pub(super) struct FileJournal {
    pub(super) path: Option<PathBuf>,
    pub(super) target: InputTarget,
}

impl UploadJournal for FileJournal {
    async fn record(&self, upload: &RecordedUpload) -> Result<(), RequestError> {
        let Some(path) = self.path.clone() else { return Ok(()) };
        let what = format!("the id of the upload cannot be written to {}", path.display());
        let id = upload.upload_id.clone();
        let write = move || -> io::Result<()> {
            // Its folder is new and this user's; a link in it was put there by another program.
            let flags = i32::try_from(OFlags::NOFOLLOW.bits()).map_err(io::Error::other)?;
            let mut file = File::options().write(true).create(true).truncate(true).custom_flags(flags).open(path)?;
            file.write_all(id.as_bytes())?;
            file.sync_all()
        };
        let written = tokio::task::spawn_blocking(write).await.unwrap_or_else(|stopped| Err(io::Error::other(stopped)));
        written.map_err(|cause| {
            file_error("RecordUpload", ObjectUri(&self.target.bucket, Some(&self.target.key)), &what, &cause).into()
        })
    }
}
