//! Macros for layers over a store: which methods continue to it unchanged. A layer names each method or implements it,
//! since the traits have no defaults.

/// Implements [`ObjectRead`](crate::ObjectRead) for a layer: the methods of the list continue to the store in the named
/// field, and the functions after it are the layer's own.
#[macro_export]
macro_rules! forward_object_read {
    ($layer:ty, $store:ident, [$($verb:ident),* $(,)?] $($own:tt)*) => {
        $crate::forward_object_read!(@ $layer, $store, [$($own)*] $($verb)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] head_bucket $($rest:ident)*) => {
        $crate::forward_object_read!(@ $layer, $store, [
            async fn head_bucket(&self, bucket: &str) -> $crate::Result<()> {
                self.$store.head_bucket(bucket).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] list $($rest:ident)*) => {
        $crate::forward_object_read!(@ $layer, $store, [
            async fn list(&self, request: &$crate::ListRequest) -> $crate::Result<$crate::ListPage> {
                self.$store.list(request).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] head $($rest:ident)*) => {
        $crate::forward_object_read!(@ $layer, $store, [
            async fn head(
                &self,
                object: $crate::ObjectRef<'_>,
                part: Option<u32>,
            ) -> $crate::Result<$crate::ObjectMeta> {
                self.$store.head(object, part).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] fetch $($rest:ident)*) => {
        $crate::forward_object_read!(@ $layer, $store, [
            async fn fetch(
                &self,
                source: &$crate::PinnedObject,
                range: Option<$crate::Range>,
            ) -> $crate::Result<$crate::FetchedObject> {
                self.$store.fetch(source, range).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] get_tags $($rest:ident)*) => {
        $crate::forward_object_read!(@ $layer, $store, [
            async fn get_tags(&self, object: $crate::ObjectRef<'_>) -> $crate::Result<Vec<(String, String)>> {
                self.$store.get_tags(object).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] bucket_encryption $($rest:ident)*) => {
        $crate::forward_object_read!(@ $layer, $store, [
            async fn bucket_encryption(&self, bucket: &str) -> $crate::Result<$crate::BucketEncryption> {
                self.$store.bucket_encryption(bucket).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] restore $($rest:ident)*) => {
        $crate::forward_object_read!(@ $layer, $store, [
            async fn restore(&self, object: $crate::ObjectRef<'_>, days: u32, tier: &str) -> $crate::Result<()> {
                self.$store.restore(object, days, tier).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] invalidate $($rest:ident)*) => {
        $crate::forward_object_read!(@ $layer, $store, [
            fn invalidate(&self, source: &$crate::PinnedObject) {
                self.$store.invalidate(source);
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*]) => {
        #[$crate::async_trait]
        impl $crate::ObjectRead for $layer {
            $($done)*
        }
    };
}

/// Implements [`ObjectWrite`](crate::ObjectWrite) for a layer: the methods of the list continue to the store in the
/// named field, and the functions after it are the layer's own.
#[macro_export]
macro_rules! forward_object_write {
    ($layer:ty, $store:ident, [$($verb:ident),* $(,)?] $($own:tt)*) => {
        $crate::forward_object_write!(@ $layer, $store, [$($own)*] $($verb)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] put_object $($rest:ident)*) => {
        $crate::forward_object_write!(@ $layer, $store, [
            async fn put_object(
                &self,
                object: &$crate::PutObject,
                body: $crate::Bytes,
            ) -> $crate::Result<$crate::WrittenObject> {
                self.$store.put_object(object, body).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] delete $($rest:ident)*) => {
        $crate::forward_object_write!(@ $layer, $store, [
            async fn delete(&self, object: $crate::ObjectRef<'_>) -> $crate::Result<()> {
                self.$store.delete(object).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] delete_if $($rest:ident)*) => {
        $crate::forward_object_write!(@ $layer, $store, [
            async fn delete_if(&self, object: $crate::ObjectRef<'_>, etag: &str) -> $crate::Result<()> {
                self.$store.delete_if(object, etag).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] put_tags $($rest:ident)*) => {
        $crate::forward_object_write!(@ $layer, $store, [
            async fn put_tags(&self, object: $crate::ObjectRef<'_>, tags: &[(String, String)]) -> $crate::Result<()> {
                self.$store.put_tags(object, tags).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] copy $($rest:ident)*) => {
        $crate::forward_object_write!(@ $layer, $store, [
            async fn copy(
                &self,
                source: &$crate::PinnedObject,
                target: $crate::CopyTarget<'_>,
            ) -> $crate::Result<$crate::WrittenObject> {
                self.$store.copy(source, target).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*]) => {
        #[$crate::async_trait]
        impl $crate::ObjectWrite for $layer {
            $($done)*
        }
    };
}

/// Implements [`MultipartUpload`](crate::MultipartUpload) for a layer: the methods of the list continue to the store in
/// the named field, and the functions after it are the layer's own.
#[macro_export]
macro_rules! forward_multipart_upload {
    ($layer:ty, $store:ident, [$($verb:ident),* $(,)?] $($own:tt)*) => {
        $crate::forward_multipart_upload!(@ $layer, $store, [$($own)*] $($verb)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] create_upload $($rest:ident)*) => {
        $crate::forward_multipart_upload!(@ $layer, $store, [
            async fn create_upload(&self, upload: &$crate::CreateUpload) -> $crate::Result<String> {
                self.$store.create_upload(upload).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] copy_part $($rest:ident)*) => {
        $crate::forward_multipart_upload!(@ $layer, $store, [
            async fn copy_part(
                &self,
                source: &$crate::PinnedObject,
                range: $crate::Range,
                upload: $crate::UploadRef<'_>,
                part: u32,
            ) -> $crate::Result<$crate::WrittenPart> {
                self.$store.copy_part(source, range, upload, part).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] put_part $($rest:ident)*) => {
        $crate::forward_multipart_upload!(@ $layer, $store, [
            async fn put_part(
                &self,
                upload: $crate::UploadRef<'_>,
                part: u32,
                body: $crate::Bytes,
                digests: &$crate::Digests,
            ) -> $crate::Result<$crate::WrittenPart> {
                self.$store.put_part(upload, part, body, digests).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] stream_part $($rest:ident)*) => {
        $crate::forward_multipart_upload!(@ $layer, $store, [
            async fn stream_part(
                &self,
                upload: $crate::UploadRef<'_>,
                part: u32,
                size: u64,
                body: $crate::Body,
            ) -> $crate::Result<$crate::WrittenPart> {
                self.$store.stream_part(upload, part, size, body).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] list_parts $($rest:ident)*) => {
        $crate::forward_multipart_upload!(@ $layer, $store, [
            async fn list_parts(
                &self,
                upload: $crate::UploadRef<'_>,
                after: Option<u32>,
            ) -> $crate::Result<$crate::PartsPage> {
                self.$store.list_parts(upload, after).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] complete_upload $($rest:ident)*) => {
        $crate::forward_multipart_upload!(@ $layer, $store, [
            async fn complete_upload(&self, upload: &$crate::CompleteUpload) -> $crate::Result<$crate::WrittenObject> {
                self.$store.complete_upload(upload).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] abort_upload $($rest:ident)*) => {
        $crate::forward_multipart_upload!(@ $layer, $store, [
            async fn abort_upload(&self, upload: $crate::UploadRef<'_>) -> $crate::Result<()> {
                self.$store.abort_upload(upload).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*] list_uploads $($rest:ident)*) => {
        $crate::forward_multipart_upload!(@ $layer, $store, [
            async fn list_uploads(&self, bucket: &str, prefix: &str) -> $crate::Result<Vec<$crate::UploadInfo>> {
                self.$store.list_uploads(bucket, prefix).await
            }
            $($done)*
        ] $($rest)*);
    };
    (@ $layer:ty, $store:ident, [$($done:tt)*]) => {
        #[$crate::async_trait]
        impl $crate::MultipartUpload for $layer {
            $($done)*
        }
    };
}

/// Implements [`ObjectStore`](crate::ObjectStore) for a layer by forwarding to the store in the named field. The layer
/// implements the roles itself. A layer that implements [`BucketService`](crate::BucketService) too says in a third
/// argument when it offers that.
#[macro_export]
macro_rules! forward_object_store {
    ($layer:ty, $store:ident) => {
        $crate::forward_object_store!($layer, $store, |layer| layer.$store.bucket_service());
    };
    ($layer:ty, $store:ident, |$this:ident| $service:expr) => {
        #[$crate::async_trait]
        impl $crate::ObjectStore for $layer {
            fn capabilities(&self) -> $crate::Capabilities {
                self.$store.capabilities()
            }

            fn bucket_service(&self) -> Option<&dyn $crate::BucketService> {
                let $this = self;
                $service
            }

            fn is_amazon(&self) -> bool {
                self.$store.is_amazon()
            }

            fn max_attempts(&self) -> Option<u32> {
                self.$store.max_attempts()
            }

            fn take_notes(&self, sends_bodies: bool) -> Vec<String> {
                self.$store.take_notes(sends_bodies)
            }

            fn deferred_sync(&self, bucket: &str) -> Option<Box<dyn $crate::DeferredSync>> {
                self.$store.deferred_sync(bucket)
            }

            async fn refresh_credentials(&self) -> $crate::Result<()> {
                self.$store.refresh_credentials().await
            }
        }
    };
}
