//! Why a person is asked about a budget, in numbers and in words, the same on every surface.

use serde::{Deserialize, Serialize};
use turnwire_contract::BudgetUse;
use utoipa::ToSchema;

use crate::words;

/// A budget that is used to its soft limit. The answer decides whether the run goes on.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct BudgetQuestion {
    /// The budget.
    #[serde(flatten)]
    pub budget: BudgetUse,
    /// The question, such as `The run has used 0.80 of its budget of 1.00. Continue?`.
    pub message: String,
}

impl BudgetQuestion {
    /// The question about `budget`, if an approval is about one.
    pub fn of(budget: Option<&BudgetUse>) -> Option<Self> {
        budget.map(|budget| Self { budget: *budget, message: words::budget_question(budget) })
    }
}

#[cfg(test)]
#[path = "budget_question_tests.rs"]
mod tests;
