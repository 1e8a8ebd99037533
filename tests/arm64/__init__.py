"""What runs on AArch64, in QEMU's user-mode emulator: ``make test-arm64``."""
