//! A launch as data.
