//! Clocks that differ: when the SDK corrects its own by the service's.

use std::time::Duration;

use aws_smithy_runtime_api::client::interceptors::context::InterceptorContext;
use aws_smithy_runtime_api::client::retries::classifiers::{ClassifyRetry, RetryAction, RetryClassifierPriority};

/// Lets the SDK retry only after its clock turned out to be wrong: the second attempt uses the service's clock.
#[derive(Debug)]
pub(super) struct ClockSkewClassifier;

/// Clock skew from which the SDK corrects its clock. S3 refuses signatures that are off by more than 15 minutes.
pub(super) const SKEW: Duration = Duration::from_mins(4);

impl ClassifyRetry for ClockSkewClassifier {
    fn classify_retry(&self, ctx: &InterceptorContext) -> RetryAction {
        let skewed = ctx.response().is_some_and(|response| {
            response.status().as_u16() == 403
                && response
                    .headers()
                    .get("date")
                    .and_then(|date| {
                        aws_smithy_types::DateTime::from_str(date, aws_smithy_types::date_time::Format::HttpDate).ok()
                    })
                    .and_then(|date| std::time::SystemTime::try_from(date).ok())
                    .is_some_and(|theirs| {
                        let ours = std::time::SystemTime::now();
                        ours.duration_since(theirs).or_else(|_| theirs.duration_since(ours)).is_ok_and(|off| off > SKEW)
                    })
        });
        if skewed { RetryAction::transient_error() } else { RetryAction::RetryForbidden }
    }

    fn name(&self) -> &'static str {
        "only clock skew"
    }

    fn priority(&self) -> RetryClassifierPriority {
        // The classifier runs last, so that it overrules the defaults.
        RetryClassifierPriority::run_after(RetryClassifierPriority::transient_error_classifier())
    }
}
