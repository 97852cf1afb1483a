//! Tests of the whole ledger.
