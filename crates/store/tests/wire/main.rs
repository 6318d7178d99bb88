//! Tests of the S3 store against a server with scripted answers, byte for byte: the requests that it sends, and its
//! results.

mod answers;
mod broken;
mod classification;
mod copies;
mod credentials;
mod forms;
mod fuzz;
mod gets;
mod listings;
mod proxies;
mod puts;
mod regions;
mod requests;
mod secrets;
mod server;
mod settings;
mod shape;
mod strict;

use bytes::Bytes;
use futures::TryStreamExt as _;
use seqferry_store::prelude::*;
use seqferry_store::{
    CompleteUpload, CompletedPart, CopyTarget, Credentials, EndpointOptions, PinnedObject, Range, Result, S3Store,
    UploadRef,
};
use seqferry_store_testing::connect;

/// Access key id of [`store_at`]; not a secret.
const ACCESS_KEY: &str = "AKIDFORTESTS";
/// Secret key of [`store_at`]: must never appear in any text.
const SECRET_KEY: &str = "5ecretThatNobodyMaySee";

/// An endpoint with given credentials.
fn options_for(url: &str) -> EndpointOptions {
    EndpointOptions {
        endpoint_url: Some(url.to_owned()),
        region: Some("us-east-1".to_owned()),
        credentials: Some(Credentials { access_key: ACCESS_KEY.to_owned(), secret_key: SECRET_KEY.to_owned() }),
        ..EndpointOptions::default()
    }
}

/// A store that talks to an endpoint, in region `us-east-1`.
async fn store_at(url: &str) -> S3Store {
    connect(options_for(url)).await
}

/// An object as it is now, unpinned.
fn object(key: &str) -> PinnedObject {
    PinnedObject { bucket: "bucket".to_owned(), key: key.to_owned(), version_id: None, if_match: None, size: 0 }
}

/// GET of a whole body.
async fn get(store: &S3Store, key: &str) -> Result<Bytes> {
    let chunks: Vec<Bytes> = store.get(&object(key), None).await?.into_stream().try_collect().await?;
    Ok(chunks.concat().into())
}

/// The requests that may report a false success.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WriteOperation {
    Copy,
    CopyPart,
    Complete,
}

impl WriteOperation {
    const ALL: [Self; 3] = [Self::Copy, Self::CopyPart, Self::Complete];

    /// Root element of a success.
    fn element(self) -> &'static str {
        match self {
            Self::Copy => "CopyObjectResult",
            Self::CopyPart => "CopyPartResult",
            Self::Complete => "CompleteMultipartUploadResult",
        }
    }

    async fn send(self, store: &S3Store) -> Result<String> {
        let source = object("source");
        match self {
            Self::Copy => store.copy(&source, CopyTarget::new("bucket", "target")).await.map(|written| written.etag),
            Self::CopyPart => {
                let range = Range { first: 0, last: 9 };
                store
                    .copy_part(&source, range, UploadRef::new("bucket", "target", "upload"), 1)
                    .await
                    .map(|copied| copied.etag)
            }
            Self::Complete => {
                let part = CompletedPart { number: 1, etag: "0".repeat(32), checksum: None };
                let upload = CompleteUpload {
                    bucket: "bucket".to_owned(),
                    key: "target".to_owned(),
                    upload_id: "upload".to_owned(),
                    parts: vec![part],
                    size: 10,
                    ..CompleteUpload::default()
                };
                store.complete_upload(&upload).await.map(|written| written.etag)
            }
        }
    }
}
