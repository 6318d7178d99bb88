//! Short forms of what tests ask of stores.

use bytes::Bytes;
use seqferry_store::{
    Attributes, ByteThrottle, Digests, EndpointOptions, ObjectWrite, PutObject, Result, S3Store, WrittenObject,
};

/// Short forms of [`ObjectWrite`].
pub trait ObjectWriteExt: ObjectWrite {
    /// Writes a whole object that carries these attributes and no more.
    fn put(
        &self,
        bucket: &str,
        key: &str,
        body: Bytes,
        attributes: &Attributes,
    ) -> impl Future<Output = Result<WrittenObject>> + Send {
        let object = PutObject {
            bucket: bucket.to_owned(),
            key: key.to_owned(),
            attributes: attributes.clone(),
            digests: Digests::crc64nvme(&body),
            ..PutObject::default()
        };
        async move { self.put_object(&object, body).await }
    }
}

impl<S: ObjectWrite + ?Sized> ObjectWriteExt for S {}

/// A store at a service, without a limit of its bandwidth. Resolves the options through the AWS chain; contacts no
/// service yet.
pub async fn connect(options: EndpointOptions) -> S3Store {
    S3Store::connect_throttled(options, ByteThrottle::default()).await
}
