//! What the fuzzer must notice, and that the corpus keeps within the bounds (A13, A19).

use std::{thread, time::Duration};

use turnwire_fuzz::{Mutator, TARGETS, Target, bounds::check};

#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn panics(_: &[u8]) {
    unreachable!();
}

fn allocates(bytes: &[u8]) {
    for _ in bytes {
        drop(std::hint::black_box(Vec::<u8>::with_capacity(1024 * 1024)));
    }
}

fn sleeps(bytes: &[u8]) {
    thread::sleep(Duration::from_millis(bytes.len() as u64));
}

#[test]
fn a_fault_is_found() {
    let fault = |run, size| check(&Target::new("fault", run), &vec![0; size]).unwrap_err();
    assert_eq!(fault(panics, 1), "it panics");
    assert!(fault(allocates, 10).starts_with("it allocates 104"), "{}", fault(allocates, 10));
    assert!(fault(sleeps, 400).starts_with("it takes"), "{}", fault(sleeps, 400));
    assert_eq!(check(&Target::new("fine", drop_it), b"x"), Ok(()));
}

fn drop_it(_: &[u8]) {}

/// Inputs that were found stay repaired.
#[test]
fn the_corpus_is_read_within_the_bounds() {
    for target in TARGETS {
        let corpus = target.corpus().unwrap();
        assert!(!corpus.is_empty(), "{} has no corpus", target.name);
        for (path, input) in corpus {
            assert_eq!(check(target, &input), Ok(()), "{}", path.display());
        }
    }
}

#[test]
fn a_case_is_repeated_by_its_number() {
    let corpus = || vec![b"one".to_vec(), b"two".to_vec()];
    let (one, other) = (Mutator::new(corpus()), Mutator::new(corpus()));
    assert_eq!(one.input(1), b"two");
    let inputs = |mutator: &Mutator| (0..100).map(|n| mutator.input(n << 20)).collect::<Vec<_>>();
    assert_eq!(inputs(&one), inputs(&other));
    assert!(inputs(&one).windows(2).any(|pair| pair[0] != pair[1]));
}
