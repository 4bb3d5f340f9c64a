//! Query parameters.
//!
//! Axum's own extractor reports errors as plain text in the wording of its libraries. This one
//! reports them as [`ApiError`], with the name of the field and the values it accepts.

use std::fmt;

use axum::{
    extract::{FromRequestParts, Query},
    http::request::Parts,
};
use serde::{
    Deserializer,
    de::{DeserializeOwned, Error, IntoDeserializer, Visitor, value::MapDeserializer},
    forward_to_deserialize_any,
};

use crate::{
    api_error::{ApiError, Result},
    app::App,
};

/// The query parameters of a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct QueryParams<T>(pub(crate) T);

impl<T: DeserializeOwned> FromRequestParts<App> for QueryParams<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, app: &App) -> Result<Self> {
        let pairs = Query::<Vec<(String, String)>>::from_request_parts(parts, app).await;
        // Any query string is a list of pairs.
        let pairs = pairs.map(|Query(pairs)| pairs).unwrap_or_default();
        let pairs = pairs.into_iter().map(|(name, value)| (name, Text(value)));
        let read = serde_path_to_error::deserialize(MapDeserializer::new(pairs));
        read.map(Self).map_err(|error| {
            let path = error.path().to_string();
            let QueryError { field, must } = error.into_inner();
            let field = field.map_or(path, str::to_owned);
            ApiError::bad_request("invalid_value", format!("`{field}` {must}.")).about(field)
        })
    }
}

/// The text of one query parameter.
#[derive(Debug)]
struct Text(String);

impl IntoDeserializer<'_, QueryError> for Text {
    type Deserializer = Self;

    fn into_deserializer(self) -> Self {
        self
    }
}

/// Deserializes integers with `FromStr`.
macro_rules! whole_numbers {
    ($($read:ident $visit:ident,)*) => {$(
        fn $read<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
            visitor.$visit(self.0.parse().map_err(|_| QueryError::must("must be a whole number"))?)
        }
    )*};
}

impl<'de> Deserializer<'de> for Text {
    type Error = QueryError;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_string(self.0)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        visitor.visit_some(self)
    }

    fn deserialize_bool<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, QueryError> {
        match self.0.as_str() {
            "true" => visitor.visit_bool(true),
            "false" => visitor.visit_bool(false),
            _ => Err(QueryError::must("must be `true` or `false`")),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, QueryError> {
        visitor.visit_enum(self.0.into_deserializer())
    }

    whole_numbers! {
        deserialize_u8 visit_u8,
        deserialize_u16 visit_u16,
        deserialize_u32 visit_u32,
        deserialize_u64 visit_u64,
        deserialize_i8 visit_i8,
        deserialize_i16 visit_i16,
        deserialize_i32 visit_i32,
        deserialize_i64 visit_i64,
    }

    forward_to_deserialize_any! {
        f32 f64 char str string bytes byte_buf unit unit_struct newtype_struct seq tuple
        tuple_struct map struct identifier ignored_any
    }
}

/// Why a parameter was not read.
#[derive(Debug)]
struct QueryError {
    /// The field, if the path of the error does not name it.
    field: Option<&'static str>,
    /// What the value must be.
    must: String,
}

impl QueryError {
    fn must(must: impl Into<String>) -> Self {
        Self { field: None, must: must.into() }
    }
}

impl Error for QueryError {
    fn custom<T: fmt::Display>(_: T) -> Self {
        Self::must("has an invalid value")
    }

    fn unknown_variant(_: &str, known: &'static [&'static str]) -> Self {
        let words: Vec<String> = known.iter().map(|word| format!("`{word}`")).collect();
        Self::must(format!("must be {}", words.join(" or ")))
    }

    fn duplicate_field(field: &'static str) -> Self {
        Self { field: Some(field), must: "is given more than once".to_owned() }
    }
}

impl fmt::Display for QueryError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.must)
    }
}

impl std::error::Error for QueryError {}
