//! Next steps: each is a code here, and a sentence in the layer that has the options it names.
//!
//! This crate and those above it say which step would help. The words of the step name options and commands, which are
//! not known here: the caller of the engine installs them once for the process. Before that the code stands for them. A
//! process that serves (a gateway, a mount) does not end with a failure, so that some steps have other sentences there.

use std::collections::HashMap;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The sentences of a process, each list in the order of [`Advice::ALL`].
struct Sentences {
    commands: Vec<String>,
    serving: Vec<String>,
}

static SENTENCES: OnceLock<Sentences> = OnceLock::new();
static SERVES: AtomicBool = AtomicBool::new(false);

macro_rules! advice {
    ($($(#[doc = $doc:literal])+ $name:ident = $code:literal,)+) => {
        /// The next step after a failure. Shown as the sentence that is installed for it.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[non_exhaustive]
        pub enum Advice {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Advice {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)+];

            /// Stable lower-case code.
            pub fn code(self) -> &'static str {
                match self {
                    $(Self::$name => $code,)+
                }
            }
        }
    };
}

advice! {
    /// The credentials may not read the tags of the source.
    GrantTags = "grant_tags",
    /// The credentials may not list the bucket.
    GrantList = "grant_list",
    /// The credentials may not read the object.
    GrantRead = "grant_read",
    /// The credentials may not write the target.
    GrantWrite = "grant_write",
    /// The credentials may not list the parts of an upload.
    GrantListParts = "grant_list_parts",
    /// The credentials may not list the uploads of the bucket.
    GrantListUploads = "grant_list_uploads",
    /// The credentials may not abort an upload.
    GrantAbort = "grant_abort",
    /// The credentials may not delete.
    GrantDelete = "grant_delete",
    /// The credentials lack a permission of a copy.
    GrantCopy = "grant_copy",
    /// The object is archived.
    Restore = "restore",
    /// A restore of the object is under way.
    AwaitRestore = "await_restore",
    /// The bucket is not there.
    CheckBucket = "check_bucket",
    /// The name is not a valid bucket name.
    CheckBucketName = "check_bucket_name",
    /// The service does not know the access key, or its secret is another.
    CheckKeys = "check_keys",
    /// There are no credentials.
    FindCredentials = "find_credentials",
    /// The profile gives no credentials.
    FillProfile = "fill_profile",
    /// The endpoint does not answer.
    CheckNetwork = "check_network",
    /// The certificate of the endpoint is not trusted.
    TrustCertificate = "trust_certificate",
    /// The disk is full.
    FreeDisk = "free_disk",
    /// The file system is read-only.
    MountWritable = "mount_writable",
    /// The folder is not there.
    CheckPath = "check_path",
    /// The user may not read or write there.
    ChangePermissions = "change_permissions",
    /// The operating system failed to read or write.
    CheckDisk = "check_disk",
    /// Another program removes files below the target.
    StopRemovals = "stop_removals",
    /// The process has no file handle left.
    RaiseOpenFiles = "raise_open_files",
    /// The file system takes no file of this size.
    AllowLargeFiles = "allow_large_files",
    /// The key cannot be a path.
    ChooseKey = "choose_key",
    /// The name is kept for unfinished files.
    AvoidReservedName = "avoid_reserved_name",
    /// The key is that of a folder, and the object has bytes.
    AvoidFolderKey = "avoid_folder_key",
    /// One name would be a file and a folder.
    ClearName = "clear_name",
    /// A device, socket or pipe is in the place of the target.
    KeepSpecialFile = "keep_special_file",
    /// A symbolic link is in the place of a folder.
    ReplaceLink = "replace_link",
    /// The file system takes two names for one.
    RenameOne = "rename_one",
    /// A device, socket or pipe has no bytes to copy.
    SkipSpecialFile = "skip_special_file",
    /// The name is not UTF-8.
    RenameFile = "rename_file",
    /// A symbolic link is skipped.
    ChooseLinks = "choose_links",
    /// A symbolic link leads to nothing.
    FixLink = "fix_link",
    /// A symbolic link leads back to itself.
    RemoveLink = "remove_link",
    /// Ranged reads are answered with something else.
    PassRanges = "pass_ranges",
    /// Objects are compressed or decompressed on the way.
    PassBytes = "pass_bytes",
    /// A listing contradicts itself.
    DistrustListing = "distrust_listing",
    /// The head of an answer is larger than any that S3 sends.
    ShrinkHead = "shrink_head",
    /// The process has lost the right to write.
    CheckDatabase = "check_database",
    /// The target is full.
    FreeQuota = "free_quota",
    /// The archive is one of several volumes.
    JoinVolumes = "join_volumes",
    /// The object is no archive.
    NameArchive = "name_archive",
    /// The archive is damaged.
    FetchArchive = "fetch_archive",
    /// The archive is compressed with a window that needs too much memory.
    NarrowWindow = "narrow_window",
    /// The index belongs to another archive.
    MakeIndex = "make_index",
    /// The endpoint does not have the storage class.
    ChooseStorageClass = "choose_storage_class",
    /// The clock of the machine is wrong.
    SetClock = "set_clock",
    /// The key of the target is too long.
    ShortenPrefix = "shorten_prefix",
    /// The parts have a size that the service does not take.
    ChoosePartSize = "choose_part_size",
    /// The target does not take the metadata or tags.
    ChangeMetadata = "change_metadata",
    /// The credentials have expired.
    RenewCredentials = "renew_credentials",
    /// The service asks for fewer requests.
    AskLess = "ask_less",
    /// Another region serves the bucket.
    GiveRegion = "give_region",
    /// The owner of the bucket or key has to allow it.
    AskOwner = "ask_owner",
    /// The endpoint lacks the operation.
    ChooseOptions = "choose_options",
    /// The object is not there.
    ListAgain = "list_again",
    /// The service does not accept the request.
    CheckRequest = "check_request",
    /// Another attempt may succeed.
    RunAgain = "run_again",
    /// The work is done again.
    Repeat = "repeat",
    /// The source changes until its sender has finished.
    RepeatAfterSender = "repeat_after_sender",
    /// Another program writes or removes objects at the target.
    RepeatAfterWriter = "repeat_after_writer",
    /// The storage holds other bytes than were sent.
    RepeatOrReport = "repeat_or_report",
    /// The bytes of an object are not those that its storage states.
    RepeatOrAskAboutObject = "repeat_or_ask_about_object",
    /// The bytes of an archive are not those that its storage states.
    RepeatOrAskAboutArchive = "repeat_or_ask_about_archive",
    /// Bytes change on the way to the storage.
    FindFault = "find_fault",
    /// The target exists, and must not be replaced.
    ReplaceTarget = "replace_target",
    /// The target of a stream exists, and must not be replaced.
    OverwriteTarget = "overwrite_target",
    /// The credentials may not read the target.
    SeeTarget = "see_target",
    /// The target exists, and the credentials may not read it.
    ReplaceUnseen = "replace_unseen",
    /// A part needs more memory than may be buffered.
    RaiseMemory = "raise_memory",
    /// A part of the size that was requested needs more memory than may be buffered.
    RaiseMemoryOrCutParts = "raise_memory_or_cut_parts",
    /// Object Lock is not carried.
    CarryLock = "carry_lock",
    /// The target is encrypted otherwise than the source.
    ChooseEncryption = "choose_encryption",
    /// The target does not have the encryption that was requested.
    ChooseOfferedEncryption = "choose_offered_encryption",
    /// The target would not be encrypted, as the source is.
    CopyUnencrypted = "copy_unencrypted",
    /// Files change while they are copied.
    WaitForFiles = "wait_for_files",
    /// The bytes as they are stored cannot be verified.
    CopyUnverified = "copy_unverified",
    /// The end of the archive is missing.
    TolerateMissingEnd = "tolerate_missing_end",
    /// A member of the archive has two sizes.
    TolerateTwoSizes = "tolerate_two_sizes",
    /// A second archive follows the archive.
    TolerateConcatenated = "tolerate_concatenated",
    /// Other bytes follow the archive.
    TolerateTrailingBytes = "tolerate_trailing_bytes",
    /// A line of a manifest cannot be read.
    MakeManifest = "make_manifest",
    /// The limit of requests is set elsewhere.
    UseMaxRequests = "use_max_requests",
    /// The limit of bandwidth is set elsewhere.
    UseMaxBandwidth = "use_max_bandwidth",
    /// The threshold of multipart uploads is set elsewhere.
    UseCopyThreshold = "use_copy_threshold",
    /// The size of parts is set elsewhere.
    UsePartSize = "use_part_size",
}

impl fmt::Display for Advice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.sentence(SENTENCES.get(), SERVES.load(Ordering::Relaxed)))
    }
}

impl Advice {
    /// Installs the sentences of the process: one for each code, and others for some codes while the process serves.
    /// Sentences that are installed already stay.
    ///
    /// # Errors
    /// The codes without a sentence. Nothing is installed then.
    pub fn install(commands: &HashMap<String, String>, serving: &HashMap<String, String>) -> Result<(), String> {
        let sentences = Sentences::of(commands, serving)?;
        SENTENCES.get_or_init(|| sentences);
        Ok(())
    }

    /// States that this process serves from now on.
    pub fn serve() {
        SERVES.store(true, Ordering::Relaxed);
    }

    fn sentence(self, installed: Option<&Sentences>, serves: bool) -> &str {
        let list = installed.map(|sentences| if serves { &sentences.serving } else { &sentences.commands });
        list.and_then(|sentences| sentences.get(self as usize)).map_or(self.code(), String::as_str)
    }
}

impl Sentences {
    fn of(commands: &HashMap<String, String>, serving: &HashMap<String, String>) -> Result<Self, String> {
        let of = |advice: &Advice| commands.get(advice.code()).filter(|sentence| !sentence.is_empty());
        let missing: Vec<&str> = Advice::ALL.iter().filter(|one| of(one).is_none()).map(|one| one.code()).collect();
        if !missing.is_empty() {
            return Err(missing.join(", "));
        }
        let while_serving = |advice: &Advice| serving.get(advice.code()).or_else(|| of(advice)).cloned();
        Ok(Self {
            commands: Advice::ALL.iter().filter_map(of).cloned().collect(),
            serving: Advice::ALL.iter().filter_map(while_serving).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_code_stands_for_one_step_and_is_shown_until_a_sentence_is_installed() {
        let codes: std::collections::BTreeSet<&str> = Advice::ALL.iter().map(|advice| advice.code()).collect();

        assert_eq!(codes.len(), Advice::ALL.len());
        for (place, advice) in Advice::ALL.iter().enumerate() {
            assert_eq!(*advice as usize, place);
            assert_eq!(advice.to_string(), advice.code());
        }
    }

    #[test]
    fn sentences_are_installed_only_when_each_code_has_one() {
        let mut sentences: HashMap<String, String> =
            Advice::ALL.iter().map(|advice| (advice.code().to_owned(), "Do this.".to_owned())).collect();
        sentences.remove("restore");
        sentences.insert("run_again".to_owned(), String::new());

        assert_eq!(Advice::install(&sentences, &HashMap::new()), Err("restore, run_again".to_owned()));
        assert_eq!(Advice::Restore.to_string(), "restore");
    }

    #[test]
    fn a_process_that_serves_says_the_words_of_serving_where_there_are_any() {
        let words = |text: &'static str| move |advice: &Advice| (advice.code().to_owned(), text.to_owned());
        let commands = Advice::ALL.iter().map(words("Run it again.")).collect();
        let serving = [Advice::RunAgain].iter().map(words("It may succeed later.")).collect();
        let sentences = Sentences::of(&commands, &serving).expect("each code has a sentence");

        for advice in Advice::ALL {
            assert_eq!(advice.sentence(Some(&sentences), false), "Run it again.");
        }
        assert_eq!(Advice::RunAgain.sentence(Some(&sentences), true), "It may succeed later.");
        assert_eq!(Advice::Restore.sentence(Some(&sentences), true), "Run it again.");
        assert_eq!(Advice::Restore.sentence(None, true), "restore");
    }
}
