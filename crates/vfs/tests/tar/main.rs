//! Archives as folders: sound ones of other programs, hostile ones, and where the list of members comes from.

mod files;
mod folders;
mod hostile;
mod indexes;
mod setting;

// The archives and programs of the archive crate's own tests.
#[path = "../../../archive/tests/archive/corpus.rs"]
mod corpus;
#[path = "../../../archive/tests/archive/raw.rs"]
mod raw;
#[expect(dead_code, reason = "used in part")]
#[path = "../../../archive/tests/archive/support.rs"]
mod support;
