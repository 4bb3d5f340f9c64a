//! What the families of Claude take.

use turnwire_contract::Parameter;

/// What the models of a family take.
#[derive(Debug, Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a rule of its own")]
pub(super) struct Family {
    /// Part of the names of its models, wherever they are served.
    name: &'static str,
    /// Temperature and `top_p`.
    sampling: bool,
    /// Not to think.
    disabled_thinking: bool,
    /// A number of tokens to think with, instead of an effort.
    budgets: bool,
    /// Being made to call a tool.
    pub(super) forced_choice: bool,
    /// Messages of the system between the others.
    pub(super) late_system_messages: bool,
    /// Maximum length of an answer if none was asked for. Reasoning counts.
    pub(super) max_tokens: u32,
}

/// Models that nothing is known about take everything that the API has.
const UNKNOWN: Family = Family {
    name: "",
    sampling: true,
    disabled_thinking: true,
    budgets: true,
    forced_choice: true,
    late_system_messages: false,
    max_tokens: 8_192,
};

const FOURTH: Family = Family { max_tokens: 32_000, ..UNKNOWN };
const SINCE_OPUS_4_7: Family =
    Family { sampling: false, budgets: false, max_tokens: 64_000, ..FOURTH };
const ALWAYS_THINKS: Family = Family { disabled_thinking: false, ..SINCE_OPUS_4_7 };
const BOUND: Family = Family { forced_choice: false, late_system_messages: true, ..ALWAYS_THINKS };

/// The families; the first whose name is in the name of a model counts.
const FAMILIES: &[Family] = &[
    Family { name: "fable-5-1", ..BOUND },
    Family { name: "fable-5-2", ..BOUND },
    Family { name: "mythos-5-1", ..BOUND },
    Family { name: "mythos-5-2", ..BOUND },
    Family { name: "opus-5-5", ..BOUND },
    Family { name: "sonnet-5-5", ..BOUND },
    Family { name: "haiku-5-5", disabled_thinking: true, forced_choice: true, ..BOUND },
    Family { name: "fable-5", ..ALWAYS_THINKS },
    Family { name: "mythos-5", ..ALWAYS_THINKS },
    Family { name: "opus-5", ..SINCE_OPUS_4_7 },
    Family { name: "sonnet-5", ..SINCE_OPUS_4_7 },
    Family { name: "opus-4-7", ..SINCE_OPUS_4_7 },
    Family { name: "opus-4-8", ..SINCE_OPUS_4_7 },
    Family { name: "claude-3", ..UNKNOWN },
    Family { name: "claude-", ..FOURTH },
];

impl Family {
    pub(super) fn of(model: &str) -> Self {
        FAMILIES.iter().find(|family| model.contains(family.name)).copied().unwrap_or(UNKNOWN)
    }

    /// Whether this is a model of Anthropic, wherever it is served.
    pub(super) fn is_known(self) -> bool {
        !self.name.is_empty()
    }

    pub(super) fn takes(self, parameter: Parameter) -> bool {
        self.sampling || !matches!(parameter, Parameter::Temperature | Parameter::TopP)
    }

    /// Returns the effort that is nearest to what was asked for.
    pub(super) fn effort(self, asked: Effort<'_>) -> Effort<'_> {
        match asked {
            Effort::Off if !self.disabled_thinking => Effort::Word("low"),
            Effort::Budget(..4_096) if !self.budgets => Effort::Word("low"),
            Effort::Budget(..16_384) if !self.budgets => Effort::Word("medium"),
            Effort::Budget(_) if !self.budgets => Effort::Word("high"),
            asked => asked,
        }
    }
}

/// How much a model shall think. Newer models take a word, older ones a number of tokens.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effort<'a> {
    NotSaid,
    Off,
    Budget(u32),
    Word(&'a str),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_family_is_found_wherever_it_is_served() {
        let takes_temperature = |model| Family::of(model).takes(Parameter::Temperature);
        assert!(takes_temperature("claude-sonnet-4-5-20250929"));
        assert!(!takes_temperature("eu.anthropic.claude-opus-4-7-v1:0"));
        assert!(!takes_temperature("claude-opus-5@20260401"));
        assert!(takes_temperature("minimax-m3"));
        assert_eq!(Family::of("claude-opus-5-5").name, "opus-5-5");
        assert_eq!(Family::of("claude-3-5-haiku").max_tokens, 8_192);
        assert_eq!(Family::of("claude-fable-5").effort(Effort::Off), Effort::Word("low"));
        assert_eq!(Family::of("claude-opus-4-6").effort(Effort::Budget(9)), Effort::Budget(9));
    }
}
