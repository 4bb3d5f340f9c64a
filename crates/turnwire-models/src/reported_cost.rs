//! What a provider says that an answer cost, in billionths.
//!
//! `OpenRouter` reports `usage.cost` with every answer, and `LiteLLM` does if it is told to.
//! Numbers are read by their decimal digits: 0.1 is a tenth, and not the binary fraction next to
//! it.

use serde::Deserialize;
use serde_json::Value;

/// Decimal places of a billionth.
const PLACES: i64 = 9;
/// More digits than any sum of money has, and few enough to be multiplied.
const MAX_DIGITS: usize = 20;
/// A million units of a currency for one answer is a mistake.
const MAX_NANOS: u128 = 1_000_000 * 1_000_000_000;

/// The fields of `usage` about cost.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct ReportedCost {
    /// What the provider charges.
    cost: Option<Value>,
    /// Whether the operator pays the provider behind the gateway, with a key of his own.
    is_byok: Option<Value>,
    cost_details: Option<Value>,
}

impl ReportedCost {
    /// Everything that is charged. `None` if nothing is said, or nothing that can be.
    pub(crate) fn nanos(&self) -> Option<u64> {
        let cost = nanos_of(self.cost.as_ref()?)?;
        if self.is_byok != Some(Value::Bool(true)) {
            return Some(cost);
        }
        // Then `cost` is the fee of the gateway alone.
        let details = self.cost_details.as_ref();
        let behind = details.and_then(|details| details.get("upstream_inference_cost"));
        Some(cost.saturating_add(behind.and_then(nanos_of).unwrap_or(0)))
    }
}

fn nanos_of(cost: &Value) -> Option<u64> {
    let Value::Number(number) = cost else { return None };
    // The shortest decimal number that is this one: as it was sent.
    decimal_nanos(&number.to_string())
}

/// Reads a number that is not negative, such as `0.00014` or `1.4e-4`, and rounds it to a
/// billionth.
fn decimal_nanos(text: &str) -> Option<u64> {
    let (mantissa, exponent) = text.split_once(['e', 'E']).unwrap_or((text, "0"));
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = format!("{whole}{fraction}");
    let digits = digits.trim_start_matches('0');
    if digits.len() > MAX_DIGITS || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return None;
    }
    let digits: u128 = if digits.is_empty() { 0 } else { digits.parse().ok()? };
    let shift = exponent.parse::<i64>().ok()? - i64::try_from(fraction.len()).ok()? + PLACES;
    let power = 10_u128.checked_pow(u32::try_from(shift.unsigned_abs()).ok()?);
    let nanos = match (shift < 0, power) {
        (false, Some(power)) => digits.checked_mul(power)?,
        (false, None) => (digits == 0).then_some(0)?,
        (true, Some(power)) => (digits + power / 2) / power,
        // Less than any sum of money.
        (true, None) => 0,
    };
    u64::try_from(nanos).ok().filter(|_| nanos <= MAX_NANOS)
}

#[cfg(test)]
#[path = "reported_cost_tests.rs"]
mod tests;
