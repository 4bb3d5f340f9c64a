//! Who comes first when not all fit.

use turnwire_contract::Seq;

use super::*;

fn job(tenant: &str, run: &str, seq: u64, bytes: usize) -> Job {
    Job { bytes, ..Job::of_one_event(tenant, run, seq).0 }
}

fn n_of(tenant: &str, batch: &[Job]) -> usize {
    batch.iter().filter(|job| job.tenant.as_str() == tenant).count()
}

/// A tenant with 2,000 appends before it does not keep another one out of the next batch, and the
/// batch is full all the same.
#[test]
fn a_flood_of_one_tenant_delays_no_other() {
    let flood = (0..2_000).map(|n| job("loud", &format!("run_{n}"), 1, 100));
    let others = (0..5).map(|n| job("quiet", &format!("run_q{n}"), 1, 100));
    let mut waiting: VecDeque<Job> = flood.chain(others).collect();
    let batch = take_batch(&mut waiting);
    assert_eq!((batch.len(), n_of("quiet", &batch)), (BATCH_JOBS, 5));
    assert_eq!(waiting.len(), 2_005 - BATCH_JOBS);
    // The rest is written in its order.
    let mut n_written = batch.len();
    while !waiting.is_empty() {
        n_written += take_batch(&mut waiting).len();
    }
    assert_eq!(n_written, 2_005);
}

/// The same with few large appends: a batch has so many bytes, too.
#[test]
fn large_appends_of_one_tenant_delay_no_other() {
    let flood = (0..20).map(|n| job("loud", &format!("run_{n}"), 1, BATCH_BYTES / 2));
    let mut waiting: VecDeque<Job> = flood.chain([job("quiet", "run_q", 1, 100)]).collect();
    let batch = take_batch(&mut waiting);
    assert_eq!((n_of("loud", &batch), n_of("quiet", &batch)), (1, 1));
}

/// More tenants than a batch has places for are all written, and nobody waits for ever.
#[test]
fn many_tenants_take_turns() {
    let jobs = (0..2_000).map(|n| job(&format!("t{n}"), &format!("run_{n}"), 1, 100));
    let mut waiting: VecDeque<Job> = jobs.collect();
    let sizes: Vec<usize> = (0..4).map(|_| take_batch(&mut waiting).len()).collect();
    assert_eq!((sizes, waiting.len()), (vec![BATCH_JOBS, BATCH_JOBS, BATCH_JOBS, 464], 0));
}

/// Appends of one run are written one per batch and in their order, also if the share of the tenant
/// leaves one behind.
#[test]
fn appends_of_a_run_keep_their_order() {
    let of_run = |seq| job("loud", "run_same", seq, 100);
    let flood = (0..600).map(|n| job("loud", &format!("run_{n}"), 1, 100));
    let mut waiting: VecDeque<Job> =
        flood.chain([of_run(1), of_run(2), job("quiet", "run_q", 1, 100), of_run(3)]).collect();
    let mut seqs = Vec::new();
    while !waiting.is_empty() {
        let batch = take_batch(&mut waiting);
        let same: Vec<Seq> =
            batch.iter().filter(|job| job.run_id.as_str() == "run_same").map(Job::first).collect();
        assert!(same.len() <= 1, "{same:?}");
        seqs.extend(same);
    }
    assert_eq!(seqs, [Seq(1), Seq(2), Seq(3)]);
}
