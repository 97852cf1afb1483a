//! What is known of each scope now, and whether a call fits.
