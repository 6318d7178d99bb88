//! MIME types of files: the `Content-Type` of an uploaded file by the extension of its name.

/// Content type by the extension of a name. None: the extension is unknown or ambiguous, and the service's default
/// applies.
pub(super) fn content_type(name: &str) -> Option<&'static str> {
    let (stem, ending) = name.rsplit_once('.')?;
    if stem.is_empty() {
        return None;
    }
    Some(match ending.to_ascii_lowercase().as_str() {
        "gz" => "application/gzip",
        "zip" => "application/zip",
        "tar" => "application/x-tar",
        "json" => "application/json",
        "xml" => "application/xml",
        "pdf" => "application/pdf",
        "txt" | "log" | "md5" => "text/plain",
        "csv" => "text/csv",
        "tsv" => "text/tab-separated-values",
        "html" | "htm" => "text/html",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "svg" => "image/svg+xml",
        _ => return None,
    })
}
