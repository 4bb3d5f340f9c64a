//! Counts what a model costs, by the price list of the operator. What the provider says that it has
//! charged is no estimate, and comes first.

use std::sync::Arc;

use async_trait::async_trait;
use futures::StreamExt;
use turnwire_contract::{
    Capabilities, Model, ModelError, ModelPart, ModelStream, Prompt, Usage, partial_debug,
};

/// Prices of a model per million tokens, in billionths of the operator's currency.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Price {
    /// Of input tokens.
    pub input: u64,
    /// Of input tokens that the provider had in its cache.
    pub cached_input: u64,
    /// Of output tokens.
    pub output: u64,
}

impl Price {
    /// Returns what the tokens cost, in billionths.
    pub fn of(&self, usage: &Usage) -> u64 {
        let cached = usage.cached_tokens.min(usage.input_tokens);
        let input = usage.input_tokens - cached;
        let parts =
            [(input, self.input), (cached, self.cached_input), (usage.output_tokens, self.output)];
        let cost: u128 = parts.iter().map(|(n, price)| u128::from(*n) * u128::from(*price)).sum();
        u64::try_from(cost / 1_000_000).unwrap_or(u64::MAX)
    }
}

/// A wrapper that adds the cost to what a model says about its usage, unless the model says it.
#[derive(Clone)]
pub struct Priced {
    model: Arc<dyn Model>,
    price: Price,
}

impl Priced {
    /// Counts what `model` costs at `price`.
    pub fn new(model: Arc<dyn Model>, price: Price) -> Self {
        Self { model, price }
    }
}

#[async_trait]
impl Model for Priced {
    async fn stream(&self, prompt: Prompt) -> Result<ModelStream, ModelError> {
        let price = self.price;
        let parts = self.model.stream(prompt).await?;
        Ok(parts
            .map(move |part| match part {
                Ok(ModelPart::Usage(usage)) => {
                    let cost_nanos = usage.cost_nanos.or_else(|| Some(price.of(&usage)));
                    Ok(ModelPart::Usage(Usage { cost_nanos, ..usage }))
                }
                part => part,
            })
            .boxed())
    }

    fn upstream_model(&self, name: &str) -> String {
        self.model.upstream_model(name)
    }

    fn capabilities(&self) -> Capabilities {
        self.model.capabilities()
    }
}

partial_debug!(Priced { price });

#[cfg(test)]
mod tests {
    use futures::stream;

    use super::*;
    use crate::sample_prompt::sample_prompt;

    /// A model that says this about its usage.
    struct Using(Usage);

    #[async_trait]
    impl Model for Using {
        async fn stream(&self, _: Prompt) -> Result<ModelStream, ModelError> {
            Ok(stream::iter([Ok(ModelPart::Usage(self.0))]).boxed())
        }
    }

    async fn cost_of(usage: Usage) -> Option<u64> {
        let price = Price { input: 1_000_000, cached_input: 0, output: 0 };
        let model = Priced::new(Arc::new(Using(usage)), price);
        let mut parts = model.stream(sample_prompt("")).await.unwrap();
        match parts.next().await {
            Some(Ok(ModelPart::Usage(usage))) => usage.cost_nanos,
            other => panic!("{other:?}"),
        }
    }

    /// What the provider charged wins over the price list, also if it is nothing.
    #[tokio::test]
    async fn a_reported_charge_wins_over_the_price_list() {
        let usage = Usage { input_tokens: 5, ..Usage::default() };
        assert_eq!(cost_of(usage).await, Some(5));
        for charged in [0, 140_000] {
            assert_eq!(cost_of(Usage { cost_nanos: Some(charged), ..usage }).await, Some(charged));
        }
    }

    /// Tokens of the cache are part of the input, and have their own price.
    #[test]
    fn cached_tokens_are_not_paid_twice() {
        let price = Price { input: 150_000_000, cached_input: 75_000_000, output: 600_000_000 };
        let usage = Usage {
            input_tokens: 1_000,
            cached_tokens: 400,
            output_tokens: 100,
            reasoning_tokens: 80,
            cost_nanos: None,
        };
        assert_eq!(price.of(&usage), 600 * 150 + 400 * 75 + 100 * 600);
        let wrong = Usage { cached_tokens: 2_000, ..usage };
        assert_eq!(price.of(&wrong), 1_000 * 75 + 100 * 600, "more than there is, is all there is");
        let huge = Usage { input_tokens: u64::MAX, ..usage };
        assert_eq!(price.of(&huge), u64::MAX);
        // Less than a billionth per token.
        let cheap = Price { input: 37_500, cached_input: 37_500, output: 0 };
        assert_eq!(cheap.of(&Usage { output_tokens: 0, ..usage }), 37);
    }
}
