//! The server over real connections, in front of a tree in memory that can be held, and that can fail.

mod calls;
mod client;
mod exports;
mod facts;
mod floods;
mod port_map;
mod retransmits;
mod tree;
mod writing;
