"""The rig of the end-to-end tests: the real binary, the fake provider, raw sockets.

Nothing here sleeps for a guessed time: whatever is waited for is polled, with a
deadline. What arrived at the provider is read from the provider's own ledger.
"""
