//! Endpoint options resolved through the AWS chain: credentials, endpoint, region, settings.

use std::fmt;
use std::sync::Arc;

use aws_config::BehaviorVersion;
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::imds::region::ImdsRegionProvider;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
use aws_config::provider_config::ProviderConfig;
use aws_config::retry::RetryConfig;
use aws_runtime::env_config::file::EnvConfigFiles;
use aws_types::region::Region;

use super::address::{is_unprotected, without_userinfo};
use super::client::{Client, ClientContext};
use super::credentials::CredentialCache;
use super::dial::TrustStore;
use super::endpoint::EndpointRules;
use super::http1::HttpConnections;
use super::profile_files::profile_files;
use super::proxy::credentials_client;
use super::settings::{AwsSettings, ResolvedSettings, find_setting};
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
pub(super) struct EndpointConfig {
    context: ClientContext,
    /// Address of the endpoint; None for AWS itself.
    pub(super) endpoint: Option<String>,
    /// Region of buckets whose region is unknown.
    pub(super) region: String,
    /// Attempts for a request, if the AWS settings name a number.
    pub(super) max_attempts: Option<u32>,
    /// Notes for the user on settings that have no effect.
    pub(super) notes: Vec<String>,
    /// True when bodies can be changed in transit unnoticed.
    pub(super) bodies_unprotected: bool,
}

impl EndpointConfig {
    /// Resolve the options through the AWS chain. Reads files and environment. Contacts at most the metadata service of
    /// the machine, for a region that is set nowhere else.
    pub(super) async fn load(options: &EndpointOptions, throttle: ByteThrottle) -> Self {
        let trust = Arc::new(TrustStore::default());
        let connections = HttpConnections::new(Arc::clone(&trust), throttle);
        let files = profile_files();
        let mut loader = aws_config::defaults(BehaviorVersion::v2026_01_12())
            .http_client(credentials_client())
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
            trust.add_bundle(bundle);
        }
        let region = sdk.region().unwrap_or(&FALLBACK_REGION).as_ref().trim().to_owned();
        let credentials = sdk.credentials_provider().filter(|_| !options.anonymous).map(CredentialCache::new);
        let settings = AwsSettings::load(&sdk, endpoint.as_deref(), options.resolved.as_ref());
        let rules = EndpointRules {
            endpoint: endpoint.clone(),
            path_style: settings.path_style == Some(true),
            use_fips: sdk.use_fips() == Some(true),
            use_dual_stack: settings.dual_stack == Some(true),
            accelerate: settings.accelerate,
        };
        let AwsSettings { sign_bodies, max_attempts, notes, .. } = settings;
        let max_attempts = options.attempts.or(max_attempts);
        let bodies_unprotected = !sign_bodies && endpoint.as_deref().is_some_and(is_unprotected);
        let context = ClientContext { connections, credentials, rules, sign_bodies, skew: Arc::default() };
        Self { context, endpoint, region, max_attempts, notes, bodies_unprotected }
    }

    /// Returns a client for one region.
    pub(super) fn client(&self, region: &str) -> Client {
        Client::new(self.context.clone(), region)
    }
}

/// The region where nothing names one. Roles are assumed there too: without a region the SDK cannot ask for one.
const FALLBACK_REGION: Region = Region::from_static("us-east-1");

/// The region of the environment, of the profile or the one it gets its credentials from, of the machine, in this
/// order.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_hold_when_all_are_resolved() {
        let settings = ResolvedSettings { use_fips: true, ..ResolvedSettings::default() };

        assert_eq!(settings.clone().if_resolved(true), Ok(Some(settings.clone())));
        assert_eq!(ResolvedSettings::default().if_resolved(true), Ok(Some(ResolvedSettings::default())));
        assert_eq!(ResolvedSettings::default().if_resolved(false), Ok(None));
        assert!(settings.if_resolved(false).is_err());
    }
}
