//! The tables of the estimate, bounds from seeds, and properties.

mod bounds;
mod properties;
mod tables;
