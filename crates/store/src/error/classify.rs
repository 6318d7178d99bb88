//! The table from error codes to classes.
//!
//! Codes take precedence over HTTP statuses: `RequestTimeout`, `ExpiredToken` and KMS errors are all 400. The status
//! decides only for codes that are not listed and for answers without a body (HEAD). Sources: the S3 error code list
//! and the API reference; rows where services differ say so.

use super::{Advice, Cause, ErrorClass, Scope};
use ErrorClass::{Capability, Credentials, NotFound, Object, Person, Precondition, Redirect, Retry, Throttle};

/// One row: code, class, scope.
pub type Row = (&'static str, ErrorClass, Scope);

/// The table. Each code appears once.
pub const TABLE: &[Row] = &[
    // Ask for less.
    ("SlowDown", Throttle, Scope::Object),
    ("503 SlowDown", Throttle, Scope::Object),
    ("Busy", Throttle, Scope::Object),
    ("Throttling", Throttle, Scope::Object),
    ("ThrottlingException", Throttle, Scope::Object),
    ("TooManyRequests", Throttle, Scope::Object),
    ("TooManyRequestsException", Throttle, Scope::Object),
    ("RequestLimitExceeded", Throttle, Scope::Object),
    ("BandwidthLimitExceeded", Throttle, Scope::Object),
    ("KMS.ThrottlingException", Throttle, Scope::Object),
    // Another attempt may succeed; after a 500 the write may or may not have happened.
    ("ServiceUnavailable", Throttle, Scope::Object),
    ("InternalError", Retry, Scope::Object),
    ("RequestTimeout", Retry, Scope::Object),
    ("IncompleteBody", Retry, Scope::Object),
    ("OperationAborted", Retry, Scope::Object),
    ("ConditionalRequestConflict", Retry, Scope::Object),
    ("RequestTimeTooSkewed", Retry, Scope::Object), // after the clock was corrected by the Date header
    ("BadDigest", Retry, Scope::Object),
    ("InvalidDigest", Retry, Scope::Object),
    ("XAmzContentSHA256Mismatch", Retry, Scope::Object),
    ("XAmzContentChecksumMismatch", Retry, Scope::Object), // MinIO, for BadDigest
    // Our codes: no answer, or half of one.
    (code::CONNECTION_FAILED, Retry, Scope::Object),
    (code::TIMED_OUT, Retry, Scope::Object),
    (code::TRUNCATED, Retry, Scope::Object),
    (code::MALFORMED, Retry, Scope::Object),
    (code::LEASE_LAPSED, Retry, Scope::Object),
    // The same page would come again.
    (code::CONTRADICTORY_LISTING, Object, Scope::Object),
    (code::TRANSFORMED, Object, Scope::Object),
    // Credentials that ran out.
    ("ExpiredToken", Credentials, Scope::Job),
    ("ExpiredTokenException", Credentials, Scope::Job),
    ("TokenRefreshRequired", Credentials, Scope::Job),
    ("RequestExpired", Credentials, Scope::Job),
    ("InvalidToken", Credentials, Scope::Job),
    // Another region.
    ("PermanentRedirect", Redirect, Scope::Job),
    ("TemporaryRedirect", Redirect, Scope::Job),
    ("Redirect", Redirect, Scope::Job),
    ("AuthorizationHeaderMalformed", Redirect, Scope::Job),
    ("IllegalLocationConstraintException", Redirect, Scope::Job),
    // Conditions.
    ("PreconditionFailed", Precondition, Scope::Object),
    ("NotModified", Precondition, Scope::Object),
    // Gone, or never there.
    ("NoSuchKey", NotFound, Scope::Object),
    ("NoSuchVersion", NotFound, Scope::Object),
    ("NoSuchUpload", NotFound, Scope::Object),
    ("NotFound", NotFound, Scope::Object),
    // Rebuilt from ListParts, or started over, by the engine.
    ("InvalidPart", Object, Scope::Object),
    ("InvalidPartOrder", Object, Scope::Object),
    ("EntityTooSmall", Object, Scope::Object),
    ("EntityTooLarge", Object, Scope::Object),
    ("InvalidRange", Object, Scope::Object),
    ("KeyTooLongError", Object, Scope::Object),
    ("MetadataTooLarge", Object, Scope::Object),
    ("InvalidTag", Object, Scope::Object),
    ("InvalidRequest", Object, Scope::Object),
    ("InvalidArgument", Object, Scope::Object),
    ("InvalidStorageClass", Object, Scope::Job),
    ("InvalidURI", Object, Scope::Object),
    // The user must act, for one object.
    ("AccessDenied", Person, Scope::Object),
    ("Forbidden", Person, Scope::Object), // HEAD without a body
    ("InvalidObjectState", Person, Scope::Object),
    ("RestoreAlreadyInProgress", Person, Scope::Object),
    ("ObjectNotInActiveTierError", Person, Scope::Object),
    ("KMS.DisabledException", Person, Scope::Object),
    ("KMS.NotFoundException", Person, Scope::Object),
    ("KMS.KMSInvalidStateException", Person, Scope::Object),
    ("KMS.InvalidKeyUsageException", Person, Scope::Object),
    // Not an AWS code for objects; several compatible stores answer it when the disk or a quota is full.
    ("QuotaExceeded", Person, Scope::Job),
    // The user must act, for the whole job.
    (code::NO_CREDENTIALS, Person, Scope::Job),
    (code::NO_PROFILE_CREDENTIALS, Person, Scope::Job),
    (code::NOT_TRUSTED, Person, Scope::Job),
    ("InvalidAccessKeyId", Person, Scope::Job),
    ("SignatureDoesNotMatch", Person, Scope::Job),
    ("InvalidSecurity", Person, Scope::Job),
    ("NoSuchBucket", Person, Scope::Job),
    ("InvalidBucketName", Person, Scope::Job),
    ("AllAccessDisabled", Person, Scope::Job),
    ("AccountProblem", Person, Scope::Job),
    ("NotSignedUp", Person, Scope::Job),
    // A disk, for the whole job.
    (code::DISK_FULL, Person, Scope::Job),
    (code::READ_ONLY, Person, Scope::Job),
    (code::NO_SUCH_FOLDER, Person, Scope::Job),
    (code::FOLDER_DENIED, Person, Scope::Job),
    // A disk, for one file.
    (code::PERMISSION_DENIED, Person, Scope::Object),
    (code::DISK_ERROR, Retry, Scope::Object),
    (code::FOLDER_VANISHED, Retry, Scope::Object),
    (code::TOO_MANY_OPEN_FILES, Throttle, Scope::Object),
    (code::FILE_TOO_LARGE, Object, Scope::Object),
    // Keys that cannot be paths, or whose place is taken.
    (code::DOT_SEGMENT, Object, Scope::Object),
    (code::EMPTY_SEGMENT, Object, Scope::Object),
    (code::NUL_IN_KEY, Object, Scope::Object),
    (code::NAME_TOO_LONG, Object, Scope::Object),
    (code::NAME_NOT_ALLOWED, Object, Scope::Object),
    (code::RESERVED_NAME, Object, Scope::Object),
    (code::FOLDER_WITH_BYTES, Object, Scope::Object),
    (code::FILE_IN_THE_WAY, Object, Scope::Object),
    (code::FOLDER_IN_THE_WAY, Object, Scope::Object),
    (code::SYMLINK_IN_THE_WAY, Object, Scope::Object),
    (code::CASE_COLLISION, Object, Scope::Object),
    (code::SPECIAL_FILE_IN_THE_WAY, Object, Scope::Object),
    // versitygw, whose keys are paths too.
    ("ObjectParentIsFile", Object, Scope::Object),
    ("ExistingObjectIsDirectory", Object, Scope::Object),
    // Entries of a disk that are no objects, but whose name is taken.
    (code::SPECIAL_FILE, NotFound, Scope::Object),
    (code::SYMLINK_SKIPPED, NotFound, Scope::Object),
    (code::SYMLINK_DANGLING, NotFound, Scope::Object),
    (code::SYMLINK_LOOP, NotFound, Scope::Object),
    (code::NAME_NOT_UTF8, Object, Scope::Object),
    // The failure repeats on every attempt.
    (code::HEAD_TOO_LARGE, Object, Scope::Object),
    // The service lacks the feature.
    (code::RANGE_IGNORED, Capability, Scope::Object),
    (code::UNEXPECTED_ANSWER, Capability, Scope::Object),
    ("NotImplemented", Capability, Scope::Object),
    // A copy has no body and no length: rclone takes a copy of a part for an upload.
    ("MissingContentLength", Capability, Scope::Object),
    ("MethodNotAllowed", Capability, Scope::Object),
    ("UnsupportedOperation", Capability, Scope::Object),
];

/// The cause of an error of this operation, with this code and class.
pub(crate) fn cause(operation: &str, code: &str, class: ErrorClass) -> Cause {
    match (code, class) {
        ("NoSuchUpload", _) => Cause::UploadGone,
        ("NoSuchKey" | "NoSuchVersion" | "NotFound", ErrorClass::NotFound) => Cause::SourceGone,
        ("InvalidPart", _) => Cause::BadPart,
        ("InvalidPartOrder", _) => Cause::BadPartOrder,
        ("BadDigest", _) => Cause::BadDigest,
        (code::RANGE_IGNORED, _) => Cause::RangeIgnored,
        (code::TRANSFORMED, _) => Cause::Transformed,
        ("InvalidObjectState", ErrorClass::Person) => Cause::Archived,
        ("InvalidRequest", _) => Cause::BadRequest,
        ("BadRequest", _) if operation.starts_with("Head") => Cause::BareRefusal,
        (code::MALFORMED, _) => Cause::Unclear,
        (code::LEASE_LAPSED, _) => Cause::LeaseLapsed,
        _ => Cause::Other,
    }
}

/// Codes of our own, for failures without a complete answer.
pub mod code {
    /// The connection failed, or broke before an answer.
    pub const CONNECTION_FAILED: &str = "ConnectionFailed";
    /// The server's certificate is not trusted here.
    pub const NOT_TRUSTED: &str = "CertificateNotTrusted";
    /// The answer did not arrive in time.
    pub const TIMED_OUT: &str = "TimedOut";
    /// The body ended early.
    pub const TRUNCATED: &str = "TruncatedBody";
    /// A success without a required field.
    pub const MALFORMED: &str = "MalformedResponse";
    /// A page of a listing that contradicts itself or its request.
    pub const CONTRADICTORY_LISTING: &str = "ContradictoryListing";
    /// The bytes of an object are compressed or decompressed on the way.
    pub const TRANSFORMED: &str = "TransformedBody";
    /// The answer to a ranged request is not that range: a proxy has dropped the `Range` header.
    pub const RANGE_IGNORED: &str = "RangeIgnored";
    /// The head of the answer is larger than any that S3 sends.
    pub const HEAD_TOO_LARGE: &str = "ResponseHeadTooLarge";
    /// A complete success that answers another request. The service has ignored the sub-resource (`?tagging`) or the
    /// header (`x-amz-copy-source`) that makes the difference, so it does not know the operation.
    pub const UNEXPECTED_ANSWER: &str = "UnexpectedAnswer";
    /// The request was not sent, or was cancelled: this process has lost the right to write.
    pub const LEASE_LAPSED: &str = "LeaseLapsed";
    /// The credential chain has no credentials.
    pub const NO_CREDENTIALS: &str = "NoCredentials";
    /// The profile that was chosen gives no credentials.
    pub const NO_PROFILE_CREDENTIALS: &str = "NoProfileCredentials";

    /// The disk has no space, inode or quota left.
    pub const DISK_FULL: &str = "DiskFull";
    /// The file system is mounted for reading only.
    pub const READ_ONLY: &str = "ReadOnlyFileSystem";
    /// The root folder of a transfer is missing, or is no folder.
    pub const NO_SUCH_FOLDER: &str = "NoSuchFolder";
    /// The root folder of a transfer may not be read or written.
    pub const FOLDER_DENIED: &str = "FolderPermissionDenied";
    /// A file or folder below the root may not be read or written.
    pub const PERMISSION_DENIED: &str = "PermissionDenied";
    /// The operating system failed to read or write.
    pub const DISK_ERROR: &str = "DiskError";
    /// A folder or temporary file was removed while in use.
    pub const FOLDER_VANISHED: &str = "FolderVanished";
    /// The process, or the machine, has no file handle left.
    pub const TOO_MANY_OPEN_FILES: &str = "TooManyOpenFiles";
    /// The file system does not allow a file of this size.
    pub const FILE_TOO_LARGE: &str = "FileTooLarge";
    /// A segment of the key is `.` or `..`.
    pub const DOT_SEGMENT: &str = "DotSegment";
    /// A segment of the key is empty: a leading `/`, or `//`.
    pub const EMPTY_SEGMENT: &str = "EmptySegment";
    /// The key holds a NUL.
    pub const NUL_IN_KEY: &str = "NulInKey";
    /// A segment of the key has more bytes than a file's name may have.
    pub const NAME_TOO_LONG: &str = "NameTooLong";
    /// The file system does not accept a segment of the key as a name.
    pub const NAME_NOT_ALLOWED: &str = "NameNotAllowed";
    /// The name has the form of our own temporary files.
    pub const RESERVED_NAME: &str = "ReservedName";
    /// The key ends in `/`, and the object is not empty.
    pub const FOLDER_WITH_BYTES: &str = "FolderWithBytes";
    /// A file is in the place where the key needs a folder.
    pub const FILE_IN_THE_WAY: &str = "FileInTheWay";
    /// A folder is in the place where the key needs a file.
    pub const FOLDER_IN_THE_WAY: &str = "FolderInTheWay";
    /// A symbolic link, which might lead outside the root, is in the place where the key needs a folder.
    pub const SYMLINK_IN_THE_WAY: &str = "SymlinkInTheWay";
    /// A device, socket or pipe is in the place where the key needs a file.
    pub const SPECIAL_FILE_IN_THE_WAY: &str = "SpecialFileInTheWay";
    /// The file system treats this name as that of another file.
    pub const CASE_COLLISION: &str = "CaseCollision";
    /// A device, socket or pipe.
    pub const SPECIAL_FILE: &str = "SpecialFile";
    /// The name is not valid UTF-8; keys are.
    pub const NAME_NOT_UTF8: &str = "NameNotUtf8";
    /// A symbolic link, while links are skipped.
    pub const SYMLINK_SKIPPED: &str = "SymlinkSkipped";
    /// A symbolic link to nothing.
    pub const SYMLINK_DANGLING: &str = "SymlinkDangling";
    /// A symbolic link to a folder that holds it.
    pub const SYMLINK_LOOP: &str = "SymlinkLoop";
}

/// Class and scope of a failure.
pub fn classify(operation: &str, code: &str, status: Option<u16>) -> (ErrorClass, Scope) {
    // A refused bucket-level request applies to all objects.
    if operation == "HeadBucket" && matches!(code, "AccessDenied" | "Forbidden" | "NotFound") {
        return (Person, Scope::Job);
    }
    // Repeating the list of parts cannot correct a mismatch.
    if operation == "CompleteMultipartUpload" && matches!(code, "BadDigest" | "InvalidDigest") {
        return (Object, Scope::Object);
    }
    if let Some(&(_, class, scope)) = TABLE.iter().find(|(known, ..)| *known == code) {
        return (class, scope);
    }
    match status {
        Some(301 | 307 | 308) => (Redirect, Scope::Job),
        Some(404 | 410) => (NotFound, Scope::Object),
        Some(401 | 403) => (Person, Scope::Object),
        Some(412 | 304) => (Precondition, Scope::Object),
        Some(405 | 501) => (Capability, Scope::Object),
        Some(429 | 503) => (Throttle, Scope::Object),
        // An unknown error inside a success is like a 500: the request may or may not have been done.
        Some(200..=299 | 408 | 409 | 500..) | None => (Retry, Scope::Object),
        Some(_) => (Object, Scope::Object),
    }
}

/// Next step for the user.
pub fn advice(operation: &str, code: &str, class: ErrorClass) -> Advice {
    match code {
        "AccessDenied" | "Forbidden" => match operation {
            "GetObjectTagging" => Advice::GrantTags,
            "ListObjectsV2" | "HeadBucket" => Advice::GrantList,
            "HeadObject" | "GetObject" => Advice::GrantRead,
            "PutObject" | "CreateMultipartUpload" | "UploadPart" | "CompleteMultipartUpload" => Advice::GrantWrite,
            "ListParts" => Advice::GrantListParts,
            "ListMultipartUploads" => Advice::GrantListUploads,
            "AbortMultipartUpload" => Advice::GrantAbort,
            "DeleteObject" | "DeleteObjects" => Advice::GrantDelete,
            _ => Advice::GrantCopy,
        },
        "InvalidObjectState" | "ObjectNotInActiveTierError" => Advice::Restore,
        "RestoreAlreadyInProgress" => Advice::AwaitRestore,
        "NoSuchBucket" => Advice::CheckBucket,
        "InvalidBucketName" => Advice::CheckBucketName,
        "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidSecurity" => Advice::CheckKeys,
        code::NO_CREDENTIALS => Advice::FindCredentials,
        code::NO_PROFILE_CREDENTIALS => Advice::FillProfile,
        code::CONNECTION_FAILED | code::TIMED_OUT => Advice::CheckNetwork,
        code::NOT_TRUSTED => Advice::TrustCertificate,
        code::DISK_FULL => Advice::FreeDisk,
        code::READ_ONLY => Advice::MountWritable,
        code::NO_SUCH_FOLDER => Advice::CheckPath,
        code::FOLDER_DENIED | code::PERMISSION_DENIED => Advice::ChangePermissions,
        code::DISK_ERROR => Advice::CheckDisk,
        code::FOLDER_VANISHED => Advice::StopRemovals,
        code::TOO_MANY_OPEN_FILES => Advice::RaiseOpenFiles,
        code::FILE_TOO_LARGE => Advice::AllowLargeFiles,
        code::DOT_SEGMENT | code::EMPTY_SEGMENT | code::NUL_IN_KEY | code::NAME_TOO_LONG | code::NAME_NOT_ALLOWED => {
            Advice::ChooseKey
        }
        code::RESERVED_NAME => Advice::AvoidReservedName,
        code::FOLDER_WITH_BYTES => Advice::AvoidFolderKey,
        code::FILE_IN_THE_WAY | code::FOLDER_IN_THE_WAY | "ObjectParentIsFile" | "ExistingObjectIsDirectory" => {
            Advice::ClearName
        }
        code::SPECIAL_FILE_IN_THE_WAY => Advice::KeepSpecialFile,
        code::SYMLINK_IN_THE_WAY => Advice::ReplaceLink,
        code::CASE_COLLISION => Advice::RenameOne,
        code::SPECIAL_FILE => Advice::SkipSpecialFile,
        code::NAME_NOT_UTF8 => Advice::RenameFile,
        code::SYMLINK_SKIPPED => Advice::ChooseLinks,
        code::SYMLINK_DANGLING => Advice::FixLink,
        code::SYMLINK_LOOP => Advice::RemoveLink,
        code::RANGE_IGNORED => Advice::PassRanges,
        code::TRANSFORMED => Advice::PassBytes,
        code::CONTRADICTORY_LISTING => Advice::DistrustListing,
        code::HEAD_TOO_LARGE => Advice::ShrinkHead,
        code::LEASE_LAPSED => Advice::CheckDatabase,
        "QuotaExceeded" => Advice::FreeQuota,
        "SplitArchive" => Advice::JoinVolumes,
        "NotAnArchive" => Advice::NameArchive,
        "TruncatedArchive" | "EmptyArchive" | "InvalidArchive" | "DamagedArchive" | "ArchiveTooLarge" => {
            Advice::FetchArchive
        }
        "WindowTooLarge" => Advice::NarrowWindow,
        "ForeignIndex" => Advice::MakeIndex,
        "InvalidStorageClass" => Advice::ChooseStorageClass,
        "RequestTimeTooSkewed" => Advice::SetClock,
        "KeyTooLongError" => Advice::ShortenPrefix,
        "EntityTooSmall" | "EntityTooLarge" => Advice::ChoosePartSize,
        "MetadataTooLarge" | "InvalidTag" => Advice::ChangeMetadata,
        _ => match class {
            Credentials => Advice::RenewCredentials,
            Throttle => Advice::AskLess,
            Redirect => Advice::GiveRegion,
            Person => Advice::AskOwner,
            Capability => Advice::ChooseOptions,
            NotFound => Advice::ListAgain,
            Object => Advice::CheckRequest,
            Precondition | Retry => Advice::RunAgain,
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_stands_in_the_table_once() {
        for (i, (code, ..)) in TABLE.iter().enumerate() {
            assert!(TABLE[i + 1..].iter().all(|(other, ..)| other != code), "{code} stands twice");
        }
    }

    #[test]
    fn codes_win_over_statuses() {
        assert_eq!(classify("GetObject", "ExpiredToken", Some(400)).0, Credentials);
        assert_eq!(classify("GetObject", "RequestTimeout", Some(400)).0, Retry);
        assert_eq!(classify("CopyObject", "InternalError", Some(200)).0, Retry);
    }

    #[test]
    fn unknown_codes_go_by_status() {
        let class = |status| classify("GetObject", "Mystery", status).0;

        assert_eq!(class(None), Retry);
        assert_eq!(class(Some(400)), Object);
        assert_eq!(class(Some(403)), Person);
        assert_eq!(class(Some(404)), NotFound);
        assert_eq!(class(Some(412)), Precondition);
        assert_eq!(class(Some(429)), Throttle);
        assert_eq!(class(Some(500)), Retry);
        assert_eq!(class(Some(501)), Capability);
        assert_eq!(class(Some(503)), Throttle);
        assert_eq!(class(Some(599)), Retry);
    }

    #[test]
    fn a_refused_removal_names_no_permission_of_copies() {
        for operation in ["DeleteObject", "DeleteObjects"] {
            assert_eq!(advice(operation, "AccessDenied", Person), Advice::GrantDelete);
        }
    }

    #[test]
    fn a_refused_bucket_is_a_matter_for_the_whole_job() {
        assert_eq!(classify("HeadBucket", "AccessDenied", Some(403)), (Person, Scope::Job));
        assert_eq!(classify("GetObject", "AccessDenied", Some(403)), (Person, Scope::Object));
    }
}
