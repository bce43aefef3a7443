//! The process `portcullis`. What it does is in the library.

use std::process::ExitCode;

/// A commit allocates some two hundred times; the system's allocator took a quarter of the worker's
/// time under load (docs/performance.md).
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    portcullis::main()
}
