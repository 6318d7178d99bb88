//! The engine's Python module: converts values and errors, releases the GIL, decides nothing.
//!
//! One file per group: [`buckets`] (buckets, single objects, removals), [`cache`] (disk caches of mounts), [`digests`]
//! (digests of contents), [`engine`] (the process-wide engine), [`failure`] (failures that do not raise), [`gateway`]
//! (shares over NFS), [`inventory`] (S3 Inventory in Parquet), [`job`] (a running job), [`listing`], [`merkle`] (trees
//! over rows), [`mount`], [`patterns`] (wildcards, rules that rename), [`pipes`] (standard input and output),
//! [`properties`] (what objects carry), [`recorded`] (objects as a record has them), [`stats`] (metrics), [`unpack`]
//! (members of archives), [`values`] (what goes in and comes out). The typed picture is `python/seqferry/_native.pyi`.

// pyo3's macros generate code that these lints would judge.
#![allow(missing_docs, unreachable_pub, clippy::needless_pass_by_value)]

mod buckets;
mod cache;
mod digests;
mod engine;
mod failure;
mod gateway;
mod inventory;
mod job;
mod listing;
mod merkle;
#[cfg(target_os = "linux")]
mod mount;
mod patterns;
mod pipes;
mod properties;
mod recorded;
mod stats;
mod unpack;
mod upload_batches;
mod values;

use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use seqferry_store::Advice;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

pyo3::create_exception!(
    _native,
    EngineError,
    pyo3::exceptions::PyException,
    "args: (message, error_class, error_code, operation, job_wide)."
);

/// The Seqferry engine.
#[pymodule]
fn _native(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    let words = module.py().import("seqferry.model.messages.steps")?;
    let (commands, serving) = (words.getattr("ADVICE")?.extract()?, words.getattr("SERVING")?.extract()?);
    Advice::install(&commands, &serving).map_err(|codes| PyImportError::new_err(format!("no advice for {codes}")))?;
    module.add("ADVICE_CODES", Advice::ALL.iter().map(|advice| advice.code()).collect::<Vec<_>>())?;
    module.add("EngineError", module.py().get_type::<EngineError>())?;
    module.add_class::<buckets::ObjectFacts>()?;
    module.add_class::<buckets::ObjectVersion>()?;
    module.add_function(wrap_pyfunction!(buckets::abort_uploads, module)?)?;
    module.add_function(wrap_pyfunction!(buckets::create_bucket, module)?)?;
    module.add_function(wrap_pyfunction!(buckets::delete_bucket, module)?)?;
    module.add_function(wrap_pyfunction!(buckets::list_buckets, module)?)?;
    module.add_function(wrap_pyfunction!(buckets::abort_rules, module)?)?;
    module.add_function(wrap_pyfunction!(buckets::list_uploads, module)?)?;
    module.add_function(wrap_pyfunction!(buckets::list_versions, module)?)?;
    module.add_function(wrap_pyfunction!(buckets::object_facts, module)?)?;
    module.add_function(wrap_pyfunction!(buckets::presign, module)?)?;
    module.add_function(wrap_pyfunction!(buckets::read_range, module)?)?;
    module.add_function(wrap_pyfunction!(buckets::upload_sizes, module)?)?;
    module.add_class::<cache::CacheWarming>()?;
    module.add_class::<cache::CachedObject>()?;
    module.add_class::<cache::DiskCache>()?;
    module.add_class::<cache::VerifiedObject>()?;
    module.add_class::<cache::Warmed>()?;
    module.add_class::<digests::ContentDigests>()?;
    module.add_class::<digests::DigestRequest>()?;
    module.add_function(wrap_pyfunction!(digests::digest_objects, module)?)?;
    module.add_class::<engine::Engine>()?;
    module.add_class::<failure::Failure>()?;
    module.add_class::<inventory::InventoryRows>()?;
    module.add_class::<inventory::PyInventoryRow>()?;
    module.add_class::<patterns::RenameRules>()?;
    module.add_class::<patterns::Wildcards>()?;
    module.add_class::<stats::EngineStats>()?;
    module.add_class::<job::Job>()?;
    module.add_class::<job::PyJobPlace>()?;
    module.add_class::<listing::Listing>()?;
    module.add_class::<merkle::MerkleTree>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<gateway::Gateway>()?;
    module.add_class::<gateway::GatewayShare>()?;
    module.add_class::<gateway::GatewayWrites>()?;
    module.add_class::<upload_batches::UploadBatch>()?;
    module.add_class::<upload_batches::UploadOutcome>()?;
    module.add_class::<mount::Mount>()?;
    module.add_class::<mount::ShareMount>()?;
    #[cfg(target_os = "linux")]
    module.add_class::<mount::NameAudit>()?;
    #[cfg(target_os = "linux")]
    module.add_function(wrap_pyfunction!(mount::audit_names, module)?)?;
    module.add_class::<unpack::ArchiveCheck>()?;
    module.add_class::<unpack::ArchiveScan>()?;
    module.add_class::<unpack::CheckReport>()?;
    module.add_class::<unpack::FoundMember>()?;
    module.add_class::<unpack::ScanOptions>()?;
    module.add_class::<values::ActiveObject>()?;
    module.add_class::<values::CopyItem>()?;
    module.add_class::<values::CopyPolicy>()?;
    module.add_class::<values::PyFoundCopy>()?;
    module.add_class::<recorded::PyRecordedDigest>()?;
    module.add_class::<recorded::RecordedObjects>()?;
    module.add_class::<pipes::Pipe>()?;
    module.add_class::<pipes::PipeReport>()?;
    module.add_class::<properties::PyProperties>()?;
    module.add_class::<values::PyEndpoint>()?;
    module.add_class::<stats::Metric>()?;
    module.add_class::<stats::MetricSample>()?;
    module.add_class::<values::UploadRecord>()?;
    module.add_class::<values::ObjectInfo>()?;
    module.add_class::<values::Events>()?;
    module.add_class::<values::Progress>()?;
    module.add_function(wrap_pyfunction!(pipes::abort_upload, module)?)?;
    module.add_function(wrap_pyfunction!(pipes::restore, module)?)?;
    module.add_function(wrap_pyfunction!(pipes::store_input, module)?)?;
    module.add_function(wrap_pyfunction!(pipes::write_output, module)?)?;
    module.add_function(wrap_pyfunction!(values::pack_shards, module)?)?;
    module.add_function(wrap_pyfunction!(values::path_refusal, module)?)?;
    module.add_function(wrap_pyfunction!(values::endpoint_fault, module)?)?;
    module.add_function(wrap_pyfunction!(values::endpoint_identity, module)?)?;
    module.add_function(wrap_pyfunction!(values::equal_as_listed, module)?)?;
    module.add_function(wrap_pyfunction!(stats::start_trace, module)?)?;
    Ok(())
}
