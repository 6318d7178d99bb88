//! The table from error codes to classes.
//!
//! Codes take precedence over HTTP statuses: `RequestTimeout`, `ExpiredToken` and KMS errors are all 400. The status
//! decides only for codes that are not listed and for answers without a body (HEAD). Sources: the S3 error code list
//! and the API reference; rows where services differ say so.

use super::{Cause, ErrorClass, Scope};
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
    ("RequestTimeTooSkewed", Retry, Scope::Object), // the SDK corrects the clock from the Date header first
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

/// Next step for the user, in one sentence.
pub fn advice(operation: &str, code: &str, class: ErrorClass) -> &'static str {
    match code {
        "AccessDenied" | "Forbidden" => match operation {
            "GetObjectTagging" => {
                "Give these credentials s3:GetObjectTagging on the source, then copy the object again."
            }
            "ListObjectsV2" | "HeadBucket" => "Give these credentials s3:ListBucket on the bucket.",
            "HeadObject" | "GetObject" => {
                "Give these credentials s3:GetObject on the object (and the KMS key's rights); without s3:ListBucket on the bucket a missing object is refused as well."
            }
            "PutObject" | "CreateMultipartUpload" | "UploadPart" | "CompleteMultipartUpload" => {
                "Give these credentials s3:PutObject on the target, s3:PutObjectTagging for objects with tags (and the KMS key's rights), then run the same command again."
            }
            "ListParts" => "Give these credentials s3:ListMultipartUploadParts on the target.",
            "ListMultipartUploads" => "Give these credentials s3:ListBucketMultipartUploads on the bucket.",
            "AbortMultipartUpload" => "Give these credentials s3:AbortMultipartUpload on the target.",
            "DeleteObject" | "DeleteObjects" => {
                "Give these credentials s3:DeleteObject on that bucket (s3:DeleteObjectVersion for versions), then run the same command again."
            }
            _ => {
                "Give these credentials s3:GetObject and s3:GetObjectTagging on the source, s3:PutObject and s3:PutObjectTagging on the target, s3:ListBucket on both (and the KMS key's rights), then run the same command again."
            }
        },
        "InvalidObjectState" | "ObjectNotInActiveTierError" => {
            "The object is archived: run the same command with --restore, which asks for a readable copy and waits for it."
        }
        "RestoreAlreadyInProgress" => "A restore is under way: run the same command again when it has ended.",
        "NoSuchBucket" => "Check the bucket's name and the endpoint, or create the bucket.",
        "InvalidBucketName" => "Check the spelling of the bucket's name.",
        "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "InvalidSecurity" => {
            "Check AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or choose another --profile."
        }
        code::NO_CREDENTIALS => {
            "Set AWS_PROFILE or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, log in with 'aws sso login', or use --no-sign-request for public buckets."
        }
        code::NO_PROFILE_CREDENTIALS => {
            "Give the profile keys, log in with 'aws sso login', or leave --profile out: with it the keys of the environment are not used."
        }
        code::CONNECTION_FAILED | code::TIMED_OUT => {
            "Check the endpoint's address and the network, then run the same command again."
        }
        code::NOT_TRUSTED => {
            "Check the endpoint's address; if an authority of your own signed its certificate, set AWS_CA_BUNDLE to a file with that authority's certificate (PEM)."
        }
        code::DISK_FULL => "Make room on the disk, then run the same command again; what is done is not repeated.",
        code::READ_ONLY => "Mount the file system for writing, or choose another target.",
        code::NO_SUCH_FOLDER => "Check the path, whether its disk is mounted, or create the folder.",
        code::FOLDER_DENIED | code::PERMISSION_DENIED => {
            "Run as a user who may read and write there, or change the permissions, then run the same command again."
        }
        code::DISK_ERROR => "Check the disk and the system's log, then run the same command again.",
        code::FOLDER_VANISHED => {
            "Somebody removes files below the target: run the same command again when that has stopped."
        }
        code::TOO_MANY_OPEN_FILES => "Raise the limit of open files (ulimit -n), or lower --max-requests.",
        code::FILE_TOO_LARGE => "Choose a target on a file system that takes files of this size.",
        code::DOT_SEGMENT | code::EMPTY_SEGMENT | code::NUL_IN_KEY | code::NAME_TOO_LONG | code::NAME_NOT_ALLOWED => {
            "This key cannot be a path on this disk: copy the object under another key, which can be one."
        }
        code::RESERVED_NAME => "Names of this form are kept for unfinished files: copy the object under another key.",
        code::FOLDER_WITH_BYTES => {
            "A key that ends in '/' is a folder on a disk, which holds no bytes: copy the object under another key."
        }
        code::FILE_IN_THE_WAY | code::FOLDER_IN_THE_WAY | "ObjectParentIsFile" | "ExistingObjectIsDirectory" => {
            "On a disk one name cannot be both a file and a folder: remove or rename the one at the target that is not wanted (sync --delete removes nothing before all has arrived), or choose another target."
        }
        code::SPECIAL_FILE_IN_THE_WAY => {
            "Devices, sockets and pipes are not replaced: choose another target; to pass an object on to a program write - and a pipe."
        }
        code::SYMLINK_IN_THE_WAY => {
            "Nothing is written through symbolic links below the target: replace the link with a folder, or choose another target."
        }
        code::CASE_COLLISION => {
            "This file system takes both names for one: rename one of them, or choose a target that tells them apart."
        }
        code::SPECIAL_FILE => "Devices, sockets and pipes hold no bytes to copy: everything else is copied.",
        code::NAME_NOT_UTF8 => "Keys are UTF-8: rename the file.",
        code::SYMLINK_SKIPPED => {
            "Choose --symlinks follow to copy what the link points to, or --symlinks keep to copy the link."
        }
        code::SYMLINK_DANGLING => "Put the link right or remove it, or choose --symlinks keep to copy the link itself.",
        code::SYMLINK_LOOP => "Remove the link, or choose --symlinks keep to copy the link itself.",
        code::RANGE_IGNORED => {
            "The endpoint, or a proxy before it, drops the Range header: have that changed, or use another endpoint."
        }
        code::TRANSFORMED => {
            "Have the endpoint, or the proxy before it, pass objects on as they are stored, or use another endpoint."
        }
        code::CONTRADICTORY_LISTING => {
            "A listing that cannot be trusted decides nothing: ask the operator of the endpoint, or of a proxy or cache before it."
        }
        code::HEAD_TOO_LARGE => {
            "The object carries more metadata than S3 allows, or a proxy adds headers: remove some of the metadata, or ask the endpoint's operator."
        }
        code::LEASE_LAPSED => "See that the database is up; what is done is not repeated.",
        "QuotaExceeded" => "Make room at the target, then run the same command again.",
        "SplitArchive" => {
            "Unpack its volumes together (`7z x x.zip`), or join those of 7-Zip (`cat x.zip.* > whole.zip`)."
        }
        "NotAnArchive" => "Name a tar, a compressed tar or a zip.",
        "TruncatedArchive" | "EmptyArchive" | "InvalidArchive" | "DamagedArchive" | "ArchiveTooLarge" => {
            "Fetch the archive again, or have it made anew."
        }
        "WindowTooLarge" => {
            "Decompress it with `zstd -d --long=31` and unpack the tar, or have it compressed again without --long."
        }
        "ForeignIndex" => "Make the index anew with `seqferry tar index`, or read the archive without it (--no-index).",
        "InvalidStorageClass" => "Choose a storage class that this endpoint offers.",
        "RequestTimeTooSkewed" => "Set this machine's clock, then run the same command again.",
        "KeyTooLongError" => "The target's key would be too long: choose a shorter target prefix.",
        "EntityTooSmall" | "EntityTooLarge" => "Choose another --part-size, or leave it out.",
        "MetadataTooLarge" | "InvalidTag" => {
            "The source's metadata or tags are not accepted at the target: change them."
        }
        _ => match class {
            Credentials => "Renew the credentials (for example 'aws sso login'), then run the same command again.",
            Throttle => "Lower --max-requests, or try again when the service has less to do.",
            Redirect => {
                "Give the bucket's region with --source-region or --target-region, and no other region's --endpoint-url."
            }
            Person => "Ask the owner of the bucket or key to allow it, then run the same command again.",
            Capability => "This endpoint does not offer the operation: choose other options.",
            NotFound => "The object is not there (any more): list the source again.",
            Object => "The request is not acceptable to this service: check options, endpoint and key.",
            Precondition | Retry => "Run the same command again; what is done is not repeated.",
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
            let next = advice(operation, "AccessDenied", Person);

            assert!(next.starts_with("Give these credentials s3:DeleteObject on that bucket"), "{next}");
            assert!(["target", "source", "PutObject"].iter().all(|word| !next.contains(word)), "{next}");
        }
    }

    #[test]
    fn a_refused_bucket_is_a_matter_for_the_whole_job() {
        assert_eq!(classify("HeadBucket", "AccessDenied", Some(403)), (Person, Scope::Job));
        assert_eq!(classify("GetObject", "AccessDenied", Some(403)), (Person, Scope::Object));
    }
}
