//! Settings of a writable share.

use std::time::Duration;

use crate::name_list::{IGNORED, MARKERS, NameList};
use crate::object_properties::ObjectProperties;
use crate::upload_window::UploadWindow;
use crate::writable_share::UploadRules;

/// Settings of a writable share.
#[derive(Debug, Clone)]
pub struct WriteSettings {
    /// Time for which a file must not change before it is uploaded.
    pub settle: Duration,
    /// Properties of objects besides their bytes and the facts of their files.
    pub objects: ObjectProperties,
    /// Patterns of names that stay on this machine.
    pub ignore: Vec<String>,
    /// Patterns of names that are uploaded after all older files of their folder and of those below it.
    pub markers: Vec<String>,
    /// Times of the day for uploads; none: always.
    pub windows: Vec<UploadWindow>,
    /// Bytes per second that are uploaded at most. The limit of the gateway holds as well.
    pub max_bandwidth: Option<u64>,
}

impl Default for WriteSettings {
    fn default() -> Self {
        Self {
            settle: Duration::from_secs(5),
            objects: ObjectProperties::default(),
            ignore: IGNORED.map(str::to_owned).to_vec(),
            markers: MARKERS.map(str::to_owned).to_vec(),
            windows: Vec::new(),
            max_bandwidth: None,
        }
    }
}

impl WriteSettings {
    /// Names that stay on this machine, and the rules for uploads.
    pub(crate) fn rules(&self) -> (NameList, UploadRules) {
        let (windows, max_bandwidth) = (self.windows.clone(), self.max_bandwidth);
        let markers = NameList::new(&self.markers);
        (NameList::new(&self.ignore), UploadRules { markers, windows, max_bandwidth })
    }
}
