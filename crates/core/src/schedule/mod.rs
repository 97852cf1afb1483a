//! Who goes next.
