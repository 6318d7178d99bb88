//! An export: a share under a name, its clients and its users.

use std::sync::Arc;

use seqferry_share::Share;

use crate::clients::{ClientList, Squash, UserMapping};
use crate::error::ServerError;
use crate::handle::ExportId;
use crate::key::HandleKey;

/// Longest name of an export: one component of a path.
const MAX_EXPORT_NAME: usize = 255;

/// Name, clients and users of an export.
#[derive(Debug, Clone)]
pub struct ExportSpec {
    /// The name; clients mount `/name`.
    pub name: String,
    /// Identity of what is exported, such as its name and the bucket: handles stay valid as long as it is the same.
    pub identity: String,
    /// Addresses that may use it.
    pub clients: ClientList,
    /// Users that count as the anonymous one.
    pub squash: Squash,
    /// The anonymous user.
    pub anonymous_uid: u32,
    /// The anonymous group.
    pub anonymous_gid: u32,
}

impl ExportSpec {
    /// An export for programs on this machine, where root counts as the anonymous user 65534.
    pub fn new(name: &str) -> Self {
        Self {
            name: name.to_owned(),
            identity: name.to_owned(),
            clients: ClientList::loopback(),
            squash: Squash::default(),
            anonymous_uid: 65534,
            anonymous_gid: 65534,
        }
    }
}

/// A share that clients can mount.
pub struct Export {
    pub(crate) spec: ExportSpec,
    pub(crate) share: Arc<dyn Share>,
}

impl std::fmt::Debug for Export {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Export").field("spec", &self.spec).finish_non_exhaustive()
    }
}

impl Export {
    /// Export a share.
    ///
    /// # Errors
    /// When the name is no single component of a path.
    pub fn new(spec: ExportSpec, share: Arc<dyn Share>) -> Result<Self, ServerError> {
        let name = &spec.name;
        let is_component = !name.is_empty() && name != "." && name != ".." && name.len() <= MAX_EXPORT_NAME;
        if !is_component || name.chars().any(|letter| letter == '/' || letter.is_control()) {
            return Err(ServerError(format!(
                "a share cannot be named {name:?}: take a name of at most {MAX_EXPORT_NAME} bytes without a slash"
            )));
        }
        Ok(Self { spec, share })
    }
}

/// An export that is served: with its number in handles.
#[derive(Debug)]
pub(crate) struct ServedExport {
    pub(crate) id: ExportId,
    pub(crate) name: String,
    pub(crate) clients: ClientList,
    pub(crate) users: UserMapping,
    pub(crate) share: SharePointer,
}

/// A share, which need not be printable.
pub(crate) struct SharePointer(pub(crate) Arc<dyn Share>);

impl std::fmt::Debug for SharePointer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Share")
    }
}

impl ServedExport {
    pub(crate) fn new(export: Export, key: &HandleKey) -> Self {
        let ExportSpec { name, identity, clients, squash, anonymous_uid, anonymous_gid } = export.spec;
        let users = UserMapping { squash, anonymous_uid, anonymous_gid };
        Self { id: key.export_id(&identity), name, clients, users, share: SharePointer(export.share) }
    }
}
