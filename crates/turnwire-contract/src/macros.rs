//! Macros that all crates use.

/// Declares an enum of words: `ALL`, `as_str`, `Display` and the names for serde come from one
/// list.
///
/// A variant in an `else` stands for all words of later versions. It is not among `ALL`.
#[doc(hidden)]
#[macro_export]
macro_rules! words {
    (
        $(#[$enum_attribute:meta])*
        $visibility:vis enum $name:ident {
            $($(#[$attribute:meta])* $variant:ident = $word:tt,)*
        }
        $(else { $(#[$other_attribute:meta])* $other:ident = $other_word:tt })?
    ) => {
        $(#[$enum_attribute])*
        $visibility enum $name {
            $($(#[$attribute])* #[serde(rename = $word)] $variant,)*
            $($(#[$other_attribute])* #[serde(other, rename = $other_word)] $other,)?
        }

        impl $name {
            /// All values, in the order of their declaration.
            pub const ALL: [Self; [$($word),*].len()] = [$(Self::$variant),*];

            /// Returns the word, as it is written on the wire and in the settings.
            pub fn as_str(self) -> &'static str {
                match self {
                    $(Self::$variant => $word,)*
                    $(Self::$other => $other_word,)?
                }
            }
        }

        impl ::std::fmt::Display for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.write_str(self.as_str())
            }
        }
    };
}

/// Implements `Debug` for a struct with some of its fields: `partial_debug!(Egress { rules })`.
#[doc(hidden)]
#[macro_export]
macro_rules! partial_debug {
    ($name:ident { $($field:ident),* }) => {
        impl ::std::fmt::Debug for $name {
            fn fmt(&self, f: &mut ::std::fmt::Formatter<'_>) -> ::std::fmt::Result {
                f.debug_struct(stringify!($name))
                    $(.field(stringify!($field), &self.$field))*
                    .finish_non_exhaustive()
            }
        }
    };
}
