//! The facts worth keeping. Filled in with the engine.
