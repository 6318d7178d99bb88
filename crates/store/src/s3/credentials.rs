//! Credentials, loaded once for all requests of an identity.
//!
//! The chain of credentials is that of the AWS SDK. Its answer is cached, so that a `credential_process` or a sign-on
//! runs once and not once for each request.

use std::sync::{Arc, PoisonError, RwLock};
use std::time::{Duration, SystemTime};

use aws_credential_types::Credentials;
use aws_credential_types::provider::error::CredentialsError;
use aws_credential_types::provider::{ProvideCredentials as _, SharedCredentialsProvider};

/// Time before the expiry at which credentials are reloaded, so that requests in flight are still answered.
const RELOAD_AHEAD: Duration = Duration::from_secs(15);
/// Lifetime of credentials without an expiry, as in the AWS SDK.
const DEFAULT_LIFETIME: Duration = Duration::from_mins(15);
/// Time limit of a load: the chain may try several sources, the last of them over the network.
const LOAD_TIMEOUT: Duration = Duration::from_secs(30);

/// Chain of credentials whose answer is kept until shortly before it expires. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct CredentialCache {
    shared: Arc<CredentialState>,
}

/// State that all clones of a [`CredentialCache`] share.
#[derive(Debug)]
struct CredentialState {
    chain: SharedCredentialsProvider,
    cached: RwLock<Option<CachedCredentials>>,
    /// Held while loading, so that many requests cause one load.
    loading: tokio::sync::Mutex<()>,
}

/// Credentials, and the time from which the chain is asked again.
#[derive(Debug, Clone)]
struct CachedCredentials {
    credentials: Credentials,
    reload_at: SystemTime,
}

impl CredentialCache {
    pub(super) fn new(chain: SharedCredentialsProvider) -> Self {
        Self {
            shared: Arc::new(CredentialState {
                chain,
                cached: RwLock::default(),
                loading: tokio::sync::Mutex::default(),
            }),
        }
    }

    /// The credentials for a signature now.
    pub(super) async fn get(&self) -> Result<Credentials, CredentialsError> {
        match self.unexpired(|cached| cached.credentials.clone()) {
            Some(credentials) => Ok(credentials),
            None => Ok(self.load().await?.credentials),
        }
    }

    fn unexpired<T>(&self, pick: impl FnOnce(&CachedCredentials) -> T) -> Option<T> {
        let cached = self.shared.cached.read().unwrap_or_else(PoisonError::into_inner);
        cached.as_ref().filter(|cached| SystemTime::now() < cached.reload_at).map(pick)
    }

    async fn load(&self) -> Result<CachedCredentials, CredentialsError> {
        let _one = self.shared.loading.lock().await;
        if let Some(cached) = self.unexpired(CachedCredentials::clone) {
            return Ok(cached);
        }
        let loaded = tokio::time::timeout(LOAD_TIMEOUT, self.shared.chain.provide_credentials())
            .await
            .unwrap_or_else(|_| Err(CredentialsError::provider_timed_out(LOAD_TIMEOUT)));
        let loaded = loaded.and_then(check_characters);
        let mut cached = self.shared.cached.write().unwrap_or_else(PoisonError::into_inner);
        let credentials = match (loaded, cached.as_ref()) {
            (Ok(credentials), _) => credentials,
            // The last credentials are used until they expire, since the chain may answer again before that.
            (Err(_), Some(last)) if last.credentials.expiry().is_some_and(|end| SystemTime::now() < end) => {
                return Ok(last.clone());
            }
            (Err(error), _) => return Err(error),
        };
        let reload_at = match credentials.expiry() {
            Some(end) => end.checked_sub(RELOAD_AHEAD).unwrap_or(SystemTime::UNIX_EPOCH),
            None => SystemTime::now() + DEFAULT_LIFETIME,
        };
        let loaded = CachedCredentials { credentials, reload_at };
        *cached = Some(loaded.clone());
        Ok(loaded)
    }
}

/// Checks that credentials can be written into a header: signing panics at others.
fn check_characters(credentials: Credentials) -> Result<Credentials, CredentialsError> {
    let parts = [
        ("access key id", Some(credentials.access_key_id())),
        ("secret access key", Some(credentials.secret_access_key())),
        ("session token", credentials.session_token()),
    ];
    let fits = |text: &str| text.bytes().all(|byte| byte.is_ascii_graphic());
    let odd = parts.into_iter().find(|(_, text)| !text.is_none_or(fits)).map(|(name, _)| name);
    match odd {
        None => Ok(credentials),
        Some(name) => Err(CredentialsError::invalid_configuration(format!(
            "the {name} holds a blank, a line break or another character that none has"
        ))),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU32, Ordering};

    use aws_credential_types::provider::{ProvideCredentials, future};

    use super::*;

    /// Less than [`RELOAD_AHEAD`], and more than a test takes.
    const NEAR: Duration = Duration::from_secs(10);

    /// Answers with credentials of a given life, numbered; fails from the `fails_from`th time on.
    #[derive(Debug)]
    struct Chain {
        asked: Arc<AtomicU32>,
        life: Option<Duration>,
        fails_from: u32,
    }

    impl ProvideCredentials for Chain {
        fn provide_credentials<'a>(&'a self) -> future::ProvideCredentials<'a>
        where
            Self: 'a,
        {
            future::ProvideCredentials::new(async {
                tokio::task::yield_now().await;
                let number = self.asked.fetch_add(1, Ordering::SeqCst) + 1;
                if number >= self.fails_from {
                    return Err(CredentialsError::not_loaded("the broker is unavailable"));
                }
                let end = self.life.map(|life| SystemTime::now() + life);
                Ok(Credentials::new(format!("AKID{number}"), "secret", None, end, "test"))
            })
        }
    }

    fn kept(life: Option<Duration>, fails_from: u32) -> (CredentialCache, Arc<AtomicU32>) {
        let asked = Arc::new(AtomicU32::new(0));
        let chain = Chain { asked: Arc::clone(&asked), life, fails_from };
        (CredentialCache::new(SharedCredentialsProvider::new(chain)), asked)
    }

    #[tokio::test]
    async fn many_requests_cause_one_load() {
        for life in [None, Some(Duration::from_hours(1))] {
            let (cached, asked) = kept(life, u32::MAX);

            let all = futures::future::join_all((0..50).map(|_| cached.get())).await;

            assert!(all.iter().all(|one| one.as_ref().unwrap().access_key_id() == "AKID1"));
            assert_eq!(asked.load(Ordering::SeqCst), 1);
        }
    }

    #[test]
    fn credentials_that_no_request_can_hold_are_refused_and_not_shown() {
        let credentials =
            |id, secret, token: Option<&str>| Credentials::new(id, secret, token.map(str::to_owned), None, "test");

        assert!(check_characters(credentials("AKID", "sec/ret+=", Some("token=="))).is_ok());
        for odd in [
            credentials("AKID\n", "s", None),
            credentials("AKID", "s\r", None),
            credentials("AKID", "s", Some("t\u{e4}")),
        ] {
            let error = crate::s3::errors::error_chain(&check_characters(odd).unwrap_err());
            assert!(error.contains("line break") && !error.contains("AKID"), "{error}");
        }
    }

    #[tokio::test]
    async fn credentials_near_their_end_are_replaced() {
        let (cached, _) = kept(Some(NEAR), u32::MAX);

        assert_eq!(cached.get().await.unwrap().access_key_id(), "AKID1");
        assert_eq!(cached.get().await.unwrap().access_key_id(), "AKID2");
    }

    #[tokio::test]
    async fn credentials_near_their_end_serve_while_the_chain_fails() {
        let (near, asked) = kept(Some(NEAR), 2);
        let (past, _) = kept(Some(Duration::ZERO), 2);

        assert_eq!(near.get().await.unwrap().access_key_id(), "AKID1");
        assert_eq!(near.get().await.unwrap().access_key_id(), "AKID1");
        assert_eq!(asked.load(Ordering::SeqCst), 2, "asked again, in vain");
        past.get().await.unwrap();
        assert!(past.get().await.is_err(), "what has ended serves no more");
    }
}
