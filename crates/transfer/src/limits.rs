//! Limits and defaults of copies, each with its reason.

/// Limits and defaults. [`CopyLimits::default`] is AWS; tests and other services may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyLimits {
    /// Smallest part but the last. S3: 5 MiB.
    pub minimum_part: u64,
    /// Largest part. S3: 5 GiB.
    pub maximum_part: u64,
    /// Most parts of an upload. S3: 10,000.
    pub maximum_parts: u64,
    /// Largest source of one `CopyObject`. S3: 5 GiB.
    pub maximum_copy: u64,
    /// Largest object: 10,000 parts of 5 GiB, what AWS calls 50 TB. Services with a limit of 5 TiB return an error.
    pub maximum_object: u64,
    /// Largest object copied by one `CopyObject`: below, parts bring little, and a second request costs more than it
    /// saves.
    pub copy_threshold: u64,
    /// Largest source with no digest but a plain MD5 `ETag` that is copied in one request, since only then the `ETag`
    /// of the copy can be compared. One copy runs at 57-90 MiB/s, so 1 GiB takes some 15 s.
    pub etag_copy: u64,
    /// Part size where nothing else decides: one part copy runs at 70-90 MiB/s plus a fixed cost, and requests are
    /// limited per second and prefix, so that big parts are both faster and cheaper.
    pub part_size: u64,
    /// Largest object that is streamed in one request: below 16 MiB the requests of a multipart upload cost more
    /// than concurrent parts save.
    pub stream_threshold: u64,
    /// Ranges of an object that several requests read and one writes, where the latency of the source is high. One
    /// request to S3 brings some 80 MiB/s after 30 ms and more: a smaller range does not end sooner.
    pub stream_range: u64,
    /// Part size of streams where nothing else decides, grown with the object up to `stream_part_grown`: AWS advises
    /// reads of 8-16 MB, each concurrently with others, and a part is held in memory from its first byte read to its
    /// last one written.
    pub stream_part: u64,
    /// Largest part size that a growing stream reaches, except for objects that would need too many parts.
    pub stream_part_grown: u64,
    /// Largest part of a source whose boundaries a stream keeps. They make an `ETag` or a composite checksum comparable
    /// part by part; memory would hold too few larger parts.
    pub stream_boundaries: u64,
}

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

impl Default for CopyLimits {
    fn default() -> Self {
        Self {
            minimum_part: 5 * MIB,
            maximum_part: 5 * GIB,
            maximum_parts: 10_000,
            maximum_copy: 5 * GIB,
            maximum_object: 50_000 * GIB,
            copy_threshold: 128 * MIB,
            etag_copy: GIB,
            part_size: 128 * MIB,
            stream_threshold: 16 * MIB,
            stream_range: 4 * MIB,
            stream_part: 8 * MIB,
            stream_part_grown: 16 * MIB,
            stream_boundaries: 64 * MIB,
        }
    }
}
