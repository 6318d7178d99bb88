//! A bucket mounted to be written: a gateway with one share, which the kernel uses instead of clients over NFS.

use std::time::Duration;

use seqferry_gateway::{Gateway, GatewaySpec};

use crate::options::{MountError, MountOptions};
use crate::session::{MountSession, start_share};

/// Specification of a mount that can be written.
#[derive(Debug, Clone)]
pub struct ShareMount {
    /// The gateway, with the one share that is mounted and without an address.
    pub gateway: GatewaySpec,
    /// The folder. Owner and permissions of files are those of the share.
    pub options: MountOptions,
}

/// A share that is mounted. It is served until it is unmounted or this value is dropped.
#[derive(Debug)]
pub struct MountedShare {
    // First: nothing is asked of a gateway that has ended.
    mounted: MountSession,
    gateway: Gateway,
}

impl ShareMount {
    /// Mount it. The folder can be used when this returns.
    ///
    /// # Errors
    /// When the share cannot be served or the folder cannot be mounted; nothing is left mounted then.
    pub fn start(self) -> Result<MountedShare, MountError> {
        let gateway = self.gateway.start().map_err(|error| MountError(error.0))?;
        let Some((share, runtime)) = gateway.first_share() else {
            return Err(MountError("no share is named for the mount".to_owned()));
        };
        let mounted = start_share(share, &self.options, runtime)?;
        Ok(MountedShare { mounted, gateway })
    }
}

impl MountedShare {
    /// Wait until the folder is unmounted, at most for this time. True when it is.
    pub fn wait(&mut self, limit: Duration) -> bool {
        self.mounted.wait(limit)
    }

    /// Unmount the folder; where it is in use, its session ends with the last open file.
    ///
    /// # Errors
    /// When the system refuses.
    pub fn unmount(&self) -> Result<(), MountError> {
        self.mounted.unmount()
    }

    /// The gateway behind it, which continues when the folder is unmounted.
    pub fn gateway(&mut self) -> &mut Gateway {
        &mut self.gateway
    }
}
