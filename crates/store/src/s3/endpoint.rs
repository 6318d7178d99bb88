//! Endpoints of S3: the address of a bucket, and the region that its requests are signed for.
//!
//! The rules are those of the AWS SDKs for ordinary buckets and access points. Buckets that need other signatures or a
//! session are refused.

use std::net::IpAddr;

use hyper::Uri;

use super::address::{is_aws, without_userinfo};
use super::encoding::{encode_path, encode_query};

/// Partitions besides `aws`: beginning of the names of their regions, name, domain.
const PARTITIONS: [(&str, &str, &str); 7] = [
    ("cn-", "aws-cn", "amazonaws.com.cn"),
    ("us-gov-", "aws-us-gov", "amazonaws.com"),
    ("us-iso-", "aws-iso", "c2s.ic.gov"),
    ("us-isob-", "aws-iso-b", "sc2s.sgov.gov"),
    ("eu-isoe-", "aws-iso-e", "cloud.adc-e.uk"),
    ("us-isof-", "aws-iso-f", "csp.hci.ic.gov"),
    ("eusc-", "aws-eusc", "amazonaws.eu"),
];
/// Region whose endpoint has no region in its name. Its requests are signed for the other region.
const GLOBAL_REGION: (&str, &str) = ("aws-global", "us-east-1");
/// Error codes: for a setting, for a bucket.
const INVALID_SETTING: &str = "InvalidRequest";
const INVALID_BUCKET: &str = "InvalidBucketName";
/// Suffixes of buckets with other signatures: directory buckets, their access points, access points of outposts.
const UNSUPPORTED_SUFFIXES: [(&str, &str); 3] =
    [("--x-s3", "directory buckets are"), ("--xa-s3", "directory buckets are"), ("--op-s3", "S3 on Outposts is")];

/// Code and text of the error for a bucket or setting without an endpoint.
type Refusal = (&'static str, String);

/// Settings of the addresses of a store.
#[derive(Debug, Clone, Default)]
#[expect(clippy::struct_excessive_bools, reason = "one setting each")]
pub(super) struct EndpointRules {
    /// Address that is used as it was given. None: AWS.
    pub(super) endpoint: Option<String>,
    /// True when the bucket's name is in the path, even where the host could have it.
    pub(super) path_style: bool,
    /// True to use the endpoints of AWS that conform to FIPS 140.
    pub(super) use_fips: bool,
    /// True to use the endpoints of AWS that also answer on IPv6.
    pub(super) use_dual_stack: bool,
    /// True to use S3 Transfer Acceleration.
    pub(super) accelerate: bool,
}

/// Address and signing region of a bucket.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct BucketEndpoint {
    /// URL up to the slash before the key.
    url: String,
    pub(super) signing_region: String,
}

/// Host and path of all buckets.
struct HostAddress {
    scheme: String,
    authority: String,
    path: String,
    /// True when bucket names may be prepended to the host (virtual-hosted style).
    virtual_hosts: bool,
}

impl BucketEndpoint {
    /// Address of an object, its key byte for byte. No key: that of the bucket.
    pub(super) fn address(&self, key: Option<&str>) -> String {
        format!("{}/{}", self.url, encode_path(key.unwrap_or_default()))
    }
}

impl EndpointRules {
    /// Finds the endpoint of a bucket in this region. No bucket: that of the service.
    ///
    /// # Errors
    /// A [`Refusal`], if the rules have no endpoint for it.
    pub(super) fn resolve(&self, region: &str, bucket: &str) -> Result<BucketEndpoint, Refusal> {
        let partition = partition(region);
        if self.use_fips && (self.accelerate || self.endpoint.is_some() || partition.0 == "aws-cn") {
            let text = "FIPS endpoints exist neither in China nor for S3 Transfer Acceleration, and a custom endpoint cannot be combined with FIPS";
            return Err((INVALID_SETTING, text.to_owned()));
        }
        if let Some(rest) = bucket.strip_prefix("arn:") {
            return self.access_point(partition.0, bucket, rest);
        }
        let is_aws = self.endpoint.as_deref().is_none_or(is_aws);
        if let Some((_, what)) = UNSUPPORTED_SUFFIXES.iter().find(|(suffix, _)| is_aws && bucket.ends_with(suffix)) {
            return Err((INVALID_BUCKET, format!("{what} not supported")));
        }
        let signing_region = if region == GLOBAL_REGION.0 { GLOBAL_REGION.1 } else { region }.to_owned();
        let base = self.host_address(region, "s3")?;
        let in_host = base.virtual_hosts && !self.path_style && is_virtual_hostable(bucket, base.scheme == "http");
        let HostAddress { scheme, authority, path, .. } = base;
        let url = if bucket.is_empty() {
            format!("{scheme}://{authority}{path}")
        } else if self.accelerate {
            if !in_host || partition.0 == "aws-cn" {
                let text =
                    "S3 Transfer Acceleration serves neither China nor a bucket whose name does not fit into a host's";
                return Err((INVALID_BUCKET, text.to_owned()));
            }
            let stack = if self.use_dual_stack { ".dualstack" } else { "" };
            format!("{scheme}://{bucket}.s3-accelerate{stack}.{}", partition.1)
        } else if in_host {
            format!("{scheme}://{bucket}.{authority}{path}")
        } else {
            format!("{scheme}://{authority}{path}/{}", encode_query(bucket))
        };
        Ok(BucketEndpoint { url, signing_region })
    }

    /// The endpoint of an access point: `arn:PARTITION:s3:REGION:ACCOUNT:accesspoint/NAME`.
    fn access_point(&self, partition_here: &str, arn: &str, rest: &str) -> Result<BucketEndpoint, Refusal> {
        let wrong = |why: &str| Err((INVALID_BUCKET, format!("'{arn}' is no ARN of an access point: {why}")));
        let unsupported = |what: &str| Err((INVALID_BUCKET, format!("{what} not supported")));
        let [_, service, region, account, resource] = rest.splitn(5, ':').collect::<Vec<_>>()[..] else {
            return wrong("it has too few parts");
        };
        match service {
            "s3" => {}
            "s3-outposts" => return unsupported("S3 on Outposts is"),
            "s3-object-lambda" => return unsupported("S3 Object Lambda is"),
            _ => return wrong("it is not of S3"),
        }
        let Some(name) = resource.strip_prefix("accesspoint").and_then(|name| name.strip_prefix(['/', ':'])) else {
            return wrong("use the name of the bucket");
        };
        if region.is_empty() {
            return unsupported("multi-region access points are");
        }
        if !(is_host_label(region) && is_host_label(account) && is_host_label(name)) {
            return wrong("region, account and name have letters, digits and hyphens");
        }
        if partition(region).0 != partition_here {
            return wrong("its region is not in the partition of your region");
        }
        if self.path_style || self.accelerate {
            return wrong("access points have neither path-style addresses nor S3 Transfer Acceleration");
        }
        let HostAddress { scheme, authority, path, .. } = self.host_address(region, "s3-accesspoint")?;
        let url = format!("{scheme}://{name}-{account}.{authority}{path}");
        Ok(BucketEndpoint { url, signing_region: region.to_owned() })
    }

    fn host_address(&self, region: &str, service: &str) -> Result<HostAddress, Refusal> {
        let Some(endpoint) = &self.endpoint else {
            if !is_host_label(region) {
                return Err((INVALID_SETTING, format!("'{region}' is no name of a region")));
            }
            let fips = if self.use_fips { "-fips" } else { "" };
            let stack = if self.use_dual_stack { ".dualstack" } else { "" };
            let region_part = match region == GLOBAL_REGION.0 {
                true if fips.is_empty() && stack.is_empty() => String::new(),
                true => format!(".{}", GLOBAL_REGION.1),
                false => format!(".{region}"),
            };
            let authority = format!("{service}{fips}{stack}{region_part}.{}", partition(region).1);
            return Ok(HostAddress { scheme: "https".to_owned(), authority, path: String::new(), virtual_hosts: true });
        };
        let wrong = || (INVALID_SETTING, format!("{} is no address of an endpoint", without_userinfo(endpoint)));
        let uri: Uri = endpoint.parse().map_err(|_| wrong())?;
        match (uri.scheme_str(), uri.authority(), uri.query()) {
            (Some(scheme @ ("http" | "https")), Some(authority), None) => Ok(HostAddress {
                scheme: scheme.to_owned(),
                authority: authority.as_str().to_owned(),
                path: uri.path().trim_end_matches('/').to_owned(),
                virtual_hosts: authority.host().trim_matches(['[', ']']).parse::<IpAddr>().is_err(),
            }),
            _ => Err(wrong()),
        }
    }
}

/// Name and domain of the partition of a region. An unknown region belongs to `aws`.
fn partition(region: &str) -> (&'static str, &'static str) {
    let found = PARTITIONS.iter().find(|(start, ..)| region.starts_with(start));
    found.map_or(("aws", "amazonaws.com"), |(_, name, domain)| (name, domain))
}

/// True when a bucket's name can be part of the host. A certificate covers one label, so that a name with dots is
/// possible only without TLS.
fn is_virtual_hostable(bucket: &str, with_dots: bool) -> bool {
    let fits = |label: &str| {
        (3..=63).contains(&label.len())
            && label.bytes().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-')
            && !label.starts_with('-')
            && !label.ends_with('-')
    };
    if with_dots { bucket.split('.').all(fits) } else { fits(bucket) }
}

/// True for a label of a host's name.
fn is_host_label(text: &str) -> bool {
    (1..=63).contains(&text.len())
        && !text.starts_with('-')
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-')
}

#[cfg(test)]
mod tests {
    use super::*;

    const POINT: &str = "arn:aws:s3:eu-west-1:123456789012:accesspoint/lab";

    /// Rules by the letters of their settings: F(IPS), D(ual stack), A(ccelerate), P(ath style).
    fn rules(settings: &str, endpoint: Option<&str>) -> EndpointRules {
        let has = |letter| settings.contains(letter);
        EndpointRules {
            endpoint: endpoint.map(str::to_owned),
            path_style: has('P'),
            use_fips: has('F'),
            use_dual_stack: has('D'),
            accelerate: has('A'),
        }
    }

    /// The addresses are those that the endpoint resolver of aws-sdk-s3 1.157 returned.
    #[test]
    fn endpoints_of_aws_are_those_of_its_sdk() {
        for (region, settings, bucket, url, signed_for) in [
            // Styles of addresses.
            ("eu-west-1", "", "bucket", "https://bucket.s3.eu-west-1.amazonaws.com", ""),
            ("eu-west-1", "P", "bucket", "https://s3.eu-west-1.amazonaws.com/bucket", ""),
            ("eu-west-1", "", "", "https://s3.eu-west-1.amazonaws.com", ""),
            ("eu-west-1", "", "my.bucket", "https://s3.eu-west-1.amazonaws.com/my.bucket", ""),
            ("eu-west-1", "", "lab.bucket", "https://s3.eu-west-1.amazonaws.com/lab.bucket", ""),
            ("eu-west-1", "", "ab", "https://s3.eu-west-1.amazonaws.com/ab", ""),
            ("eu-west-1", "", "Upper_Case", "https://s3.eu-west-1.amazonaws.com/Upper_Case", ""),
            ("eu-west-1", "", "-lead", "https://s3.eu-west-1.amazonaws.com/-lead", ""),
            ("eu-west-1", "", "trail-", "https://s3.eu-west-1.amazonaws.com/trail-", ""),
            ("eu-west-1", "", "a..b", "https://s3.eu-west-1.amazonaws.com/a..b", ""),
            ("eu-west-1", "", "192.168.1.1", "https://s3.eu-west-1.amazonaws.com/192.168.1.1", ""),
            ("eu-west-1", "", "b c", "https://s3.eu-west-1.amazonaws.com/b%20c", ""),
            ("eu-west-1", "", "b/c", "https://s3.eu-west-1.amazonaws.com/b%2Fc", ""),
            ("eu-west-1", "", "b%2Fc", "https://s3.eu-west-1.amazonaws.com/b%252Fc", ""),
            ("eu-west-1", "", "caf\u{e9}", "https://s3.eu-west-1.amazonaws.com/caf%C3%A9", ""),
            ("eu-west-1", "", "x--y", "https://x--y.s3.eu-west-1.amazonaws.com", ""),
            ("eu-west-1", "", "arn", "https://arn.s3.eu-west-1.amazonaws.com", ""),
            ("eu-west-1", "", "lab-s3alias", "https://lab-s3alias.s3.eu-west-1.amazonaws.com", ""),
            ("eu-west-1", "P", "lab-s3alias", "https://s3.eu-west-1.amazonaws.com/lab-s3alias", ""),
            // Variants of the endpoint.
            ("us-east-1", "F", "bucket", "https://bucket.s3-fips.us-east-1.amazonaws.com", ""),
            ("us-east-1", "FP", "bucket", "https://s3-fips.us-east-1.amazonaws.com/bucket", ""),
            ("us-east-1", "D", "bucket", "https://bucket.s3.dualstack.us-east-1.amazonaws.com", ""),
            ("us-east-1", "FD", "bucket", "https://bucket.s3-fips.dualstack.us-east-1.amazonaws.com", ""),
            ("us-east-1", "FD", "", "https://s3-fips.dualstack.us-east-1.amazonaws.com", ""),
            ("us-east-1", "A", "bucket", "https://bucket.s3-accelerate.amazonaws.com", ""),
            ("us-east-1", "DA", "bucket", "https://bucket.s3-accelerate.dualstack.amazonaws.com", ""),
            ("us-east-1", "A", "", "https://s3.us-east-1.amazonaws.com", ""),
            // Partitions.
            ("cn-north-1", "", "bucket", "https://bucket.s3.cn-north-1.amazonaws.com.cn", ""),
            ("cn-north-1", "D", "bucket", "https://bucket.s3.dualstack.cn-north-1.amazonaws.com.cn", ""),
            ("us-gov-west-1", "F", "bucket", "https://bucket.s3-fips.us-gov-west-1.amazonaws.com", ""),
            ("us-iso-east-1", "", "bucket", "https://bucket.s3.us-iso-east-1.c2s.ic.gov", ""),
            ("us-isob-east-1", "", "bucket", "https://bucket.s3.us-isob-east-1.sc2s.sgov.gov", ""),
            ("eu-isoe-west-1", "", "bucket", "https://bucket.s3.eu-isoe-west-1.cloud.adc-e.uk", ""),
            ("us-isof-south-1", "", "bucket", "https://bucket.s3.us-isof-south-1.csp.hci.ic.gov", ""),
            ("eusc-de-east-1", "", "bucket", "https://bucket.s3.eusc-de-east-1.amazonaws.eu", ""),
            ("us-iso-east-1", "A", "bucket", "https://bucket.s3-accelerate.c2s.ic.gov", ""),
            ("xx-new-1", "", "bucket", "https://bucket.s3.xx-new-1.amazonaws.com", ""),
            ("aws-global", "", "bucket", "https://bucket.s3.amazonaws.com", "us-east-1"),
            ("aws-global", "P", "bucket", "https://s3.amazonaws.com/bucket", "us-east-1"),
            ("aws-global", "F", "bucket", "https://bucket.s3-fips.us-east-1.amazonaws.com", "us-east-1"),
            ("aws-global", "D", "", "https://s3.dualstack.us-east-1.amazonaws.com", "us-east-1"),
            // Access points.
            ("us-east-1", "", POINT, "https://lab-123456789012.s3-accesspoint.eu-west-1.amazonaws.com", "eu-west-1"),
            (
                "us-east-1",
                "",
                "arn:aws:s3:eu-west-1:123456789012:accesspoint:lab",
                "https://lab-123456789012.s3-accesspoint.eu-west-1.amazonaws.com",
                "eu-west-1",
            ),
            (
                "us-east-1",
                "FD",
                POINT,
                "https://lab-123456789012.s3-accesspoint-fips.dualstack.eu-west-1.amazonaws.com",
                "eu-west-1",
            ),
            (
                "cn-northwest-1",
                "",
                "arn:aws-cn:s3:cn-north-1:123456789012:accesspoint/lab",
                "https://lab-123456789012.s3-accesspoint.cn-north-1.amazonaws.com.cn",
                "cn-north-1",
            ),
        ] {
            let signed_for = if signed_for.is_empty() { region } else { signed_for };
            let expected = BucketEndpoint { url: url.to_owned(), signing_region: signed_for.to_owned() };
            assert_eq!(rules(settings, None).resolve(region, bucket), Ok(expected), "{region} {settings} {bucket}");
        }
    }

    #[test]
    fn an_address_that_was_given_is_used_as_it_stands() {
        for (endpoint, settings, bucket, url) in [
            ("https://s3.lab:9000", "P", "bucket", "https://s3.lab:9000/bucket"),
            ("https://s3.lab:9000", "P", "", "https://s3.lab:9000"),
            ("https://s3.lab:9000", "", "bucket", "https://bucket.s3.lab:9000"),
            // Certificates cover one label.
            ("https://s3.lab", "", "lab.bucket", "https://s3.lab/lab.bucket"),
            ("http://s3.lab", "", "lab.bucket", "http://lab.bucket.s3.lab"),
            ("http://s3.lab", "", "my.bucket", "http://s3.lab/my.bucket"),
            ("https://minio.lab/s3", "P", "bucket", "https://minio.lab/s3/bucket"),
            ("https://minio.lab/s3/", "P", "bucket", "https://minio.lab/s3/bucket"),
            ("https://minio.lab/s3/", "", "bucket", "https://bucket.minio.lab/s3"),
            ("https://minio.lab/s3/", "P", "", "https://minio.lab/s3"),
            ("http://10.0.0.1", "", "bucket", "http://10.0.0.1/bucket"),
            ("https://[::1]:9000", "", "bucket", "https://[::1]:9000/bucket"),
            ("https://s3.eu-west-1.amazonaws.com", "", "bucket", "https://bucket.s3.eu-west-1.amazonaws.com"),
            ("https://s3.lab", "", POINT, "https://lab-123456789012.s3.lab"),
            ("https://s3.lab", "P", "lab--x-s3", "https://s3.lab/lab--x-s3"),
        ] {
            let found = rules(settings, Some(endpoint)).resolve("eu-west-1", bucket);
            assert_eq!(found.as_ref().map(|found| found.url.as_str()), Ok(url), "{endpoint} {settings} {bucket}");
        }
        let (found, signed_for) = (rules("P", Some("https://s3.lab")).resolve("bad_region", "bucket"), "bad_region");
        assert_eq!(found.unwrap().signing_region, signed_for, "services define their own regions");
    }

    #[test]
    fn what_has_no_endpoint_is_refused_in_a_sentence() {
        let aws = [
            ("eu-west-1", "", "lab--euw1-az1--x-s3", "directory buckets are not supported"),
            ("eu-west-1", "P", "lab--euw1-az1--xa-s3", "directory buckets are not supported"),
            (
                "eu-west-1",
                "",
                "lab-e0b1d075431d83bebde8xz5w8ijx1qzlbp3i3ebeta0--op-s3",
                "S3 on Outposts is not supported",
            ),
            (
                "eu-west-1",
                "",
                "arn:aws:s3::123456789012:accesspoint/mfzwi23gnjvgw.mrap",
                "multi-region access points are not",
            ),
            (
                "eu-west-1",
                "",
                "arn:aws:s3-outposts:eu-west-1:123456789012:outpost/op-01234567890123456/accesspoint/lab",
                "S3 on Outposts is not supported",
            ),
            (
                "eu-west-1",
                "",
                "arn:aws:s3-object-lambda:eu-west-1:123456789012:accesspoint/lab",
                "S3 Object Lambda is not supported",
            ),
            ("eu-west-1", "", "arn:", "too few parts"),
            ("eu-west-1", "", "arn:aws:s3:::bucket", "use the name of the bucket"),
            ("eu-west-1", "", "arn:aws:sqs:eu-west-1:123456789012:accesspoint/lab", "not of S3"),
            ("eu-west-1", "", "arn:aws:s3:eu-west-1:123456789012:accesspoint/", "letters, digits and hyphens"),
            ("eu-west-1", "", "arn:aws:s3:eu-west-1:123456789012:accesspoint/a/b", "letters, digits and hyphens"),
            ("eu-west-1", "", "arn:aws:s3:eu-west-1::accesspoint/lab", "letters, digits and hyphens"),
            ("eu-west-1", "", "arn:aws:s3:bad_region:123456789012:accesspoint/lab", "letters, digits and hyphens"),
            ("cn-north-1", "", POINT, "not in the partition"),
            ("eu-west-1", "P", POINT, "neither path-style"),
            ("eu-west-1", "A", POINT, "neither path-style"),
            ("eu-west-1", "AP", "bucket", "S3 Transfer Acceleration"),
            ("eu-west-1", "A", "my.bucket", "S3 Transfer Acceleration"),
            ("cn-north-1", "A", "bucket", "S3 Transfer Acceleration"),
            ("eu-west-1", "FA", "bucket", "FIPS"),
            ("cn-north-1", "F", "bucket", "FIPS"),
            ("bad region", "", "bucket", "no name of a region"),
            ("", "", "bucket", "no name of a region"),
        ];
        for (region, settings, bucket, words) in aws {
            let (code, text) = rules(settings, None).resolve(region, bucket).expect_err(bucket);
            assert!(text.contains(words), "{region} {settings} {bucket}: {text}");
            assert!([INVALID_SETTING, INVALID_BUCKET].contains(&code));
        }
        for endpoint in ["s3.lab", "ftp://s3.lab", "https://s3.lab/?x=1", "https://"] {
            let (_, text) = rules("P", Some(endpoint)).resolve("eu-west-1", "bucket").expect_err(endpoint);
            assert!(text.contains("no address of an endpoint"), "{text}");
        }
        assert!(rules("PF", Some("https://s3.lab")).resolve("eu-west-1", "bucket").unwrap_err().1.contains("FIPS"));
    }
}
