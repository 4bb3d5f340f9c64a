//! The library in memory keeps the promises of its port.

use turnwire_testkit::conformance::library::{self, Plainly};
use turnwire_tools::MemoryLibrary;

/// A1 among others: what belongs to one tenant does not exist for another.
#[tokio::test]
async fn the_library_in_memory_keeps_its_promises() {
    library::check(&MemoryLibrary::with_reader(Plainly::by_words())).await;
}

#[tokio::test]
async fn the_library_in_memory_finds_by_meaning() {
    let reader = Plainly::by_meaning();
    library::check_meaning(&MemoryLibrary::with_reader(reader.clone()), &reader).await;
}
