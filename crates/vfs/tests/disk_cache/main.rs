//! The disk cache against real files: folders, damage, limits, and several concurrent processes.

mod access;
mod damage;
mod folder;
mod limits;
mod model;
mod planted;
mod processes;
mod store;
mod support;
mod tier;
mod warm;
