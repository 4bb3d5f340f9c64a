//! Colours, if enabled.

use clap::builder::styling::{AnsiColor, Style};

use crate::{args::ColorChoice, environment::Environment};

/// Colours that are readable on dark and light backgrounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colour {
    Green,
    Red,
    Yellow,
    Cyan,
}

/// Colours text, if enabled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Paint(bool);

impl Paint {
    /// Uses the flag, or else the environment and the terminal.
    pub(crate) fn choose(
        choice: ColorChoice,
        environment: &Environment,
        on_terminal: bool,
    ) -> Self {
        let is_forced = environment.get("CLICOLOR_FORCE").is_some_and(|force| force != "0");
        Self(match choice {
            ColorChoice::Always => true,
            ColorChoice::Never => false,
            ColorChoice::Auto if environment.is_set("NO_COLOR") => false,
            ColorChoice::Auto => is_forced || on_terminal && !Self::is_dumb(environment),
        })
    }

    /// Whether the terminal supports no control sequences.
    pub(super) fn is_dumb(environment: &Environment) -> bool {
        environment.get("TERM").is_none_or(|term| term == "dumb")
    }

    pub(crate) fn is_on(self) -> bool {
        self.0
    }

    pub(crate) fn colour(self, colour: Colour, text: &str) -> String {
        self.styled(Style::new().fg_color(Some(ansi(colour).into())), text)
    }

    pub(crate) fn bold(self, colour: Colour, text: &str) -> String {
        self.styled(Style::new().fg_color(Some(ansi(colour).into())).bold(), text)
    }

    pub(crate) fn strong(self, text: &str) -> String {
        self.styled(Style::new().bold(), text)
    }

    pub(crate) fn dim(self, text: &str) -> String {
        self.styled(Style::new().dimmed(), text)
    }

    /// Code in a block.
    pub(super) fn code(self, text: &str) -> String {
        self.colour(Colour::Cyan, text)
    }

    pub(super) fn styled(self, style: Style, text: &str) -> String {
        if self.0 { format!("{style}{text}{style:#}") } else { text.to_owned() }
    }
}

fn ansi(colour: Colour) -> AnsiColor {
    match colour {
        Colour::Green => AnsiColor::Green,
        Colour::Red => AnsiColor::Red,
        Colour::Yellow => AnsiColor::Yellow,
        Colour::Cyan => AnsiColor::Cyan,
    }
}
