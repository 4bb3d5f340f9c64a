use super::*;

fn begun(gathering: &Arc<Gathering>, tenant: &str, n: usize) -> Vec<CountedAnswer> {
    (0..n).map(|_| gathering.begin(&TenantId::from(tenant))).collect()
}

fn window(gathering: &Arc<Gathering>, tenant: &str) -> Duration {
    // Counts one answer more, which is less than what is compared.
    let window = gathering.begin(&TenantId::from(tenant)).window();
    Duration::from_millis(u64::try_from(window.as_millis()).unwrap())
}

/// The window grows with the number of answers, up to its bound, and shrinks again.
#[test]
fn the_window_follows_the_number_of_answers() {
    let gathering = Arc::new(Gathering::up_to(Duration::from_millis(40)));
    let few = begun(&gathering, "a", 8);
    assert_eq!(window(&gathering, "a"), Duration::ZERO);
    let more = begun(&gathering, "a", 192);
    assert_eq!(window(&gathering, "a"), Duration::from_millis(20));
    let many = begun(&gathering, "a", 10_000);
    assert_eq!(window(&gathering, "a"), Duration::from_millis(40));
    drop((few, more, many));
    assert_eq!(window(&gathering, "a"), Duration::ZERO);
}

#[test]
fn a_bound_of_zero_gathers_nothing() {
    let gathering = Arc::new(Gathering::up_to(Duration::ZERO));
    let _many = begun(&gathering, "a", 10_000);
    let _others = begun(&gathering, "b", 10);
    assert_eq!(window(&gathering, "a"), Duration::ZERO);
}

/// A tenant with very many answers is written less often while there are others, who are not, and
/// again as often as they are when it has been alone for a while.
#[tokio::test(start_paused = true)]
async fn a_loud_tenant_waits_longer_than_others() {
    let gathering = Arc::new(Gathering::up_to(Duration::from_millis(40)));
    let loud = begun(&gathering, "loud", 1_000);
    assert_eq!(window(&gathering, "loud"), Duration::from_millis(40), "it is alone");
    assert_eq!(window(&gathering, "quiet"), Duration::from_millis(40));
    assert_eq!(window(&gathering, "loud"), Duration::from_millis(100), "it is not alone");
    let louder = begun(&gathering, "loud", 10_000);
    assert_eq!(window(&gathering, "loud"), Duration::from_millis(240));
    assert_eq!(window(&gathering, "quiet"), Duration::from_millis(40));
    tokio::time::advance(2 * PRESENT).await;
    assert_eq!(window(&gathering, "loud"), Duration::from_millis(40), "it is alone again");
    drop((loud, louder));
}

/// A tenant whose answer takes long is there as long as it does.
#[tokio::test(start_paused = true)]
async fn a_long_answer_counts_until_it_ends() {
    let gathering = Arc::new(Gathering::up_to(Duration::from_millis(40)));
    let _loud = begun(&gathering, "loud", 1_000);
    let quiet = begun(&gathering, "quiet", 1);
    tokio::time::advance(10 * PRESENT).await;
    assert_eq!(window(&gathering, "loud"), Duration::from_millis(100));
    drop(quiet);
    tokio::time::advance(2 * PRESENT).await;
    assert_eq!(window(&gathering, "loud"), Duration::from_millis(40));
}
