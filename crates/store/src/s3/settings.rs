//! Settings of the AWS tools (environment and `~/.aws/config`), besides credentials, endpoint and region.

use aws_types::SdkConfig;
use aws_types::service_config::ServiceConfigKey;

use super::address::{is_aws, without_userinfo};
use crate::error::Advice;

/// Settings of the `s3` section that only the AWS CLI reads, and the step that sets the same here.
const IGNORED_SETTINGS: [(&str, Advice); 5] = [
    ("max_concurrent_requests", Advice::UseMaxRequests),
    ("max_bandwidth", Advice::UseMaxBandwidth),
    ("target_bandwidth", Advice::UseMaxBandwidth),
    ("multipart_threshold", Advice::UseCopyThreshold),
    ("multipart_chunksize", Advice::UsePartSize),
];

/// Settings of addresses, trust and signatures, besides endpoint and region, as resolved by the caller. With them, the
/// environment and the profile provide only credentials and the number of attempts. No endpoint then means AWS itself,
/// and no region the region of this machine.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
#[allow(clippy::struct_excessive_bools)] // one fact each
pub struct ResolvedSettings {
    /// Path of a file with certificates to trust besides those of the system.
    pub ca_bundle: Option<String>,
    /// True to use the endpoints of AWS that conform to FIPS 140.
    pub use_fips: bool,
    /// True to use the endpoints of AWS that also answer on IPv6.
    pub use_dual_stack: bool,
    /// True when the bucket's name is in the path of a request, false when it is in the host. None: as the endpoint
    /// requires.
    pub path_style: Option<bool>,
    /// True to use S3 Transfer Acceleration.
    pub accelerate: bool,
    /// True when signatures cover bodies too.
    pub sign_bodies: bool,
}

impl ResolvedSettings {
    /// Converts the settings for [`EndpointOptions`]: all of them when the caller has `resolved` them, else None.
    ///
    /// # Errors
    /// A message, when a setting is given although the caller resolved none: the environment and the profile decide
    /// then.
    pub fn if_resolved(self, resolved: bool) -> Result<Option<Self>, &'static str> {
        match resolved {
            true => Ok(Some(self)),
            false if self == Self::default() => Ok(None),
            false => Err("settings of addresses, trust and signatures hold only together: resolve all of them"),
        }
    }
}

/// Settings from the environment and the profile, or as resolved by the caller.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct AwsSettings {
    /// True when the bucket's name is in the path, false when it is in the host. None: as the endpoint requires.
    pub(super) path_style: Option<bool>,
    /// True to use S3 Transfer Acceleration.
    pub(super) accelerate: bool,
    /// True to use endpoints that also answer on IPv6. None: not set.
    pub(super) dual_stack: Option<bool>,
    /// True when signatures cover bodies too.
    pub(super) sign_bodies: bool,
    /// Attempts for a request, including the first.
    pub(super) max_attempts: Option<u32>,
    /// Notes for the user on settings that have no effect.
    pub(super) notes: Vec<String>,
}

impl AwsSettings {
    /// Settings for requests to this endpoint; None: AWS, at the address of region and bucket. With `resolved`, the
    /// environment and the profile decide only the number of attempts.
    pub(super) fn load(sdk: &SdkConfig, endpoint: Option<&str>, resolved: Option<&ResolvedSettings>) -> Self {
        let section = find_setting(sdk, "AWS_S3", "s3").unwrap_or_default();
        let mut settings = Self::parse_section(&section);
        if let Some(resolved) = resolved {
            settings.apply_resolved(resolved);
        } else if settings.dual_stack.is_none() {
            settings.dual_stack = sdk.use_dual_stack();
        }
        settings.parse_attempts(find_setting(sdk, "AWS_MAX_ATTEMPTS", "max_attempts").as_deref());
        settings.for_endpoint(endpoint)
    }

    /// Settings below `s3 =` in a profile, one in each line.
    fn parse_section(section: &str) -> Self {
        let mut settings = Self::default();
        for (name, value) in section.lines().filter_map(|line| line.split_once('=')) {
            let (name, value) = (name.trim().to_ascii_lowercase(), value.trim());
            let is_on = value.eq_ignore_ascii_case("true");
            match name.as_str() {
                "addressing_style" => {
                    settings.path_style = match value.to_ascii_lowercase().as_str() {
                        "path" => Some(true),
                        "virtual" => Some(false),
                        _ => None,
                    }
                }
                "use_accelerate_endpoint" => settings.accelerate = is_on,
                "use_dualstack_endpoint" => settings.dual_stack = Some(is_on),
                "payload_signing_enabled" => settings.sign_bodies = is_on,
                _ => {
                    if let Some((_, advice)) = IGNORED_SETTINGS.iter().find(|(ignored, _)| *ignored == name) {
                        settings.notes.push(format!(
                            "The setting s3.{name} of the AWS configuration file has no effect here: {advice}"
                        ));
                    }
                }
            }
        }
        settings
    }

    /// Takes the caller's settings of addresses and signatures.
    fn apply_resolved(&mut self, resolved: &ResolvedSettings) {
        self.path_style = resolved.path_style;
        self.accelerate = resolved.accelerate;
        self.dual_stack = Some(resolved.use_dual_stack);
        self.sign_bodies = resolved.sign_bodies;
    }

    fn parse_attempts(&mut self, value: Option<&str>) {
        let Some(value) = value else { return };
        self.max_attempts = value.trim().parse().ok().filter(|attempts| *attempts > 0);
        if self.max_attempts.is_none() {
            self.notes.push(
                "AWS_MAX_ATTEMPTS (or max_attempts of the profile) is not a number from 1 on, and has no effect."
                    .to_owned(),
            );
        }
    }

    /// Adjusts the settings to an endpoint: a given address is used unchanged, and no AWS variant is inserted.
    fn for_endpoint(mut self, endpoint: Option<&str>) -> Self {
        let Some(endpoint) = endpoint else {
            if self.accelerate {
                // The endpoint has only one form of address.
                self.path_style = None;
            }
            return self;
        };
        for (name, is_on) in
            [("use_accelerate_endpoint", self.accelerate), ("use_dualstack_endpoint", self.dual_stack == Some(true))]
        {
            if is_on {
                let endpoint = without_userinfo(endpoint);
                self.notes.push(format!(
                    "The AWS setting {name} has no effect on {endpoint}, which is used as it was given."
                ));
            }
        }
        (self.accelerate, self.dual_stack) = (false, None);
        // Bucket names in the host need names that resolve; self-hosted stores rarely have them.
        self.path_style = Some(self.path_style.unwrap_or(!is_aws(endpoint)));
        self
    }
}

/// Reads a setting of the AWS tools by its names in the environment and in a profile.
pub(super) fn find_setting(sdk: &SdkConfig, env: &str, profile: &str) -> Option<String> {
    let key = ServiceConfigKey::builder().service_id("s3").env(env).profile(profile).build().ok()?;
    sdk.service_config().and_then(|config| config.load_config(key)).filter(|value| !value.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECTION: &str = "\n  addressing_style = virtual\n use_accelerate_endpoint=true\n  use_dualstack_endpoint = True\n  \
        payload_signing_enabled = true\n  max_concurrent_requests = 20\n max_bandwidth = 50MB/s\n  max_queue_size = 1000";

    #[test]
    fn the_s3_section_of_a_profile_is_read() {
        let settings = AwsSettings::parse_section(SECTION).for_endpoint(None);

        assert!(settings.accelerate && settings.sign_bodies);
        assert_eq!((settings.path_style, settings.dual_stack), (None, Some(true)));
        assert_eq!(settings.notes.len(), 2, "{:?}", settings.notes);
        assert!(
            settings.notes[0].contains(Advice::UseMaxRequests.code())
                && settings.notes[1].contains(Advice::UseMaxBandwidth.code())
        );
        assert_eq!(AwsSettings::parse_section("").for_endpoint(None), AwsSettings::default());
    }

    #[test]
    fn what_the_caller_has_resolved_holds_against_the_profile() {
        let mut settings = AwsSettings::parse_section(SECTION);
        settings.apply_resolved(&ResolvedSettings::default());

        assert_eq!((settings.path_style, settings.dual_stack), (None, Some(false)));
        assert!(!settings.accelerate && !settings.sign_bodies);

        let mut settings = AwsSettings::default();
        let path_style = Some(true);
        settings.apply_resolved(&ResolvedSettings {
            path_style,
            sign_bodies: true,
            accelerate: true,
            ..Default::default()
        });
        assert_eq!(settings.path_style, path_style);
        assert!(settings.accelerate && settings.sign_bodies);
    }

    #[test]
    fn an_address_that_was_given_is_used_as_it_stands() {
        let settings = AwsSettings::parse_section(SECTION).for_endpoint(Some("https://s3.lab"));

        assert_eq!((settings.accelerate, settings.dual_stack, settings.path_style), (false, None, Some(false)));
        assert_eq!(settings.notes.len(), 4, "{:?}", settings.notes);
        assert_eq!(AwsSettings::default().for_endpoint(Some("https://s3.lab")).path_style, Some(true));
        assert_eq!(
            AwsSettings::default().for_endpoint(Some("https://s3.eu-west-1.amazonaws.com")).path_style,
            Some(false)
        );
    }

    #[test]
    fn attempts_are_a_number_from_one_on() {
        for (value, attempts) in [("1", Some(1)), (" 20 ", Some(20)), ("0", None), ("many", None)] {
            let mut settings = AwsSettings::default();
            settings.parse_attempts(Some(value));
            assert_eq!((settings.max_attempts, settings.notes.is_empty()), (attempts, attempts.is_some()), "{value}");
        }
    }
}
