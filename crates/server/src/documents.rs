//! stand-in until merged
pub fn find(_code: &str) -> Option<&'static str> { None }
