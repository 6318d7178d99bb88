//! Check at the start that no writable share overlaps another one.

use crate::error::GatewayError;

/// The bucket and prefix of a share, to be compared with those of the others.
pub(crate) struct SharePrefix<'a> {
    pub(crate) name: &'a str,
    pub(crate) endpoint: &'a str,
    pub(crate) bucket: &'a str,
    pub(crate) prefix: &'a str,
    pub(crate) is_writable: bool,
}

/// Refuse overlapping shares when one of them is writable: it could change files that the other one shows or writes.
pub(crate) fn check_overlaps(prefixes: &[SharePrefix<'_>]) -> Result<(), GatewayError> {
    for (index, one) in prefixes.iter().enumerate() {
        for other in &prefixes[..index] {
            let is_same_bucket = (one.endpoint, one.bucket) == (other.endpoint, other.bucket);
            let overlap = one.prefix.starts_with(other.prefix) || other.prefix.starts_with(one.prefix);
            let writable = [one, other].into_iter().find(|prefix| prefix.is_writable);
            if let Some(writable) = writable.filter(|_| is_same_bucket && overlap) {
                return Err(GatewayError(format!(
                    "the shares {} and {} overlap in s3://{}, and {} is writable: give them separate prefixes, or make \
                     both read-only",
                    other.name, one.name, one.bucket, writable.name
                )));
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn prefix<'a>(name: &'a str, bucket: &'a str, prefix: &'a str, is_writable: bool) -> SharePrefix<'a> {
        SharePrefix { name, endpoint: "aws", bucket, prefix, is_writable }
    }

    #[test]
    fn prefixes_overlap_where_one_is_in_the_other_and_a_share_is_written() {
        let runs = prefix("runs", "b", "runs/", true);
        for (other, overlaps) in [
            (prefix("all", "b", "", false), true),
            (prefix("same", "b", "runs/", false), true),
            (prefix("below", "b", "runs/a/", true), true),
            (prefix("beside", "b", "runs2/", true), false),
            (prefix("elsewhere", "c", "runs/", true), false),
            (SharePrefix { endpoint: "http://other", ..prefix("other", "b", "runs/", true) }, false),
        ] {
            let name = other.name;
            let found = check_overlaps(&[other, SharePrefix { ..prefix("runs", "b", "runs/", true) }]);
            assert_eq!(found.is_err(), overlaps, "{name}");
        }
        check_overlaps(&[prefix("one", "b", "runs/", false), prefix("two", "b", "", false)]).unwrap();
        assert!(check_overlaps(&[runs, prefix("all", "b", "", false)]).unwrap_err().0.contains("runs is writable"));
    }
}
