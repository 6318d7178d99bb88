//! The suite that every implementation and wrapper of the trait passes.
