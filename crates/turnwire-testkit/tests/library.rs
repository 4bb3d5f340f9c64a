//! The library in memory keeps the promises of its port.

use turnwire_testkit::conformance::library;
use turnwire_tools::MemoryLibrary;

/// A1 among others: what belongs to one tenant does not exist for another.
#[tokio::test]
async fn the_library_in_memory_keeps_its_promises() {
    library::check(&MemoryLibrary::new()).await;
}
