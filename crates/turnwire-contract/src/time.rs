//! Timestamps: UTC, microsecond precision, RFC 3339 on every wire.
//!
//! Every timestamp has six decimals, so that all have the same length and their text order is their
//! chronological order.

use std::{fmt, num::NonZeroU8, time::Duration};

use serde::{Deserialize, Deserializer, Serialize, Serializer, de::Error};
use time::{
    OffsetDateTime,
    format_description::well_known::{
        Iso8601, Rfc3339,
        iso8601::{Config, EncodedConfig, TimePrecision},
    },
};

/// ISO 8601 with six decimals. For UTC and four-digit years this is RFC 3339.
const WITH_MICROSECONDS: EncodedConfig = Config::DEFAULT
    .set_time_precision(TimePrecision::Second { decimal_digits: NonZeroU8::new(6) })
    .encode();

/// A point in time, as microseconds since 1970.
///
/// The range is the years 0 to 9999, which RFC 3339 can represent. Values outside it cannot be
/// constructed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp(i64);

impl Timestamp {
    /// The start of the year 0.
    pub const MIN: Self = Self(-62_167_219_200_000_000);
    /// The end of the year 9999.
    pub const MAX: Self = Self(253_402_300_799_999_999);

    /// Creates a timestamp from microseconds since 1970, clamped to the valid range.
    pub fn from_micros(micros: i64) -> Self {
        Self(micros.clamp(Self::MIN.0, Self::MAX.0))
    }

    /// Returns the microseconds since 1970.
    pub fn as_micros(self) -> i64 {
        self.0
    }

    /// Returns the duration since `earlier`; zero if `earlier` is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_micros(u64::try_from(self.0 - earlier.0).unwrap_or(0))
    }

    /// Returns the timestamp `wait` after this one, clamped to [`Self::MAX`].
    pub fn later(self, wait: Duration) -> Self {
        let wait = i64::try_from(wait.as_micros()).unwrap_or(i64::MAX);
        Self::from_micros(self.0.saturating_add(wait))
    }
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let text = OffsetDateTime::from_unix_timestamp_nanos(i128::from(self.0) * 1_000)
            .ok()
            .and_then(|moment| moment.format(&Iso8601::<WITH_MICROSECONDS>).ok())
            .ok_or(fmt::Error)?;
        f.write_str(&text)
    }
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        let moment = OffsetDateTime::parse(&text, &Rfc3339).map_err(D::Error::custom)?;
        let micros = moment.unix_timestamp_nanos() / 1_000;
        i64::try_from(micros).map(Self::from_micros).map_err(D::Error::custom)
    }
}
