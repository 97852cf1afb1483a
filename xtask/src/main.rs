//! rategov
fn main() {}
