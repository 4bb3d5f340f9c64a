//! The cost of a run, beside the token counts of the official formats.

use serde::{Serialize, Serializer};
use utoipa::ToSchema;

/// Fields about usage that the official formats do not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
pub struct UsageNote {
    /// Cost in the operator's currency: as the provider reports it, or by the prices in the settings.
    #[schema(value_type = f64)]
    pub cost: Cost,
}

/// An amount in billionths of the operator's currency, which is a decimal number on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cost(pub u64);

impl UsageNote {
    pub(crate) fn of(cost_nanos: Option<u64>) -> Option<Self> {
        cost_nanos.map(|nanos| Self { cost: Cost(nanos) })
    }
}

impl Serialize for Cost {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[expect(clippy::cast_precision_loss, reason = "it is money, and exact up to millions")]
        serializer.serialize_f64(self.0 as f64 / 1e9)
    }
}
