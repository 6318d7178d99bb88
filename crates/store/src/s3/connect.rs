//! SDK clients from endpoint options: credentials, endpoint, region, path style, and the tasks left to the SDK.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use aws_config::BehaviorVersion;
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::imds::region::ImdsRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_config::stalled_stream_protection::StalledStreamProtectionConfig;
use aws_config::timeout::TimeoutConfig;
use aws_runtime::env_config::file::EnvConfigFiles;
use aws_sdk_s3::config::endpoint::Params;
use aws_sdk_s3::config::interceptors::{
    BeforeDeserializationInterceptorContextMut, BeforeTransmitInterceptorContextMut,
};
use aws_sdk_s3::config::{
    Builder, ConfigBag, Intercept, Region, RequestChecksumCalculation, ResponseChecksumValidation, RuntimeComponents,
};
use aws_sdk_s3::error::BoxError;
use aws_smithy_runtime_api::client::orchestrator::Metadata;

use super::address::{is_open_to_others, without_userinfo};
use super::clock::ClockSkewClassifier;
use super::credentials::CredentialCache;
use super::dial::{CONNECTING, Trust};
use super::fast_path::{ClientContext, FastPath};
use super::profile_files::profile_files;
use super::proxy::credentials_client;
use super::settings::{AwsSettings, ResolvedSettings, find_setting};
use super::transport::{Transport, transport};
use crate::properties::CustomerKey;
use crate::throttle::ByteThrottle;

/// Endpoint, identity and keys of the requests to one service.
#[derive(Clone, Default, PartialEq, Eq, Hash)]
pub struct EndpointOptions {
    /// Address of the endpoint. None: that of `AWS_ENDPOINT_URL_S3`, `AWS_ENDPOINT_URL` or the profile, or else AWS
    /// itself.
    pub endpoint_url: Option<String>,
    /// Region. None: that of the environment or the profile.
    pub region: Option<String>,
    /// Profile of the AWS configuration files.
    pub profile: Option<String>,
    /// True to send requests unsigned.
    pub anonymous: bool,
    /// Settings that the caller has resolved. None: they come from the environment and the profile.
    pub resolved: Option<ResolvedSettings>,
    /// Credentials for tests. None: those of the AWS chain: environment, profile, SSO, web identity, ECS, IMDS,
    /// process.
    pub credentials: Option<Credentials>,
    /// True when the caller pays for requests to buckets of others (requester pays).
    pub request_payer: bool,
    /// Attempts for each request. None: as in the AWS settings.
    pub attempts: Option<u32>,
    /// Key that objects are read and written with (SSE-C).
    pub customer_key: Option<CustomerKey>,
    /// Key of the source objects of copies (SSE-C).
    pub copy_source_key: Option<CustomerKey>,
}

impl EndpointOptions {
    /// The headers that requests of this operation carry for these options.
    pub(super) fn headers(&self, operation: &str) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        if self.request_payer {
            headers.push(("x-amz-request-payer".to_owned(), "requester".to_owned()));
        }
        let mut add = |key: Option<&CustomerKey>, of_source| {
            let found = key.into_iter().flat_map(|key| key.headers(of_source));
            headers.extend(found.map(|(name, value)| (name.to_owned(), value)));
        };
        if WITH_KEY.contains(&operation) {
            add(self.customer_key.as_ref(), false);
        }
        if ["CopyObject", "UploadPartCopy"].contains(&operation) {
            add(self.copy_source_key.as_ref(), true);
        }
        headers
    }
}

/// Operations that take the key of their object.
const WITH_KEY: [&str; 7] =
    ["GetObject", "HeadObject", "PutObject", "CopyObject", "CreateMultipartUpload", "UploadPart", "UploadPartCopy"];

/// Adds the headers of the options to requests of the SDK, before they are signed.
#[derive(Debug)]
struct OptionHeaders(EndpointOptions);

impl Intercept for OptionHeaders {
    fn name(&self) -> &'static str {
        "headers of the options"
    }

    fn modify_before_signing(
        &self,
        context: &mut BeforeTransmitInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        config: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        let operation = config.load::<Metadata>().map(|metadata| metadata.name().to_owned()).unwrap_or_default();
        for (name, value) in self.0.headers(&operation) {
            context.request_mut().headers_mut().try_insert(name, value)?;
        }
        Ok(())
    }

    fn modify_before_deserialization(
        &self,
        context: &mut BeforeDeserializationInterceptorContextMut<'_>,
        _: &RuntimeComponents,
        _: &mut ConfigBag,
    ) -> Result<(), BoxError> {
        // SeaweedFS sends this header two times, and the SDK then fails to read it; nothing here needs it.
        context.response_mut().headers_mut().remove("x-amz-server-side-encryption-customer-key-md5");
        Ok(())
    }
}

impl fmt::Debug for EndpointOptions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EndpointOptions")
            .field("endpoint_url", &self.endpoint_url.as_deref().map(without_userinfo))
            .field("region", &self.region)
            .field("profile", &self.profile)
            .field("anonymous", &self.anonymous)
            .field("resolved", &self.resolved)
            .field("credentials", &self.credentials)
            .field("request_payer", &self.request_payer)
            .field("attempts", &self.attempts)
            .field("customer_key", &self.customer_key)
            .field("copy_source_key", &self.copy_source_key)
            .finish()
    }
}

/// Static credentials; never printed.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Credentials {
    /// Access key id.
    pub access_key: String,
    /// Secret access key.
    pub secret_key: String,
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(hidden)")
    }
}

/// Settings that the clients for the regions of one endpoint share.
pub(super) struct Base {
    builder: Builder,
    /// The settings of the fast path.
    common: ClientContext,
    /// Address of the endpoint; None for AWS itself.
    pub(super) endpoint: Option<String>,
    /// Region of buckets whose region is unknown.
    pub(super) region: String,
    /// Attempts for a request, if the AWS settings name a number.
    pub(super) max_attempts: Option<u32>,
    /// Notes for the user on settings that have no effect.
    pub(super) notes: Vec<String>,
    /// True when bodies can be changed in transit unnoticed.
    pub(super) is_open_to_others: bool,
}

impl Base {
    /// Resolve the options through the AWS chain. Reads files and environment. Contacts at most the metadata service of
    /// the machine, for a region that is set nowhere else.
    pub(super) async fn load(options: &EndpointOptions, throttle: ByteThrottle) -> Self {
        let trust = Arc::new(Trust::default());
        let Transport { client, connector, connections } = transport(Arc::clone(&trust), throttle);
        let files = profile_files();
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .http_client(client)
            .profile_files(files.clone())
            // Without this the SDK ends the process over retry settings that it does not know (`retry_mode = legacy`).
            .retry_config(RetryConfig::standard());
        let mut region = options.region.clone().map(Region::new);
        if let Some(profile) = &options.profile {
            loader = loader.profile_name(profile);
            if region.is_none() && options.resolved.is_none() {
                region = region_chain(&files, Some(profile)).region().await;
            }
            if !options.anonymous && options.credentials.is_none() {
                // A profile that is named takes precedence over keys in the environment.
                let known = Some(region.clone().unwrap_or(FALLBACK_REGION));
                let config = ProviderConfig::empty().with_http_client(credentials_client()).with_region(known);
                let named = ProfileFileCredentialsProvider::builder().configure(&config).profile_files(files.clone());
                loader = loader.credentials_provider(named.profile_name(profile).build());
            }
        }
        if let Some(region) = region {
            loader = loader.region(region);
        } else if options.resolved.is_some() {
            let imds = RegionProviderChain::first_try(ImdsRegionProvider::builder().build());
            loader = loader.region(imds.or_else(FALLBACK_REGION));
        } else {
            loader = loader.region(region_chain(&files, None));
        }
        if let Some(resolved) = &options.resolved {
            loader = loader.use_fips(resolved.use_fips).use_dual_stack(resolved.use_dual_stack);
        }
        if options.anonymous {
            loader = loader.no_credentials();
        } else if let Some(Credentials { access_key, secret_key }) = &options.credentials {
            let credentials =
                aws_credential_types::Credentials::new(access_key, secret_key, None, None, "given by the caller");
            loader = loader.credentials_provider(credentials);
        }
        let sdk = loader.load().await;

        let (ca_bundle, endpoint) = match &options.resolved {
            Some(resolved) => (resolved.ca_bundle.clone(), options.endpoint_url.clone()),
            None => (
                find_setting(&sdk, "AWS_CA_BUNDLE", "ca_bundle"),
                options.endpoint_url.clone().or_else(|| configured_endpoint(&sdk)),
            ),
        };
        if let Some(bundle) = ca_bundle {
            trust.also(bundle);
        }
        let region = sdk.region().unwrap_or(&FALLBACK_REGION).as_ref().trim().to_owned();
        let credentials = sdk.credentials_provider().filter(|_| !options.anonymous).map(CredentialCache::new);
        let settings = AwsSettings::of(&sdk, endpoint.as_deref(), options.resolved.as_ref());
        let params = Params::builder()
            .set_use_fips(sdk.use_fips())
            .set_use_dual_stack(settings.dual_stack)
            .set_force_path_style(settings.path_style)
            .accelerate(settings.accelerate)
            .set_endpoint(endpoint.as_deref().map(with_final_slash));
        let mut builder = Builder::from(&sdk)
            // The engine retries, since it knows the classes and the budget. The SDK keeps one retry that only it can
            // do: correcting its clock by the service's.
            .retry_config(RetryConfig::standard().with_max_attempts(2).with_initial_backoff(Duration::from_millis(1)))
            .retry_classifier(ClockSkewClassifier)
            // No bytes flow while S3 copies a part. Bodies of GET are watched in `requests/body.rs`.
            .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
            // Every request is bounded by its size (see `super::time_limit`).
            .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECTING).build())
            // Checksums are requested explicitly where they are useful; stores without support for them must not
            // receive any.
            .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
            .response_checksum_validation(ResponseChecksumValidation::WhenRequired)
            // An access point or bucket ARN would otherwise need its own region's client.
            .use_arn_region(true)
            .accelerate(settings.accelerate);
        if options.request_payer || options.customer_key.is_some() || options.copy_source_key.is_some() {
            builder = builder.interceptor(OptionHeaders(options.clone()));
        }
        builder.set_use_dual_stack(settings.dual_stack).set_force_path_style(settings.path_style);
        // The SDK has taken the endpoint of the environment or the profile.
        builder.set_endpoint_url(None);
        if let Some(endpoint) = &endpoint {
            builder = builder.endpoint_url(with_final_slash(endpoint));
        }
        if let Some(credentials) = &credentials {
            builder = builder.credentials_provider(credentials.clone());
        }
        let AwsSettings { sign_bodies, max_attempts, notes, .. } = settings;
        let max_attempts = options.attempts.or(max_attempts);
        let is_open_to_others = !sign_bodies && endpoint.as_deref().is_some_and(is_open_to_others);
        let common = ClientContext { connector, connections, credentials, params, sign_bodies, skew: Arc::default() };
        Self { builder, common, endpoint, region, max_attempts, notes, is_open_to_others }
    }

    /// Returns a client for one region.
    pub(super) fn client(&self, region: &str) -> aws_sdk_s3::Client {
        let config = self.builder.clone().region(Region::new(region.to_owned())).build();
        aws_sdk_s3::Client::from_conf(config)
    }

    /// Returns the fast path to one region.
    pub(super) fn fast_path(&self, region: &str) -> FastPath {
        FastPath::new(self.common.clone(), region)
    }
}

/// The region where nothing names one. Roles are assumed there too: without a region the SDK cannot ask for one.
const FALLBACK_REGION: Region = Region::from_static("us-east-1");

/// The region of the environment, of the profile or the one it gets its credentials from, of the machine, in this order.
fn region_chain(files: &EnvConfigFiles, profile: Option<&str>) -> RegionProviderChain {
    let mut of_profile = ProfileFileRegionProvider::builder().profile_files(files.clone());
    if let Some(profile) = profile {
        of_profile = of_profile.profile_name(profile);
    }
    RegionProviderChain::first_try(EnvironmentVariableRegionProvider::new())
        .or_else(of_profile.build())
        .or_else(ImdsRegionProvider::builder().build())
        .or_else(FALLBACK_REGION)
}

/// The endpoint from the environment or the profile, the S3-specific one first.
fn configured_endpoint(sdk: &aws_types::SdkConfig) -> Option<String> {
    find_setting(sdk, "AWS_ENDPOINT_URL", "endpoint_url")
        .or_else(|| sdk.endpoint_url().map(str::to_owned))
        .filter(|url| !url.is_empty())
}

/// Adds a final slash: the SDK joins a path in an endpoint and the bucket's name without one.
fn with_final_slash(endpoint: &str) -> String {
    let has_path = endpoint.split_once("://").is_some_and(|(_, rest)| rest.contains('/'));
    if has_path && !endpoint.ends_with('/') { format!("{endpoint}/") } else { endpoint.to_owned() }
}

#[cfg(test)]
mod tests {
    use aws_sdk_s3::presigning::PresigningConfig;

    use super::*;

    #[test]
    fn settings_hold_when_all_are_resolved() {
        let settings = ResolvedSettings { use_fips: true, ..ResolvedSettings::default() };

        assert_eq!(settings.clone().if_resolved(true), Ok(Some(settings.clone())));
        assert_eq!(ResolvedSettings::default().if_resolved(true), Ok(Some(ResolvedSettings::default())));
        assert_eq!(ResolvedSettings::default().if_resolved(false), Ok(None));
        assert!(settings.if_resolved(false).is_err());
    }

    async fn base(endpoint: Option<&str>) -> Base {
        let options = EndpointOptions {
            endpoint_url: endpoint.map(str::to_owned),
            region: Some("eu-west-1".to_owned()),
            credentials: Some(Credentials { access_key: "access".to_owned(), secret_key: "secret".to_owned() }),
            ..EndpointOptions::default()
        };
        Base::load(&options, ByteThrottle::default()).await
    }

    /// Addresses of a GET and of a copy, without a request.
    async fn address(endpoint: Option<&str>, bucket: &str) -> String {
        let base = base(endpoint).await;
        let presigning = PresigningConfig::expires_in(Duration::from_mins(1)).unwrap();
        let request = base.client(&base.region).get_object().bucket(bucket).key("a//b").presigned(presigning).await;
        let address = request.unwrap().uri().split('?').next().unwrap().to_owned();
        let bucket_endpoint =
            base.fast_path(&base.region).bucket_endpoint(bucket, "a//b").await.expect("an ordinary bucket");
        assert_eq!(bucket_endpoint.address("a//b"), address, "one address for both");
        address
    }

    #[tokio::test]
    async fn buckets_with_other_rules_are_left_to_the_sdk() {
        let base = base(None).await;
        for bucket in [
            "arn:aws:s3:eu-west-1:123456789012:accesspoint/lab",
            "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap",
            "arn:aws:s3-outposts:eu-west-1:123456789012:outpost/op-01234567890123456/accesspoint/lab",
            "lab--euw1-az1--x-s3",
            "",
            " ",
        ] {
            assert!(base.fast_path(&base.region).bucket_endpoint(bucket, "key").await.is_none(), "{bucket}");
        }
    }

    #[tokio::test]
    async fn aws_gets_virtual_host_style_where_names_allow_it_and_others_get_path_style() {
        let aws = "https://s3.eu-west-1.amazonaws.com";

        assert_eq!(address(Some(aws), "bucket").await, "https://bucket.s3.eu-west-1.amazonaws.com/a//b");
        assert_eq!(address(None, "bucket").await, "https://bucket.s3.eu-west-1.amazonaws.com/a//b");
        // Certificates cover one label: a bucket with dots stays in the path.
        assert_eq!(address(Some(aws), "my.bucket").await, "https://s3.eu-west-1.amazonaws.com/my.bucket/a//b");
        assert_eq!(address(Some("http://127.0.0.1:9"), "bucket").await, "http://127.0.0.1:9/bucket/a//b");
        for behind_a_path in ["https://minio.lab/s3", "https://minio.lab/s3/"] {
            assert_eq!(address(Some(behind_a_path), "bucket").await, "https://minio.lab/s3/bucket/a//b");
        }
    }
}
