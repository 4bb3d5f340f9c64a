//! Budgets about which a person is asked before a run goes on.

use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::IncompleteReason;

/// Whose budget it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum BudgetScope {
    /// The budget of the run.
    Run,
    /// The budget of the month of the key that started the run.
    Key,
    /// The budget of the month of the tenant.
    Tenant,
}

impl BudgetScope {
    /// All scopes, the narrowest first.
    pub const ALL: [Self; 3] = [Self::Run, Self::Key, Self::Tenant];

    /// Why a run ends if it may not use more of this budget.
    pub fn reason(self) -> IncompleteReason {
        match self {
            Self::Run => IncompleteReason::MaxCost,
            Self::Key | Self::Tenant => IncompleteReason::InsufficientQuota,
        }
    }
}

/// How much of a budget is used, when a person is asked about it. Amounts are in billionths of the
/// currency of the models' prices.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetUse {
    /// Whose budget it is.
    pub scope: BudgetScope,
    /// What is used.
    pub used_nanos: u64,
    /// What may be used before a person is asked: the soft limit.
    pub ask_nanos: u64,
    /// What may be used at all: the hard limit. Not set if there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub max_nanos: Option<u64>,
}
