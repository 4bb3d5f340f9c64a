//! Headers of quotas.

use super::*;

fn status(measure: Measure, max: u64, remaining: u64) -> QuotaStatus {
    QuotaStatus {
        measure,
        is_of_key: false,
        max,
        used: max - remaining,
        remaining,
        window: None,
        resets_in: Duration::from_millis(61_500),
        is_nearly_spent: false,
    }
}

/// The tightest quota is told, and the tokens of a minute before those of a day.
#[test]
fn the_tightest_quota_is_told() {
    let told = headers(&[
        status(Measure::RequestsPerMinute, 100, 50),
        status(Measure::RequestsPerMinute, 10, 9),
        status(Measure::TokensPerDay, 1_000, 1),
        status(Measure::TokensPerMinute, 500, 400),
    ]);
    assert_eq!(told["x-ratelimit-limit-requests"], "10");
    assert_eq!(told["x-ratelimit-remaining-requests"], "9");
    assert_eq!(told["x-ratelimit-reset-requests"], "1m2s");
    assert_eq!(told["x-ratelimit-limit-tokens"], "500");
    assert_eq!(told["x-ratelimit-remaining-tokens"], "400");
    let told = headers(&[status(Measure::TokensPerDay, 1_000, 1)]);
    assert_eq!(told["x-ratelimit-remaining-tokens"], "1");
    assert_eq!(told.len(), 3, "{told:?}");
    assert!(headers(&[status(Measure::CostPerMonth, 10, 0)]).is_empty());
}

/// A budget is told when it is nearly spent.
#[test]
fn a_budget_is_told_when_it_is_nearly_spent() {
    let nearly = QuotaStatus { is_nearly_spent: true, ..status(Measure::CostPerMonth, 200, 30) };
    let told = headers(&[nearly]);
    let warning = "85% of the budget of the tenant for this month is used";
    assert_eq!(told["turnwire-quota-warning"], warning);
}

#[test]
fn times_are_rounded_up() {
    for (millis, told) in [(1, "1s"), (59_000, "59s"), (60_000, "1m0s"), (3_600_001, "1h0m1s")] {
        assert_eq!(in_words(Duration::from_millis(millis)), told);
    }
}
